"""Reading requests: the quick way says the same as the ordinary one, whatever changes between requests."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.core import Node
from mooring.net.extender.conformance import args_body, make_node, make_pod
from mooring.net.extender.requests import BadExtenderRequest, ExtenderArgs, NodeReader, read_request


def ordinarily(body: bytes) -> tuple[Any, list[tuple[str, Any]]]:
    args = read_request(ExtenderArgs, body)
    items = [bytes(raw) for raw in args.Nodes.items or ()]
    nodes = [msgspec.json.decode(raw, type=Node) for raw in items]
    return json.loads(bytes(args.Pod)), [(node.metadata.name, node) for node in nodes]


notes = st.text(max_size=20) | st.sampled_from(
    ['},{"metadata":{"name":"x"', ',"Nodes":{"metadata":{},"items":[', '"]}']
)
requests = st.lists(
    st.lists(st.tuples(st.integers(0, 6), notes), max_size=6, unique_by=lambda pair: pair[0]), min_size=1, max_size=5
)


@given(requests)
def test_the_fast_path_agrees_with_the_ordinary_one(history: list[list[tuple[int, str]]]) -> None:
    reader = NodeReader(Node)
    for offered in history:
        nodes = []
        for i, note in offered:
            node = make_node(i)
            node["metadata"]["annotations"]["note"] = note
            nodes.append(node)
        pod = make_pod("p")
        pod["metadata"]["annotations"] = {"note": offered[0][1] if offered else ""}
        body = args_body(pod, nodes, by_name=False)
        quick = reader.read(body)
        assert quick is not None
        want_pod, want = ordinarily(body)
        assert json.loads(bytes(quick[0])) == want_pod
        assert [(name, node) for _, name, node in quick[1]] == want
        assert [json.loads(raw) for raw, _, _ in quick[1]] == nodes


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"Nodes":{"items":[]},"Pod":{}}', id="fields in another order"),
        pytest.param(b'{"Pod":{},"Nodes":null,"NodeNames":["a"]}', id="names"),
        pytest.param(b'{"Pod":{},"Nodes":{"metadata":{},"items":[{"spec":{}}]},"NodeNames":null}', id="spec first"),
        pytest.param(
            b'{"Pod":{},"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}x]},"NodeNames":null}', id="a slip"
        ),
        pytest.param(
            b'{"Pod":{},"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}} {"metadata":{"name":"b"}}]},'
            b'"NodeNames":null}',
            id="a comma is missing",
        ),
        pytest.param(b"", id="nothing"),
    ],
)
def test_whatever_looks_different_is_left_to_the_ordinary_way(body: bytes) -> None:
    assert NodeReader(Node).read(body) is None


def test_a_repeated_node_is_the_same_object_until_it_changes() -> None:
    reader = NodeReader(Node)
    nodes = [make_node(i) for i in range(3)]
    first = reader.read(args_body(make_pod("p"), nodes, by_name=False))
    nodes[1]["metadata"]["resourceVersion"] = "changed"
    second = reader.read(args_body(make_pod("q"), nodes[::-1], by_name=False))
    assert first is not None and second is not None
    assert second[1][0][2] is first[1][2][2] and second[1][2][2] is first[1][0][2]
    assert second[1][1][2].metadata.resource_version == "changed"


def test_a_large_body_is_read_where_it_was_received() -> None:
    body = args_body(make_pod("p"), [make_node(i) for i in range(3)], by_name=False)
    reader = NodeReader(Node)
    first, second = reader.read(bytearray(body)), reader.read(body)
    assert first is not None and second is not None
    assert bytes(first[0]) == bytes(second[0])
    assert all(one is other for one, other in zip(first[1], second[1], strict=True))
    assert all(type(raw) is bytes for raw, _, _ in first[1]), "what is kept does not hold on to the body"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.net.extender.requests.MAX_KEPT_BYTES", 5000)
    reader = NodeReader(Node)
    for i in range(20):
        reader.read(args_body(make_pod("p"), [make_node(i)], by_name=False))
    assert len(reader._kept) < 5


def test_a_node_without_a_name_is_refused() -> None:
    with pytest.raises(BadExtenderRequest, match="has no metadata"):
        NodeReader(Node).decode(b"{}", "Nodes.items[0]")
