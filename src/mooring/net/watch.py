"""The reflector: keeps all objects of one kind up to date with lists and watches.

```
            ┌───── 410, or another error that asking again cannot change: relist ◀───────────┐
            ▼                                                                                 │
 streaming list ──initial-events-end──▶ events of the same stream ──cut──▶ watch from the last version ──▶ …
            │ refused (400, 422, …), or failed (5xx)                             ▲
            └──▶ list in pages ──────────────────────────────────────────────────┘
```

A broken stream is resumed immediately from the last version seen, in events or in bookmarks. Nothing is lost by a break
in the middle of an object: incomplete data never counted. A watch that fails immediately three times in a row, although
the server can be reached, is abandoned as well: everything is listed again.

``failing_s`` is for how long nothing has succeeded: no list completed, and no stream stayed open. Health and a metric
show it.

A watch resumes from ``last_version``: that of the last list, or of the last event that the sink has processed. It
advances after ``apply`` has returned, so a failure before that repeats events instead of losing them, and the informer
drops duplicates. A list asks for at least the newest version seen (``_newest_version``): an answer from a lagging cache
could bring back deleted objects. ``_is_version_lost`` lifts that, once, when the server cannot serve that version: the
next list is a consistent read without one.

Versions can go backwards: an API server whose etcd was restored from a backup has an older one than it announced. It
accepts a watch from a future version, and is silent until it reaches that. So before a stream is resumed the newest
version is read, and if that is older than ours, everything is listed again.

| before the next try | client-go | here |
|---|---|---|
| after a failure | 0.8 s, doubled each time, to 30 s; up to as much again by chance | the same |
| connection refused | the same | 0.8 to 1.6 s each time: a server that is being restarted is found soon |
| 410 | the same | no pause, if the last 410 was more than 30 s ago |
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from mooring.api.clock import Clock, SystemClock
from mooring.api.errors import ApiError
from mooring.net.errors import (
    ConnectionFailed,
    Forbidden,
    Gone,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestTimeout,
    ServerError,
    TooManyRequests,
    Unreachable,
    VersionTooLarge,
)
from mooring.net.http1_connection import Reading
from mooring.net.lists import ListReader, read_page
from mooring.net.pool import Backoff
from mooring.net.rest import RestClient
from mooring.net.watch_events import ApiObject, EventReader, Garbled, LineSplitter, ResourceKind

log = logging.getLogger("mooring.net.watch")

PAGE_SIZE = 500
MIN_WATCH_S = 300
"""A watch has a timeout of 5 to 10 minutes, so that servers behind a load balancer share the load."""
INITIAL_SILENCE_S = 30.0
"""After this time without a byte of a streaming list, the client lists in pages: the server does not support it."""
SILENCE_S = 75.0
"""A watch that is silent for this long, or up to twice as long, is resumed.

API servers send a bookmark every minute. A hanging proxy sends nothing, and its kernel still acknowledges packets.
"""
NOT_SERVED_RECHECK_S = 300.0
LASTING_S = 1.0
"""A stream that stays open for longer counts as successful, even without an event."""
FRUITLESS = 3
"""After this many consecutive streams that ended immediately, everything is listed again."""
MAY_PASS = frozenset((401, 403, 408, 425, 429))
"""4xx errors that may be temporary: a token is renewed, a permission is granted, a queue becomes shorter.

Any other would be repeated for an unchanged request. Only the version changes between two requests, so the next one is
sent without a version.
"""
RELIST_QUIET_S = 30.0
"""A 410 that comes this long after the last one is followed by a new list immediately."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


T = TypeVar("T", bound=ApiObject)
T_contra = TypeVar("T_contra", bound=ApiObject, contravariant=True)


class WatchSink(Protocol[T_contra]):
    """Receiver of objects and events; the informer is one. Both calls may let other tasks run."""

    async def replace(self, objects: Sequence[T_contra], resource_version: str) -> None:
        """Take ``objects`` as the complete state at ``resource_version``."""
        ...

    async def apply(self, events: Sequence[tuple[str, T_contra]]) -> None:
        """Take ADDED, MODIFIED and DELETED events, in order."""
        ...


