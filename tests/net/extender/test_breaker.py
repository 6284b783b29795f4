"""When an extender that does not answer is left alone, and when it is tried again."""

from __future__ import annotations

import pytest

from mooring.core.framework.extender import ExtenderError
from mooring.net.extender.client import MAX_PAUSE_S, CircuitBreaker


class Bench:
    """A breaker and its clock. Calls are "." (answered) and "x" (silent)."""

    def __init__(self, failures: int = 3) -> None:
        self.now = 0.0
        self.changes: list[tuple[bool, str]] = []
        self.breaker = CircuitBreaker(
            "ext", lambda: self.now, failures=failures, pause_s=5, on_change=lambda *change: self.changes.append(change)
        )

    def call(self, outcomes: str) -> None:
        for outcome in outcomes:
            self.breaker.enter()
            if outcome == ".":
                self.breaker.answered()
            else:
                self.breaker.silent("timeout")

    @property
    def lets_pass(self) -> bool:
        try:
            self.breaker.enter()
        except ExtenderError:
            return False
        self.breaker.silent("timeout")  # a trial that fails
        return True


@pytest.mark.parametrize(
    ("outcomes", "is_open"),
    [
        pytest.param("", False, id="at first"),
        pytest.param("xx", False, id="one short of the limit"),
        pytest.param("xxx", True, id="the limit"),
        pytest.param("xx.xx", False, id="an answer between"),
        pytest.param("xx.xxx", True, id="the limit after an answer"),
    ],
)
def test_only_silence_in_a_row_opens_it(outcomes: str, is_open: bool) -> None:
    bench = Bench()
    bench.call(outcomes)
    assert bench.breaker.is_open is is_open
    assert [change[0] for change in bench.changes] == [True] * is_open


def test_the_error_while_the_breaker_is_open() -> None:
    bench = Bench()
    bench.call("xxx")
    bench.now = 2.0
    with pytest.raises(ExtenderError) as caught:
        bench.breaker.enter()
    assert str(caught.value) == (
        'extender "ext" is not asked: 3 calls in a row got no answer, the last: timeout; it is tried again in 3s'
    )
    assert bench.changes == [(True, "3 calls in a row got no answer, the last: timeout")]


def test_one_call_at_a_time_tries_again_when_the_pause_is_over() -> None:
    bench = Bench()
    bench.call("xxx")
    bench.now = 4.9
    assert not bench.lets_pass
    bench.now = 5.0
    bench.breaker.enter()
    with pytest.raises(ExtenderError):
        bench.breaker.enter()
    bench.breaker.answered()
    assert not bench.breaker.is_open and bench.changes[-1] == (False, "it answers again")
    bench.call("..")


def test_the_pause_doubles_up_to_a_minute_and_is_short_again_after_an_answer() -> None:
    bench = Bench()
    bench.call("xxx")
    pauses = []
    for _ in range(6):
        start = bench.now
        while not bench.lets_pass:
            bench.now += 1.0
        pauses.append(bench.now - start)
    assert pauses == [5, 10, 20, 40, MAX_PAUSE_S, MAX_PAUSE_S]
    bench.now += MAX_PAUSE_S
    bench.call(".")
    bench.call("xxx")
    bench.now += 5.0
    assert bench.lets_pass
    assert [is_open for is_open, _ in bench.changes] == [True, False, True]
