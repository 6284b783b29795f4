"""Conditions wait for their turn: what a client may send is for bindings first.

A client sends ``clientConnection.qps`` requests per second. Thousands of pods that fit nowhere want as many patches of
their condition, and a pod that fits must not wait behind them. So a patch takes only what bindings leave over, but a
tenth of the rate in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mooring.client.limiter import RateLimiter
from mooring.clock import Clock, SystemClock

SHARE = 10
"""One of so many requests is a patch's, however many bindings there are."""


class Leftovers:
    """``turn`` returns when a request that can wait may be sent; those who wait are served in order."""

    def __init__(
        self,
        limiter: RateLimiter,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limiter = limiter
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._queue = asyncio.Lock()

    async def turn(self) -> None:
        async with self._queue:
            latest = self._clock.monotonic() + SHARE * self._limiter.interval_s
            while (wait_s := self._limiter.wait_s()) > 0:
                left_s = latest - self._clock.monotonic()
                if left_s <= 0:
                    return
                await self._sleep(min(wait_s, left_s))
