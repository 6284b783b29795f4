"""Taint eviction: a NoExecute taint makes pods leave, at once or when their patience ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod, Taint
from mooring.api.taints import tolerates
from mooring.controlplane.cluster.api import ClusterApi
from mooring.controlplane.cluster.controllers.base import Controller, is_terminating, set_condition
from mooring.controlplane.cluster.timers import Timers
from mooring.controlplane.registry import meta
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.storage.store import DELETED, Event
from mooring.controlplane.types.objects import Object


class TaintEvictionController(Controller):
    """Deletes pods from nodes whose NoExecute taints they do not tolerate, or no longer."""

    watches: ClassVar[tuple[str, ...]] = ("pods", "nodes")

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        super().__init__(api, timers)
        self._since: dict[str, dict[str, float]] = {}  # node -> taint -> when it was first seen

    def noted(self, event: Event) -> Iterable[str]:
        entry = event.entry
        if entry.kind is PODS:
            node = (entry.fields or {}).get("spec.nodeName")
            if not node:
                return ()
            host = self.store.entry(NODES, node)
            return (entry.key,) if host is not None and b'"NoExecute"' in host.raw else ()
        is_tainted = b'"NoExecute"' in entry.raw
        self._note_taints(entry.name, entry.object() if is_tainted and event.type != DELETED else {})
        if not is_tainted and (event.previous is None or b'"NoExecute"' not in event.previous.raw):
            return ()
        return [pod.key for pod in self.store.pods_on(entry.name)]

    def start(self) -> None:
        super().start()
        for entry in self.store.iterate(NODES):
            self._note_taints(entry.name, entry.object())

    def _note_taints(self, name: str, node: Object) -> None:
        """Remember since when a taint is there: not every client that sets one writes the time down."""
        now = self.api.clock.now()
        before = self._since.pop(name, {})
        taints = [each for each in (node.get("spec") or {}).get("taints") or () if each["effect"] == "NoExecute"]
        if taints:
            self._since[name] = {each["key"]: before.get(each["key"], _added(each, now)) for each in taints}

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(PODS, key)
        if entry is None or is_terminating(entry.object()):
            return
        host = self.store.entry(NODES, (entry.fields or {}).get("spec.nodeName", ""))
        if host is None or b'"NoExecute"' not in host.raw:
            return
        patience_s = self._patience(from_plain(Pod, entry.object()), host.object())
        if patience_s is None:
            return
        if patience_s > 0:
            self.enqueue_after(key, patience_s)
            return
        now = self.api.timestamp()
        self.api.modify(PODS, entry.namespace, entry.name, lambda pod: _mark(pod, now), subresource="status")
        self.api.delete(PODS, entry.namespace, entry.name, {"preconditions": {"uid": entry.uid}})

    def _patience(self, pod: Pod, node: Object) -> float | None:
        """Seconds until the pod has to go; None if it may stay for ever."""
        typed: Node = from_plain(Node, node)
        now, since = self.api.clock.now(), self._since.get(typed.name, {})
        limits: list[float] = []
        for taint in typed.spec.taints:
            if taint.effect == "NoExecute":
                left_s = tolerated_for(pod, taint)
                if left_s is not None:
                    limits.append(since.get(taint.key, now) + left_s - now)
        return min(limits, default=None)


def _added(taint: Object, now: float) -> float:
    when = taint.get("timeAdded")
    return (meta.parse_time(when) if when else None) or now


def tolerated_for(pod: Pod, taint: Taint) -> float | None:
    """How long the pod bears the taint; None for ever. Of several tolerations the shortest counts, as upstream."""
    found = [each for each in pod.spec.tolerations if tolerates(each, taint)]
    if not found:
        return 0.0
    limits = [max(0.0, float(each.toleration_seconds)) for each in found if each.toleration_seconds is not None]
    return min(limits) if limits else None


def _mark(pod: Object, now: str) -> None:
    wanted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    }
    set_condition(pod.setdefault("status", {}), wanted, now)
