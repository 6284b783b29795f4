"""The resource.k8s.io group: dynamic resource allocation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.controlplane.registry.columns import AGE, NAME, at, get
from mooring.controlplane.registry.meta import immutable
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Column, Context, Fields, Kind, Strategy
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause

_GROUP = "resource.k8s.io"


def _claim_state(obj: Object, _: float) -> str:
    states = ["deleted"] if get(obj, "metadata", "deletionTimestamp") else []
    if get(obj, "status", "allocation") is None:
        return ",".join([*states, "pending"]) if not states else ",".join(states)
    states.append("allocated")
    states.append("reserved" if get(obj, "status", "reservedFor") else "")
    return ",".join(state for state in states if state)


def _slice(obj: Mapping[str, Any]) -> dict[str, str]:
    spec = obj.get("spec") or {}
    return {"spec.nodeName": spec.get("nodeName", ""), "spec.driver": spec.get("driver", "")}


def _default_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for exact in [request.get("exactly"), *(request.get("firstAvailable") or ())]:
            if exact is None:
                continue
            mode = exact.setdefault("allocationMode", "ExactCount")
            if mode == "ExactCount":
                exact.setdefault("count", 1)
            for toleration in exact.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")


def _default_resource_claim(obj: Object) -> None:
    _default_requests(obj.setdefault("spec", {}))


def _admit_resource_claim(obj: Object, _: Context) -> None:
    obj["status"] = {}


def _default_claim_template(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("metadata", {})
    _default_requests(spec.setdefault("spec", {}))


def _update_spec(new: Object, old: Object) -> list[Cause]:
    return immutable(new, old, "spec", "spec")


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


DEVICE_CLASSES = Kind(
    "DeviceClass",
    "deviceclasses",
    _GROUP,
    is_namespaced=False,
    has_generation=True,
    columns=(NAME, AGE),
)


DEVICE_TAINT_RULES = Kind(
    "DeviceTaintRule",
    "devicetaintrules",
    _GROUP,
    is_namespaced=False,
    has_generation=True,
    subresources=("status",),
    strategy=Strategy(admit=_admit_taint_rule),
    columns=(NAME, AGE),
)


RESOURCE_CLAIMS = Kind(
    "ResourceClaim",
    "resourceclaims",
    _GROUP,
    subresources=("status",),
    strategy=Strategy(
        default=_default_resource_claim,
        admit=_admit_resource_claim,
        validate_update=_update_spec,
        returns_deleted=True,
    ),
    columns=(NAME, Column("State", _claim_state), AGE),
)


RESOURCE_CLAIM_TEMPLATES = Kind(
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    _GROUP,
    strategy=Strategy(default=_default_claim_template, validate_update=_update_spec),
    columns=(NAME, AGE),
)


RESOURCE_SLICES = Kind(
    "ResourceSlice",
    "resourceslices",
    _GROUP,
    is_namespaced=False,
    has_generation=True,
    fields=Fields(("spec.nodeName", "spec.driver"), _slice),
    strategy=Strategy(default=_default_slice, admit=_admit_slice),
    columns=(
        NAME,
        Column("Node", at("spec", "nodeName")),
        Column("Driver", at("spec", "driver")),
        Column("Pool", at("spec", "pool", "name")),
        AGE,
    ),
)
