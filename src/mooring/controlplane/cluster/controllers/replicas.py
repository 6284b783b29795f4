"""ReplicaSets and ReplicationControllers: as many pods of a template as wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from mooring.controlplane.cluster.api import ClusterApi, Timers
from mooring.controlplane.cluster.controllers.base import (
    Controller,
    condition,
    controller_of,
    is_active,
    is_terminating,
    is_true,
    phase,
    pod_from_template,
    reference_to,
)
from mooring.controlplane.registry import meta
from mooring.controlplane.registry.catalog import PODS, by_resource
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.store import DELETED, Event, StoredEntry
from mooring.controlplane.types import quantities
from mooring.controlplane.types.objects import Object

BURST = 500
"""Pods created or deleted before others get a turn."""
MANY, PACE_S = 100, 0.0002
"""Owners of many pods are looked at less often, the more of them there are."""


def is_available(pod: Object, min_ready_s: int, now: float) -> bool:
    """Whether a pod has been ready for long enough."""
    return ready_in(pod, min_ready_s, now) == 0.0


def ready_in(pod: Object, min_ready_s: int, now: float) -> float | None:
    """Seconds until a ready pod counts as available; None for a pod that is not ready."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    since = meta.parse_time(ready.get("lastTransitionTime") or "") or now
    return max(0.0, since + min_ready_s - now) if min_ready_s else 0.0


def first_to_go(pod: Object) -> tuple[Any, ...]:
    """Orders pods for scaling down, as upstream ranks them: the least useful pod comes first."""
    metadata, started = pod["metadata"], (condition(pod, "Ready") or {}).get("lastTransitionTime", "")
    cost = (metadata.get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    return (
        bool(pod["spec"].get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
        is_true(pod, "Ready"),
        quantities.whole(cost) or 0,
        _reversed(started),
        _reversed(metadata["creationTimestamp"]),
        metadata["name"],
    )


def _reversed(text: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in text)


class _PodView(NamedTuple):
    """What a ReplicaSet wants to know of a pod: kept per version, because decoding thousands of pods takes a while."""

    rv: int
    namespace: str
    name: str
    uid: str
    controller: str
    is_active: bool
    ready_since: float | None  # None: not ready
    order: tuple[Any, ...]
    labels: Mapping[str, str]


def _view(entry: StoredEntry) -> _PodView:
    pod = entry.object()
    ready = condition(pod, "Ready")
    since = None
    if ready is not None and ready.get("status") == "True":
        since = meta.parse_time(ready.get("lastTransitionTime") or "") or 0.0
    controller = (controller_of(pod) or {}).get("uid", "")
    active = is_active(pod)
    order = first_to_go(pod) if active else ()
    return _PodView(entry.rv, entry.namespace, entry.name, entry.uid, controller, active, since, order, entry.labels)


class ReplicaSetController(Controller):
    """Keeps a ReplicaSet's number of pods."""

    watches: ClassVar[tuple[str, ...]] = ("replicasets.apps", "pods")
    kind_name: ClassVar[str] = "ReplicaSet"

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        super().__init__(api, timers)
        self._views: dict[str, _PodView] = {}  # by uid

    def noted(self, event: Event) -> Iterable[str]:
        if event.kind is PODS:
            if event.type == DELETED:
                self._views.pop(event.entry.uid, None)
            return self.owner_keys(event, self.kind_name)
        return (event.entry.key,)

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(by_resource(self.watches[0]), key)
        if entry is None:
            return
        owner = entry.object()
        if not (owner.get("status") or {}).get("observedGeneration") and not is_terminating(owner):
            self._adopt(owner)
        active = self._active(entry.uid)
        if not is_terminating(owner) and self._scale(key, owner, active):
            active = self._active(entry.uid)
        self._report(key, owner, active)
        if len(active) > MANY:
            self.pace(key, len(active) * PACE_S)

    def _active(self, uid: str) -> list[_PodView]:
        """The pods that count, looked at only where they have changed since."""
        found = []
        for entry in self.store.dependents(uid):
            if entry.kind is PODS:
                view = self._views.get(entry.uid)
                if view is None or view.rv != entry.rv:
                    view = self._views[entry.uid] = _view(entry)
                if view.is_active and view.controller == uid:
                    found.append(view)
        return found

    def _selector(self, owner: Object) -> selectors.ParsedLabelSelector | None:
        return selectors.from_object((owner.get("spec") or {}).get("selector"))

    def _adopt(self, owner: Object) -> None:
        """Take over pods that fit and have no owner, once, when the new owner is created."""
        selector = self._selector(owner)
        if selector is None:
            return
        for entry in list(self.store.iterate(PODS, owner["metadata"]["namespace"])):
            if not entry.owners and entry.labels and selector.matches(entry.labels) and is_active(entry.object()):
                self.api.modify(PODS, entry.namespace, entry.name, lambda obj: _add_owner(obj, owner))

    def _scale(self, key: str, owner: Object, active: list[_PodView]) -> bool:
        """Create or delete what is missing or too much; true if there was something to do."""
        wanted: int = (owner.get("spec") or {}).get("replicas", 1)
        missing = wanted - len(active)
        if missing > 0:
            template = owner["spec"].get("template") or {}
            for _ in range(min(missing, BURST)):
                name = owner["metadata"]["name"]
                pod = pod_from_template(owner, template, generateName=f"{name}-")
                self.api.create(PODS, owner["metadata"]["namespace"], pod)
        elif missing < 0:
            for view in sorted(active, key=lambda view: view.order)[: min(-missing, BURST)]:
                self.api.delete(PODS, view.namespace, view.name, {"preconditions": {"uid": view.uid}})
        if abs(missing) > BURST:
            self.enqueue(key)
        return missing != 0

    def _report(self, key: str, owner: Object, active: list[_PodView]) -> None:
        spec = owner.get("spec") or {}
        now, min_ready_s = self.api.clock.now(), spec.get("minReadySeconds", 0)
        ready = [view.ready_since for view in active if view.ready_since is not None]
        soon = [since + min_ready_s - now for since in ready if min_ready_s and since + min_ready_s > now]
        if soon:
            self.enqueue_after(key, min(soon) + 0.01)
        labels = (((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}).items()
        entry = self.store.entry(by_resource(self.watches[0]), key)
        if entry is None or entry.uid != owner["metadata"]["uid"]:
            return
        status: Object = {"replicas": len(active)}
        counts = {
            "fullyLabeledReplicas": len([view for view in active if labels <= view.labels.items()]),
            "readyReplicas": len(ready),
            "availableReplicas": len(ready) - len(soon),
        }
        status |= {name: count for name, count in counts.items() if count}
        status["observedGeneration"] = owner["metadata"].get("generation", 1)
        self.set_status(entry, status)


class ReplicationControllerController(ReplicaSetController):
    """The same for the older kind."""

    watches: ClassVar[tuple[str, ...]] = ("replicationcontrollers", "pods")
    kind_name: ClassVar[str] = "ReplicationController"

    def _selector(self, owner: Object) -> selectors.ParsedLabelSelector | None:
        return selectors.from_object({"matchLabels": (owner.get("spec") or {}).get("selector") or {}})


def _add_owner(pod: Object, owner: Object) -> None:
    pod["metadata"].setdefault("ownerReferences", []).append(reference_to(owner))
