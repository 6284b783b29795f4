"""Pods: defaults, admission, and the columns of ``kubectl get``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from mooring.api.quantity import NANO
from mooring.api.well_known import NOT_READY, REGION, UNREACHABLE, ZONE
from mooring.controlplane.registry import pod_validation
from mooring.controlplane.registry.columns import columns, get, pod_ready, pod_restarts, pod_status, wide
from mooring.controlplane.registry.groups.nodes import NODES, PRIORITY_CLASSES, RUNTIME_CLASSES
from mooring.controlplane.types import quantities, status
from mooring.controlplane.types.kind import Column, Context, Fields, Kind, Object
from mooring.core.state.requests import Amounts, held_together, parse_amounts

# Defaults

_POD_LEVEL = ("cpu", "memory")
_DROPPED_IF_EMPTY = (
    *("nodeName", "priorityClassName", "hostNetwork", "hostPID", "hostIPC"),
    *("tolerations", "nodeSelector", "schedulingGates", "topologySpreadConstraints", "volumes"),
)


def default_pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        requirements = container["resources"]
        if requirements.get("limits"):
            requests = requirements.setdefault("requests", {})
            for name, value in requirements["limits"].items():
                requests.setdefault(name, value)
    _default_pod_requests(spec)


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def default_pod_spec(spec: Object) -> None:
    """Set the defaults of a pod spec, also inside the template of a workload."""
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
    ):
        if not spec.get(name) and spec.get(name) != 0:
            spec[name] = value
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for name in _DROPPED_IF_EMPTY:
        if name in spec and not spec[name]:
            del spec[name]
    for container in _containers(spec):
        _default_container(container, bool(spec.get("hostNetwork")))
    for container in spec.get("ephemeralContainers") or ():
        _default_container(container, False)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    quantities.canonicalize(spec.get("overhead"))
    quantities.canonicalize_requirements(spec.get("resources"))


def _default_container(container: Object, host_network: bool) -> None:
    requirements = container.setdefault("resources", {})
    quantities.canonicalize_requirements(requirements)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name):
            _default_probe(container[name])
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    """Return Always for ``latest`` and untagged images, IfNotPresent for the rest."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_probe(probe: Object) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    if probe.get("httpGet") is not None:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _default_volume(volume: Object) -> None:
    for name in ("secret", "configMap", "projected", "downwardAPI"):
        if volume.get(name) is not None:
            volume[name].setdefault("defaultMode", 420)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        claim = template.setdefault("spec", {})
        claim.setdefault("volumeMode", "Filesystem")
        quantities.canonicalize_requirements(claim.get("resources"))
    if (volume.get("emptyDir") or {}).get("sizeLimit") is not None:
        volume["emptyDir"]["sizeLimit"] = quantities.canonical(volume["emptyDir"]["sizeLimit"])
    if len(volume) == 1:
        volume["emptyDir"] = {}


def _default_pod_requests(spec: Object) -> None:
    """Set pod-level requests if only limits are given: the containers' requests, else the limits."""
    limits = (spec.get("resources") or {}).get("limits")
    if not limits:
        return
    requests = spec["resources"].setdefault("requests", {})
    for name, value in aggregate_requests(spec).items():
        if name in _POD_LEVEL and name not in requests:
            requests[name] = quantities.formatted(value, like=_first_request(spec, name))
    for name, value in limits.items():
        if name not in requests and (name in _POD_LEVEL or name.startswith("hugepages-")):
            requests[name] = value


def _first_request(spec: Object, name: str) -> str:
    """Return the first request of that name, whose notation the sum takes."""
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        value = ((container.get("resources") or {}).get("requests") or {}).get(name)
        if value is not None:
            return str(value)
    return ""


def aggregate_requests(spec: Object) -> dict[str, Fraction]:
    """Return the requests of all containers together."""
    init = spec.get("initContainers") or ()
    amounts = held_together(
        (_requests(container) for container in spec.get("containers") or ()),
        ((container.get("restartPolicy") == "Always", _requests(container)) for container in init),
    )
    return {name: Fraction(amount, NANO) for name, amount in amounts.items()}


def _requests(container: Object) -> Amounts:
    return parse_amounts((container.get("resources") or {}).get("requests") or {}, "resources.requests")


_encode = msgspec.json.Encoder().encode


