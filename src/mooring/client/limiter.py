"""A token bucket: how many requests per second a client allows itself."""

from __future__ import annotations

from mooring.clock import Clock, SystemClock


class RateLimiter:
    """Lets ``burst`` requests through at once and ``qps`` per second after that; a qps below zero lifts the limit.

    Callers are served in the order in which they come: each takes its token at once, on credit, and sleeps until the
    bucket would have had it.
    """

    def __init__(self, qps: float = 50.0, burst: int = 100, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._tokens = self._burst
        self._filled_at = self._clock.monotonic()

    @property
    def interval_s(self) -> float:
        """The time between two requests once the burst is used up."""
        return 0.0 if self._qps <= 0 else 1.0 / self._qps

    def reserve(self) -> float:
        """Take a token and say how many seconds from now it may be used."""
        if self._qps <= 0:
            return 0.0
        self._fill()
        left = self._tokens = self._tokens - 1.0
        return 0.0 if left >= 0 else -left / self._qps

    def wait_s(self) -> float:
        """Say how many seconds from now a token will be there, without taking it."""
        if self._qps <= 0:
            return 0.0
        self._fill()
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) / self._qps

    def _fill(self) -> None:
        now = self._clock.monotonic()
        tokens = self._tokens + (now - self._filled_at) * self._qps
        self._tokens = tokens if tokens < self._burst else self._burst
        self._filled_at = now
