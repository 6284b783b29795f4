"""Nodes as they are sent: made once per version, compressed once, forgotten when there are too many."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Node
from mooring.core.framework.extender import AnsweredNode
from mooring.core.state.node_info import NodeInfo
from mooring.net.extender.wire import SerializedNodes, as_go_writes


class Source:
    """Counts how often an object is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def node_json(self, node: Node) -> bytes:
        self.asked.append(node.name)
        return json.dumps({"name": node.name, "version": node.metadata.resource_version, "pad": "x" * 300}).encode()

    def pod_json(self, pod: Any) -> bytes:
        raise AssertionError("only nodes are kept")


def info(name: str, version: str = "1") -> NodeInfo:
    made = NodeInfo(name)
    made.node = from_plain(Node, {"metadata": {"name": name, "resourceVersion": version}})
    return made


def test_a_node_is_made_once_per_version() -> None:
    source = Source()
    nodes = SerializedNodes(source)
    first, changed = info("a"), info("a", "2")
    assert nodes.json(first) is nodes.json(first)
    assert b'"version": "2"' in nodes.json(changed)
    assert source.asked == ["a", "a"]


def test_a_node_that_an_extender_answered_with_is_sent_as_it_came() -> None:
    source = Source()
    node = from_plain(Node, {"metadata": {"name": "a"}})
    assert SerializedNodes(source).json(AnsweredNode.of(node, b'{"raw":1}', 0)) == b'{"raw":1}'
    assert source.asked == []


def test_pieces_are_compressed_once_and_small_ones_not_at_all() -> None:
    nodes = SerializedNodes(Source())
    large, small = nodes.json(info("a")), b"{}"
    first = nodes.deflated([large, small])
    kept = first[large]
    assert zlib.decompressobj(-15).decompress(kept) == large and small not in first
    assert nodes.deflated([large])[large] is kept
    nodes.json(info("a", "2"))
    assert large not in nodes.deflated([]), "the old version is gone"


def test_nodes_that_are_not_offered_any_more_are_forgotten_together() -> None:
    source = Source()
    nodes = SerializedNodes(source)
    nodes.offered(10)
    for i in range(1021):
        nodes.json(info(f"node-{i}"))
    nodes.offered(10)
    source.asked.clear()
    nodes.json(info("node-0"))
    assert source.asked == ["node-0"]


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({}, {"metadata": {}, "spec": {}}, id="nothing"),
        pytest.param(
            {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}},
            {"metadata": {"name": "a"}, "spec": {}},
            id="its type is not written",
        ),
        pytest.param({"spec": {"x": 1}, "status": {"y": 2}}, {"metadata": {}, "spec": {"x": 1}, "y": 2}, id="the rest"),
    ],
)
def test_what_an_extender_made_up_is_filled_in_as_go_would(given: dict[str, Any], want: dict[str, Any]) -> None:
    found = json.loads(as_go_writes(json.dumps(given).encode()))
    status = found.pop("status")
    assert status.pop("daemonEndpoints") == {"kubeletEndpoint": {"Port": 0}}
    assert status.pop("nodeInfo")["kubeletVersion"] == ""
    assert {**found, **status} == want


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"spec":{},"status":{"nodeInfo":{},"daemonEndpoints":{}},"kind":"Node"}', id="a whole node"),
    ],
)
def test_what_needs_nothing_stays_byte_for_byte(given: bytes) -> None:
    assert as_go_writes(given) == given
