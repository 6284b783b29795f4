"""The order of nodes: one of each zone, round and round."""

from __future__ import annotations

import pytest

from mooring.core.state.node_info import NodeTree, zone_key
from mooring.testing import make_cluster, make_node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def tree(*nodes: tuple[str, str]) -> NodeTree:
    found = NodeTree()
    for name, zone in nodes:
        found.add(name, {ZONE: zone} if zone else {})
    return found


@pytest.mark.parametrize(
    ("nodes", "order"),
    [
        pytest.param([], [], id="no nodes"),
        pytest.param([("c", ""), ("a", ""), ("b", "")], ["c", "a", "b"], id="one zone keeps the order of arrival"),
        pytest.param(
            [("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")],
            ["a1", "b1", "c1", "a2", "c2"],
            id="first of each zone, then second of each",
        ),
        pytest.param([("b", "z"), ("x", ""), ("a", "z")], ["b", "x", "a"], id="no zone is a zone"),
    ],
)
def test_round_robin(nodes: list[tuple[str, str]], order: list[str]) -> None:
    assert tree(*nodes).names() == order


def test_trap_5_the_deprecated_labels_win() -> None:
    assert zone_key({ZONE: "new", OLD_ZONE: "old"}) == zone_key({OLD_ZONE: "old"})
    assert zone_key({REGION: "new", OLD_REGION: "old", ZONE: "z"}) == zone_key({OLD_REGION: "old", ZONE: "z"})


def test_region_and_zone_make_the_key_together() -> None:
    assert zone_key({REGION: "r1", ZONE: "z"}) != zone_key({REGION: "r2", ZONE: "z"})
    assert zone_key({REGION: "r"}) != zone_key({ZONE: "r"})
    assert zone_key({}) == zone_key({ZONE: ""}) == ""


def test_a_node_that_changes_zone_moves_to_the_end_of_the_other() -> None:
    found = tree(("a1", "a"), ("a2", "a"), ("b1", "b"))
    found.add("a1", {ZONE: "b"})
    assert found.names() == ["a2", "b1", "a1"]


def test_an_emptied_zone_comes_back_at_the_end() -> None:
    found = tree(("a", "a"), ("b", "b"))
    found.remove("a")
    found.add("a", {ZONE: "a"})
    assert found.names() == ["b", "a"]
    found.remove("unknown")
    assert len(found) == 2


def test_an_update_without_a_change_of_zone_keeps_the_place() -> None:
    found = tree(("a", "a"), ("b", "a"))
    found.add("a", {ZONE: "a", "new": "label"})
    assert found.names() == ["a", "b"]


def test_a_changed_zone_moves_no_row_until_a_node_comes_or_goes() -> None:
    cluster = make_cluster(*(make_node(name, zone=zone) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))))

    def names() -> list[str]:
        return [info.name for info in cluster.nodes().infos]

    assert names() == ["a", "c", "b"]
    cluster.set_node(make_node("a", zone="y"))
    assert names() == ["a", "c", "b"]
    cluster.set_node(make_node("d", zone="x"))
    assert names() == ["b", "c", "d", "a"]
