"""Which nodes an affinity holds on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.storage import TopologySelectorTerm, VolumeNodeAffinity
from mooring.core.plugins.volumes.node_topology import EVERYWHERE, NodeTopology, compile_affinity, compile_topologies


@pytest.fixture
def topology(world: Any) -> NodeTopology:
    for name, zone in (("a", "z1"), ("b", "z2"), ("c", "z1")):
        world.node(name, zone=zone)
    world.settle()
    return NodeTopology(world.cluster)


def required(*terms: dict[str, Any]) -> VolumeNodeAffinity:
    return msgspec.convert({"required": {"nodeSelectorTerms": terms}}, VolumeNodeAffinity)


def label(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


FIELD = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}


@pytest.mark.parametrize(
    ("affinity", "want"),
    [
        pytest.param(None, "abc", id="no affinity"),
        pytest.param(VolumeNodeAffinity(), "abc", id="nothing required"),
        pytest.param(required(), "", id="no terms"),
        pytest.param(required(label("zone", "z1")), "ac", id="one value"),
        pytest.param(required(label("zone", "z1", "z2")), "abc", id="two values"),
        pytest.param(required(label("zone", "z2"), label("host", "a")), "ab", id="two terms"),
        pytest.param(required(label("zone", operator="Exists")), "abc", id="a label that is there"),
        pytest.param(required(label("zone", "z9")), "", id="a value that no node has"),
        pytest.param(required(label("zone", "z1", operator="Odd")), "", id="a term that does not parse"),
        pytest.param(required(FIELD), "abc", id="fields are not looked at"),
    ],
)
def test_where_a_volume_can_be_used(topology: NodeTopology, affinity: VolumeNodeAffinity | None, want: str) -> None:
    compiled = compile_affinity(affinity)
    assert "".join("abc"[row] for row in topology.rows(compiled)) == want
    assert topology.mask(compiled).tolist() == [name in want for name in "abc"]


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([], "abc", id="no topologies"),
        pytest.param([{"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}]}], "ac", id="one zone"),
        pytest.param([{"matchLabelExpressions": []}], "", id="an empty term"),
        pytest.param([{"matchLabelExpressions": [{"key": "zone", "values": []}]}], "", id="no values"),
    ],
)
def test_where_a_class_can_provide(topology: NodeTopology, terms: list[dict[str, Any]], want: str) -> None:
    compiled = compile_topologies(msgspec.convert(terms, list[TopologySelectorTerm]))
    assert "".join("abc"[row] for row in topology.rows(compiled)) == want


def test_answers_follow_labels_and_nodes(world: Any, topology: NodeTopology) -> None:
    zone = compile_affinity(required(label("zone", "z1")))
    before = topology.refresh()
    assert topology.rows(zone).tolist() == [0, 2]
    world.node("a", zone="z2")
    world.settle()
    assert topology.refresh() > before and topology.rows(zone).tolist() == [2]
    world.node("d", zone="z1")
    world.settle()
    topology.refresh()
    assert topology.rows(zone).tolist() == [2, 3] and topology.size == 4


def test_a_change_that_leaves_labels_alone_keeps_answers(world: Any, topology: NodeTopology) -> None:
    before = topology.refresh()
    world.node("a", zone="z1")
    world.pod(name="p", on="a")
    world.settle()
    assert topology.refresh() == before


def test_rows_by_name(topology: NodeTopology) -> None:
    assert (topology.row("b"), topology.row("gone")) == (1, -1)
    assert topology.rows(EVERYWHERE).tolist() == [0, 1, 2]
