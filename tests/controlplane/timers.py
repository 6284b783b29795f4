"""A deterministic event loop for controllers, without asyncio."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from mooring.api.clock import VirtualClock
from mooring.controlplane.cluster.base import Timer


class _Entry:
    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., Any] | None = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None


class DiscreteTimers:
    """A deterministic event loop without asyncio: time passes only in ``advance``."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, _Entry]] = []
        self._count = 0

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Timer:
        return self.call_later(0.0, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        entry = _Entry(callback, args)
        self._count += 1
        heapq.heappush(self._heap, (self.clock.monotonic() + max(delay, 0.0), self._count, entry))
        return entry

    def settle(self) -> None:
        """Do everything that is due now, and its immediate consequences."""
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end = self.clock.monotonic() + seconds
        while self._heap and self._heap[0][0] <= end:
            when, _, entry = heapq.heappop(self._heap)
            self.clock.advance_to(when)
            if entry.callback is not None:
                entry.callback(*entry.args)
        self.clock.advance_to(end)
