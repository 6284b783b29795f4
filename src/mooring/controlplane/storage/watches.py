"""Watches: events since a version, then as they happen; a slow watcher is closed, never waited for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from mooring.api.selectors import Selector
from mooring.controlplane.storage.selectors import ANY_FIELDS, EVERYTHING, FieldSelector
from mooring.controlplane.storage.store import ADDED, DELETED, MODIFIED, Event, Store, StoredEntry
from mooring.controlplane.types.kind import Kind, Object

_encode = msgspec.json.Encoder().encode

CHUNK_BYTES = 1 << 20
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Match(msgspec.Struct, frozen=True):
    """The objects of a kind that a list or watch selects."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: FieldSelector = ANY_FIELDS

    def __call__(self, entry: StoredEntry) -> bool:
        if self.namespace and not entry.key.startswith(self.namespace + "/"):
            return False
        if self.labels.requirements and not self.labels.matches(entry.labels):
            return False
        return not self.fields.terms or self.fields.matches(entry.field)

    def is_selective(self) -> bool:
        return bool(self.labels.requirements or self.fields.terms)


def translate(event: Event, match: Match) -> str:
    """The type of an event for a watcher that sees only what matches: an object that begins to match is ADDED."""
    now = event.type != DELETED and match(event.entry)
    before = event.previous is not None and match(event.previous)
    if now:
        return MODIFIED if before else ADDED
    return DELETED if before else ""


Render = Callable[[str, StoredEntry, int], bytes]
"""Makes the object of a watch line: event type, the entry to show, and the version the line stands for."""


def plain(_: str, entry: StoredEntry, rv: int) -> bytes:
    """The object as stored, at the event's version."""
    if entry.rv == rv:
        return entry.raw
    obj = entry.object()
    obj["metadata"]["resourceVersion"] = str(rv)
    return _encode(obj)


