"""Base of controllers, and the interface of controllers, kubelets and garbage collection to an API server and to time.

The embedded server's ``Api`` and the simulator's ``RemoteApi`` both are a :class:`ClusterApi`, so that the same
controllers work in the server's own process and over the network.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

from mooring.api.clock import Clock
from mooring.controlplane.registry.catalog import PODS, by_resource
from mooring.controlplane.storage.store import Event, Store, StoredEntry
from mooring.controlplane.types.kind import Kind, Object
from mooring.controlplane.types.status import StatusError


class ClusterApi(Protocol):
    """Interface to an API server. Reads come from ``store``; writes may be in flight when a call returns. Errors are
    StatusErrors.
    """

    @property
    def store(self) -> Store:
        """The known objects, only for reading and subscribing."""

    @property
    def clock(self) -> Clock: ...

    def timestamp(self) -> str: ...

    def create(self, kind: Kind, namespace: str, obj: Object) -> StoredEntry:
        """Create an object. With a remote server, the entry shows what was sent."""

    def modify(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Object], object], *, subresource: str = ""
    ) -> StoredEntry:
        """Read an object, let ``change`` work on a private copy in place, and write it back."""

    def delete(
        self, kind: Kind, namespace: str, name: str, delete_options: Mapping[str, Any] | None = None
    ) -> tuple[StoredEntry, bool]:
        """Delete an object or begin to; also return whether it is gone."""

    def carry_out(self, work: Callable[[], None]) -> Future[None] | None:
        """Run some work; the future is done when every write in it is answered. None: they are answered already."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    """The timer methods that controllers use; every asyncio loop has them."""

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Timer: ...

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer: ...


log = logging.getLogger(__name__)

TURN = 50
"""Number of keys processed before other tasks run."""
FIRST_RETRY_S, LAST_RETRY_S = 0.05, 10.0


class Controller(ABC):
    """A level-triggered loop. ``reconcile`` gets a key, compares the actual with the desired state, and may write.

    Events arrive within the write that causes them, so they only enqueue keys. A rejected write (a conflict, a
    terminating namespace) is retried with increasing pauses.
    """

    watches: ClassVar[tuple[str, ...]]
    """The resources whose events are passed to ``noted``; the first one is the controller's own."""

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        self.api, self.store, self.timers = api, api.store, timers
        self.kind = by_resource(self.watches[0])
        self._queue: deque[str] = deque()
        self._queued: set[str] = set()
        self._later: dict[str, tuple[float, Timer]] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._under_way: set[str] = set()  # keys with writes that are not answered yet
        self._postponed: set[str] = set()
        self._stops: list[Callable[[], None]] = []
        self._turn: Timer | None = None
        self.is_running = False

    @abstractmethod
    def reconcile(self, key: str) -> None:
        """Reconcile one key; its object may be gone."""

    def noted(self, event: Event) -> Iterable[str]:
        """Return the keys that an event concerns: the object's own, or those of its owners."""
        return (event.entry.key,) if event.kind is self.kind else self.owner_keys(event)

    def start(self) -> None:
        """Watch, and process every existing object."""
        self.is_running = True
        for resource in self.watches:
            self._stops.append(self.store.subscribe(by_resource(resource), self._note))
        for entry in self.store.iterate(self.kind):
            self.enqueue(entry.key)

    def stop(self) -> None:
        self.is_running = False
        for stop in self._stops:
            stop()
        self._stops = []
        for _, timer in self._later.values():
            timer.cancel()
        self._later = {}
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    @property
    def is_idle(self) -> bool:
        """Report whether no key is left to process, now or later."""
        return not (self._queue or self._later or self._under_way)

    @property
    def only_retries(self) -> bool:
        """Report whether only retries are left, which may never end."""
        return not (self._queue or self._under_way) and self._later.keys() <= self._failures.keys()

    def _note(self, event: Event) -> None:
        for key in self.noted(event):
            self.enqueue(key)

    def enqueue(self, key: str) -> None:
        if key in self._under_way:
            self._postponed.add(key)
            return
        if key not in self._queued:
            wait_s = self._not_before.get(key, 0.0) - self.api.clock.monotonic() if self._not_before else 0.0
            if wait_s > 0:
                self.enqueue_after(key, wait_s)
                return
            self._not_before.pop(key, None)
            self._queued.add(key)
            self._queue.append(key)
            if self._turn is None and self.is_running:
                self._turn = self.timers.call_soon(self._work)

    def enqueue_after(self, key: str, delay_s: float) -> None:
        """Process a key again in this many seconds; the earliest of several requests counts."""
        when = self.api.clock.monotonic() + delay_s
        known = self._later.get(key)
        if known is not None:
            if known[0] <= when:
                return
            known[1].cancel()
        self._later[key] = when, self.timers.call_later(delay_s, self._due, key)

    def settle(self, key: str) -> None:
        """Cancel delayed processing of a key."""
        later = self._later.pop(key, None)
        if later is not None:
            later[1].cancel()

    def pace(self, key: str, seconds: float) -> None:
        """Limit how often a key is processed, because processing is costly."""
        self._not_before[key] = self.api.clock.monotonic() + seconds

    def _due(self, key: str) -> None:
        self._later.pop(key, None)
        self._not_before.pop(key, None)
        self.enqueue(key)

    def _work(self) -> None:
        self._turn = None
        for _ in range(TURN):
            if not self._queue or not self.is_running:
                return
            key = self._queue.popleft()
            self._queued.discard(key)
            self._look_at(key)
        if self._queue:
            self._turn = self.timers.call_soon(self._work)

    def _look_at(self, key: str) -> None:
        answered = self.api.carry_out(lambda: self._reconcile(key))
        if answered is not None:
            self._under_way.add(key)
            answered.add_done_callback(lambda _: self._written(key))

    def _reconcile(self, key: str) -> None:
        try:
            self.reconcile(key)
        except StatusError as error:
            self._try_again(key, str(error))
        except Exception:
            log.exception("%s failed on %s", type(self).__name__, key)
            self._try_again(key, "a mistake in the controller")
        else:
            self._failures.pop(key, None)

    def _written(self, key: str) -> None:
        """Note that all writes over the network are answered: the key may be processed again."""
        self._under_way.discard(key)
        if key in self._postponed:
            self._postponed.discard(key)
            self.enqueue(key)

    def _try_again(self, key: str, why: str) -> None:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        log.debug("%s: %s: %s", type(self).__name__, key, why)
        self.enqueue_after(key, min(FIRST_RETRY_S * 2 ** min(count - 1, 10), LAST_RETRY_S))

    # Helpers for most controllers

    def set_status(self, entry: StoredEntry, status: Object) -> None:
        """Write a status if it differs."""
        if (entry.object().get("status") or {}) != status:
            self.modify_status(entry, lambda obj: obj.update(status=status))

    def modify_status(self, entry: StoredEntry, change: Callable[[Object], object]) -> StoredEntry:
        return self.api.modify(entry.kind, entry.namespace, entry.name, change, subresource="status")

    def report(self, owner: Object, status: Object) -> None:
        """Write the status of an object that was read before, unless it is gone."""
        entry = self.store.by_uid(owner["metadata"]["uid"])
        if entry is not None:
            self.set_status(entry, status)

    def delete_pod(self, pod: Object) -> None:
        """Delete this pod, and not a newer one of the same name."""
        metadata = pod["metadata"]
        self.api.delete(PODS, metadata["namespace"], metadata["name"], {"preconditions": {"uid": metadata["uid"]}})

    def mark_disrupted(self, pod: StoredEntry, reason: str, message: str, **status: str) -> None:
        """Record in a pod's status why it is about to be deleted."""
        wanted = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        now = self.api.timestamp()

        def mark(obj: Object) -> None:
            obj.setdefault("status", {}).update(status)
            set_condition(obj["status"], wanted, now)

        self.modify_status(pod, mark)

    def owned(self, uid: str, kind: Kind) -> list[Object]:
        """Return objects of a kind that this uid controls, by name."""
        found = [entry.object() for entry in self.store.dependents(uid) if entry.kind is kind]
        return [obj for obj in found if (controller_of(obj) or {}).get("uid") == uid]

    def owner_keys(self, event: Event) -> list[str]:
        """Keys of the owners that the event's object has, or had before, of the controller's kind.

        They are found by the store's index, without decoding the object.
        """
        keys: list[str] = []
        for entry in (event.entry, event.previous):
            for uid in entry.owners if entry is not None else ():
                owner = self.store.by_uid(uid)
                if owner is not None and owner.kind is self.kind and owner.key not in keys:
                    keys.append(owner.key)
        return keys


