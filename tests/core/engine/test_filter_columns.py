"""Which filter is asked about which nodes again, by what it reads and what has changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.core.engine.columns import FilterColumns
from mooring.core.engine.derived import Figures
from mooring.core.framework.cycle_state import CycleError
from mooring.core.framework.registry import Reads
from mooring.core.framework.runtime import Profile
from mooring.core.state.cluster import ClusterState
from mooring.testing import make_cluster, make_node, make_pod

from .conftest import Noting, make_attempt, make_profile

NAMES = [f"n{i}" for i in range(9)]


def world() -> ClusterState:
    return make_cluster(*(make_node(name) for name in NAMES))


def updated(cluster: ClusterState, profile: Profile, columns: FilterColumns | None = None) -> FilterColumns:
    attempt = make_attempt(cluster, profile)
    columns = columns or FilterColumns(attempt.plan, attempt.nodes.table, 16)
    columns.update(attempt, Figures())
    return columns


def add_pod(cluster: ClusterState) -> None:
    cluster.set_pod(make_pod("p", node="n1", cpu="1"))


def label_node(cluster: ClusterState) -> None:
    cluster.set_node(make_node("n2", labels={"disk": "ssd"}))


@pytest.mark.parametrize(
    ("reads", "happens", "wanted"),
    [
        pytest.param(Reads.NODE, add_pod, [], id="a pod is nothing to a filter of the node object"),
        pytest.param(Reads.NODE, label_node, [["n2"]], id="a node's change is"),
        pytest.param(Reads.RESOURCES, add_pod, [["n1"]], id="a pod changes a node's figures"),
        pytest.param(Reads.ROW, add_pod, [["n1"]], id="and its pods"),
        pytest.param(Reads.ROW, label_node, [["n2"]], id="a row is the node, too"),
        pytest.param(Reads.ROW, lambda cluster: None, [], id="nothing happened"),
    ],
)
def test_what_is_judged_again(reads: Reads, happens: Callable[[ClusterState], None], wanted: list[list[str]]) -> None:
    cluster, plugin = world(), Noting(reads)
    profile = make_profile(plugin)
    columns = updated(cluster, profile)
    assert plugin.asked == [NAMES]
    plugin.asked.clear()
    happens(cluster)
    updated(cluster, profile, columns)
    assert plugin.asked == wanted


def test_equally_full_nodes_are_judged_once() -> None:
    cluster, plugin = world(), Noting(Reads.RESOURCES)
    profile = make_profile(plugin)
    columns = updated(cluster, profile)
    plugin.asked.clear()
    cluster.set_pod(make_pod("p", node="n1", cpu="1"))
    updated(cluster, profile, columns)
    cluster.set_pod(make_pod("q", node="n2", cpu="1"))
    updated(cluster, profile, columns)
    assert plugin.asked == [["n1"]], "n2 is as full as n1 was"


def test_many_changes_are_judged_together() -> None:
    cluster, plugin = world(), Noting(Reads.ROW)
    profile = make_profile(plugin)
    columns = updated(cluster, profile)
    plugin.asked.clear()
    for i in range(4):
        cluster.set_pod(make_pod(f"p{i}", node=f"n{i}"))
    updated(cluster, profile, columns)
    assert plugin.asked == [NAMES]


def test_another_token_judges_everything() -> None:
    cluster, plugin = world(), Noting()
    profile = make_profile(plugin)
    columns = updated(cluster, profile)
    plugin.asked.clear()
    plugin.token = 1
    updated(cluster, profile, columns)
    assert plugin.asked == [NAMES]


def test_verdicts_follow_the_nodes() -> None:
    cluster = world()
    first, second = Noting(name="First", refuses=("n1",)), Noting(Reads.ROW, name="Second", refuses=("n2",))
    profile = make_profile(first, second)
    columns = updated(cluster, profile)
    assert [NAMES[row] for row in (~columns.feasible).nonzero()[0]] == ["n1", "n2"]
    assert not columns.passed_node_filters()[1] and columns.passed_node_filters()[2]
    second.refuses = {"n3"}
    for name in ("n2", "n3"):
        cluster.set_pod(make_pod(f"on-{name}", node=name))
    updated(cluster, profile, columns)
    assert [NAMES[row] for row in (~columns.feasible).nonzero()[0]] == ["n1", "n3"]


def test_after_a_failure_everything_is_judged_again() -> None:
    cluster, plugin = world(), Noting(Reads.ROW)
    profile = make_profile(plugin)
    columns = updated(cluster, profile)
    add_pod(cluster)
    plugin.breaks = True
    with pytest.raises(CycleError, match="broken"):
        updated(cluster, profile, columns)
    plugin.breaks = False
    plugin.asked.clear()
    updated(cluster, profile, columns)
    assert plugin.asked == [NAMES]
