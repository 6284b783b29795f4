"""Which suggestions are shown, and their texts."""

from __future__ import annotations

import pytest

from mooring.api.core import Node, Pod
from mooring.core.explain.remedies import MAX_SUGGESTIONS, Suggestion, best, cost_of
from mooring.core.framework.interfaces import Change, Remedy


def _nothing(value: Node | Pod) -> None:
    pass


def label(node: str, cost: float = 2.0) -> Change:
    return Change("label disk=ssd on {node}", "label", cost, node=node, edit_node=_nothing)


TOLERATE = Change("tolerate a=b", "toleration", 2.0, edit=_nothing)
LESS = Change("1 less CPU", "request", 1.5, edit=_nothing)


@pytest.mark.parametrize(
    ("remedy", "nodes", "text"),
    [
        pytest.param((TOLERATE,), ("a",), "tolerate a=b: 1 more node", id="one more node"),
        pytest.param((TOLERATE,), ("a", "b"), "tolerate a=b: 2 more nodes", id="more nodes"),
        pytest.param((LESS,), ("a",), "1 less CPU on a", id="a request on one node"),
        pytest.param((LESS,), ("a", "b"), "1 less CPU on any of 2 nodes", id="a request on any node"),
        pytest.param((LESS, TOLERATE), ("a",), "1 less CPU and tolerate a=b: 1 more node", id="two changes"),
        pytest.param((label("a"),), ("a",), "label disk=ssd on a", id="a change on a node says where"),
    ],
)
def test_text(remedy: Remedy, nodes: tuple[str, ...], text: str) -> None:
    assert Suggestion.of(remedy, nodes).text == text


def test_each_further_change_costs_more() -> None:
    assert cost_of((TOLERATE,)) == 2.0
    assert cost_of((TOLERATE, LESS)) == 2.0 + 1.5 + 3.0


@pytest.mark.parametrize(
    ("remedies", "want"),
    [
        pytest.param(
            [((TOLERATE,), "ab"), ((LESS,), "a")], ["1 less CPU on a", "tolerate a=b: 2 more nodes"], id="cheap first"
        ),
        pytest.param(
            [((LESS, TOLERATE), "a"), ((LESS,), "b")], ["1 less CPU on b"], id="none that contains a cheaper one"
        ),
        pytest.param([((LESS,), "a"), ((LESS,), "a")], ["1 less CPU on a"], id="none twice"),
        pytest.param(
            [((label("a"),), "a"), ((label("b"),), "b"), ((label("c"),), "c")],
            ["label disk=ssd on a (or b, c)"],
            id="the same on several nodes is one",
        ),
        pytest.param(
            [((label("a"), LESS), "a"), ((label("b"), LESS), "b")],
            ["label disk=ssd on a and 1 less CPU (or b)"],
            id="also where it is one of two changes",
        ),
    ],
)
def test_best(remedies: list[tuple[Remedy, str]], want: list[str]) -> None:
    assert [each.text for each in best(Suggestion.of(remedy, tuple(nodes)) for remedy, nodes in remedies)] == want


def test_the_number_of_suggestions_is_limited() -> None:
    many = [Suggestion.of((Change(f"wish {i}", edit=_nothing),), ("a",)) for i in range(20)]
    assert best(many) == many[:MAX_SUGGESTIONS]