def qos_class(spec: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    pod_level = spec.get("resources")
    parts = [pod_level] if pod_level else [container.get("resources") or {} for container in _containers(spec)]
    return _qos_of(_encode(parts))


@lru_cache(maxsize=4096)
def _qos_of(encoded: bytes) -> str:
    parts = msgspec.json.decode(encoded)
    requests: dict[str, Fraction] = {}
    limits: dict[str, Fraction] = {}
    guaranteed = True
    for part in parts:
        for name, value in (part.get("requests") or {}).items():
            if name in _POD_LEVEL and quantities.parse(value) > 0:
                requests[name] = requests.get(name, Fraction(0)) + quantities.parse(value)
        found = set()
        for name, value in (part.get("limits") or {}).items():
            if name in _POD_LEVEL and quantities.parse(value) > 0:
                found.add(name)
                limits[name] = limits.get(name, Fraction(0)) + quantities.parse(value)
        guaranteed = guaranteed and len(found) == len(_POD_LEVEL)
    if not requests and not limits:
        return "BestEffort"
    if guaranteed and requests == limits:
        return "Guaranteed"
    return "Burstable"


# Admission: priority, runtime class, label keys, first status


class Priority(NamedTuple):
    name: str  # of the class; "" if there is none
    value: int
    preemption_policy: str


def priority_for(class_name: str, context: Context) -> Priority | None:
    """Return the priority of the class, or None if it does not exist; without a name, that of the default class, if
    any.
    """
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
    if found.name:
        spec["priorityClassName"] = found.name
    for field, computed, what in (
        ("priority", found.value, "integer value of priority"),
        ("preemptionPolicy", found.preemption_policy, "string value of PreemptionPolicy"),
    ):
        given = spec.get(field)
        if given is not None and given != computed:
            raise _refuse(
                pod,
                f"the {what} ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {computed} from the given PriorityClass name",
            )
        spec[field] = computed


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
    """Tolerate a node that is not ready or unreachable for five minutes, unless the pod says otherwise."""
    for key in (NOT_READY, UNREACHABLE):
        tolerations = spec.setdefault("tolerations", [])
        if any(
            (known.get("key") in (key, None, "")) and known.get("effect") in ("NoExecute", None, "")
            for known in tolerations
        ):
            continue
        tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def copy_topology_labels(pod: Object, node_name: str, context: Context) -> None:
    """Copy its node's zone and region labels to a bound pod, since 1.35."""
    if not context.copies_topology_labels():
        return
    node = context.find(NODES, "", node_name)
    if node is None:
        return
    for key in TOPOLOGY_LABELS:
        if key in node.labels:
            pod["metadata"].setdefault("labels", {})[key] = node.labels[key]


def merge_label_keys(pod: Object) -> None:
    """Turn matchLabelKeys and mismatchLabelKeys into the selectors that they represent."""
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


# Field selectors and columns

_SPEC_FIELDS = [(name, f"spec.{name}") for name in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")]
_STATUS_FIELDS = [(name, f"status.{name}") for name in ("phase", "podIP", "nominatedNodeName")]


def _pod_fields(obj: Mapping[str, Any]) -> dict[str, str]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    found = {}
    for name, path in _SPEC_FIELDS:
        if value := spec.get(name):
            found[path] = value
    for name, path in _STATUS_FIELDS:
        if value := status.get(name):
            found[path] = value
    found["spec.hostNetwork"] = "true" if spec.get("hostNetwork") else "false"
    return found


def _readiness_gates(obj: Object, _: float) -> str:
    gates = [gate.get("conditionType") for gate in get(obj, "spec.readinessGates") or ()]
    if not gates:
        return "<none>"
    true = {c.get("type") for c in get(obj, "status.conditions") or () if c.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


PODS = Kind(
    "Pod",
    short_names=("po",),
    subresources=("binding", "ephemeralcontainers", "eviction", "resize", "status"),
    categories=("all",),
    has_generation=True,
    fields=Fields((*(path for _, path in _SPEC_FIELDS + _STATUS_FIELDS), "spec.hostNetwork"), _pod_fields),
    default=default_pod,
    admit=admit_pod,
    prepare_update=pod_validation.prepare_update,
    prepare_status=pod_validation.prepare_status,
    validate=pod_validation.validate,
    validate_update=pod_validation.validate_update,
    returns_deleted=True,
    columns=columns(
        "Name",
        Column("Ready", pod_ready),
        Column("Status", pod_status),
        Column("Restarts", pod_restarts),
        "Age",
        "+IP: status.podIP | <none>",
        "+Node: spec.nodeName | <none>",
        "+Nominated Node: status.nominatedNodeName | <none>",
        wide("Readiness Gates", _readiness_gates),
    ),
)
