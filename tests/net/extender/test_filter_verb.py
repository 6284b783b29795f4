"""What a filter may return, and which answer becomes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from asking import NAMES, NODES, ask, returning

from mooring.net.extender.sdk import CallFacts, Filtered, HandlerError, refuse
from mooring.net.extender.verbs import filter_answer, filter_verb

A, B, C, D = NAMES


@pytest.mark.parametrize(
    ("verdict", "kept", "failed", "for_good"),
    [
        pytest.param(None, True, {}, {}, id="None keeps"),
        pytest.param(True, True, {}, {}, id="True keeps"),
        pytest.param(False, False, {}, {}, id="False drops it silently"),
        pytest.param("no disk", False, {B: "no disk"}, {}, id="a text is a reason"),
        pytest.param("", False, {B: ""}, {}, id="an empty text is one, too"),
        pytest.param(refuse("no disk"), False, {B: "no disk"}, {}, id="a refusal"),
        pytest.param(refuse(), False, {}, {}, id="a refusal without a reason"),
        pytest.param(refuse("never", for_good=True), False, {}, {B: "never"}, id="a refusal for good"),
    ],
)
def test_a_verdict_for_each_node(verdict: Any, kept: bool, failed: dict[str, str], for_good: dict[str, str]) -> None:
    function = returning(lambda node: verdict if node.metadata.name == B else None, second="node")
    answer, facts = ask(filter_verb(function, "f"))
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ([A, B, C, D] if kept else [A, C, D])
    assert (answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == (failed, for_good)
    assert facts == CallFacts("default/web", 4, 4 if kept else 3)


@pytest.mark.parametrize(
    ("returned", "kept", "failed"),
    [
        pytest.param(lambda nodes: nodes, [A, B, C, D], {}, id="all of them"),
        pytest.param([], [], {}, id="none of them"),
        pytest.param([C, A], [C, A], {}, id="names, in an order of one's own"),
        pytest.param((C,), [C], {}, id="a tuple"),
        pytest.param(lambda nodes: (node for node in nodes if node == B), [B], {}, id="a generator"),
        pytest.param(lambda nodes: set(nodes[:1]), [A], {}, id="a set"),
        pytest.param(Filtered([A], {B: "b"}), [A], {B: "b"}, id="reasons"),
        pytest.param(Filtered([A], {B: "b"}, otherwise="rest"), [A], {B: "b", C: "rest", D: "rest"}, id="and the rest"),
        pytest.param(Filtered(iter([A]), otherwise="rest"), [A], {B: "rest", C: "rest", D: "rest"}, id="once only"),
        pytest.param(Filtered([A, A], otherwise="rest"), [A, A], {B: "rest", C: "rest", D: "rest"}, id="one twice"),
        pytest.param(Filtered([A], {}, {B: "never"}, "rest"), [A], {C: "rest", D: "rest"}, id="some for good"),
    ],
)
def test_a_verdict_for_all_names_together(returned: Any, kept: list[str], failed: dict[str, str]) -> None:
    answer, facts = ask(filter_verb(returning(returned, hint=list[str]), "f"), by_name=True)
    assert (answer["Nodes"], answer["NodeNames"]) == (None, kept)
    assert answer["FailedNodes"] == failed and answer["Error"] == ""
    assert facts.kept == len(kept)


class Small(msgspec.Struct):
    """A node of which little is read."""

    metadata: dict[str, Any]


@pytest.mark.parametrize(
    ("hint", "keep"),
    [
        pytest.param(None, lambda nodes: [node for node in nodes if node.name == C], id="nodes"),
        pytest.param(None, lambda nodes: [node.name for node in nodes if node.name == C], id="names of nodes"),
        pytest.param(list[dict[str, Any]], lambda nodes: nodes[2:3], id="plain data"),
        pytest.param(list[dict[str, Any]], lambda nodes: [dict(nodes[2])], id="a copy of plain data"),
        pytest.param(list[Small], lambda nodes: nodes[2:3], id="a type of one's own"),
        pytest.param(list[str], lambda nodes: nodes[2:3], id="names, though nodes came"),
    ],
)
def test_whole_nodes_go_back_as_they_came(hint: Any, keep: Any) -> None:
    answer, _ = ask(filter_verb(returning(keep, hint=hint), "f"))
    assert answer["Nodes"] == {"metadata": {}, "items": [NODES[2]]} and answer["NodeNames"] is None


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        pytest.param(3, "filter returned 3;", id="a number"),
        pytest.param(None, "filter returned None;", id="nothing"),
        pytest.param("node-00000", "filter returned 'node-00000';", id="one name"),
        pytest.param({A: True}, "filter returned {", id="a mapping"),
        pytest.param([A, "stranger"], "filter keeps 'stranger', a node that was not offered", id="a node not offered"),
        pytest.param([7], "filter keeps '7', a node that was not offered", id="a number among them"),
        pytest.param(Filtered([A, "x"], otherwise="no"), "filter keeps 'x', a node that", id="and a reason for others"),
        pytest.param(
            Filtered([A], {B: 7}), "filter's reasons are not strings by node name: 7", id="a number as a reason"
        ),
        pytest.param(Filtered([A], {}, {B: None}), "filter's reasons are not strings", id="no reason for good"),
    ],
)
def test_what_no_filter_may_return(returned: Any, said: str) -> None:
    with pytest.raises(HandlerError) as caught:
        ask(filter_verb(returning(returned, hint=list[str]), "f"), by_name=True)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("verdict", [7, [], {}, 1.5], ids=repr)
def test_what_no_filter_may_say_of_a_node(verdict: object) -> None:
    with pytest.raises(HandlerError, match=f"filter returned .* for {A}; "):
        ask(filter_verb(returning(verdict, second="node"), "f"))


def test_a_function_may_change_the_list_it_gets() -> None:
    def drop(nodes: list[str]) -> list[str]:
        nodes.pop(0)
        return nodes

    verb = filter_verb(returning(drop, hint=list[str]), "f")
    for _ in range(2):
        assert ask(verb, by_name=True)[0]["NodeNames"] == [B, C, D]


@pytest.mark.parametrize(
    ("keep", "want"),
    [
        pytest.param([], b'{"Nodes":{"metadata":{},"items":[]},"NodeNames":null', id="none"),
        pytest.param(["a"], b'{"Nodes":{"metadata":{},"items":[{"a":1}]},"NodeNames":null', id="one"),
        pytest.param(["b", "a"], b'{"Nodes":{"metadata":{},"items":[{"b":2},{"a":1}]},"NodeNames":null', id="two"),
    ],
)
def test_the_bytes_of_an_answer(keep: list[str], want: bytes) -> None:
    rest = b',"FailedNodes":{"x":"\\"why\\""},"FailedAndUnresolvableNodes":{},"Error":""}'
    raw = {"a": b'{"a":1}', "b": b'{"b":2}'}
    assert filter_answer(Filtered(keep, {"x": '"why"'}), raw, by_name=False) == want + rest
