"""Nodes and the objects that pods on them refer to: RuntimeClasses, Leases, PriorityClasses."""

from __future__ import annotations

from mooring.api.defaults import SYSTEM_PRIORITIES
from mooring.controlplane.registry.columns import boolean, columns, get, number, wide
from mooring.controlplane.registry.validation import fill, immutable, validate_taints
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Cell, Column, Fields, Kind, Object
from mooring.controlplane.types.status import Cause, forbidden_field, invalid_value, required, unsupported


def _node_status(obj: Object, _: float) -> str:
    ready = [c for c in get(obj, "status.conditions") or () if c.get("type") == "Ready"]
    shown = ["Unknown" if not ready else "Ready" if ready[-1].get("status") == "True" else "NotReady"]
    if get(obj, "spec.unschedulable"):
        shown.append("SchedulingDisabled")
    return ",".join(shown)


def _node_roles(obj: Object, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels: dict[str, str] = get(obj, "metadata.labels") or {}
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or "<none>"


def _address(kind: str) -> Cell:
    def cell(obj: Object, _: float) -> str:
        for address in get(obj, "status.addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address", ""))
        return "<none>"

    return cell


def _kernel(obj: Object, _: float) -> str:
    info = get(obj, "status.nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    return f"{kernel} ({info['architecture']})" if info.get("architecture") else str(kernel)


def _default_node(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for name in ("taints", "unschedulable"):
        if name in spec and not spec[name]:
            del spec[name]
    state = obj.setdefault("status", {})
    quantities.canonicalize(state.get("capacity"))
    if state.get("capacity") and not state.get("allocatable"):
        state["allocatable"] = dict(state["capacity"])
    quantities.canonicalize(state.get("allocatable"))
    state.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = state.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")


_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _validate_node(obj: Object) -> list[Cause]:
    taints = (obj.get("spec") or {}).get("taints")
    found = validate_taints(taints, "spec.taints") if taints else []
    state = obj.get("status") or {}
    for group in ("capacity", "allocatable"):
        for name, value in (state.get(group) or {}).items():
            if quantities.parse(value).numerator < 0:  # comparing fractions takes much longer
                where = f"status.{group}[{name}]"
                found.append(invalid_value(where, value, "must be greater than or equal to 0"))
    return found


def _update_node(new: Object, old: Object) -> list[Cause]:
    found = []
    for name in ("podCIDR", "providerID"):
        before, after = (old.get("spec") or {}).get(name), (new.get("spec") or {}).get(name)
        if before and before != after:
            why = f'node updates may not change {name} except from "" to valid'
            found.append(forbidden_field(f"spec.{name}", why))
    return found


NODES = Kind(
    "Node",
    is_namespaced=False,
    short_names=("no",),
    subresources=("status",),
    fields=Fields(
        ("spec.unschedulable",),
        lambda obj: {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"},
    ),
    default=_default_node,
    validate=_validate_node,
    validate_update=_update_node,
    keeps_status_at_create=True,
    columns=columns(
        "Name",
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        "Age",
        "Version: status.nodeInfo.kubeletVersion",
        wide("Internal-IP", _address("InternalIP")),
        wide("External-IP", _address("ExternalIP")),
        "+OS-Image: status.nodeInfo.osImage | <unknown>",
        wide("Kernel-Version", _kernel),
        "+Container-Runtime: status.nodeInfo.containerRuntimeVersion | <unknown>",
    ),
)


# RuntimeClasses


def _default_runtime_class(obj: Object) -> None:
    quantities.canonicalize((obj.get("overhead") or {}).get("podFixed"))


def _validate_runtime_class(obj: Object) -> list[Cause]:
    return [] if obj.get("handler") else [required("handler")]


def _update_runtime_class(new: Object, old: Object) -> list[Cause]:
    return immutable(new, old, "handler")


RUNTIME_CLASSES = Kind(
    "RuntimeClass",
    "node.k8s.io",
    is_namespaced=False,
    default=_default_runtime_class,
    validate=_validate_runtime_class,
    validate_update=_update_runtime_class,
    columns=columns("Name", "Handler: handler", "Age"),
)


# Leases

LEASES = Kind(
    "Lease",
    "coordination.k8s.io",
    allows_unconditional_update=False,
    creates_on_update=True,
    columns=columns("Name", "Holder: spec.holderIdentity", "Age"),
)


# PriorityClasses


def _default_priority_class(obj: Object) -> None:
    fill(obj, value=0, preemptionPolicy="PreemptLowerPriority")


def _validate_priority_class(obj: Object) -> list[Cause]:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith("system-") and SYSTEM_PRIORITIES.get(name) != value:
        why = "priority class names with 'system-' prefix are reserved for system use only"
        return [forbidden_field("metadata.name", why)]
    if value > 1000000000 and name not in SYSTEM_PRIORITIES:
        why = "maximum allowed value of a user defined priority is 1000000000"
        return [forbidden_field("value", why)]
    if obj["preemptionPolicy"] not in ("PreemptLowerPriority", "Never"):
        return [unsupported("preemptionPolicy", obj["preemptionPolicy"], ("PreemptLowerPriority", "Never"))]
    return []


def _update_priority_class(new: Object, old: Object) -> list[Cause]:
    found = immutable(new, old, "preemptionPolicy")
    if new.get("value") != old.get("value"):
        found.insert(0, forbidden_field("value", "may not be changed in an update."))
    return found


PRIORITY_CLASSES = Kind(
    "PriorityClass",
    "scheduling.k8s.io",
    is_namespaced=False,
    short_names=("pc",),
    has_generation=True,
    default=_default_priority_class,
    validate=_validate_priority_class,
    validate_update=_update_priority_class,
    columns=columns(
        "Name",
        number("Value", "value"),
        boolean("Global-Default", "globalDefault"),
        "Age",
        "PreemptionPolicy: preemptionPolicy",
    ),
)
