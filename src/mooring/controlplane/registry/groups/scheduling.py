"""Groups of pods that are scheduled together, and devices that pods claim (dynamic resource allocation)."""

from __future__ import annotations

from typing import Any

from mooring.controlplane.registry.columns import columns, get
from mooring.controlplane.registry.groups.pods import priority_for
from mooring.controlplane.registry.validation import fill, first_status, immutable
from mooring.controlplane.types import quantities, status
from mooring.controlplane.types.kind import Column, Context, Fields, Kind, Object
from mooring.controlplane.types.status import Cause, invalid_value, required

_GROUP, _VERSION = "scheduling.k8s.io", "v1beta1"
_IMMUTABLE = (
    "spec.parentCompositePodGroupName",
    "spec.workloadRef",
    "spec.schedulingConstraints",
    "spec.resourceClaims",
    "spec.disruptionMode",
    "spec.priorityClassName",
    "spec.priority",
)
MAX_TEMPLATES = 8


def _default_pod_group(obj: Object) -> None:
    obj.setdefault("spec", {}).setdefault("disruptionMode", {"single": {}})


def _admit_pod_group(obj: Object, context: Context) -> None:
    """Set a PodGroup's priority from its class, as a pod's."""
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    found = priority_for(spec.get("priorityClassName", ""), context)
    if found is None:
        why = f"no PriorityClass with name {spec['priorityClassName']} was found"
        raise status.forbidden("podgroups", _GROUP, name, why)
    given = spec.get("priority")
    if given is not None and given != found.value:
        why = (
            f"priority set in the pod group ({given}) must match the priority computed ({found.value}) "
            "based on the priority class set in the spec"
        )
        raise status.forbidden("podgroups", _GROUP, name, why)
    spec["priority"] = found.value
    if found.name:
        spec["priorityClassName"] = found.name
    obj["status"] = {}


def _validate_pod_group(obj: Object) -> list[Cause]:
    return _validate_group(obj["spec"], "spec")


def _validate_group(spec: Object, where: str) -> list[Cause]:
    found = _one_of(spec.get("schedulingPolicy") or {}, ("basic", "gang"), f"{where}.schedulingPolicy")
    gang = get(spec, "schedulingPolicy.gang")
    if isinstance(gang, dict):
        count = gang.get("minCount")
        if count is None:
            found.append(required(f"{where}.schedulingPolicy.gang.minCount"))
        elif count < 1:
            why = "must be greater than or equal to 1"
            found.append(invalid_value(f"{where}.schedulingPolicy.gang.minCount", count, why))
    mode = spec.get("disruptionMode")
    if mode is not None:
        found += _one_of(mode, ("single", "all"), f"{where}.disruptionMode")
    topology = get(spec, "schedulingConstraints.topology") or []
    if len(topology) > 1:
        found.append(_too_many(f"{where}.schedulingConstraints.topology", len(topology), 1))
    return found


def _one_of(union: Object, members: tuple[str, ...], where: str) -> list[Cause]:
    given = [member for member in members if union.get(member) is not None]
    if len(given) == 1:
        return []
    choices = ", ".join(f"`{member}`" for member in members)
    if not given:
        return [invalid_value(where, "", f"must specify one of: {choices}")]
    return [invalid_value(where, "{" + ", ".join(given) + "}", f"must specify exactly one of: {choices}")]


def _too_many(where: str, count: int, most: int) -> Cause:
    return Cause("FieldValueTooMany", where, f"Too many: {count}: must have at most {most} item{'s'[: most > 1]}")


def _update_pod_group(new: Object, old: Object) -> list[Cause]:
    found = immutable(new, old, *_IMMUTABLE)
    policies = [sorted(get(obj, "spec.schedulingPolicy") or {}) for obj in (new, old)]
    if policies[0] != policies[1]:  # minCount may change, but not the kind of policy
        found += immutable(new, old, "spec.schedulingPolicy")
    return found


def _validate_workload(obj: Object) -> list[Cause]:
    templates = obj.get("spec", {}).get("podGroupTemplates") or []
    if len(templates) > MAX_TEMPLATES:
        return [_too_many("spec.podGroupTemplates", len(templates), MAX_TEMPLATES)]
    found = []
    for i, template in enumerate(templates):
        where = f"spec.podGroupTemplates[{i}]"
        if not template.get("name"):
            found.append(required(f"{where}.name"))
        found += _validate_group(template, where)
    return found


def _policy(obj: Object, _: float) -> str:
    policy: Any = get(obj, "spec.schedulingPolicy") or {}
    return "Gang" if policy.get("gang") is not None else "Basic"


