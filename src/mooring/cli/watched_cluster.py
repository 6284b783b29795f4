"""Watching another cluster (get, list and watch only), and a record of what happens in it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from mooring.api.clock import SystemClock
from mooring.api.errors import ApiError, MooringError
from mooring.cli.streams import say
from mooring.live.informers import Listener, connect
from mooring.net.informer import InformerSet
from mooring.net.rest import RestClient
from mooring.record.files import WholeWrites, create
from mooring.record.recorder import Immediately
from mooring.record.watching import WatchRecorder

if TYPE_CHECKING:
    from mooring.api.meta import Object
    from mooring.core.config.features import Features
    from mooring.core.config.types import KubeSchedulerConfiguration

SYNC_S = 30.0
LOOK_S = 0.5
PATIENCE_S = 5.0
"""A server that is back within this time was restarted, which is not reported."""


class ClusterWatcher(Listener, Protocol):
    """Receives changes, and is notified once it knows every existing object."""

    is_synced: bool


class WatchReach:
    """Tracks whether the cluster can be reached: otherwise a lost cluster looks like a quiet one."""

    def __init__(self) -> None:
        self.lost_s = 0.0  # in all
        self._since: float | None = None
        self._lost_before_s = 0.0
        self._is_told = False

    def look(self, trouble: str, now: float) -> str:
        """Process why the cluster cannot be reached, if so; return what to report, once, and once when it is over."""
        if not trouble:
            was_told, self._is_told = self._is_told, False
            self._since, self._lost_before_s = None, self.lost_s
            return "The cluster is within reach again." if was_told else ""
        if self._since is None:
            self._since = now
        lost_s = now - self._since
        self.lost_s = self._lost_before_s + lost_s
        if self._is_told or lost_s < PATIENCE_S:
            return ""
        self._is_told = True
        return f"The cluster is out of reach for {lost_s:.0f}s, and is tried again and again: {trouble}"


@asynccontextmanager
async def watched(client: RestClient, *watchers: ClusterWatcher) -> AsyncIterator[tuple[InformerSet, WatchReach]]:
    """Forward changes of the cluster to the watchers; the block begins when every existing object is known."""
    informers, reach = InformerSet(client, complains_at=logging.INFO), WatchReach()
    for watcher in watchers:
        connect(informers, watcher)
    informers.start()
    looking: asyncio.Task[None] | None = None
    try:
        await _first_lists(informers)
        for watcher in watchers:
            watcher.is_synced = True
        looking = asyncio.create_task(_look(informers, reach), name="reach")
        yield informers, reach
    finally:
        if looking is not None:
            looking.cancel()
        await informers.stop()


async def _first_lists(informers: InformerSet) -> None:
    """Return when every existing object is known; raise ApiError as soon as that has become impossible."""
    clock = SystemClock()
    until = clock.monotonic() + SYNC_S
    while not await informers.wait_for_sync(LOOK_S):
        refused = informers.refused()
        if refused:
            raise ApiError(f"{refused}; get, list and watch are needed (deploy/shadow has such a role)")
        if clock.monotonic() >= until:
            missing = ", ".join(informers.missing())
            raise ApiError(f"could not list {missing} within {SYNC_S:g}s; are you allowed to get, list and watch them?")


async def _look(informers: InformerSet, reach: WatchReach) -> None:
    clock = SystemClock()
    while True:
        text = reach.look(informers.trouble, clock.monotonic())
        if text:
            say(text)
        await asyncio.sleep(LOOK_S)


class WatchedRecord:
    """Receives objects as an informer's listener, and keeps listening after a failed write."""

    is_synced = False

    def __init__(
        self,
        path: str,
        max_bytes: int,
        config: KubeSchedulerConfiguration,
        features: Features,
        *,
        is_redacted: bool = True,
    ) -> None:
        self.failure: MooringError | None = None
        self._max_bytes = max_bytes
        self._sink = WholeWrites(create(path))
        with contextlib.ExitStack() as undo:
            undo.callback(self._sink.close)
            self._output = Immediately(self._sink)
            self._recorder = WatchRecorder(self._output, config, features, time.time, is_redacted=is_redacted)
            undo.pop_all()
        self.is_open = True

    @property
    def attempts(self) -> int:
        return self._recorder.attempts

    def put(self, obj: Object) -> None:
        self._recorder.is_synced = self.is_synced
        self._do(lambda: self._recorder.put(obj))

    def update(self, old: Object, new: Object) -> None:
        self.put(new)

    def delete(self, obj: Object) -> None:
        self._do(lambda: self._recorder.delete(obj))

    def note(self, text: str) -> None:
        """Add a marker."""
        self._do(lambda: self._recorder.note(text, "shadow"))

    def flush(self) -> None:
        """Make everything readable; end the record if it is large enough."""
        self._do(self._output.flush)
        if self.is_open and self._output.size >= self._max_bytes:
            say(f"The record has {self._max_bytes >> 20} MiB and ends here; see --max-size.")
            self.close()

    def close(self) -> None:
        """Close it; the caller checks for a ``failure``."""
        self._do(self._recorder.close)
        self.is_open = False

    def _do(self, write: Callable[[], None]) -> None:
        if not self.is_open:
            return
        try:
            write()
        except MooringError as error:
            self.failure = error
            self.is_open = False
            self._sink.close()
