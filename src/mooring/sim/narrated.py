"""The live scheduler with a narrator listening, and the store as its source of events where there is no network."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from mooring.api.codec import KINDS, decode
from mooring.api.meta import Object
from mooring.client.informer import InformerSet
from mooring.client.kinds import SCHEDULER_KINDS
from mooring.controlplane.registry.catalog import by_resource
from mooring.controlplane.storage.store import DELETED, Entry, Event, Store
from mooring.engine.decision import Decision
from mooring.framework.runtime import Profile
from mooring.framework.status import Status
from mooring.observe.decision_log import DecisionLog
from mooring.observe.events import EventRecorder, ObjectReference
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.scheduler.attempt import Failure, Placement
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.scheduler import Scheduler
from mooring.sim.narration import Narrator


class EveryDecision(DecisionLog):
    """Asks for every decision in full, and writes nothing: the narrator is told by the scheduler itself."""

    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator

    def is_sampled(self) -> bool:
        return self._narrator.wants_decisions

    def record(self, entry: object) -> None:
        pass


class NarratedScheduler(Scheduler):
    """The scheduler, telling a narrator what it decides. It decides nothing differently."""

    narrator: Narrator

    def listen(self, narrator: Narrator) -> None:
        self.narrator = narrator
        self.queue.on_move = narrator.moved

    def _place(self, info: QueuedPodInfo, profile: Profile, decision: Decision, started: float) -> None:
        self.narrator.decided(decision, info.attempts)
        super()._place(info, profile, decision, started)
        waiting = self.waiting_pods.get(info.uid)
        if waiting is not None:
            self.narrator.waits_on_permit(waiting.pod.pod, waiting.node_name, waiting.pending_plugins)

    def _refused(self, info: QueuedPodInfo, profile: Profile, decision: Decision, started: float) -> None:
        self.narrator.decided(decision, info.attempts)
        super()._refused(info, profile, decision, started)

    def _binding_failed(self, placement: Placement, status: Status, on_node: bool) -> None:
        if not self._is_aborted:
            message = Failure.of_status(status, on_node=on_node).message
            self.narrator.failed_after_decision(placement.pod.pod, message)
        super()._binding_failed(placement, status, on_node)


class NarratedRecorder(EventRecorder):
    """Writes events, and tells them."""

    narrator: Narrator

    def record(
        self, regarding: ObjectReference, *, type: str, reason: str, action: str, note: str, **rest: Any
    ) -> None:
        space = "" if regarding.namespace in ("", "default") else f"{regarding.namespace}/"
        self.narrator.event(space + regarding.name, reason, note)
        super().record(regarding, type=type, reason=reason, action=action, note=note, **rest)


class StoreFeed:
    """Feeds the scheduler from the store of the embedded control plane, event by event in the order of the writes.

    Informers would give the same objects, but kind by kind; in virtual time one order is as good as another, as long as
    it is the same each time.
    """

    def __init__(self, store: Store, handlers: EventHandlers, narrator: Narrator) -> None:
        self._store, self._handlers, self._narrator = store, handlers, narrator
        self._kinds = [by_resource(kind.name) for kind in SCHEDULER_KINDS]
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

    def _put(self, entry: Entry) -> None:
        obj: Object = decode(KINDS[entry.kind.kind], entry.raw)
        key = (entry.kind.resource, entry.key)
        old = self._known.get(key)
        self._known[key] = obj
        tell(self._narrator, old, obj)
        self._handlers.put(obj)

    def _remove(self, entry: Entry) -> None:
        obj: Object = decode(KINDS[entry.kind.kind], entry.raw)
        known = self._known.pop((entry.kind.resource, entry.key), None)
        self._narrator.left(known or obj)
        self._handlers.delete(obj)


_UNTOLD = frozenset(("Namespace", "CSINode", "VolumeAttachment"))


def tell(narrator: Narrator, old: Object | None, new: Object) -> None:
    if type(new).__name__ in _UNTOLD:
        return
    if old is None:
        narrator.came(new)
    else:
        narrator.changed(old, new)


def connect(informers: InformerSet, handlers: EventHandlers, narrator: Narrator) -> None:
    """Have every kind that the scheduler needs watched; the narrator hears of each change before the scheduler."""
    for kind in SCHEDULER_KINDS:
        informer = informers.add(kind)
        informer.add_handler(
            lambda new: tell(narrator, None, new),
            lambda old, new: tell(narrator, old, new),
            lambda old: None if type(old).__name__ in _UNTOLD else narrator.left(old),
        )
        informer.add_handler(handlers.put, handlers.update, handlers.delete)
