"""The objects, in memory: one global resourceVersion, a bounded history, indexes, optimistic concurrency.

The truth about an object is its serialised JSON. Lists and watch events send those bytes, made once per
version however many readers there are. A caller that wants a dict gets a private one and may change it freely.
Writes are synchronous and atomic: other code in the same event loop sees the state before or after, never between.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from mooring.controlplane.types.kind import Kind, Object
from mooring.controlplane.types.status import StatusError, already_exists, conflict, not_found, too_large, too_old

_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_NO_LABELS: Mapping[str, str] = {}

MAX_OBJECT_BYTES = 3 * 512 * 1024
"""etcd's limit; it holds however many patches an object grows by."""
ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class StoredEntry:
    """One version of one object."""

    __slots__ = ("fields", "key", "kind", "labels", "owners", "raw", "rv", "uid")

    def __init__(self, kind: Kind, key: str, rv: int, obj: Object) -> None:
        metadata = obj["metadata"]
        self.kind = kind
        self.key = key
        self.rv = rv
        self.uid: str = metadata.get("uid", "")
        labels = metadata.get("labels")
        self.labels: Mapping[str, str] = dict(labels) if labels else _NO_LABELS
        references = metadata.get("ownerReferences")
        self.owners: tuple[str, ...] = tuple(ref["uid"] for ref in references if ref.get("uid")) if references else ()
        read = kind.fields
        self.fields = None if read is None or read.is_on_demand else read.extract(obj)
        self.raw: bytes = _encode(obj)

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    def object(self) -> Object:
        """Return a private dict; changing it has no effect here."""
        obj: Object = _decode(self.raw)
        return obj

    def field(self, name: str) -> str:
        """Return what a field selector sees under this name; "" if missing."""
        if name in ("metadata.name", "name"):
            return self.name
        if name == "metadata.namespace":
            return self.namespace
        values = self.fields
        if values is None and self.kind.fields is not None:
            values = self.kind.fields.extract(self.object())
        return values.get(name, "") if values else ""


@dataclass(slots=True, eq=False)
class Event:
    """A change of one object; ``previous`` is its old state, ``entry`` its new (or last) state."""

    type: str
    entry: StoredEntry
    previous: StoredEntry | None
    lines: dict[str, bytes]
    """Watch lines made from this event, by what they look like, so that many watchers share them."""

    @property
    def rv(self) -> int:
        return self.entry.rv

    @property
    def kind(self) -> Kind:
        return self.entry.kind


class Journal(Protocol):
    """Where writes are made durable; called for every write in order."""

    def record(self, rv: int, resource: str, key: str, raw: bytes | None) -> None: ...


Callback = Callable[[Event], None]


class _Shelf:
    """All objects of one kind, sorted by key, and what happened to them lately."""

    __slots__ = ("entries", "history", "keys", "kind", "oldest", "subscribers")

    def __init__(self, kind: Kind, start_rv: int) -> None:
        self.kind = kind
        self.entries: dict[str, StoredEntry] = {}
        self.keys: list[str] = []
        self.history: deque[Event] = deque()
        self.oldest = start_rv
        """Watches may resume from any resourceVersion that is at least this."""
        self.subscribers: list[Callback] = []


class _Shelves(dict[Kind, _Shelf]):
    """A shelf for every kind, made when it is first needed."""

    def __init__(self, start_rv: int) -> None:
        super().__init__()
        self._start_rv = start_rv

    def __missing__(self, kind: Kind) -> _Shelf:
        shelf = self[kind] = _Shelf(kind, self._start_rv)
        return shelf


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class EntryPage(msgspec.Struct, frozen=True):
    """Entries as of one resourceVersion; ``next_key`` is where the next page starts, empty at the end."""

    entries: list[StoredEntry]
    rv: int
    next_key: str = ""
    remaining: int = 0