class Watcher:
    """One watch: a bounded queue of lines between the store's writes and a connection."""

    def __init__(self, kind: Kind, match: Match, render: Render, view: str | None, limit: int = 20_000) -> None:
        self.kind = kind
        self.match = match
        self.is_closed = False
        self.on_overrun: Callable[[], None] | None = None
        """Called once when the queue is full: the connection may be stuck and has to be cut from outside."""
        self.rv = 0
        """The version up to which this watcher has received every relevant event."""
        self._render = render
        self._view = view
        self._limit = limit
        self._lines: deque[bytes] = deque()
        self._reader: asyncio.Future[None] | None = None  # waits for the next line
        self._until = 0.0  # it waits so long
        self._alarm: asyncio.TimerHandle | None = None  # set again only after it fired: most waits end earlier

    def offer(self, event: Event) -> None:
        """Called within a write; never blocks."""
        # Every event advances the version, including those that this watcher does not see: a bookmark may announce it
        # then.
        self.rv = event.rv
        kind = translate(event, self.match)
        if kind:
            self.push(self.line(kind, event))

    def line(self, kind: str, event: Event) -> bytes:
        shown = event.entry
        if kind == DELETED and event.type != DELETED and event.previous is not None:
            shown = event.previous  # it left the selection: watchers get the last state they could see
        name = f"{self._view}{kind}"
        made = event.lines.get(name) if self._view is not None else None
        if made is None:
            made = b'{"type":"%s","object":%s}\n' % (kind.encode(), self._render(kind, shown, event.rv))
            if self._view is not None:
                event.lines[name] = made
        return made

    def push(self, line: bytes) -> None:
        if self.is_closed:
            return
        if len(self._lines) >= self._limit:
            self.close()
            if self.on_overrun is not None:
                self.on_overrun()
        else:
            self._lines.append(line)
        self._wake()

    def add(self, entry: StoredEntry) -> None:
        """Queue an existing object as ADDED, for the initial state; not subject to the limit."""
        self._lines.append(b'{"type":"ADDED","object":%s}\n' % self._render(ADDED, entry, entry.rv))
        self._wake()

    def bookmark(self, *, is_initial_end: bool = False) -> None:
        metadata: Object = {"resourceVersion": str(self.rv), "creationTimestamp": None}
        if is_initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        obj = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        self._lines.append(_encode({"type": "BOOKMARK", "object": obj}) + b"\n")
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def take(self, until: float) -> bytes:
        """Queued lines, about a megabyte at most; empty if there are none until then, by the loop's time, or closed."""
        if not self._lines and not self.is_closed:
            loop = asyncio.get_running_loop()
            self._reader, self._until = loop.create_future(), until
            if self._alarm is None or self._alarm.when() > until:
                self._set_alarm(loop)
            await self._reader
        taken: list[bytes] = []
        size = 0
        while self._lines and size < CHUNK_BYTES:
            taken.append(self._lines.popleft())
            size += len(taken[-1])
        return b"".join(taken)

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = loop.call_at(self._until, self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm = None
        if self._reader is not None and not self._reader.done():
            if loop.time() < self._until:
                self._set_alarm(loop)
            else:
                self._wake()

    def end(self) -> None:
        """Note that the reader is gone."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def close(self) -> None:
        """Make a waiting ``take`` return immediately, with nothing."""
        self.is_closed = True
        self._lines.clear()
        self._wake()


class Hub:
    """Hands the store's events to the watchers of each kind."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watchers: dict[Kind, list[Watcher]] = {}
        self._is_closed = False

    def open(
        self,
        kind: Kind,
        match: Match,
        *,
        since: int | None = None,
        render: Render = plain,
        view: str | None = "",
        initial_end: bool = False,
        limit: int = 20_000,
    ) -> Watcher:
        """Start a watch: after version ``since`` (negative: from now on), or with the present state when it is None.

        Watchers with the same ``view`` share their lines; a watcher with None shares them with no other.
        Nothing can be missed between the state and the first event, because writes do not interleave with this.
        """
        watcher = Watcher(kind, match, render, view, limit)
        stored = kind.storage
        if since is None:
            for entry in self._store.iterate(stored, match.namespace):
                if match(entry):
                    watcher.add(entry)
            watcher.rv = self._store.rv
            if initial_end:
                watcher.bookmark(is_initial_end=True)
        elif since < 0:
            watcher.rv = self._store.rv
        else:
            # The history is offered before the watcher is among those that _tell reaches. No write can come between,
            # so the watcher gets every event once and in the order of versions.
            events = self._store.events_since(stored, since)
            watcher.rv = since
            for event in events:
                watcher.offer(event)
            watcher.rv = self._store.rv
        if self._is_closed:
            watcher.close()
        self._watchers_of(stored).append(watcher)
        return watcher

    def _watchers_of(self, stored: Kind) -> list[Watcher]:
        watchers = self._watchers.get(stored)
        if watchers is None:
            watchers = self._watchers[stored] = []
            self._store.subscribe(stored, self._tell)
        return watchers

    def _tell(self, event: Event) -> None:
        for watcher in self._watchers[event.kind]:
            watcher.offer(event)

    def forget(self, watcher: Watcher) -> None:
        watcher.end()
        watchers = self._watchers.get(watcher.kind.storage, [])
        if watcher in watchers:
            watchers.remove(watcher)

    def bookmark(self, watcher: Watcher) -> None:
        """Announce the store's present version: everything before it has been offered."""
        watcher.rv = self._store.rv
        watcher.bookmark()

    def close(self) -> None:
        """End all watches, including those opened later."""
        self._is_closed = True
        self.close_all()

    def close_all(self, kind: Kind | None = None) -> None:
        for stored, watchers in self._watchers.items():
            if kind is None or stored is kind:
                for watcher in tuple(watchers):
                    watcher.close()

    def count(self) -> int:
        return sum(len(watchers) for watchers in self._watchers.values())
