"""The columns of ``kubectl get``, per kind, with upstream's names and cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mooring.controlplane.registry.catalog import storage_of
from mooring.controlplane.registry.meta import parse_time
from mooring.controlplane.serving.pod_printer import pod_ready, pod_restarts, pod_status
from mooring.controlplane.types.durations import human_duration
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.objects import Object

Cell = Callable[[Object, float], Any]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0


def _get(obj: Any, *path: str) -> Any:
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _at(*path: str, default: Any = "") -> Cell:
    def cell(obj: Object, _: float) -> Any:
        value = _get(obj, *path)
        return default if value is None or value == "" else value

    return cell


def _since(*path: str) -> Cell:
    def cell(obj: Object, now: float) -> str:
        return _ago(_get(obj, *path), now)

    return cell


def _ago(text: Any, now: float) -> str:
    when = parse_time(text) if isinstance(text, str) else None
    return "<unknown>" if when is None else human_duration(now - when)


NAME = Column("Name", _at("metadata", "name"))
AGE = Column("Age", _since("metadata", "creationTimestamp"))


def _wide(name: str, cell: Cell, kind: str = "string") -> Column:
    return Column(name, cell, kind, 1)


def _number(name: str, *path: str) -> Column:
    return Column(name, _at(*path, default=0), "integer")


def _labels(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def _selector(obj: Object, _: float) -> str:
    return _selector_text(_get(obj, "spec", "selector"))


def _selector_text(selector: Any) -> str:
    if not selector:
        return "<none>"
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return _labels(selector)
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression.get("key", ""), ",".join(expression.get("values") or ())
        shown = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(shown.get(expression.get("operator", ""), f"!{key}"))
    return ",".join(parts) or "<none>"


def _template(name: str) -> Cell:
    def cell(obj: Object, _: float) -> str:
        containers = _get(obj, "spec", "template", "spec", "containers") or ()
        return ",".join(container.get(name, "") for container in containers)

    return cell


_WORKLOAD = (
    _wide("Containers", _template("name")),
    _wide("Images", _template("image")),
    _wide("Selector", _selector),
)


def _readiness_gates(obj: Object, _: float) -> str:
    gates = [gate.get("conditionType") for gate in _get(obj, "spec", "readinessGates") or ()]
    if not gates:
        return "<none>"
    true = {c.get("type") for c in _get(obj, "status", "conditions") or () if c.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def _node_status(obj: Object, _: float) -> str:
    ready = [c for c in _get(obj, "status", "conditions") or () if c.get("type") == "Ready"]
    shown = ["Unknown" if not ready else "Ready" if ready[-1].get("status") == "True" else "NotReady"]
    if _get(obj, "spec", "unschedulable"):
        shown.append("SchedulingDisabled")
    return ",".join(shown)


def _node_roles(obj: Object, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels: dict[str, str] = _get(obj, "metadata", "labels") or {}
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or "<none>"


def _address(kind: str) -> Cell:
    def cell(obj: Object, _: float) -> str:
        for address in _get(obj, "status", "addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address", ""))
        return "<none>"

    return cell


def _kernel(obj: Object, _: float) -> str:
    info = _get(obj, "status", "nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    return f"{kernel} ({info['architecture']})" if info.get("architecture") else str(kernel)


def _event_first(obj: Object, now: float) -> str:
    return _ago(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _event_last(obj: Object, now: float) -> str:
    if obj.get("series"):
        return _ago(obj["series"].get("lastObservedTime"), now)
    return _ago(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else _event_first(obj, now)


def _event_object(obj: Object, _: float) -> str:
    involved = obj.get("involvedObject") or {}
    kind = involved.get("kind", "").lower()
    return f"{kind}/{involved['name']}" if involved.get("name") else kind


def _event_source(obj: Object, _: float) -> str:
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent", "")
    host = source.get("host") or obj.get("reportingInstance", "")
    return f"{component}, {host}" if host else str(component)


def _event_count(obj: Object, _: float) -> int:
    return int((obj.get("series") or {}).get("count") or obj.get("count") or 1)


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(*path: str) -> Cell:
    def cell(obj: Object, _: float) -> str:
        return ",".join(_MODES.get(mode, mode) for mode in dict.fromkeys(_get(obj, *path) or ()))

    return cell


def _volume_claim(obj: Object, _: float) -> str:
    reference = _get(obj, "spec", "claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _phase(obj: Object, _: float) -> str:
    if _get(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return _get(obj, "status", "phase") or ""


def _ready(ready: str, wanted: str = "replicas") -> Cell:
    def cell(obj: Object, _: float) -> str:
        return f"{_get(obj, 'status', ready) or 0}/{_get(obj, 'spec', wanted) or 0}"

    return cell


def _job_status(obj: Object, _: float) -> str:
    conditions = {c.get("type") for c in _get(obj, "status", "conditions") or () if c.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in conditions:
            return kind
    if _get(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return next(
        (kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in conditions), "Running"
    )


def _job_completions(obj: Object, _: float) -> str:
    done, wanted = _get(obj, "status", "succeeded") or 0, _get(obj, "spec", "completions")
    parallelism = _get(obj, "spec", "parallelism") or 0
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Object, now: float) -> str:
    start, end = _get(obj, "status", "startTime"), _get(obj, "status", "completionTime")
    begun = parse_time(start) if start else None
    if begun is None:
        return ""
    finished = parse_time(end) if end else None
    return human_duration((finished if finished is not None else now) - begun)


def _ports(obj: Object, _: float) -> str:
    shown = []
    for port in _get(obj, "spec", "ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port', 0)}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _count(*names: str) -> Cell:
    return lambda obj, _: sum(len(obj.get(name) or ()) for name in names)


def _storage_class_name(obj: Object, _: float) -> str:
    name = str(_get(obj, "metadata", "name"))
    annotations: dict[str, str] = _get(obj, "metadata", "annotations") or {}
    return f"{name} (default)" if annotations.get("storageclass.kubernetes.io/is-default-class") == "true" else name


def _claim_state(obj: Object, _: float) -> str:
    states = ["deleted"] if _get(obj, "metadata", "deletionTimestamp") else []
    if _get(obj, "status", "allocation") is None:
        return ",".join([*states, "pending"]) if not states else ",".join(states)
    states.append("allocated")
    states.append("reserved" if _get(obj, "status", "reservedFor") else "")
    return ",".join(state for state in states if state)


def _bool(*path: str) -> Cell:
    return lambda obj, _: bool(_get(obj, *path))


_REPLICA_SET = (
    NAME,
    _number("Desired", "spec", "replicas"),
    _number("Current", "status", "replicas"),
    _number("Ready", "status", "readyReplicas"),
    AGE,
    *_WORKLOAD,
)
_DATA_AGE = (Column("Data", _count("data", "binaryData"), "integer"), AGE)

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        NAME,
        Column("Ready", pod_ready),
        Column("Status", pod_status),
        Column("Restarts", pod_restarts),
        AGE,
        _wide("IP", _at("status", "podIP", default="<none>")),
        _wide("Node", _at("spec", "nodeName", default="<none>")),
        _wide("Nominated Node", _at("status", "nominatedNodeName", default="<none>")),
        _wide("Readiness Gates", _readiness_gates),
    ),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion")),
        _wide("Internal-IP", _address("InternalIP")),
        _wide("External-IP", _address("ExternalIP")),
        _wide("OS-Image", _at("status", "nodeInfo", "osImage", default="<unknown>")),
        _wide("Kernel-Version", _kernel),
        _wide("Container-Runtime", _at("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>")),
    ),
    "events": (
        Column("Last Seen", _event_last),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _event_object),
        _wide("Subobject", _at("involvedObject", "fieldPath")),
        _wide("Source", _event_source),
        Column("Message", lambda obj, _: str(obj.get("message", "")).strip()),
        _wide("First Seen", _event_first),
        _wide("Count", _event_count),
        _wide("Name", _at("metadata", "name")),
    ),
    "namespaces": (NAME, Column("Status", _at("status", "phase")), AGE),
    "configmaps": (NAME, *_DATA_AGE),
    "secrets": (NAME, Column("Type", _at("type")), *_DATA_AGE),
    "services": (
        NAME,
        Column("Type", _at("spec", "type")),
        Column("Cluster-IP", _at("spec", "clusterIP", default="<none>")),
        Column("External-IP", lambda obj, _: "<none>"),
        Column("Port(s)", _ports),
        AGE,
        _wide("Selector", _selector),
    ),
    "persistentvolumes": (
        NAME,
        Column("Capacity", _at("spec", "capacity", "storage")),
        Column("Access Modes", _modes("spec", "accessModes")),
        Column("Reclaim Policy", _at("spec", "persistentVolumeReclaimPolicy")),
        Column("Status", _phase),
        Column("Claim", _volume_claim),
        Column("StorageClass", _at("spec", "storageClassName")),
        Column("VolumeAttributesClass", _at("spec", "volumeAttributesClassName", default="<unset>")),
        Column("Reason", _at("status", "reason")),
        AGE,
        _wide("VolumeMode", _at("spec", "volumeMode", default="<unset>")),
    ),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", _phase),
        Column("Volume", _at("spec", "volumeName")),
        Column("Capacity", _at("status", "capacity", "storage")),
        Column("Access Modes", _modes("status", "accessModes")),
        Column("StorageClass", _at("spec", "storageClassName")),
        Column("VolumeAttributesClass", _at("spec", "volumeAttributesClassName", default="<unset>")),
        AGE,
        _wide("VolumeMode", _at("spec", "volumeMode", default="<unset>")),
    ),
    "replicationcontrollers": _REPLICA_SET,
    "replicasets.apps": _REPLICA_SET,
    "deployments.apps": (
        NAME,
        Column("Ready", _ready("readyReplicas")),
        _number("Up-to-date", "status", "updatedReplicas"),
        _number("Available", "status", "availableReplicas"),
        AGE,
        *_WORKLOAD,
    ),
    "statefulsets.apps": (NAME, Column("Ready", _ready("readyReplicas")), AGE, *_WORKLOAD[:2]),
    "daemonsets.apps": (
        NAME,
        _number("Desired", "status", "desiredNumberScheduled"),
        _number("Current", "status", "currentNumberScheduled"),
        _number("Ready", "status", "numberReady"),
        _number("Up-to-date", "status", "updatedNumberScheduled"),
        _number("Available", "status", "numberAvailable"),
        Column("Node Selector", lambda obj, _: _labels(_get(obj, "spec", "template", "spec", "nodeSelector"))),
        AGE,
        *_WORKLOAD,
    ),
    "jobs.batch": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        *_WORKLOAD,
    ),
    "networkpolicies.networking.k8s.io": (
        NAME,
        Column("Pod-Selector", lambda obj, _: _selector_text(_get(obj, "spec", "podSelector"))),
        AGE,
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", lambda obj, _: str(_at("spec", "minAvailable", default="N/A")(obj, 0))),
        Column("Max Unavailable", lambda obj, _: str(_at("spec", "maxUnavailable", default="N/A")(obj, 0))),
        _number("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", _at("value", default=0), "integer"),
        Column("Global-Default", _bool("globalDefault"), "boolean"),
        AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy")),
    ),
    "storageclasses.storage.k8s.io": (
        Column("Name", _storage_class_name),
        Column("Provisioner", _at("provisioner")),
        Column("ReclaimPolicy", _at("reclaimPolicy")),
        Column("VolumeBindingMode", _at("volumeBindingMode")),
        Column("AllowVolumeExpansion", _bool("allowVolumeExpansion"), "boolean"),
        AGE,
    ),
    "leases.coordination.k8s.io": (NAME, Column("Holder", _at("spec", "holderIdentity")), AGE),
    "runtimeclasses.node.k8s.io": (NAME, Column("Handler", _at("handler")), AGE),
    "csinodes.storage.k8s.io": (
        NAME,
        Column("Drivers", lambda obj, _: len(_get(obj, "spec", "drivers") or ()), "integer"),
        AGE,
    ),
    "csidrivers.storage.k8s.io": (
        NAME,
        Column("AttachRequired", _bool("spec", "attachRequired"), "boolean"),
        Column("PodInfoOnMount", _bool("spec", "podInfoOnMount"), "boolean"),
        Column("StorageCapacity", _bool("spec", "storageCapacity"), "boolean"),
        Column("Modes", lambda obj, _: ",".join(_get(obj, "spec", "volumeLifecycleModes") or ())),
        AGE,
    ),
    "csistoragecapacities.storage.k8s.io": (
        NAME,
        Column("StorageClassName", _at("storageClassName")),
        Column("Capacity", _at("capacity")),
    ),
    "volumeattachments.storage.k8s.io": (
        NAME,
        Column("Attacher", _at("spec", "attacher")),
        Column("PV", _at("spec", "source", "persistentVolumeName")),
        Column("Node", _at("spec", "nodeName")),
        Column("Attached", _bool("status", "attached"), "boolean"),
        AGE,
    ),
    "resourceclaims.resource.k8s.io": (NAME, Column("State", _claim_state), AGE),
    "resourceslices.resource.k8s.io": (
        NAME,
        Column("Node", _at("spec", "nodeName")),
        Column("Driver", _at("spec", "driver")),
        Column("Pool", _at("spec", "pool", "name")),
        AGE,
    ),
    "controllerrevisions.apps": (
        NAME,
        Column("Controller", lambda obj, _: _controller(obj)),
        Column("Revision", _at("revision", default=0), "integer"),
        AGE,
    ),
}


def _controller(obj: Object) -> str:
    for reference in _get(obj, "metadata", "ownerReferences") or ():
        if reference.get("controller"):
            return f"{reference.get('kind', '').lower()}.apps/{reference.get('name', '')}"
    return "<none>"


def columns_of(kind: Kind) -> tuple[Column, ...]:
    return _COLUMNS.get(storage_of(kind).resource, (NAME, AGE))
