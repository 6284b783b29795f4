"""Timers without an event loop: in order, once, and only when time passes."""

from __future__ import annotations

from mooring.api.clock import VirtualClock
from tests.controlplane.timers import DiscreteTimers


def test_timers_ring_in_order_at_their_time() -> None:
    clock, rung = VirtualClock(100), []
    timers = DiscreteTimers(clock)
    for delay in (3.0, 1.0, 2.0):
        timers.call_later(delay, lambda delay=delay: rung.append((clock.monotonic(), delay)))  # type: ignore[misc]
    timers.advance(2.5)
    assert rung == [(101.0, 1.0), (102.0, 2.0)]
    assert clock.monotonic() == 102.5


def test_timers_of_one_moment_ring_in_the_order_they_were_set() -> None:
    timers, rung = DiscreteTimers(VirtualClock()), []
    for name in "abc":
        timers.call_later(1.0, rung.append, name)
    timers.advance(1.0)
    assert rung == ["a", "b", "c"]


def test_a_timer_that_is_cancelled_does_not_ring() -> None:
    timers, rung = DiscreteTimers(VirtualClock()), []
    timers.call_later(1.0, rung.append, "a").cancel()
    timers.advance(5.0)
    assert rung == []


def test_settling_runs_due_timers_and_their_immediate_consequences() -> None:
    timers, rung = DiscreteTimers(VirtualClock()), []
    timers.call_soon(lambda: timers.call_soon(rung.append, "second"))
    timers.call_later(1.0, rung.append, "later")
    timers.settle()
    assert rung == ["second"]


def test_a_delay_in_the_past_is_now() -> None:
    timers, rung = DiscreteTimers(VirtualClock()), []
    timers.call_later(-5.0, rung.append, "a")
    timers.settle()
    assert rung == ["a"]
