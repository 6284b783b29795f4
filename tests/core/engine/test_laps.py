"""The stopwatch of an attempt: each step's time goes to the observer, if there is one."""

from __future__ import annotations

from typing import Any

from mooring.api.clock import VirtualClock
from mooring.core.engine.decision import Stopwatch
from mooring.core.framework.status import SUCCESS, Status
from mooring.testing import NOON


class Noting:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def extension_point(self, point: str, status: str, seconds: float) -> None:
        self.told.append((point, status, round(seconds, 6)))

    def evaluated(self, point: str, plugins: Any, times: int) -> None:
        self.told.append((point, list(plugins), times))

    def plugin_timer(self) -> None:
        return None

    def node_hint(self, *, is_hinted: bool, flushed: str, seconds: float) -> None:
        self.told.append(("hint", is_hinted, flushed, round(seconds, 6)))

    def batch_stored(self, hint: bool | None, flushed: str, seconds: float) -> None:
        self.told.append(("stored", hint, flushed, round(seconds, 6)))


def test_each_step_takes_the_time_since_the_one_before() -> None:
    clock, observer = VirtualClock(NOON), Noting()
    stopwatch = Stopwatch(observer, clock)
    clock.advance(1)
    stopwatch.point("PreFilter", SUCCESS, ["A"], 1)
    clock.advance(2)
    stopwatch.hint(None, "expired")
    clock.advance(3)
    stopwatch.point("Filter", Status.unschedulable(), ["A", "B"], 5)
    clock.advance(4)
    stopwatch.restart()
    clock.advance(5)
    stopwatch.stored(True, "")
    assert observer.told == [
        ("PreFilter", "Success", 1),
        ("PreFilter", ["A"], 1),
        ("hint", False, "expired", 2),
        ("Filter", "Unschedulable", 3),
        ("Filter", ["A", "B"], 5),
        ("stored", True, "", 5),
    ]


def test_without_an_observer_the_clock_is_not_looked_at() -> None:
    class Broken:
        def monotonic(self) -> float:
            raise AssertionError

        now = monotonic

    stopwatch = Stopwatch(None, Broken())
    stopwatch.point("Filter", SUCCESS, ["A"], 1)
    stopwatch.hint(3, "")
    stopwatch.restart()
    stopwatch.stored(None, "")