def controller_of(obj: Object) -> Object | None:
    references: list[Object] = obj["metadata"].get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)


def reference_to(obj: Object) -> Object:
    """An ownerReference that makes ``obj`` the controller."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(obj: Object, type_: str) -> Object | None:
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each.get("type") == type_), None)


def is_true(obj: Object, type_: str) -> bool:
    found = condition(obj, type_)
    return found is not None and found.get("status") == "True"


def is_terminating(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def phase(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase", ""))


def is_active(pod: Object) -> bool:
    """Report whether a pod counts for its controller: neither finished nor terminating."""
    return phase(pod) not in ("Succeeded", "Failed") and not is_terminating(pod)


def set_condition(status: Object, wanted: Object, now: str) -> None:
    """Put a condition into a status; its transition time changes only when its status does."""
    conditions: list[Object] = status.setdefault("conditions", [])
    for i, known in enumerate(conditions):
        if known.get("type") == wanted["type"]:
            same = known.get("status") == wanted["status"]
            since = known.get("lastTransitionTime") if same else now
            conditions[i] = {**wanted, "lastTransitionTime": since}
            return
    conditions.append({**wanted, "lastTransitionTime": now})


def pod_from_template(owner: Object, template: Object, **metadata: Any) -> Object:
    """A pod as a controller creates it; ``metadata`` says name or generateName."""
    made = template.get("metadata") or {}
    meta: Object = dict(metadata)
    for part in ("labels", "annotations", "finalizers"):
        if made.get(part):
            meta[part] = made[part].copy()
    meta["namespace"] = owner["metadata"]["namespace"]
    meta["ownerReferences"] = [reference_to(owner)]
    spec = template.get("spec") or {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": _copy(spec)}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def label(obj: Object, key: str) -> str | None:
    value: str | None = (obj["metadata"].get("labels") or {}).get(key)
    return value


def nonzero(**counts: int) -> Object:
    """Return the counts of a status without zeros."""
    return {name: count for name, count in counts.items() if count}


def drop_item(obj: Object, name: str, item: Any) -> None:
    """Remove an item from a list; an empty list is removed as well."""
    left = [each for each in obj.get(name) or () if each != item]
    if left:
        obj[name] = left
    else:
        obj.pop(name, None)
