"""Node lifecycle: silent nodes become unreachable, conditions become taints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod, Taint
from mooring.api.selectors import tolerates
from mooring.api.times import format_time
from mooring.api.well_known import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from mooring.controlplane.cluster.base import ClusterApi, Controller, Timer, Timers, condition, is_terminating, phase
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.nodes import LEASES
from mooring.controlplane.registry.validation import parse_time
from mooring.controlplane.storage.store import DELETED, Event, StoredEntry
from mooring.controlplane.types.kind import Object

MONITOR_PERIOD_S = 5.0
GRACE_S = 50.0
"""How long a node may be silent; upstream's --node-monitor-grace-period."""

_BY_CONDITION = {
    "MemoryPressure": MEMORY_PRESSURE,
    "DiskPressure": DISK_PRESSURE,
    "PIDPressure": PID_PRESSURE,
    "NetworkUnavailable": NETWORK_UNAVAILABLE,
}
_KUBELETS_OWN = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
MANAGED = frozenset((NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_BY_CONDITION.values()))


class NodeLifecycleController(Controller):
    """Watches leases and conditions. The conditions of nodes that never had a lease are trusted."""

    watches: ClassVar[tuple[str, ...]] = ("nodes", "leases.coordination.k8s.io")

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        super().__init__(api, timers)
        self._heard: dict[str, float] = {}  # node -> time of the last sign, by our own clock
        self._began = self._looked = 0.0
        self._monitor: Timer | None = None  # while there are nodes that could fall silent

    def start(self) -> None:
        super().start()
        now = self._began = self.api.clock.monotonic()
        for lease in self.store.iterate(LEASES, "kube-node-lease"):
            self._hear(lease.name, now)

    def _hear(self, name: str, now: float) -> None:
        """Note a node's sign of life. The first one starts regular checks."""
        self._heard[name] = now
        if self._monitor is None:
            self._looked = now - (now - self._began) % MONITOR_PERIOD_S
            self._monitor = self.timers.call_later(self._looked + MONITOR_PERIOD_S - now, self._look_around)

    def stop(self) -> None:
        super().stop()
        if self._monitor is not None:
            self._monitor.cancel()

    @property
    def is_idle(self) -> bool:
        """Report whether no node will fall silent: without leases, only those have one whose kubelet has stopped."""
        return super().is_idle and all(self._is_silent(name) for name in self._heard)

    @property
    def only_retries(self) -> bool:
        return super().only_retries and all(self._is_silent(name) for name in self._heard)

    def noted(self, event: Event) -> Iterable[str]:
        entry = event.entry
        if entry.kind is not LEASES:
            if event.previous is not None and self._is_silent(entry.name) and _has_spoken(event.previous, entry):
                self._hear(entry.name, self.api.clock.monotonic())
            return (entry.key,)
        if entry.namespace == "kube-node-lease":
            if event.type == DELETED:
                self._heard.pop(entry.name, None)
            else:
                self._hear(entry.name, self.api.clock.monotonic())
        return ()

    def _look_around(self) -> None:
        self._monitor = None
        if not self._heard:
            return
        now = self.api.clock.monotonic()
        missed_s = now - self._looked - MONITOR_PERIOD_S
        self._looked = now
        if missed_s > MONITOR_PERIOD_S:
            # This process did not run and could not receive heartbeats: nodes get that time back.
            self._heard = {name: min(heard + missed_s, now) for name, heard in self._heard.items()}
        for name in self._heard:
            if self._is_silent(name):
                self.enqueue(name)
        self._monitor = self.timers.call_later(MONITOR_PERIOD_S, self._look_around)

    def _is_silent(self, name: str) -> bool:
        heard = self._heard.get(name)
        grace_s = max(GRACE_S, len(self._heard) / 40)  # thousands of kubelets renew less often
        return heard is not None and heard < self.api.clock.monotonic() - grace_s

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(NODES, key)
        if entry is None:
            self._heard.pop(key, None)
            return
        if self._is_silent(key):
            now = self.api.timestamp()
            status = entry.object().get("status") or {}
            if _mark_unknown(status, now):
                entry = self.modify_status(entry, lambda obj: obj.update(status=status))
        node = entry.object()
        taints = (node.get("spec") or {}).get("taints") or []
        wanted = self._wanted(node, taints)
        if wanted != taints:
            self.api.modify(NODES, "", key, lambda obj: _set_taints(obj, wanted))

    def _wanted(self, node: Object, taints: list[Object]) -> list[Object]:
        """Return the desired taints: those of others are kept, ours follow the conditions."""
        keys: list[tuple[str, str]] = []
        if (node.get("spec") or {}).get("unschedulable"):
            keys.append((UNSCHEDULABLE, "NoSchedule"))
        conditions = (node.get("status") or {}).get("conditions") or ()
        found = {each.get("type"): each.get("status") for each in reversed(conditions)}  # of several the first counts
        ready = found.get("Ready", "True")
        if ready != "True":
            key = UNREACHABLE if ready == "Unknown" else NOT_READY
            keys += [(key, "NoSchedule"), (key, "NoExecute")]
        keys += [(key, "NoSchedule") for name, key in _BY_CONDITION.items() if found.get(name) == "True"]
        kept = [each for each in taints if each["key"] not in MANAGED or (each["key"], each["effect"]) in keys]
        known = {(each["key"], each["effect"]) for each in kept}
        now = format_time(self.api.clock.now())
        return kept + [
            {"key": key, "effect": effect, "timeAdded": now} for key, effect in keys if (key, effect) not in known
        ]


