"""The pod and the nodes of a request, in both forms."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from mooring.api.core import Node
from mooring.net.extender.conformance import args_body, make_node, make_pod
from mooring.net.extender.requests import BadExtenderRequest, NodeReader, WrongForm, pod_key
from mooring.net.extender.verbs import NameOnly, OfferedNodes

NODES = [make_node(i) for i in range(3)]
NAMES = [node["metadata"]["name"] for node in NODES]
GO = args_body(make_pod("p"), NODES, by_name=False)  # Go's form, which is read quickly
OTHER = json.dumps(json.loads(GO)).encode()  # with spaces, so that it is read the ordinary way


@pytest.mark.parametrize("body", [GO, OTHER], ids=["Go's form", "another form"])
@pytest.mark.parametrize(("node_type", "kind"), [(Node, Node), (str, NameOnly)], ids=["nodes", "names"])
def test_whole_nodes(body: bytes, node_type: Any, kind: Any) -> None:
    found = OfferedNodes(body, NodeReader(kind), node_type)
    assert found.names == NAMES and not found.are_names
    assert [json.loads(found.raw[name]) for name in NAMES] == NODES
    views = list(found.views)
    assert views == NAMES if node_type is str else [view.name for view in views] == NAMES
    assert pod_key(found.pod) == "default/p"


def test_names() -> None:
    found = OfferedNodes(args_body(make_pod("p"), NODES, by_name=True), NodeReader(NameOnly), str)
    assert found.names == NAMES == list(found.views) and found.are_names and found.raw == {}


def test_no_nodes_at_all() -> None:
    found = OfferedNodes(args_body(make_pod("p"), [], by_name=False), NodeReader(Node), Node)
    assert (found.names, list(found.views), found.are_names) == ([], [], False)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        pytest.param(b'{"Pod":{},"NodeNames":["a"]}', WrongForm, "set nodeCacheCapable: false", id="names for nodes"),
        pytest.param(b'{"Pod":{}}', BadExtenderRequest, "expected Nodes or NodeNames", id="neither"),
        pytest.param(
            b'{"Pod":{},"Nodes":{"items":[{}]}}', BadExtenderRequest, r"Nodes.items\[0\]: has no", id="no name"
        ),
        pytest.param(
            b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"}},7]}}',
            BadExtenderRequest,
            r"Nodes.items\[1\]",
            id="a number",
        ),
        pytest.param(b"", BadExtenderRequest, "the body is empty", id="nothing"),
    ],
)
def test_requests_that_are_none(body: bytes, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        OfferedNodes(body, NodeReader(Node), Node)


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"metadata":{"name":"a","namespace":"b"}}', "b/a"),
        (b"{}", "/"),
        (b"7", ""),
        (b"null", ""),
    ],
)
def test_what_a_log_calls_a_pod(raw: bytes, key: str) -> None:
    assert pod_key(msgspec.Raw(raw)) == key
