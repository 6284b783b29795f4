"""The format of recorded cases: how objects come out of it, and how decisions are written in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import msgspec

from mooring.api.codec import from_plain, struct_of
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.times import parse_time
from mooring.api.version import release_of
from mooring.api.well_known import REGION, ZONE
from mooring.core.config.features import Features, nearest_version
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.runtime import Profile
from mooring.core.plugins.devices.allocator import binding_problem, chosen_devices
from mooring.core.plugins.volume_binding import chosen_volumes
from mooring.core.state.cluster import ClusterState

TOPOLOGY_LABELS = (ZONE, REGION)
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"  # the API server's words, not ours


def features_of(case: Mapping[str, Any]) -> Features:
    """The version that a case was recorded from, or the nearest to it, with its gates at their defaults."""
    return Features(nearest_version(release_of(str(case.get("kubernetes", ""))))[0])


def load_object(value: Mapping[str, Any]) -> Object | None:
    """An object of a case, or None for a kind that no plugin reads."""
    struct = struct_of(str(value.get("kind")), value.get("apiVersion"))
    return None if struct is None else from_plain(struct, value)


def latest_time(values: Iterable[Mapping[str, Any]]) -> float:
    """A moment after everything in the case: "now" for pods that have no start time."""
    stamps = [value.get("metadata", {}).get("creationTimestamp") for value in values]
    return max((parse_time(stamp) for stamp in stamps if stamp), default=0.0) + 3600.0


def bound(cluster: ClusterState, pod: Pod, node_name: str) -> Pod:
    """The pod as the API server stores it once bound: with its node's name and topology labels."""
    info = cluster.table.nodes.get(node_name)
    node: Node | None = None if info is None else info.node
    placed = copy(pod)
    placed.spec = copy(pod.spec)
    placed.spec.node_name = node_name
    if node is not None:
        topology = {key: node.metadata.labels[key] for key in TOPOLOGY_LABELS if key in node.metadata.labels}
        placed.metadata = copy(pod.metadata)
        placed.metadata.labels = {**pod.metadata.labels, **topology}
    return placed


def describe_gated(pod: Pod) -> dict[str, Any]:
    """A pod that was held back before any attempt."""
    has_gates = bool(pod.spec.scheduling_gates)
    return {
        "outcome": Outcome.GATED.value,
        "reason": "SchedulingGated" if has_gates else None,
        "message": GATED_MESSAGE if has_gates else None,
    }


def describe(decision: ScheduleResult, profile: Profile) -> dict[str, Any]:
    """A decision in the format that recordings are compared in."""
    refusal: dict[str, Any] = {"outcome": Outcome.UNSCHEDULABLE.value, "node": None, "scores": {}, "totals": {}}
    if decision.outcome is Outcome.SCHEDULED:
        problem = binding_problem(decision.state, decision.pod.pod.key, decision.node or "")
        if not problem:
            return _describe_placement(decision, profile)
        message = f'running PreBind plugin "DynamicResources": {problem}'
        return {**refusal, "reason": "SchedulerError", "message": message, "nominatedNode": None, "victims": []}
    return {
        **refusal,
        "reason": decision.reason,
        "message": decision.message,
        "nominatedNode": nomination_after(decision) or None,
        "victims": sorted(victim.pod.key for victim in decision.victims if not victim.pod.is_terminating),
    }


def nomination_after(decision: ScheduleResult) -> str:
    """The node that the pod is nominated to after a refusal: the decision's, or else the one before."""
    if decision.nominated_node is not None:
        return decision.nominated_node
    return decision.pod.pod.status.nominated_node_name


def _describe_placement(decision: ScheduleResult, profile: Profile) -> dict[str, Any]:
    node = decision.node or ""
    result: dict[str, Any] = {
        "outcome": Outcome.SCHEDULED.value,
        "node": node,
        "scores": {} if decision.scores is None else decision.scores.to_dict(),
        "totals": {} if decision.scores is None else decision.scores.totals_dict(),
    }
    status = profile.run_reserve(decision.state, decision.pod, node)
    if status.is_success:
        result["volumes"] = chosen_volumes(decision.state, node)
        result["devices"] = {
            claim: [_device(found) for found in results]
            for claim, results in chosen_devices(decision.state, decision.pod.pod.metadata.name, node).items()
        }
    profile.run_unreserve(decision.state, decision.pod, node)
    return result


def _device(result: Any) -> dict[str, Any]:
    fields = msgspec.to_builtins(result)
    keys = ("request", "driver", "pool", "device", "adminAccess", "consumedCapacity")
    return {key: fields[key] for key in keys if fields.get(key)}
