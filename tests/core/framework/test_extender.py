"""What the cycle asks of extenders, without the HTTP."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mooring.api.errors import MooringError
from mooring.core.framework.extender import AnsweredNode, ExtenderError, Prioritized, ask_in_turn
from mooring.testing import make_cluster, make_node, make_pod

FIRST, SECOND = Prioritized([("a", 3)], 2), Prioritized([("a", 10)], 1)
BROKEN = ExtenderError("no answer")


def extender(answer: Any, asked: list[Any]) -> Any:
    def prioritize(pod: Any, nodes: Any) -> Prioritized:
        asked.append((pod, nodes))
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(prioritize=prioritize)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([], id="no extender"),
        pytest.param([FIRST, SECOND], id="answers in order"),
        pytest.param([BROKEN, SECOND], id="one that fails does not stop the others"),
    ],
)
def test_extenders_are_asked_one_after_another(answers: list[Any]) -> None:
    asked: list[Any] = []
    cluster = make_cluster(make_node("a"))
    pod, nodes = cluster.info(make_pod("web")), list(cluster.snapshot().infos)
    assert ask_in_turn([extender(answer, asked) for answer in answers], pod, nodes) == answers
    assert asked == [(pod, nodes)] * len(answers)


def test_what_is_no_extenders_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        ask_in_turn([extender(ZeroDivisionError(), [])], None, [])  # type: ignore[arg-type]


def test_a_node_as_an_extender_sent_it_back() -> None:
    node = make_node("a", labels={"zone": "north"})
    answered = AnsweredNode.of(node, b"{}", 7)
    assert (answered.name, answered.node, answered.raw, answered.row) == ("a", node, b"{}", 7)
    assert list(answered.pods) == [], "the pods are not sent with it"


def test_an_extenders_error_is_one_line_for_people() -> None:
    assert issubclass(ExtenderError, MooringError)
