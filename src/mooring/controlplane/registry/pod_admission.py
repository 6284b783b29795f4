"""What happens to a pod between its request and the store: priority, runtime class, label keys, first status."""

from __future__ import annotations

from typing import NamedTuple

from mooring.api.well_known import NOT_READY, REGION, UNREACHABLE, ZONE
from mooring.controlplane.registry.groups.node import RUNTIME_CLASSES
from mooring.controlplane.registry.groups.nodes import NODES
from mooring.controlplane.registry.groups.scheduling import PRIORITY_CLASSES
from mooring.controlplane.registry.pod_defaults import qos_class
from mooring.controlplane.types import quantities, status
from mooring.controlplane.types.kind import Context
from mooring.controlplane.types.objects import Object

# --------------------------------------------------------------------------------------------------------------------
# The priority that a class, or the default one, stands for: admission asks for pods and for pod groups.


class Priority(NamedTuple):
    name: str  # of the class; "" if there is none
    value: int
    preemption_policy: str


def priority_for(class_name: str, context: Context) -> Priority | None:
    """What the class says, or None if it does not exist; without a name, what the default class says, if any."""
    usual = "PreemptLowerPriority"
    if class_name:
        entry = context.find(PRIORITY_CLASSES, "", class_name)
        if entry is None:
            return None
        found = entry.object()
        return Priority(class_name, found.get("value", 0), found.get("preemptionPolicy", usual))
    defaults = [entry.object() for entry in context.each(PRIORITY_CLASSES) if b'"globalDefault":true' in entry.raw]
    if not defaults:
        return Priority("", 0, usual)
    chosen = min(defaults, key=lambda found: found.get("value", 0))
    return Priority(chosen["metadata"]["name"], chosen.get("value", 0), chosen.get("preemptionPolicy", usual))


TOPOLOGY_LABELS = (ZONE, REGION)
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


def admit_pod(pod: Object, context: Context) -> None:
    spec = pod["spec"]
    _admit_priority(pod, context)
    _admit_runtime_class(pod, context)
    if context.has_default_tolerations():
        _add_default_tolerations(spec)
    if spec.get("nodeName"):
        copy_topology_labels(pod, spec["nodeName"], context)
    merge_label_keys(pod)
    state: Object = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        state["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastTransitionTime": context.timestamp(),
                "reason": "SchedulingGated",
                "message": GATED_MESSAGE,
            }
        ]
    state["qosClass"] = qos_class(spec)
    pod["status"] = state


def _refuse(pod: Object, why: str) -> status.StatusError:
    metadata = pod["metadata"]
    return status.forbidden("pods", "", metadata.get("name") or metadata.get("generateName", ""), why)


def _admit_priority(pod: Object, context: Context) -> None:
    spec = pod["spec"]
    found = priority_for(spec.get("priorityClassName", ""), context)
    if found is None:
        raise _refuse(pod, f"no PriorityClass with name {spec['priorityClassName']} was found")
    name, priority, policy = found
    if name:
        spec["priorityClassName"] = name
    given = spec.get("priority")
    if given is not None and given != priority:
        raise _refuse(
            pod,
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name",
        )
    spec["priority"] = priority
    given_policy = spec.get("preemptionPolicy")
    if given_policy is not None and given_policy != policy:
        raise _refuse(
            pod,
            f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def _admit_runtime_class(pod: Object, context: Context) -> None:
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        if spec.get("overhead"):
            raise _refuse(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
        return
    entry = context.find(RUNTIME_CLASSES, "", name)
    if entry is None:
        raise _refuse(pod, f'pod rejected: RuntimeClass "{name}" not found')
    runtime_class = entry.object()
    overhead = (runtime_class.get("overhead") or {}).get("podFixed") or {}
    given = spec.get("overhead")
    if given is not None and {k: quantities.parse(v) for k, v in given.items()} != {
        k: quantities.parse(v) for k, v in overhead.items()
    }:
        raise _refuse(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = {key: quantities.canonical(value) for key, value in overhead.items()}
    scheduling = runtime_class.get("scheduling") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        known = spec.setdefault("nodeSelector", {}).setdefault(key, value)
        if known != value:
            raise _refuse(
                pod,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {known}",
            )
    for toleration in scheduling.get("tolerations") or ():
        if toleration not in spec.setdefault("tolerations", []):
            spec["tolerations"].append(toleration)


def _add_default_tolerations(spec: Object) -> None:
    """Stay five minutes on a node that is not ready or unreachable, unless the pod says otherwise."""
    for key in (NOT_READY, UNREACHABLE):
        tolerations = spec.setdefault("tolerations", [])
        if any(
            (known.get("key") in (key, None, "")) and known.get("effect") in ("NoExecute", None, "")
            for known in tolerations
        ):
            continue
        tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def copy_topology_labels(pod: Object, node_name: str, context: Context) -> None:
    """A bound pod carries its node's zone and region labels."""
    node = context.find(NODES, "", node_name)
    if node is None:
        return
    for key in TOPOLOGY_LABELS:
        if key in node.labels:
            pod["metadata"].setdefault("labels", {})[key] = node.labels[key]


def merge_label_keys(pod: Object) -> None:
    """Turn matchLabelKeys and mismatchLabelKeys into the selectors they stand for."""
    labels = pod["metadata"].get("labels") or {}
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_term(term, labels)
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_term(weighted.get("podAffinityTerm") or {}, labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_term(constraint, labels)


def _merge_term(term: Object, labels: dict[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            if key in labels:
                requirement = {"key": key, "operator": operator, "values": [labels[key]]}
                selector.setdefault("matchExpressions", []).append(requirement)