def _has_spoken(before: StoredEntry, after: StoredEntry) -> bool:
    """Report whether a kubelet has posted a status after this controller marked the node as unknown."""
    was = (condition(before.object(), "Ready") or {}).get("status")
    return was == "Unknown" and (condition(after.object(), "Ready") or {}).get("status") != "Unknown"


def _mark_unknown(status: Object, now: str) -> bool:
    """Set the kubelet's conditions to Unknown; true if that changes any."""
    conditions: list[Object] = status.setdefault("conditions", [])
    if not any(each.get("type") == "Ready" for each in conditions):
        conditions.append({"type": "Ready", "status": "", "lastHeartbeatTime": now, "lastTransitionTime": now})
    changed = False
    for each in conditions:
        if each.get("type") in _KUBELETS_OWN and each.get("status") != "Unknown":
            each.update(
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                lastTransitionTime=now,
            )
            changed = True
    return changed


def _set_taints(node: Object, taints: list[Object]) -> None:
    spec = node.setdefault("spec", {})
    if taints:
        spec["taints"] = taints
    else:
        spec.pop("taints", None)


# Taint eviction: a NoExecute taint evicts pods, immediately or when their toleration expires


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
        """Remember when a taint was added: not every client records the time."""
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
        self.mark_disrupted(entry, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        self.delete_pod(entry.object())

    def _patience(self, pod: Pod, node: Object) -> float | None:
        """Return seconds until the pod is evicted; None if it may stay for ever."""
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
    return (parse_time(when) if when else None) or now


def tolerated_for(pod: Pod, taint: Taint) -> float | None:
    """Return how long the pod tolerates the taint; None for ever. Of several tolerations the shortest counts, as
    upstream.
    """
    found = [each for each in pod.spec.tolerations if tolerates(each, taint)]
    if not found:
        return 0.0
    limits = [max(0.0, float(each.toleration_seconds)) for each in found if each.toleration_seconds is not None]
    return min(limits) if limits else None


# Pod garbage collection: pods of deleted nodes are deleted

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
            self.mark_disrupted(entry, "DeletionByPodGC", "PodGC: node no longer exists", phase="Failed")
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": entry.uid}}
        self.api.delete(PODS, entry.namespace, entry.name, options)
