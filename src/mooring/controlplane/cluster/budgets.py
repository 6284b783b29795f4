"""Disruption budgets: how many pods may be evicted now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from mooring.controlplane.cluster.base import (
    ClusterApi,
    Controller,
    Timers,
    controller_of,
    is_terminating,
    is_true,
    phase,
    set_condition,
)
from mooring.controlplane.cluster.deployments import share
from mooring.controlplane.registry.catalog import PODS, by_group_kind
from mooring.controlplane.registry.groups.workloads import BUDGETS
from mooring.controlplane.registry.validation import parse_time
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.store import Event
from mooring.controlplane.types.kind import Object

EVICTION_LIMIT_S = 120.0
"""An eviction without an effect within this time did not happen."""


class DisruptionController(Controller):
    """Keeps the status of budgets up to date; evictions and preemption read it."""

    watches: ClassVar[tuple[str, ...]] = ("poddisruptionbudgets.policy", "pods")

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        super().__init__(api, timers)
        self.elsewhere: Callable[[str], tuple[int, int]] = lambda key: (0, 0)
        """Pods of a budget that the API server does not have: how many there are, and how many are healthy."""

    def noted(self, event: Event) -> Iterable[str]:
        if event.kind is BUDGETS:
            return (event.entry.key,)
        return [entry.key for entry in self.store.iterate(BUDGETS, event.entry.namespace)]

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(BUDGETS, key)
        if entry is None:
            return
        budget = entry.object()
        spec, before = budget.get("spec") or {}, budget.get("status") or {}
        selector = selectors.from_object(spec.get("selector"))
        pods = []
        if selector is not None:
            pods = [
                each.object() for each in self.store.iterate(PODS, entry.namespace) if selector.matches(each.labels)
            ]
        pods = [pod for pod in pods if phase(pod) not in ("Succeeded", "Failed")]
        more, more_healthy = self.elsewhere(key)
        expected, desired = self._numbers(spec, pods, more)
        disrupted = self._still_disrupted(key, before.get("disruptedPods") or {}, pods)
        healthy = more_healthy + sum(
            is_true(pod, "Ready") and not is_terminating(pod) and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: Object = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": [dict(each) for each in before.get("conditions") or ()],
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        wanted = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": status["observedGeneration"],
        }
        set_condition(status, wanted, self.api.timestamp())
        self.set_status(entry, status)

    def _numbers(self, spec: Object, pods: list[Object], more: int) -> tuple[int, int]:
        """Return the desired number of pods, and how many must be healthy. ``more`` pods are elsewhere."""
        if spec.get("maxUnavailable") is not None:
            expected = self._scale(pods) + more
            return expected, max(0, expected - share(spec["maxUnavailable"], expected, up=True))
        minimum = spec.get("minAvailable", 1)
        if isinstance(minimum, str):
            expected = self._scale(pods) + more
            return expected, share(minimum, expected, up=True)
        return len(pods) + more, int(minimum)

    def _scale(self, pods: list[Object]) -> int:
        """Return the total replicas of the pods' controllers."""
        total, seen = 0, set()
        for pod in pods:
            owner = self._root(pod)
            if owner is None:
                total += 1
            elif owner["metadata"]["uid"] not in seen:
                seen.add(owner["metadata"]["uid"])
                total += int((owner.get("spec") or {}).get("replicas", 1))
        return total

    def _root(self, pod: Object) -> Object | None:
        """The workload that scales the pod: a ReplicaSet's Deployment counts, not the ReplicaSet."""
        found, reference = None, controller_of(pod)
        while reference is not None:
            kind = by_group_kind(reference["apiVersion"].rpartition("/")[0], reference["kind"])
            entry = self.store.by_uid(reference["uid"]) if kind is not None and "scale" in kind.subresources else None
            if entry is None:
                break
            found = entry.object()
            reference = controller_of(found)
        return found

    def _still_disrupted(self, key: str, known: Object, pods: list[Object]) -> Object:
        """Return allowed evictions without an effect so far."""
        names = {pod["metadata"]["name"]: pod for pod in pods}
        now = self.api.clock.now()
        kept: Object = {}
        for name, when in known.items():
            pod = names.get(name)
            left_s = (parse_time(when) or now) + EVICTION_LIMIT_S - now
            if pod is not None and not is_terminating(pod) and left_s > 0:
                kept[name] = when
                self.enqueue_after(key, left_s + 1)
        return kept
