"""Pod garbage collection: pods whose node is gone for good are deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from mooring.controlplane.cluster.api import ClusterApi
from mooring.controlplane.cluster.controllers.base import Controller, phase, set_condition
from mooring.controlplane.cluster.timers import Timers
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.storage.store import DELETED, Event
from mooring.controlplane.types.objects import Object

QUARANTINE_S = 40.0
"""How long a node has to be gone; upstream's quarantineTime."""


class PodGarbageCollector(Controller):
    """Deletes pods of nodes that no longer exist, as upstream's pod garbage collector does."""

    watches: ClassVar[tuple[str, ...]] = ("pods", "nodes")

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        super().__init__(api, timers)
        self._gone: dict[str, float] = {}  # node -> when it was first missed

    def noted(self, event: Event) -> Iterable[str]:
        entry = event.entry
        if entry.kind is NODES:
            if event.type != DELETED:
                self._gone.pop(entry.name, None)
                return ()
            return [pod.key for pod in self.store.pods_on(entry.name)]
        node = (entry.fields or {}).get("spec.nodeName")
        return (entry.key,) if node and self.store.entry(NODES, node) is None else ()

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(PODS, key)
        node = "" if entry is None else (entry.fields or {}).get("spec.nodeName", "")
        if entry is None or not node or self.store.entry(NODES, node) is not None:
            return
        now = self.api.clock.monotonic()
        left_s = self._gone.setdefault(node, now) + QUARANTINE_S - now
        if left_s > 0:
            self.enqueue_after(key, left_s)
            return
        if phase(entry.object()) not in ("Succeeded", "Failed"):
            at = self.api.timestamp()
            self.api.modify(PODS, entry.namespace, entry.name, lambda pod: _mark(pod, at), subresource="status")
        self.api.delete(
            PODS, entry.namespace, entry.name, {"gracePeriodSeconds": 0, "preconditions": {"uid": entry.uid}}
        )


def _mark(pod: Object, now: str) -> None:
    status = pod.setdefault("status", {})
    status["phase"] = "Failed"
    wanted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }
    set_condition(status, wanted, now)
