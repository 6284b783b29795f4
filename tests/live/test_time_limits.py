"""Work that does not end in time is marked, then interrupted, then reported."""

from __future__ import annotations

import threading
import time

import pytest

from mooring.api.clock import VirtualClock
from mooring.core.framework.cycle_state import OutOfTime
from mooring.live.time_limits import GRACE_S, AttemptTimeout, Limit, PluginTimeout, TimeLimits

WAIT_S = 60.0  # never reached, unless something is broken


class Watched:
    """Limits on a clock that only the work itself moves: what takes long here takes long on every machine."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.limits = TimeLimits(self.clock, poll_s=0.001)

    def limit(self, seconds: float = 10.0, **more) -> Limit:
        return Limit("attempt", self.clock.monotonic() + seconds, AttemptTimeout("too long"), **more)

    def wait_forever(self) -> None:
        self.clock.advance(100.0)
        assert not threading.Event().wait(WAIT_S), "the wait was not interrupted"

    def spin_forever(self) -> None:
        self.clock.advance(100.0)
        while True:
            pass


@pytest.fixture
def watched():
    watched = Watched()
    with watched.limits:
        yield watched


def in_thread(function, *arguments):
    """Run something in another thread and return what it raised."""
    raised = []

    def run() -> None:
        try:
            function(*arguments)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    return raised[0] if raised else None


def test_work_that_ends_in_time_gives_its_answer(watched):
    assert watched.limits.run(watched.limit(), lambda a, b: a + b, 1, b=2) == 3


def test_what_the_work_raises_comes_through(watched):
    with pytest.raises(ZeroDivisionError):
        watched.limits.run(watched.limit(), lambda: 1 // 0)


@pytest.mark.parametrize("how", ["wait_forever", "spin_forever"], ids=["waits for a lock", "spins"])
def test_the_main_thread_is_interrupted_by_a_signal(watched, how):
    with pytest.raises(AttemptTimeout, match="too long"):
        watched.limits.run(watched.limit(), getattr(watched, how))


def test_another_thread_is_interrupted_at_its_next_line(watched):
    error = in_thread(watched.limits.run, watched.limit(), watched.spin_forever)
    assert isinstance(error, AttemptTimeout)


def test_work_that_looks_at_its_budget_ends_by_itself(watched):
    limit = watched.limit(grace_s=1000.0)  # it would be interrupted much later

    def search() -> None:
        watched.clock.advance(11.0)
        while not limit.is_spent:
            pass
        raise OutOfTime

    with pytest.raises(AttemptTimeout):
        watched.limits.run(limit, search)
    assert limit.interrupted_at is None


def test_of_two_limits_the_expired_one_is_reported(watched):
    inner = Limit("X.filter", watched.clock.monotonic() + 1000.0, PluginTimeout("inner"))
    with pytest.raises(AttemptTimeout):
        watched.limits.run(watched.limit(), watched.limits.run, inner, watched.wait_forever)
    outer = watched.limit(1000.0)
    inner = Limit("X.filter", watched.clock.monotonic() + 1.0, PluginTimeout("inner"))
    with pytest.raises(PluginTimeout):
        watched.limits.run(outer, watched.limits.run, inner, watched.wait_forever)
    assert not outer.is_spent


def test_an_exceeded_limit_is_reported(watched):
    told = []
    watched.limits.on_timeout = told.append
    watched.limits.run(watched.limit(), lambda: None)
    with pytest.raises(AttemptTimeout):
        watched.limits.run(watched.limit(), watched.wait_forever)
    assert told == ["attempt"]


def test_an_interruption_cannot_be_swallowed_by_except_exception(watched):
    def stubborn() -> None:
        try:
            watched.wait_forever()
        except Exception:
            pytest.fail("the interruption is an ordinary exception")

    with pytest.raises(AttemptTimeout):
        watched.limits.run(watched.limit(), stubborn)


def test_a_main_thread_that_swallows_the_interruption_is_interrupted_again(watched):
    swallowed = []

    def stubborn() -> None:
        while len(swallowed) < 3:
            try:
                watched.wait_forever()
            except OutOfTime:
                swallowed.append("once more")
        watched.wait_forever()

    with pytest.raises(AttemptTimeout):
        watched.limits.run(watched.limit(), stubborn)
    assert len(swallowed) == 3


def test_the_watching_thread_survives_a_failing_callback(watched, caplog):
    failures = []

    def fail() -> None:
        failures.append("once")
        raise RuntimeError("the loop is closed")

    limit = watched.limit(on_stuck=fail)
    limit.thread = -1
    watched.limits._running.append(limit)
    for seconds in (100.0, GRACE_S):
        watched.clock.advance(seconds)
        wait_until(lambda: limit.interrupted_at is not None)
    wait_until(lambda: failures)
    watched.limits._running.remove(limit)
    with pytest.raises(AttemptTimeout):
        watched.limits.run(watched.limit(), watched.wait_forever)
    assert "Unexpected error while checking time limits" in caplog.text


def wait_until(check) -> None:
    """Let other threads run until something is true."""
    deadline = time.monotonic() + WAIT_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_thread_that_cannot_be_interrupted_is_reported_once(watched):
    let_go, reports = threading.Event(), []

    def stuck() -> None:
        reports.append("stuck")
        let_go.set()

    def hang() -> None:
        watched.clock.advance(100.0)
        while not let_go.is_set():
            pass

    def swallow_everything() -> None:
        while not let_go.is_set():
            try:
                hang()
            except OutOfTime:
                watched.clock.advance(GRACE_S)

    assert in_thread(watched.limits.run, watched.limit(on_stuck=stuck), swallow_everything) is None
    for _ in range(3):
        watched.limits.check()
    assert reports == ["stuck"]


def test_a_late_interruption_has_no_effect(watched):
    """Work that ends at the very moment of its interruption leaves nothing behind in its thread."""
    outcomes = set()
    for _ in range(200):
        limit = watched.limit(0.0, grace_s=0.0)
        try:
            watched.limits.run(limit, lambda: None)
            outcomes.add("ended")
        except AttemptTimeout:
            outcomes.add("interrupted")
    for _ in range(10_000):
        pass  # an interruption that was still on its way would be raised here
    assert outcomes <= {"ended", "interrupted"}


def test_limits_do_not_hold_outside_of_the_with_block():
    watched = Watched()
    limit = watched.limit(0.0)
    assert watched.limits.run(limit, lambda: "done") == "done"
    assert not limit.is_spent
