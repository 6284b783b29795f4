"""A narrator that observes the live scheduler, and the store as its source of objects where there is no network."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from mooring.api.codec import decode, struct_of
from mooring.api.meta import Object
from mooring.controlplane.registry.catalog import by_resource
from mooring.controlplane.storage.store import DELETED, Event, Store, StoredEntry
from mooring.core.engine.decision import ScheduleResult
from mooring.core.framework.runtime import Profile
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.live.events import InvolvedObject
from mooring.live.informers import Listener
from mooring.live.observer import SchedulerObserver
from mooring.net.watch_events import ResourceKind
from mooring.sim.narration import Narrator


class Narration(SchedulerObserver):
    """Lets a narrator tell what a scheduler does."""

    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator

    def wants_detail(self) -> bool:
        return self._narrator.wants_decisions

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        self._narrator.decided(decision, info.attempts)

    def waiting(self, info: QueuedPodInfo, node_name: str, plugins: Sequence[str]) -> None:
        self._narrator.waits_on_permit(info.pod_info.pod, node_name, plugins)

    def binding_failed(self, info: QueuedPodInfo, message: str) -> None:
        self._narrator.failed_after_decision(info.pod_info.pod, message)

    def event(self, regarding: InvolvedObject, reason: str, note: str) -> None:
        space = "" if regarding.namespace in ("", "default") else f"{regarding.namespace}/"
        self._narrator.event(space + regarding.name, reason, note)

    def moved(self, info: QueuedPodInfo, place: str, event: str, cause: Object | None) -> None:
        self._narrator.moved(info, place, event, cause)


class Told:
    """Passes objects on to the scheduler; the narrator hears of each change first."""

    def __init__(self, scheduler: Listener, narrator: Narrator) -> None:
        self._scheduler, self._narrator = scheduler, narrator

    def put(self, obj: Object) -> None:
        tell(self._narrator, None, obj)
        self._scheduler.put(obj)

    def update(self, old: Object | None, new: Object) -> None:
        tell(self._narrator, old, new)
        self._scheduler.put(new)

    def delete(self, obj: Object) -> None:
        if type(obj).__name__ not in _UNTOLD:
            self._narrator.left(obj)
        self._scheduler.delete(obj)


class Follower(Protocol):
    """Who hears of objects."""

    def update(self, old: Any, new: Any) -> None: ...

    def delete(self, obj: Any) -> None: ...


class StoreFeed:
    """Feeds the scheduler from the store of the embedded control plane, event by event in the order of the writes.

    Informers would give the same objects, but kind by kind; in virtual time one order is as good as another, as long as
    it is the same each time.
    """

    def __init__(self, store: Store, kinds: Iterable[ResourceKind[Any]], listener: Follower) -> None:
        self._store, self._listener = store, listener
        self._kinds = [by_resource(kind.name) for kind in kinds]
        self._known: dict[tuple[str, str], Object] = {}
        self._events: deque[Event] = deque()
        self._turn: asyncio.Handle | None = None
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        for kind in self._kinds:
            self._stops.append(self._store.subscribe(kind, self._note))
            for entry in self._store.iterate(kind):
                self._put(entry)

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        self._stops = []
        if self._turn is not None:
            self._turn.cancel()

    def _note(self, event: Event) -> None:
        self._events.append(event)
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._turn = None
        while self._events:
            event = self._events.popleft()
            if event.type == DELETED:
                self._remove(event.entry)
            else:
                self._put(event.entry)

    def _put(self, entry: StoredEntry) -> None:
        obj = _decode(entry)
        key = (entry.kind.resource, entry.key)
        old = self._known.get(key)
        self._known[key] = obj
        self._listener.update(old, obj)

    def _remove(self, entry: StoredEntry) -> None:
        obj = _decode(entry)
        known = self._known.pop((entry.kind.resource, entry.key), None)
        self._listener.delete(known or obj)


_UNTOLD = frozenset(("Namespace", "CSINode", "VolumeAttachment"))


def tell(narrator: Narrator, old: Object | None, new: Object) -> None:
    if type(new).__name__ in _UNTOLD:
        return
    if old is None:
        narrator.came(new)
    else:
        narrator.changed(old, new)


def _decode(entry: StoredEntry) -> Object:
    struct = struct_of(entry.kind.kind, entry.kind.group)
    assert struct is not None, "only kinds that the scheduler reads are fed"
    obj: Object = decode(struct, entry.raw)
    return obj