class Store:
    """Holds every object; the only place that changes them."""

    def __init__(self, *, history: int = 10_000, journal: Journal | None = None, start_rv: int = 1) -> None:
        self.rv = start_rv
        self.journal = journal
        self._history = history
        self._shelves = _Shelves(start_rv)
        self._pods_by_node: dict[str, dict[str, StoredEntry]] = {}
        self._by_owner: dict[str, set[tuple[Kind, str]]] = {}
        self._by_uid: dict[str, StoredEntry] = {}

    # Reading

    def get(self, kind: Kind, namespace: str, name: str) -> StoredEntry | None:
        return self._shelves[kind].entries.get(f"{namespace}/{name}" if namespace else name)

    def entry(self, kind: Kind, key: str) -> StoredEntry | None:
        return self._shelves[kind].entries.get(key)

    def by_uid(self, uid: str) -> StoredEntry | None:
        return self._by_uid.get(uid)

    def count(self, kind: Kind) -> int:
        return len(self._shelves[kind].keys)

    def iterate(self, kind: Kind, namespace: str = "") -> Iterator[StoredEntry]:
        """Current entries in key order; writing while iterating is safe."""
        shelf = self._shelves[kind]
        for key in self._range(shelf.keys, namespace):
            entry = shelf.entries.get(key)
            if entry is not None:
                yield entry

    @staticmethod
    def _range(keys: list[str], namespace: str, start: str = "") -> list[str]:
        if not namespace:
            return keys[bisect_left(keys, start) :] if start else keys[:]
        prefix = namespace + "/"
        low = bisect_left(keys, max(prefix, start))
        return keys[low : bisect_left(keys, namespace + "0")]  # "0" follows "/" in ASCII

    def page(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        limit: int = 0,
        start: str = "",
        at: int = 0,
        match: Callable[[StoredEntry], bool] | None = None,
    ) -> EntryPage:
        """One page of a list as it was at resourceVersion ``at`` (0: now)."""
        if at > self.rv:
            raise too_large(at, self.rv)
        shelf = self._shelves[kind]
        if at and at < self.rv:
            keys, entries = self._rewind(shelf, at)
        else:
            keys, entries = shelf.keys, shelf.entries
        found: list[StoredEntry] = []
        candidates = self._range(keys, namespace, start)
        for i, key in enumerate(candidates):
            entry = entries[key]
            if match is not None and not match(entry):
                continue
            if limit and len(found) == limit:
                return EntryPage(found, at or self.rv, key, len(candidates) - i)
            found.append(entry)
        return EntryPage(found, at or self.rv)

    def _rewind(self, shelf: _Shelf, at: int) -> tuple[list[str], dict[str, StoredEntry]]:
        """The shelf as it was at ``at``, by undoing the events since."""
        if at < shelf.oldest:
            raise too_old(at, shelf.oldest)
        undo: dict[str, StoredEntry | None] = {}
        for event in reversed(shelf.history):
            if event.rv <= at:
                break
            undo[event.entry.key] = event.previous
        if not undo:
            return shelf.keys, shelf.entries
        entries = dict(shelf.entries)
        for key, previous in undo.items():
            if previous is None:
                entries.pop(key, None)
            else:
                entries[key] = previous
        return sorted(entries), entries

    def pods_on(self, node: str) -> list[StoredEntry]:
        return list(self._pods_by_node.get(node, {}).values())

    def dependents(self, uid: str) -> list[StoredEntry]:
        """Objects that name this uid in their ownerReferences."""
        found = (self.entry(kind, key) for kind, key in sorted(self._by_owner.get(uid, ()), key=lambda p: p[1]))
        return [entry for entry in found if entry is not None]

    def events_since(self, kind: Kind, rv: int) -> list[Event]:
        """Events after ``rv``; raises 410 when they are no longer remembered."""
        shelf = self._shelves[kind]
        if rv > self.rv:
            raise too_large(rv, self.rv)
        if rv < shelf.oldest:
            raise too_old(rv, shelf.oldest)
        found: list[Event] = []
        for event in reversed(shelf.history):
            if event.rv <= rv:
                break
            found.append(event)
        found.reverse()
        return found

    def forget_history(self) -> None:
        """Forget the history, as a compaction does: watches can only resume from now on."""
        for shelf in self._shelves.values():
            shelf.history.clear()
            shelf.oldest = self.rv

    def oldest(self, kind: Kind) -> int:
        return self._shelves[kind].oldest

    # Writing

    def create(self, kind: Kind, obj: Object) -> StoredEntry:
        metadata = obj["metadata"]
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        shelf = self._shelves[kind]
        if key in shelf.entries:
            raise already_exists(kind.plural, kind.group, metadata["name"])
        entry = self._stamp(kind, key, obj)
        insort(shelf.keys, key)
        self._commit(shelf, Event(ADDED, entry, None, {}))
        return entry

    def update(self, kind: Kind, old: StoredEntry, obj: Object) -> StoredEntry:
        """Replace ``old``; raise 409 if it is not the current version."""
        shelf = self._shelves[kind]
        current = shelf.entries.get(old.key)
        if current is not old:
            raise (
                not_found(kind.plural, kind.group, old.name)
                if current is None
                else conflict(kind.plural, kind.group, old.name)
            )
        entry = self._stamp(kind, old.key, obj)
        self._commit(shelf, Event(MODIFIED, entry, old, {}))
        return entry

    def delete(self, kind: Kind, old: StoredEntry, obj: Object | None = None) -> StoredEntry:
        """Remove ``old``; watchers see its last state (``obj``, where that differs) with a new version."""
        shelf = self._shelves[kind]
        if shelf.entries.get(old.key) is not old:
            raise conflict(kind.plural, kind.group, old.name)
        entry = self._stamp(kind, old.key, old.object() if obj is None else obj)
        at = bisect_left(shelf.keys, old.key)
        del shelf.keys[at]
        self._commit(shelf, Event(DELETED, entry, old, {}))
        return entry

    def _stamp(self, kind: Kind, key: str, obj: Object) -> StoredEntry:
        # One counter for all kinds: a version orders writes of different kinds, and a list's version covers them all.
        rv = self.rv + 1
        obj["metadata"]["resourceVersion"] = str(rv)
        entry = StoredEntry(kind, key, rv, obj)  # raises before anything has changed if the object cannot be encoded
        if len(entry.raw) > MAX_OBJECT_BYTES:
            raise StatusError(413, "RequestEntityTooLarge", "etcdserver: request is too large")
        self.rv = rv
        return entry

    def _commit(self, shelf: _Shelf, event: Event) -> None:
        """Make a write visible: to readers, in the history, in the journal, to subscribers, in this order.

        A subscriber that reads the store finds the state after the write, and the event is in the history already, so
        that a watch which begins in a callback neither misses it nor gets it twice.
        """
        entry, old = event.entry, event.previous
        gone = event.type == DELETED
        if gone:
            shelf.entries.pop(entry.key, None)
        else:
            shelf.entries[entry.key] = entry
        self._index(shelf.kind, entry, old, gone)
        shelf.history.append(event)
        if len(shelf.history) > self._history:
            # A watcher that has seen the forgotten event can still resume: what follows it is all here.
            shelf.oldest = shelf.history.popleft().rv
        if self.journal is not None:
            self.journal.record(entry.rv, shelf.kind.resource, entry.key, None if gone else entry.raw)
        for callback in tuple(shelf.subscribers):
            callback(event)

    def _index(self, kind: Kind, entry: StoredEntry, old: StoredEntry | None, gone: bool) -> None:
        if kind.resource == "pods":
            before = old.fields.get("spec.nodeName", "") if old and old.fields else ""
            after = "" if gone or not entry.fields else entry.fields.get("spec.nodeName", "")
            if before and before != after:
                self._pods_by_node[before].pop(entry.key, None)
                if not self._pods_by_node[before]:
                    del self._pods_by_node[before]
            if after:
                self._pods_by_node.setdefault(after, {})[entry.key] = entry
        if old is not None and old.uid and (gone or old.uid != entry.uid):
            self._by_uid.pop(old.uid, None)
        if entry.uid and not gone:
            self._by_uid[entry.uid] = entry
        place = (kind, entry.key)
        known, owners = old.owners if old is not None else (), () if gone else entry.owners
        if known != owners:
            for uid in known:
                self._by_owner[uid].discard(place)
                if not self._by_owner[uid]:
                    del self._by_owner[uid]
            for uid in owners:
                self._by_owner.setdefault(uid, set()).add(place)

    def load(self, kind: Kind, raw: bytes) -> None:
        """Restore an object that was stored before a restart, without notifying subscribers."""
        obj: Object = _decode(raw)
        metadata = obj["metadata"]
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        entry = StoredEntry(kind, key, int(metadata["resourceVersion"]), obj)
        shelf = self._shelves[kind]
        if key not in shelf.entries:
            insort(shelf.keys, key)
        shelf.entries[key] = entry
        self._index(kind, entry, None, False)

    # Subscriptions

    def subscribe(self, kind: Kind, callback: Callback) -> Callable[[], None]:
        """Call ``callback`` with every event of a kind, within the write; return a function that stops it.

        The callback must be quick and must not write to the store itself: note it down and act later.
        """
        subscribers = self._shelves[kind].subscribers
        subscribers.append(callback)

        def unsubscribe() -> None:
            if callback in subscribers:
                subscribers.remove(callback)

        return unsubscribe