class _StreamingRefused(Exception):
    """The server does not support streaming lists."""


class _StreamingFailed(_StreamingRefused):
    """The server failed to complete a streaming list, temporarily or, with an etcd before 3.4.25, always."""


class _Restored(Exception):
    """The server was restored to an older state."""


class Reflector(Generic[T]):
    """Feeds a sink with one kind's objects until cancelled. Every failure is logged and retried."""

    def __init__(
        self,
        client: RestClient,
        kind: ResourceKind[T],
        sink: WatchSink[T],
        *,
        streaming: bool = True,
        page_size: int = PAGE_SIZE,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_restored: Callable[[], None] = lambda: None,
        on_current: Callable[[], None] = lambda: None,
        complains_at: int = logging.WARNING,
    ) -> None:
        """``on_restored`` is called when the server was restored to an older state, before the sink is.

        ``on_current`` is called each time the sink is known not to be ahead of the server. ``complains_at`` is the log
        level of failures: lower where another component reports ``trouble``.
        """
        self.kind = kind
        self._versions = kind.at_each_version()
        self._version = 0  # which of them is asked for
        self.last_version = ""
        self._ahead_version = ""  # of a list merged beside the watch, which may be behind it
        self.is_served = True
        self.trouble = ""  # why the watch is not open; empty while it is
        self.is_refused = False  # whether permission is missing
        self._complains_at = complains_at
        self._client = client
        self._sink = sink
        self._events = EventReader(kind)
        self._streaming = streaming
        self._page_size = page_size
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._sleep = sleep
        self._backoff = Backoff(clock=self._clock, rng=self._rng)
        self._is_version_lost = False
        self.is_current = True  # whether the sink is not ahead of the server, as far as is known
        self._on_restored, self._on_current = on_restored, on_current
        self._gone_at = float("-inf")
        self._complaint = ""
        self._failing_since: float | None = None  # None: the last try succeeded, or the first one is running
        self._opened_at: float | None = None  # when the current stream was opened
        self._has_lasted = False  # whether the last stream was open for a while

    @property
    def failing_s(self) -> float:
        """Seconds without success; 0 if all is well. Callable in any thread."""
        since, opened_at = self._failing_since, self._opened_at
        now = self._clock.monotonic()
        if since is None or (opened_at is not None and now - opened_at > LASTING_S):
            return 0.0
        return now - since

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                pause_s = await self._round()
            except Exception:
                # A bug of ours must not end the watch for good.
                log.exception("%s: unexpected error, listing again", self.kind.name)
                self._fails()
                pause_s = self._backoff.next()
            if pause_s > 0:
                await self._sleep(pause_s)

    async def _round(self) -> float:
        """Synchronise and watch until an error; return the pause before the next round."""
        try:
            await self._synchronise()
            return await self._watch()
        except Gone as error:
            log.info("%s: our version is too old, listing again: %s", self.kind.name, error)
            self._fails()
            return self._after_gone()
        except _Restored as error:
            self._complain(f"listing again: {error}")
            return 0.0
        except (ApiError, Garbled) as error:
            # Every server has the core kinds. A 404 for one of them comes from a proxy.
            if isinstance(error, NotFound) and "/" in self.kind.group_version:
                return await self._not_served()
            self._complain(f"cannot list or watch: {error}")
            self.is_refused = isinstance(error, Forbidden)
            if isinstance(error, ApiError) and _is_final(error):
                self._is_version_lost = True
            return self._pause_after(error)

    def _pause_after(self, failure: Exception | None) -> float:
        is_no_load = isinstance(failure, Unreachable) or (isinstance(failure, RequestTimeout) and not failure.was_sent)
        return self._backoff.soon() if is_no_load else self._backoff.next()

    def _after_gone(self) -> float:
        """Return the pause after a 410: none after the first one, which mostly means that the server was restarted."""
        now = self._clock.monotonic()
        is_first = now - self._gone_at > RELIST_QUIET_S
        self._gone_at = now
        if not is_first:
            return self._backoff.next()
        self._backoff.reset()
        return 0.0

    def _complain(self, text: str, level: int | None = None) -> None:
        """Log a failure; a repeated one goes to the debug log only."""
        level = logging.DEBUG if text == self._complaint else level or self._complains_at
        log.log(level, "%s: %s", self.kind.name, text)
        self._complaint = self.trouble = text
        self.is_refused = False
        self._fails()

    def _fails(self) -> None:
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()

    def _gets_through(self) -> None:
        self._failing_since = None
        self._complaint = ""

    async def _not_served(self) -> float:
        """Switch to the next version of the kind; after the last one, count it as not served."""
        self.trouble, self.is_refused = "", False
        self._gets_through()
        self._is_version_lost = True  # it may be the version that is not found, and a kind that comes is new
        self._version = (self._version + 1) % len(self._versions)
        self.kind = self._versions[self._version]
        if self._version:
            return 0.0
        if self.is_served:
            self.is_served = False
            log.debug("%s: not served by this API server, skipped", self.kind.name)
            await self._replace((), "")
        return NOT_SERVED_RECHECK_S

    # The list

    async def _synchronise(self) -> None:
        if self._streaming:
            try:
                await self._stream_list()
                return
            except _StreamingRefused as refusal:
                log.info("%s: no streaming lists here, listing in pages: %s", self.kind.name, refusal)
                self._streaming = isinstance(refusal, _StreamingFailed)
        await self._list()

    async def _stream_list(self) -> None:
        query = {"resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true"}
        if self._newest_version and not self._is_version_lost:
            query["resourceVersion"] = self._newest_version
        initial: dict[tuple[str, str], T] | None = {}
        try:
            async with contextlib.aclosing(self._stream(query, lambda: initial is not None)) as stream:
                async for lines in stream:
                    if initial is not None:
                        ended = self._read_initial(lines, initial)
                        if not ended:
                            await asyncio.sleep(0)
                            continue
                        self._synchronised()
                        await self._replace(list(initial.values()), self.last_version)
                        initial = None
                        lines = lines[ended:]
                    await self._take(lines)
        except (ApiError, Garbled) as error:
            if initial is None:
                if isinstance(error, ConnectionFailed | Garbled):
                    return  # the list is complete; the watch continues from where the stream broke
                raise
            self._why_not_streamed(error, "resourceVersion" in query)
            raise
        else:
            if initial is not None:
                raise ConnectionFailed("the stream ended before the last object", was_sent=True)

    def _why_not_streamed(self, error: Exception, has_version: bool) -> None:
        """Raise _StreamingRefused if a streaming list failed in a way that a list in pages may not."""
        if isinstance(error, Gone | VersionTooLarge):
            self._is_version_lost = True
        elif isinstance(error, ServerError | Garbled):
            raise _StreamingFailed(str(error)) from None
        elif isinstance(error, MethodNotAllowed | NotAcceptable):
            raise _StreamingRefused(str(error)) from None
        elif isinstance(error, ApiError) and _is_final(error) and not isinstance(error, NotFound) and not has_version:
            # With a version that may be what was refused; without one the server shows whether it streams lists.
            raise _StreamingRefused(str(error)) from None

    def _read_initial(self, lines: Sequence[bytes], initial: dict[tuple[str, str], T]) -> int:
        """Collect initial events. Return how many lines were read up to the end mark, or 0 if it has not arrived."""
        for number, line in enumerate(lines, 1):
            type_, item, mark = self._events.read(line)
            if mark is not None:
                if (mark.annotations or {}).get(INITIAL_EVENTS_END) != "true":
                    raise _StreamingRefused("a bookmark came before the end of the initial events")
                self._listed_at(mark.resource_version)
                return number
            if item is None:
                continue
            meta = item.metadata
            if type_ == "DELETED":
                initial.pop((meta.namespace, meta.name), None)
            else:
                initial[meta.namespace, meta.name] = item
        return 0

    async def _list(self) -> None:
        version = "" if self._is_version_lost else (self._newest_version or "0")
        # A server takes a limit together with an exact version as "exactly this version", which may be gone.
        limit = self._page_size if version in ("", "0") else 0
        page = ListReader(self._events)
        token = ""
        while True:
            query = self.kind.selectors()
            if limit:
                query["limit"] = str(limit)
            if token:
                query["continue"] = token
            elif version:
                query["resourceVersion"] = version
            try:
                await self._client.get(self.kind.path, query, into=page)
            except Gone as error:
                if not token:
                    self._version_refused(error)
                    raise
                # The pages were interrupted by a compaction: one big list instead.
                page.restart()
                token, limit = "", 0
                continue
            except ServerError as error:
                self._version_refused(error)
                raise
            meta = await page.end()
            token = meta.continue_
            if not token:
                break
        self._listed_at(meta.resource_version)
        self._synchronised()
        await self._replace(page.objects, meta.resource_version)

    def _listed_at(self, version: str) -> None:
        if self._is_behind(version):
            if not self._is_version_lost:  # another list that the cache did not have yet was merged
                self._is_version_lost = True  # so the next one is requested without a version, and is the newest
                raise _Restored(f"the list is of version {version}, and there was one of {self._newest_version}")
            self._on_restored()
        self.last_version = version
        self._ahead_version = ""

    @property
    def _newest_version(self) -> str:
        """Return the newest version announced. No list may be older: it would bring back deleted objects."""
        return self._ahead_version if _is_older(self.last_version, self._ahead_version) else self.last_version

    async def _replace(self, objects: Sequence[T], version: str) -> None:
        await self._sink.replace(objects, version)
        self.is_current = True
        self._on_current()

    def _is_behind(self, version: str) -> bool:
        """Report whether the version of a consistent read is older than one announced before."""
        return _is_older(version, self._newest_version)

    async def _look_for_restore(self) -> None:
        """Check that the server was not restored since the last stream broke."""
        version = await self.version_now()
        if self._is_behind(version):
            self._is_version_lost = True
            self._on_restored()
            raise _Restored(f"the API server is at version {version}, older than {self._newest_version}")
        self.is_current = True
        self._on_current()

    async def version_now(self) -> str:
        """Return the newest version of this kind's list, by a consistent read that bypasses caches."""
        query = {**self.kind.selectors(), "limit": "1"}
        answer = await self._client.get(self.kind.path, query, limited=False)  # decisions wait for it
        return read_page(answer.body).metadata.resource_version

    async def list_now(self) -> tuple[list[T], str]:
        """Return every existing object and the version of the list, by a consistent read."""
        page = ListReader(self._events)
        query, version = {**self.kind.selectors(), "limit": str(self._page_size)}, ""
        while True:
            try:
                await self._client.get(self.kind.path, query, limited=False, into=page)
            except Gone:
                if "continue" not in query:
                    raise
                page.restart()
                query, version = dict(self.kind.selectors()), ""  # one big list instead of pages
                continue
            meta = await page.end()
            version = version or meta.resource_version
            if not meta.continue_:
                if _is_older(self._newest_version, version):
                    self._ahead_version = version
                return page.objects, version
            query["continue"] = meta.continue_

    def _synchronised(self) -> None:
        self._is_version_lost = False
        self._gets_through()
        if not self.is_served:
            self.is_served = True
            log.info("%s: now served", self.kind.name)

    def _version_refused(self, error: ApiError) -> None:
        """Note that the server cannot serve the known version: it is gone, or the server is behind."""
        if isinstance(error, Gone | VersionTooLarge):
            self._is_version_lost = True

    # The watch

    async def _watch(self) -> NoReturn:
        """Watch from the last version on, resuming after every break, until the server says that it is too old."""
        fruitless = 0
        while True:
            version, seen, self._has_lasted = self.last_version, False, False
            failure: Exception | None = None
            try:
                if not self.is_current:
                    await self._look_for_restore()
                async with contextlib.aclosing(self._stream({"resourceVersion": version})) as stream:
                    async for lines in stream:
                        await self._take(lines)
                        seen = True
            except (ConnectionFailed, TooManyRequests, ServerError, Garbled) as error:
                failure = error
            if (seen or self._has_lasted) and not isinstance(failure, Garbled):
                fruitless = 0
                self._backoff.reset()
                self._gets_through()
                log.debug("%s: watch ended, resuming from %s: %s", self.kind.name, self.last_version, failure or "")
                continue
            self._complain(f"watch ended immediately, trying again: {failure or 'closed by the server'}", logging.INFO)
            if not isinstance(failure, ConnectionFailed | TooManyRequests):
                fruitless = fruitless + 1 if self.last_version == version else 0
            if fruitless >= FRUITLESS:
                self._is_version_lost = True
                raise failure or ServerError("the server closes each watch immediately", code=500)
            await self._sleep(self._pause_after(failure))

    async def _stream(
        self, query: dict[str, str], is_initial: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[list[bytes], None]:
        seconds = int(MIN_WATCH_S * (1 + self._rng.random()))
        query = {
            **self.kind.selectors(),
            **query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeout": f"{seconds // 60}m{seconds % 60}s",
            "timeoutSeconds": str(seconds),
        }
        splitter = LineSplitter()
        try:
            async with (
                self._client.stream(self.kind.path, query, timeout_s=seconds + 30.0) as body,
                _Silence() as silence,
            ):
                self.trouble, self.is_refused = "", False
                self._opened_at = self._clock.monotonic()
                while True:
                    chunk = await (_read_soon(body) if is_initial() else body.readany())
                    silence.is_broken = True
                    if not chunk:
                        return
                    lines = splitter.feed(chunk)
                    if lines:
                        yield lines
        finally:
            self.is_current = False  # changes are missed from now on
            opened_at, self._opened_at = self._opened_at, None
            self._has_lasted = opened_at is not None and self._clock.monotonic() - opened_at > LASTING_S

    async def _take(self, lines: Sequence[bytes]) -> None:
        """Decode events, pass them to the sink, and only then count them as seen."""
        events: list[tuple[str, T]] = []
        version = ""
        trouble: Exception | None = None
        for line in lines:
            try:
                type_, item, mark = self._events.read(line)
            except (Garbled, ApiError) as error:
                trouble = error
                break
            if mark is not None:
                version = mark.resource_version or version
            elif item is not None:
                events.append((type_, item))
                version = item.metadata.resource_version or version
        if events:
            await self._sink.apply(events)
        if version:
            self.last_version = version
        if trouble is not None:
            raise trouble


def _is_final(error: ApiError) -> bool:
    """Report whether the same request would always be rejected."""
    return 400 <= error.code < 500 and error.code not in MAY_PASS


def _is_older(version: str, than: str) -> bool:
    try:
        return int(version) < int(than)
    except ValueError:  # there is none yet, or their order is unknown
        return False


async def _read_soon(body: Reading) -> bytes:
    try:
        async with asyncio.timeout(INITIAL_SILENCE_S):
            return await body.readany()
    except TimeoutError:
        raise _StreamingRefused(f"nothing came for {INITIAL_SILENCE_S:.0f}s") from None


class _Silence:
    """Ends a block with ConnectionFailed unless ``is_broken`` is set regularly; setting it is cheap."""

    def __init__(self) -> None:
        self.is_broken = True
        self._timeout = asyncio.timeout(None)
        self._alarm: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> _Silence:
        await self._timeout.__aenter__()
        self._look()
        return self

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self.is_broken:
            self.is_broken = False
            self._alarm = loop.call_later(SILENCE_S, self._look)
        else:
            self._timeout.reschedule(loop.time())

    async def __aexit__(self, *error: Any) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        try:
            await self._timeout.__aexit__(*error)
        except TimeoutError:
            raise ConnectionFailed(f"nothing was received for {SILENCE_S:.0f}s", was_sent=True) from None
