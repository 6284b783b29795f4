"""Clocks: every part that needs time takes one."""

from __future__ import annotations

import time
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch, and monotonic seconds."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clock. It is read several times in every decision, so its methods are the library's own."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class UnstoppableClock(SystemClock):
    """A clock whose monotonic seconds include suspension of the machine, if supported: for leases."""

    monotonic = staticmethod(partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)))


class VirtualClock:
    """A clock that moves only when it is advanced."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"a clock cannot go back: {seconds}")
        self._now += seconds

    def advance_to(self, when: float) -> None:
        self._now = max(self._now, when)
