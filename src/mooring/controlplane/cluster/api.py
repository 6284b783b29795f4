"""What kubelets, controllers and garbage collection ask of an API server.

The embedded server's ``Api`` and the simulator's ``RemoteApi`` both fulfil it, so that the same controllers work in the
server's own process and over the network.
"""

from __future__ import annotations

import heapq
from asyncio import Future
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mooring.api.clock import Clock, VirtualClock
from mooring.controlplane.storage.store import Store, StoredEntry
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.objects import Object


class ClusterApi(Protocol):
    """Reads come from ``store``; writes may be on their way when a call returns. Refusals are StatusErrors."""

    @property
    def store(self) -> Store:
        """The objects as they are known here, for reading and subscribing only."""

    @property
    def clock(self) -> Clock: ...

    def timestamp(self) -> str: ...

    def create(self, kind: Kind, namespace: str, obj: Object) -> StoredEntry:
        """Create an object. Where the server is elsewhere, the entry shows what was sent."""

    def modify(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Object], object], *, subresource: str = ""
    ) -> StoredEntry:
        """Read an object, let ``change`` work on a private copy in place, and write it back."""

    def delete(
        self, kind: Kind, namespace: str, name: str, delete_options: Mapping[str, Any] | None = None
    ) -> tuple[StoredEntry, bool]:
        """Delete an object or begin to; also says whether it is known to be gone."""

    def carry_out(self, work: Callable[[], None]) -> Future[None] | None:
        """Do some work; the future is done when every write in it is answered. None: they are answered already."""


# --------------------------------------------------------------------------------------------------------------------
# Timers for background work: an asyncio loop in real or virtual time, or a plain list for tests.


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    """The two things controllers ask of time; every asyncio loop offers them."""

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Timer: ...

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer: ...


class _Entry:
    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., Any] | None = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None


class DiscreteTimers:
    """A deterministic event loop without asyncio: time stands still until ``advance`` lets it pass."""

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
        """Do everything that is due now, and what follows from it at once."""
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


# --------------------------------------------------------------------------------------------------------------------
# How long a failed container waits before its kubelet starts it again: at once, then 10 s, 20 s … 5 min.
#
# A container that has run for ten minutes counts as well: its next failure is a first one.

FIRST_S, MOST_S = 10.0, 300.0
WELL_AFTER_S = 2 * MOST_S


@dataclass(slots=True)
class _Loop:
    uid: str
    wait_s: float = 0.0  # after the next failure
    started_at: float = float("-inf")  # when the container was last started again
    due_at: float = float("-inf")  # when it may be started again; it is not waiting if that is over


class CrashLoops:
    """The pods whose containers have failed, by ``namespace/name``. Times are the clock's."""

    def __init__(self) -> None:
        self._loops: dict[str, _Loop] = {}

    def failed(self, key: str, uid: str, now: float) -> float:
        """The containers of a pod have failed; returns how long they wait."""
        loop = self._loops.get(key)
        if loop is None or loop.uid != uid or now - loop.started_at > WELL_AFTER_S:
            loop = self._loops[key] = _Loop(uid)
        loop.due_at = now + loop.wait_s
        return loop.wait_s

    def restarted(self, key: str, now: float) -> None:
        """They run again; the next failure will make them wait twice as long."""
        loop = self._loops.get(key)
        if loop is not None:
            loop.wait_s = min(2 * loop.wait_s, MOST_S) if loop.wait_s else FIRST_S
            loop.started_at = now

    def left_s(self, key: str, now: float) -> float:
        """How long they still wait."""
        loop = self._loops.get(key)
        return 0.0 if loop is None else max(0.0, loop.due_at - now)

    def forget(self, key: str) -> None:
        """The pod has ended, or is gone."""
        self._loops.pop(key, None)
