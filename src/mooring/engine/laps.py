"""How long each extension point of an attempt took, for the profile's observer if it has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.clock import Clock
from mooring.framework.observer import CycleObserver
from mooring.framework.status import CODE_NAMES, Status


class Laps:
    """A stopwatch: each call tells the observer of the time since the call before."""

    __slots__ = ("_clock", "_observer", "_since")

    def __init__(self, observer: CycleObserver | None, clock: Clock) -> None:
        self._observer = observer
        self._clock = clock
        self._since = 0.0 if observer is None else clock.monotonic()

    def restart(self) -> None:
        """Leave out what came since the last call: it belongs to no extension point."""
        if self._observer is not None:
            self._since = self._clock.monotonic()

    def point(self, name: str, status: Status, plugins: Sequence[Any] = (), times: int = 0) -> None:
        """An extension point is done; these plugins of it were asked so many times."""
        observer = self._observer
        if observer is not None:
            now = self._clock.monotonic()
            observer.extension_point(name, CODE_NAMES[status.code], now - self._since)
            self._since = now
            if times:
                observer.evaluated(name, plugins, times)

    def hint(self, row: int | None, flushed: str) -> None:
        """Batching was asked for a node."""
        if self._observer is not None:
            self._observer.node_hint(is_hinted=row is not None, flushed=flushed, seconds=self._lap())

    def rescored(self, seconds: float) -> None:
        """Batching scored the last node again."""
        if self._observer is not None:
            self._observer.batch_rescored(seconds)

    def stored(self, taken: bool | None, flushed: str) -> None:
        """Batching was told of a placement."""
        if self._observer is not None:
            self._observer.batch_stored(taken, flushed, self._lap())

    def _lap(self) -> float:
        now = self._clock.monotonic()
        seconds, self._since = now - self._since, now
        return seconds
