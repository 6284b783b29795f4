"""NodeName (spec 2.4)."""

from __future__ import annotations

import pytest

from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.versions import V1_36, V1_37
from mooring.core.framework.status import Code
from mooring.core.plugins.node_name import NodeName
from mooring.core.session import open_session
from mooring.testing import filter_statuses, make_cluster, make_handle, make_node, make_pod


@pytest.mark.parametrize(
    ("wanted", "passing"),
    [
        pytest.param("", {"a", "b"}, id="no name, any node"),
        pytest.param("a", {"a"}, id="only the named one"),
        pytest.param("gone", set(), id="a name that is not there"),
    ],
)
def test_named_nodes(wanted: str, passing: set[str]) -> None:
    cluster = make_cluster(make_node("a"), make_node("b"))
    statuses = filter_statuses(NodeName(None, make_handle(cluster)), cluster, make_pod(node=wanted))
    assert {name for name, status in statuses.items() if status.is_success} == passing
    for status in statuses.values():
        if not status.is_success:
            assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            assert status.message == "node(s) didn't satisfy plugin(s) [NodeName]"


@pytest.mark.parametrize(
    ("features", "message"),
    [
        pytest.param(Features(V1_36), "1 node(s) didn't match the requested node name", id="1.36 filters"),
        pytest.param(Features(V1_37), "1 node(s) didn't satisfy plugin(s) [NodeName]", id="1.37 narrows the search"),
    ],
)
def test_the_status_of_other_nodes(features: Features, message: str) -> None:
    """The named node is full; the other one is not even looked at since 1.37."""
    cluster = make_cluster(make_node("a", cpu="1"), make_node("b"))
    decision = open_session(config_from_dict(None, features), cluster, features=features).decide(
        make_pod(node="a", cpu="2")
    )
    assert f"0/2 nodes are available: 1 Insufficient cpu, {message}." in decision.message


def test_a_name_whose_node_is_only_a_ghost_matches_nothing() -> None:
    cluster = make_cluster(make_node("a"), make_pod("stray", node="ghost"))
    statuses = filter_statuses(NodeName(None, make_handle(cluster)), cluster, make_pod(node="ghost"))
    assert not statuses["a"].is_success
