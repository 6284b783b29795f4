"""Backoff: how long a client waits before it tries again."""

from __future__ import annotations

import random

from mooring.clock import Clock


class Backoff:
    """Gives pauses that double each time, plus a random part of up to the same length.

    After ``reset_s`` without a pause the first pause is used again.
    """

    def __init__(
        self, first_s: float = 0.8, limit_s: float = 30.0, reset_s: float = 120.0, *, clock: Clock, rng: random.Random
    ) -> None:
        self._first_s, self._limit_s, self._reset_s = first_s, limit_s, reset_s
        self._clock, self._rng = clock, rng
        self._next_s = first_s
        self._asked_at = clock.monotonic()

    def next(self) -> float:
        now = self._clock.monotonic()
        if now - self._asked_at > self._reset_s:
            self._next_s = self._first_s
        self._asked_at = now
        pause_s, self._next_s = self._next_s, min(self._limit_s, self._next_s * 2)
        return pause_s * (1 + self._rng.random())

    def soon(self) -> float:
        """Return a first pause, and do not double the next one: for tries that put no load on the server."""
        return self._first_s * (1 + self._rng.random())

    def reset(self) -> None:
        self._next_s = self._first_s
