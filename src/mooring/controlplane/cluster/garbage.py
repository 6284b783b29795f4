"""Garbage collection: objects whose owners are gone, foreground and orphan deletion, emptied namespaces.

Events only enqueue work, which is done later in steps, so that a write stays cheap and a big deletion does not delay
other tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from mooring.api.times import format_time
from mooring.controlplane.cluster.base import ClusterApi, drop_item
from mooring.controlplane.registry import deletion
from mooring.controlplane.registry.catalog import STORED
from mooring.controlplane.registry.groups.core import EVENTS, NAMESPACES
from mooring.controlplane.storage.store import ADDED, DELETED, Event, StoredEntry
from mooring.controlplane.types.kind import Kind, Object
from mooring.controlplane.types.status import StatusError

STEP = 200
_Item = tuple[Kind, str]


class GarbageCollector:
    """Watches the store and deletes what has no owner any more."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._store = api.store
        self._queue: deque[_Item] = deque()
        self._queued: set[_Item] = set()
        self._wake = asyncio.Event()
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        self._stops = [self._store.subscribe(kind, self._note) for kind in STORED]
        for kind in STORED:
            for entry in self._store.iterate(kind):
                if entry.owners or b'"deletionTimestamp"' in entry.raw:
                    self._enqueue(kind, entry.key)

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        self._stops = []

    def _note(self, event: Event) -> None:
        entry = event.entry
        if event.type == DELETED:
            for dependent in self._store.dependents(entry.uid):
                self._enqueue(dependent.kind, dependent.key)
            for uid in entry.owners:
                owner = self._store.by_uid(uid)
                if owner is not None and b'"deletionTimestamp"' in owner.raw:
                    self._enqueue(owner.kind, owner.key)
            if entry.kind.is_namespaced:
                namespace = self._store.get(NAMESPACES, "", entry.namespace)
                if namespace is not None and b'"deletionTimestamp"' in namespace.raw:
                    self._enqueue(NAMESPACES, namespace.key)
        elif b'"deletionTimestamp"' in entry.raw or (event.type == ADDED and entry.owners):
            self._enqueue(entry.kind, entry.key)

    def _enqueue(self, kind: Kind, key: str) -> None:
        item = (kind, key)
        if item not in self._queued:
            self._queued.add(item)
            self._queue.append(item)
            self._wake.set()

    def step(self, limit: int = STEP) -> bool:
        """Process up to ``limit`` objects; True while there are more."""
        for _ in range(limit):
            if not self._queue:
                return False
            item = self._queue.popleft()
            self._queued.discard(item)
            entry = self._store.entry(*item)
            if entry is not None:
                with contextlib.suppress(StatusError):  # another writer was faster: its event enqueues the object again
                    self._process(entry)
        return bool(self._queue)

    def drain(self) -> None:
        """Process everything, for tests and virtual time."""
        while self.step():
            pass

    async def run(self) -> None:
        while True:
            self._wake.clear()
            if not self.step():
                await self._wake.wait()
            await asyncio.sleep(0)

    def _process(self, entry: StoredEntry) -> None:
        obj = entry.object()
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            finalizers = metadata.get("finalizers") or []
            if deletion.ORPHAN in finalizers:
                self._orphan_dependents(entry)
                self._drop_finalizer(entry, deletion.ORPHAN)
            elif deletion.FOREGROUND in finalizers:
                self._delete_dependents(entry)
            elif entry.kind is NAMESPACES:
                self._empty_namespace(entry)
            return
        self._check_owners(entry, obj)

    def _check_owners(self, entry: StoredEntry, obj: Object) -> None:
        """Delete an object without living owners.

        One living owner keeps it; references to deleted ones are then dropped. If all remaining ones wait for their
        dependents (foreground deletion), it is deleted, and in the foreground too if it has dependents itself.
        """
        references = obj["metadata"].get("ownerReferences") or []
        alive, waiting, gone = [], [], []
        for reference in references:
            owner = self._store.by_uid(reference.get("uid", ""))
            if owner is None or not self._is_same(owner, reference, entry):
                gone.append(reference)
            elif b'"foregroundDeletion"' in owner.raw and b'"deletionTimestamp"' in owner.raw:
                waiting.append(reference)
            else:
                alive.append(reference)
        if alive:
            if gone:
                self._drop_references(entry, {reference.get("uid", "") for reference in gone})
        elif waiting:
            blocks = bool(self._store.dependents(entry.uid))
            self._delete(entry, "Foreground" if blocks else "Background")
        elif gone:
            self._delete(entry, "")

    @staticmethod
    def _is_same(owner: StoredEntry, reference: Object, dependent: StoredEntry) -> bool:
        if owner.name != reference.get("name") or owner.kind.kind != reference.get("kind"):
            return False
        return not owner.namespace or owner.namespace == dependent.namespace

    def _delete(self, entry: StoredEntry, policy: str) -> None:
        options: Object = {"preconditions": {"uid": entry.uid}}
        if policy:
            options["propagationPolicy"] = policy
        self._api.delete(entry.kind, entry.namespace, entry.name, options)

    def _drop_references(self, entry: StoredEntry, uids: set[str]) -> None:
        def change(obj: Object) -> None:
            for reference in obj["metadata"].get("ownerReferences") or ():
                if reference.get("uid", "") in uids:
                    drop_item(obj["metadata"], "ownerReferences", reference)

        self._api.modify(entry.kind, entry.namespace, entry.name, change)

    def _orphan_dependents(self, owner: StoredEntry) -> None:
        for dependent in self._store.dependents(owner.uid):
            self._drop_references(dependent, {owner.uid})

    def _delete_dependents(self, owner: StoredEntry) -> None:
        blocking = False
        # The owner keeps its finalizer while a dependent that blocks its deletion exists. Each deleted dependent brings
        # the owner back here, by _note.
        for dependent in self._store.dependents(owner.uid):
            obj = dependent.object()
            references = obj["metadata"].get("ownerReferences") or ()
            blocks = any(ref.get("uid") == owner.uid and ref.get("blockOwnerDeletion") for ref in references)
            blocking = blocking or blocks
            if not obj["metadata"].get("deletionTimestamp"):
                self._enqueue(dependent.kind, dependent.key)
        if not blocking:
            self._drop_finalizer(owner, deletion.FOREGROUND)

    def _drop_finalizer(self, entry: StoredEntry, name: str) -> None:
        current = self._store.entry(entry.kind, entry.key)
        if current is None or current.uid != entry.uid:
            return

        self._api.modify(
            entry.kind, entry.namespace, entry.name, lambda obj: drop_item(obj["metadata"], "finalizers", name)
        )

    def _empty_namespace(self, namespace: StoredEntry) -> None:
        """Delete the content of a terminating namespace; when it is empty, remove it."""
        remaining = False
        for kind in STORED:
            if not kind.is_namespaced:
                continue
            for entry in self._store.iterate(kind, namespace.name):
                if b'"deletionTimestamp"' not in entry.raw:
                    self._api.delete(kind, entry.namespace, entry.name, {})
                remaining = remaining or self._store.entry(kind, entry.key) is not None
        if remaining or self._store.entry(NAMESPACES, namespace.key) is None:
            return

        def change(obj: Object) -> None:
            drop_item(obj.setdefault("spec", {}), "finalizers", "kubernetes")

        self._api.modify(NAMESPACES, "", namespace.name, change, subresource="finalize")


def expire_events(api: ClusterApi, older_than_s: float) -> int:
    """Delete expired Events, as etcd's leases do upstream; return how many."""
    limit = format_time(api.clock.now() - older_than_s)
    expired = [entry for entry in api.store.iterate(EVENTS) if _last_change(entry.object()) < limit]
    for entry in expired:
        api.delete(EVENTS, entry.namespace, entry.name)
    return len(expired)


def _last_change(event: Object) -> str:
    series = event.get("series") or {}
    times = (event["metadata"]["creationTimestamp"], event.get("lastTimestamp"), series.get("lastObservedTime"))
    return max(str(time) for time in times if time)
