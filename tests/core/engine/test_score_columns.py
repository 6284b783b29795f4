"""Scores that are kept: which nodes are scored again, and that the kept sum is the sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mooring.core.engine.columns import ScoreColumns, check_range
from mooring.core.engine.derived import Figures
from mooring.core.framework.cycle_state import CycleError, CycleState
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.runtime import Profile
from mooring.core.state.cluster import ClusterState
from mooring.testing import make_cluster, make_node, make_pod

from .conftest import Noting, make_attempt, make_profile

NAMES = [f"n{i}" for i in range(9)]


class Scaled(Noting):
    """Halves what it gave, as a normalising plugin may."""

    def __init__(self, **more: Any) -> None:
        super().__init__(Reads.ROW, name="Scaled", **more)
        self.traits = Traits(score_reads=Reads.ROW, even_normalize=True, uses_volumes=False)

    def normalize(self, state: CycleState, pod: Any, scores: Any, nodes: Any) -> Any:
        return scores // 2 + 7


def world() -> ClusterState:
    return make_cluster(*(make_node(name) for name in NAMES))


def updated(cluster: ClusterState, profile: Profile, columns: ScoreColumns | None = None) -> ScoreColumns:
    attempt = make_attempt(cluster, profile)
    columns = columns or ScoreColumns(profile.score_plan(attempt.state), attempt.nodes.table, 16)
    columns.update(attempt, Figures())
    return columns


@pytest.mark.parametrize(
    ("reads", "happens", "wanted"),
    [
        pytest.param(Reads.NODE, lambda c: c.set_pod(make_pod("p", node="n1")), [], id="a pod is nothing to the node"),
        pytest.param(Reads.ROW, lambda c: c.set_pod(make_pod("p", node="n1")), [["n1"]], id="a pod changes its row"),
        pytest.param(Reads.RESOURCES, lambda c: c.set_pod(make_pod("p", node="n1")), [["n1"]], id="and its figures"),
        pytest.param(Reads.NODE, lambda c: c.set_node(make_node("n2", zone="z")), [["n2"]], id="a node changed"),
    ],
)
def test_what_is_scored_again(reads: Reads, happens: Callable[[ClusterState], None], wanted: list[list[str]]) -> None:
    cluster, plugin = world(), Noting(reads)
    profile = make_profile(plugin)
    columns = updated(cluster, profile)
    plugin.scored.clear()
    happens(cluster)
    updated(cluster, profile, columns)
    assert plugin.scored == wanted


def test_the_total_is_the_weighted_sum() -> None:
    cluster = world()
    one, two = Noting(name="One", scores={"n1": 10}), Noting(Reads.ROW, name="Two", scores={"n1": 5, "n2": 50})
    profile = make_profile(one, two, weights={"One": 3})
    columns = updated(cluster, profile)
    assert columns.total.tolist() == [0, 35, 50, 0, 0, 0, 0, 0, 0]
    two.scores = {"n2": 8}
    cluster.set_pod(make_pod("p", node="n2"))
    updated(cluster, profile, columns)
    assert columns.total.tolist() == [0, 35, 8, 0, 0, 0, 0, 0, 0]
    assert columns.open == []


def test_zeros_everywhere_are_normalised_once_and_summed() -> None:
    cluster, plugin = world(), Scaled()
    profile = make_profile(plugin)
    columns = updated(cluster, profile)
    assert columns.summed == {"Scaled"} and columns.total.tolist() == [7] * len(NAMES)
    plugin.scores = {"n3": 40}
    cluster.set_pod(make_pod("p", node="n3"))
    updated(cluster, profile, columns)
    assert columns.summed == set() and columns.total.tolist() == [0] * len(NAMES)
    assert [plugin.name for plugin, _ in columns.open] == ["Scaled"]


@pytest.mark.parametrize(
    ("scores", "bad"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param([0, 100], None, id="the ends are inside"),
        pytest.param([0, 101], 101, id="too high"),
        pytest.param([-1, 101], -1, id="too low is named first"),
    ],
)
def test_scores_outside_the_range_break_the_attempt(scores: list[int], bad: int | None) -> None:
    if bad is None:
        check_range("Mine", np.array(scores, np.int64))
        return
    with pytest.raises(CycleError, match=rf'plugin "Mine" returns an invalid score {bad}, it should in the range of'):
        check_range("Mine", np.array(scores, np.int64))
