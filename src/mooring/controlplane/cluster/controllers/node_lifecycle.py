"""Node lifecycle: silent nodes become unreachable, conditions become taints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

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
from mooring.controlplane.cluster.api import ClusterApi
from mooring.controlplane.cluster.controllers.base import Controller, condition
from mooring.controlplane.cluster.timers import Timer, Timers
from mooring.controlplane.registry.catalog import NODES
from mooring.controlplane.registry.groups.coordination import LEASES
from mooring.controlplane.storage.store import DELETED, Entry, Event
from mooring.controlplane.types.objects import Object

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
    """Watches over leases and conditions. Nodes that never had a lease are believed to be what they say."""

    watches: ClassVar[tuple[str, ...]] = ("nodes", "leases.coordination.k8s.io")

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        super().__init__(api, timers)
        self._heard: dict[str, float] = {}  # node -> when, by our own clock
        self._began = self._looked = 0.0
        self._monitor: Timer | None = None  # while there are nodes that could fall silent

    def start(self) -> None:
        super().start()
        now = self._began = self.api.clock.monotonic()
        for lease in self.store.iterate(LEASES, "kube-node-lease"):
            self._hear(lease.name, now)

    def _hear(self, name: str, now: float) -> None:
        """A node has given a sign of life. The first one lets this look around, every few seconds since its start."""
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
        """Also no node falls silent: without leases, only those have one whose kubelet has stopped."""
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
            # This process did not run, so it could not hear the nodes: they get that time back.
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
                entry = self.api.modify(NODES, "", key, lambda obj: obj.update(status=status), subresource="status")
        node = entry.object()
        taints = (node.get("spec") or {}).get("taints") or []
        wanted = self._wanted(node, taints)
        if wanted != taints:
            self.api.modify(NODES, "", key, lambda obj: _set_taints(obj, wanted))

    def _wanted(self, node: Object, taints: list[Object]) -> list[Object]:
        """The taints as they should be: others' stay, ours follow the conditions."""
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


def _has_spoken(before: Entry, after: Entry) -> bool:
    """Whether a kubelet has posted a status after this controller had marked the node as unknown."""
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
