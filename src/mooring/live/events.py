"""Events about pods, written in the background as upstream's recorder writes them.

``record`` only notes an event; it never waits and never fails. Events within a tenth of a second are written together,
through events.k8s.io/v1, or through the core API where that group is not served. Equal events form a series: the first
is created, the second patches the first with a count of two, further ones are counted here and written when the series
ends (after six minutes without one) or is refreshed (every half hour). A full queue drops the newest event and logs
that.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from mooring.api.clock import Clock, SystemClock
from mooring.api.errors import ApiError
from mooring.api.times import format_micro_time, format_time
from mooring.live.logs import get_logger

log = get_logger("mooring.live.events")

NOTE_LIMIT_BYTES = 1024
FINISH_S = 360.0
REFRESH_S = 1800.0
MAX_TRIES = 12
RETRY_S = 10.0
NO_ANSWER = (0, 502, 504)
"""Codes that mean the API server did not answer; 502 and 504 come from a proxy."""
LINGER_S = 0.1
"""How long an event waits to be batched: nothing depends on its time, and a batch costs less."""
WORKERS = 48
"""How many events are written concurrently: most of the queue, so that they share one write."""
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

_encode = msgspec.json.Encoder().encode
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]++(?:(?:-++|\.)[a-z0-9]++)*+")


class EventClient(Protocol):
    """The part of a REST client that events need; refusals are ``ApiError``, with code 0 if there was no answer."""

    async def get(self, path: str) -> Any: ...

    async def create(self, path: str, body: bytes) -> Any: ...

    async def patch(self, path: str, body: bytes, *, content_type: str) -> Any: ...


class InvolvedObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Reference to the object that an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


class _Event(msgspec.Struct):
    """An event and the series it has become."""

    name: str
    namespace: str
    controller: str
    instance: str
    type: str
    reason: str
    action: str
    note: str
    regarding: InvolvedObject
    related: InvolvedObject | None
    at: float
    count: int = 1
    last_at: float = 0.0
    written_count: int = 0


def truncate_note(note: str, limit: int = NOTE_LIMIT_BYTES) -> str:
    """Cut a note to ``limit`` bytes, as upstream does: the end becomes an ellipsis."""
    if 4 * len(note) <= limit:  # no character takes more than four bytes
        return note
    data = note.encode("utf-8", "replace")
    if len(data) <= limit:
        return note
    return data[: limit - 4].decode("utf-8", "ignore") + " ..."


def event_name(name: str, nanoseconds: int) -> str:
    """Name an event after its object and the time; an impossible name becomes a random one."""
    made = f"{name}.{nanoseconds:x}"
    return made if len(made) <= 253 and _DNS_SUBDOMAIN.fullmatch(made) else str(uuid.uuid4())


class _EventsV1:
    """events.k8s.io/v1 bodies."""

    def path(self, event: _Event) -> str:
        return f"/apis/events.k8s.io/v1/namespaces/{event.namespace}/events"

    def body(self, event: _Event) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": event.name, "namespace": event.namespace},
            "eventTime": format_micro_time(event.at),
            "reportingController": event.controller,
            "reportingInstance": event.instance,
            "action": event.action,
            "reason": event.reason,
            "regarding": event.regarding,
            "note": event.note,
            "type": event.type,
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            "deprecatedLastTimestamp": None,
        }
        if event.count > 1:
            body["series"] = {"count": event.count, "lastObservedTime": format_micro_time(event.last_at)}
        if event.related is not None:
            body["related"] = event.related
        return body

    def series_patch(self, event: _Event) -> dict[str, Any]:
        return {"series": {"count": event.count, "lastObservedTime": format_micro_time(event.last_at)}}


class _CoreV1:
    """core/v1 bodies, as the older recorder writes them."""

    def path(self, event: _Event) -> str:
        return f"/api/v1/namespaces/{event.namespace}/events"

    def body(self, event: _Event) -> dict[str, Any]:
        return {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": event.name, "namespace": event.namespace},
            "involvedObject": event.regarding,
            "reason": event.reason,
            "message": event.note,
            "source": {"component": event.controller},
            "firstTimestamp": format_time(event.at),
            "lastTimestamp": format_time(max(event.at, event.last_at)),
            "count": event.count,
            "type": event.type,
            "eventTime": None,
            "reportingComponent": event.controller,
            "reportingInstance": "",
        }

    def series_patch(self, event: _Event) -> dict[str, Any]:
        return {"count": event.count, "lastTimestamp": format_time(event.last_at)}


class EventWriter(Protocol):
    """Interface for recording events without waiting for their outcome."""

    observers: Sequence[Callable[[InvolvedObject, str, str], None]]  # called with each reason and note

    def wants(self, key: str) -> bool:
        """Report whether anything becomes of events about the pod ``namespace/name``."""
        ...

    def record(
        self,
        regarding: InvolvedObject,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "default-scheduler",
        related: InvolvedObject | None = None,
    ) -> None: ...


class EventRecorder:
    """Records events and writes them later. One recorder serves all profiles of a process."""

    def __init__(
        self,
        client: EventClient,
        *,
        hostname: str,
        queue_size: int = 10_000,
        cache_size: int = 50_000,
        workers: int = WORKERS,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        legacy: bool = False,
    ) -> None:
        self._client = client
        self._hostname = hostname
        self._queue_size = queue_size
        self._cache_size = cache_size
        self._workers = workers
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._sleep = sleep
        self._format: _EventsV1 | _CoreV1 = _CoreV1() if legacy else _EventsV1()
        self._cache: dict[tuple[object, ...], _Event] = {}
        self._queue: deque[_Event] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._busy = 0
        self._is_started = False
        self._alarm: asyncio.TimerHandle | None = None
        self._writing: dict[asyncio.Task[None], None] = {}  # ordered, so that two runs in virtual time do the same
        self._tending: asyncio.Task[None] | None = None
        self._last_nanoseconds = 0
        self._said_dropped_at = float("-inf")
        self.observers: Sequence[Callable[[InvolvedObject, str, str], None]] = ()  # called with each reason and note
        self.dropped = 0
        self.written = 0
        self.failed = 0

    def wants(self, key: str) -> bool:
        return True

    def record(
        self,
        regarding: InvolvedObject,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "default-scheduler",
        related: InvolvedObject | None = None,
    ) -> None:
        """Record an event. Called from the hot path: no I/O, no encoding."""
        for tell in self.observers:
            tell(regarding, reason, note)
        now = self._clock.now()
        key = (type, action, reason, controller, regarding, related)
        known = self._cache.get(key)
        if known is not None:
            known.count += 1
            known.last_at = now
            if known.count == 2:
                self._enqueue(known)
            return
        whole = int(now)
        nanoseconds = max(whole * 1_000_000_000 + int((now - whole) * 1e9), self._last_nanoseconds + 1)
        self._last_nanoseconds = nanoseconds
        name, namespace = event_name(regarding.name, nanoseconds), regarding.namespace or "default"
        instance = f"{controller}-{self._hostname}"
        note = truncate_note(note)
        event = _Event(name, namespace, controller, instance, type, reason, action, note, regarding, related, now)
        if self._enqueue(event):
            if len(self._cache) >= self._cache_size:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = event

    def _enqueue(self, event: _Event) -> bool:
        if len(self._queue) >= self._queue_size:
            self.dropped += 1
            now = self._clock.monotonic()
            if now - self._said_dropped_at >= 60:
                self._said_dropped_at = now
                log.warning("The event queue is full", size=self._queue_size, dropped=self.dropped)
            return False
        self._queue.append(event)
        self._idle.clear()
        if self._alarm is None and self._is_started:
            self._alarm = asyncio.get_running_loop().call_later(LINGER_S, self._write_queued)
        return True

    @property
    def pending(self) -> int:
        """How many events wait to be written."""
        return len(self._queue) + self._busy

    @property
    def known(self) -> int:
        """Number of events remembered in case they are repeated."""
        return len(self._cache)

    async def start(self) -> None:
        """Find out which API to write to, and start writing."""
        if isinstance(self._format, _EventsV1):
            try:
                await self._client.get("/apis/events.k8s.io/v1")
            except ApiError as error:
                if error.code == 404:
                    log.info("events.k8s.io/v1 is not served here; events go to the core API")
                    self._format = _CoreV1()
        self._is_started = True
        self._tending = asyncio.create_task(self._tend(), name="event series")
        self._write_queued()

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything recorded so far is written; false after the timeout."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._write_queued()
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self, drain_s: float = 0.0) -> None:
        """Stop writing, after waiting up to ``drain_s`` for the queue to empty."""
        if drain_s > 0:
            await self.drain(drain_s)
        self._is_started = False
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        tasks = [*self._writing, *([self._tending] if self._tending is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _write_queued(self) -> None:
        """Distribute the queued events over the writers."""
        self._alarm = None
        writers = min(len(self._queue), self._workers - len(self._writing))
        for number in range(writers):
            share = (len(self._queue) + number) // writers
            task = asyncio.create_task(self._work(share), name="events")
            self._writing[task] = None
            task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing.pop(task, None)
        if self._queue and self._is_started:
            if self._alarm is None:
                self._alarm = asyncio.get_running_loop().call_later(LINGER_S, self._write_queued)
        elif not self._writing:
            self._idle.set()

    async def _work(self, share: int) -> None:
        """Write up to ``share`` events, fewer if other writers are faster."""
        for _ in range(share):
            if not self._queue:
                return
            event = self._queue.popleft()
            self._busy += 1
            try:
                await self._write(event)
            except Exception as error:
                self.failed += 1
                log.error(error, "Failed to write an event", reason=event.reason, event=event.name)
            finally:
                self._busy -= 1

    async def _write(self, event: _Event) -> None:
        for _ in range(MAX_TRIES):
            if event.written_count == event.count or await self._try(event):
                return
            await self._sleep(RETRY_S * (1 + 0.25 * self._rng.random()))
        self.failed += 1
        log.error(None, "Giving up on an event", tries=MAX_TRIES, reason=event.reason, event=event.name)

    async def _try(self, event: _Event) -> bool:
        """Write one event once; false if a retry may succeed."""
        count = event.count
        is_series = count > 1 and event.written_count > 0
        try:
            if is_series:
                try:
                    await self._patch(event)
                except ApiError as error:
                    if error.code != 404:
                        raise
                    # The event has expired on the server: create it again, with its count.
                    await self._create(event)
            else:
                await self._create(event)
        except ApiError as error:
            if error.code in NO_ANSWER:
                log.warning("Failed to write an event; retrying later", err=str(error))
                return False
            if error.code == 409 and count > 1:
                event.written_count = max(event.written_count, 1)
                return False
            self.failed += 1
            log.error(error, "Server rejected event (will not retry!)", reason=event.reason, event=event.name)
            return True
        event.written_count = count
        self.written += 1
        return True

    def _create(self, event: _Event) -> Awaitable[Any]:
        return self._client.create(self._format.path(event), _encode(self._format.body(event)))

    async def _patch(self, event: _Event) -> None:
        body = _encode(self._format.series_patch(event))
        path = f"{self._format.path(event)}/{event.name}"
        await self._client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)

    # Series that end or continue

    async def _tend(self) -> None:
        refreshed_at = self._clock.monotonic()
        while True:
            await self._sleep(FINISH_S)
            with contextlib.suppress(Exception):
                self.finish_series()
                if self._clock.monotonic() - refreshed_at >= REFRESH_S:
                    refreshed_at = self._clock.monotonic()
                    self.refresh_series()

    def finish_series(self) -> None:
        """Drop series without an event for six minutes, and write their final count."""
        before = self._clock.now() - FINISH_S
        for key, event in list(self._cache.items()):
            if max(event.at, event.last_at) > before:
                continue
            del self._cache[key]
            if event.count > 1 and event.count != event.written_count:
                self._enqueue(event)

    def refresh_series(self) -> None:
        """Write the counts of continuing series, so that the server keeps them."""
        for event in self._cache.values():
            if event.count > 1 and self._enqueue(event):
                event.written_count = 1
