"""A breaker: an extender that does not answer is left alone for a while, so that it cannot stall every pod."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mooring.framework.extender import ExtenderError

FAILURES = 5
PAUSE_S = 5.0
MAX_PAUSE_S = 60.0


class CircuitBreaker:
    """Opens after ``failures`` calls in a row that got no answer; then one call at a time tries again.

    Only silence counts (refused, reset, timed out): an extender that answers with an error is awake. The pause
    doubles while it stays silent, up to a minute.
    """

    def __init__(
        self,
        name: str,
        now: Callable[[], float],
        *,
        failures: int = FAILURES,
        pause_s: float = PAUSE_S,
        on_change: Callable[[bool, str], None] = lambda is_open, why: None,
    ) -> None:
        self._name = name
        self._now = now
        self._limit = failures
        self._first_pause_s = pause_s
        self._on_change = on_change
        self._lock = threading.Lock()
        self._failed = 0
        self._pause_s = pause_s
        self._closed_again_at = 0.0
        self._is_trying = False
        self._last = ""

    @property
    def is_open(self) -> bool:
        return self._failed >= self._limit

    def enter(self) -> None:
        """Let a call pass, or refuse it at once while the breaker is open."""
        if not self.is_open:
            return
        with self._lock:
            wait_s = self._closed_again_at - self._now()
            if wait_s <= 0 and not self._is_trying:
                self._is_trying = True
                return
        raise ExtenderError(
            f'extender "{self._name}" is not asked: {self._failed} calls in a row got no answer, '
            f"the last: {self._last}; it is tried again in {max(wait_s, 0):.0f}s"
        )

    def answered(self) -> None:
        if not self._failed:
            return
        with self._lock:
            was_open = self.is_open
            self._failed = 0
            self._pause_s = self._first_pause_s
            self._is_trying = False
        if was_open:
            self._on_change(False, "it answers again")

    def silent(self, why: str) -> None:
        with self._lock:
            self._failed += 1
            self._last = why
            opens = self._failed == self._limit
            if self.is_open:
                if not opens:
                    self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
                self._closed_again_at = self._now() + self._pause_s
            self._is_trying = False
        if opens:
            self._on_change(True, f"{self._limit} calls in a row got no answer, the last: {why}")
