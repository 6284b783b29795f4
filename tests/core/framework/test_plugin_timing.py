"""Timing single plugins: which point a call belongs to, what it said, how long it took."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.core.framework.cycle_state import CycleError, PluginTimer
from mooring.core.framework.extension_points import METRIC_NAMES
from mooring.core.framework.interfaces import PreFilterResult, PreFlight
from mooring.core.framework.status import SKIP, SUCCESS, Code, PostFilterResult, Status, Verdict

NO = Status.unschedulable("no")
NEVER = Status.unresolvable("never")


class Told:
    """A timer with a clock that ticks once a second, and its calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.told: list[tuple[str, str, Code, float]] = []
        self.timer = PluginTimer(self.now, lambda *what: self.told.append(what))

    def now(self) -> float:
        self.seconds += 1
        return self.seconds


def method(name: str, answer: object):
    def call(*_: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    call.__name__ = name
    return call


@pytest.mark.parametrize(
    ("name", "answer", "point", "code"),
    [
        pytest.param("pre_filter", SUCCESS, "PreFilter", Code.SUCCESS, id="a status"),
        pytest.param("pre_filter", SKIP, "PreFilter", Code.SKIP, id="a plugin that bows out"),
        pytest.param("pre_filter", PreFilterResult(frozenset("a")), "PreFilter", Code.SUCCESS, id="nodes by name"),
        pytest.param("filter", None, "Filter", Code.SUCCESS, id="all nodes pass"),
        pytest.param("filter", Verdict(np.array([1, 0]), lambda _: NO), "Filter", Code.SUCCESS, id="one node passes"),
        pytest.param(
            "filter",
            Verdict(np.array([1, 1]), lambda _: NEVER),
            "Filter",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            id="none",
        ),
        pytest.param(
            "filter", Verdict(np.array([], np.int64), lambda _: NO), "Filter", Code.SUCCESS, id="no nodes asked"
        ),
        pytest.param(
            "post_filter", PostFilterResult(NO), "PostFilter", Code.UNSCHEDULABLE, id="an answer with a status"
        ),
        pytest.param("pre_score", SUCCESS, "PreScore", Code.SUCCESS, id="before scoring"),
        pytest.param("score", np.array([1, 2]), "Score", Code.SUCCESS, id="scores"),
        pytest.param("normalize", np.array([1, 2]), "ScoreExtensionNormalize", Code.SUCCESS, id="normalised scores"),
        pytest.param("permit", (Status.wait(), 5.0), "Permit", Code.WAIT, id="a status and a time"),
        pytest.param("pre_bind_pre_flight", PreFlight(SKIP), "PreBindPreFlight", Code.SKIP, id="nothing to do"),
    ],
)
def test_an_answer_is_reported_with_its_point_and_status(name: str, answer: object, point: str, code: Code) -> None:
    on = Told()
    assert on.timer("Mine", "{} {}", method(name, answer), "state") is answer
    assert on.told == [("Mine", name, code, 1.0)]
    assert METRIC_NAMES[name] == point


def test_an_exception_of_a_plugin_is_an_error() -> None:
    on = Told()
    with pytest.raises(CycleError, match="running Mine: ValueError: odd") as raised:
        on.timer("Mine", "running {}: {}", method("filter", ValueError("odd")))
    assert raised.value.status.code is Code.ERROR
    assert on.told == [("Mine", "filter", Code.ERROR, 1.0)]


def test_every_point_has_a_name_of_its_own() -> None:
    assert len(set(METRIC_NAMES.values())) == len(METRIC_NAMES)
