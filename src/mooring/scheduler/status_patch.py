"""Patches of a pod's status: what kube-scheduler sends, which is the difference between two versions of the status.

A condition that is the pod's first is sent whole. With others there, only what changes is sent, under the merge key
``type``, beside the order in which all conditions are to stand. A status that does not change is not sent at all.
"""

from __future__ import annotations

from typing import Any

from mooring.api.core import Pod
from mooring.api.meta import Condition
from mooring.api.times import format_time

Patch = dict[str, Any]

POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"


def status_patch(
    pod: Pod, now: float, *, condition: Condition | None = None, nominated_node: str | None = None
) -> Patch | None:
    """The patch that gives the pod this condition and this nomination (None: leave it), or None if it has both."""
    status: Patch = {} if condition is None else _condition_patch(pod, condition, now)
    if nominated_node is not None and nominated_node != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated_node or None
    return {"status": status} if status else None


def pod_scheduled(pod: Pod, reason: str, message: str) -> Condition:
    """The condition of a pod that was tried in vain."""
    return Condition(POD_SCHEDULED, "False", reason, message, pod.metadata.generation)


def disruption_target(pod: Pod, scheduler_name: str) -> Condition:
    """The condition of a victim."""
    message = f"{scheduler_name}: preempting to accommodate a higher priority pod"
    return Condition(DISRUPTION_TARGET, "True", "PreemptionByScheduler", message, pod.metadata.generation)


def _condition_patch(pod: Pod, wanted: Condition, now: float) -> Patch:
    known = pod.status.conditions
    old = next((condition for condition in known if condition.type == wanted.type), None)
    if old is None:
        changed: Patch = {
            "lastProbeTime": None,
            "lastTransitionTime": format_time(now),
            "message": wanted.message,
            "observedGeneration": wanted.observed_generation,
            "reason": wanted.reason,
            "status": wanted.status,
            "type": wanted.type,
        }
        if not wanted.observed_generation:
            del changed["observedGeneration"]
        if not known:
            return {"conditions": [changed]}
        order = [*known, wanted]
    else:
        if (old.status, old.reason, old.message) == (wanted.status, wanted.reason, wanted.message):
            return {}
        changed = {}
        if old.status != wanted.status:
            changed |= {"lastTransitionTime": format_time(now), "status": wanted.status}
        if old.reason != wanted.reason:
            changed["reason"] = wanted.reason
        if old.message != wanted.message:
            changed["message"] = wanted.message
        if old.observed_generation != wanted.observed_generation:
            changed["observedGeneration"] = wanted.observed_generation
        changed["type"] = wanted.type
        order = known
    return {
        "$setElementOrder/conditions": [{"type": condition.type} for condition in order],
        "conditions": [changed],
    }