def _status(obj: Object, _: float) -> str:
    conditions: dict[str, Any] = {each.get("type"): each for each in get(obj, "status.conditions") or []}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"].get("reason", ""))
    if "PodGroupInitiallyScheduled" not in conditions:
        return "Pending"
    return "Scheduled" if conditions["PodGroupInitiallyScheduled"].get("status") == "True" else "Unschedulable"


WORKLOADS = Kind(
    "Workload",
    _GROUP,
    version=_VERSION,
    has_generation=True,
    validate=_validate_workload,
    columns=columns("Name", "Age"),
)

POD_GROUPS = Kind(
    "PodGroup",
    _GROUP,
    version=_VERSION,
    subresources=("status",),
    has_generation=True,
    default=_default_pod_group,
    admit=_admit_pod_group,
    validate=_validate_pod_group,
    validate_update=_update_pod_group,
    columns=columns(
        "Name",
        Column("Policy", _policy),
        "Workload: spec.workloadRef.workloadName | <none>",
        Column("Status", _status),
        "Age",
    ),
)


PLUGIN_POD_GROUPS = Kind(  # of the scheduler-plugins project
    "PodGroup",
    "scheduling.x-k8s.io",
    version="v1alpha1",
    short_names=("pg",),
    subresources=("status",),
    has_generation=True,
    columns=columns("Name", "Age"),
)


# Devices

_DEVICES = "resource.k8s.io"
_SLICE_FIELDS = ("spec.nodeName", "spec.driver")


def _claim_state(obj: Object, _: float) -> str:
    states = ["deleted"] if get(obj, "metadata.deletionTimestamp") else []
    if get(obj, "status.allocation") is None:
        return ",".join(states or ["pending"])
    states += ["allocated", "reserved"] if get(obj, "status.reservedFor") else ["allocated"]
    return ",".join(states)


def _default_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for exact in [request.get("exactly"), *(request.get("firstAvailable") or ())]:
            if exact is None:
                continue
            mode = exact.setdefault("allocationMode", "ExactCount")
            if mode == "ExactCount":
                exact.setdefault("count", 1)
            for toleration in exact.get("tolerations") or ():
                fill(toleration, operator="Equal")


def _default_resource_claim(obj: Object) -> None:
    _default_requests(obj.setdefault("spec", {}))


def _default_claim_template(obj: Object) -> None:
    spec = fill(obj.setdefault("spec", {}), metadata={})
    _default_requests(spec.setdefault("spec", {}))


def _update_spec(new: Object, old: Object) -> list[Cause]:
    return immutable(new, old, "spec")


def _default_slice(obj: Object) -> None:
    for device in (obj.setdefault("spec", {})).get("devices") or ():
        for capacity in (device.get("capacity") or {}).values():
            if capacity.get("value") is not None:
                capacity["value"] = quantities.canonical(capacity["value"])


def _admit_slice(obj: Object, context: Context) -> None:
    for device in obj["spec"].get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", context.timestamp())


def _admit_taint_rule(obj: Object, context: Context) -> None:
    obj["spec"].setdefault("taint", {}).setdefault("timeAdded", context.timestamp())


DEVICE_CLASSES = Kind("DeviceClass", _DEVICES, is_namespaced=False, has_generation=True, columns=columns("Name", "Age"))


DEVICE_TAINT_RULES = Kind(
    "DeviceTaintRule",
    _DEVICES,
    is_namespaced=False,
    has_generation=True,
    subresources=("status",),
    admit=_admit_taint_rule,
    columns=columns("Name", "Age"),
)


RESOURCE_CLAIMS = Kind(
    "ResourceClaim",
    _DEVICES,
    subresources=("status",),
    default=_default_resource_claim,
    admit=first_status({}),
    validate_update=_update_spec,
    returns_deleted=True,
    columns=columns("Name", Column("State", _claim_state), "Age"),
)


RESOURCE_CLAIM_TEMPLATES = Kind(
    "ResourceClaimTemplate",
    _DEVICES,
    default=_default_claim_template,
    validate_update=_update_spec,
    columns=columns("Name", "Age"),
)


RESOURCE_SLICES = Kind(
    "ResourceSlice",
    _DEVICES,
    is_namespaced=False,
    has_generation=True,
    fields=Fields(_SLICE_FIELDS, lambda obj: {path: get(obj, path) or "" for path in _SLICE_FIELDS}),
    default=_default_slice,
    admit=_admit_slice,
    columns=columns(
        "Name",
        "Node: spec.nodeName",
        "Driver: spec.driver",
        "Pool: spec.pool.name",
        "Age",
    ),
)
