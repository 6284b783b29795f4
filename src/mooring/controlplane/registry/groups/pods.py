"""Pods, of the core group; their rules are long and live in ``registry/pod_*.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.controlplane.registry import pod_admission, pod_defaults, pod_validation
from mooring.controlplane.registry.columns import AGE, NAME, at, get, pod_ready, pod_restarts, pod_status, wide
from mooring.controlplane.types.kind import Column, Fields, Kind, Strategy
from mooring.controlplane.types.objects import Object

_POD_SPEC = ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")


_POD_STATUS = ("phase", "podIP", "nominatedNodeName")


_POD_SPEC_PATHS = [(name, f"spec.{name}") for name in _POD_SPEC]


_POD_STATUS_PATHS = [(name, f"status.{name}") for name in _POD_STATUS]


def _pod(obj: Mapping[str, Any]) -> dict[str, str]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    found = {}
    for name, path in _POD_SPEC_PATHS:
        if value := spec.get(name):
            found[path] = value
    for name, path in _POD_STATUS_PATHS:
        if value := status.get(name):
            found[path] = value
    found["spec.hostNetwork"] = "true" if spec.get("hostNetwork") else "false"
    return found


def _readiness_gates(obj: Object, _: float) -> str:
    gates = [gate.get("conditionType") for gate in get(obj, "spec", "readinessGates") or ()]
    if not gates:
        return "<none>"
    true = {c.get("type") for c in get(obj, "status", "conditions") or () if c.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


PODS = Kind(
    "Pod",
    "pods",
    "",
    short_names=("po",),
    subresources=("binding", "ephemeralcontainers", "eviction", "resize", "status"),
    categories=("all",),
    has_generation=True,
    fields=Fields(
        (*(path for _, path in _POD_SPEC_PATHS), *(path for _, path in _POD_STATUS_PATHS), "spec.hostNetwork"), _pod
    ),
    strategy=Strategy(
        default=pod_defaults.default_pod,
        admit=pod_admission.admit_pod,
        prepare_update=pod_validation.prepare_update,
        prepare_status=pod_validation.prepare_status,
        validate=pod_validation.validate,
        validate_update=pod_validation.validate_update,
        returns_deleted=True,
    ),
    columns=(
        NAME,
        Column("Ready", pod_ready),
        Column("Status", pod_status),
        Column("Restarts", pod_restarts),
        AGE,
        wide("IP", at("status", "podIP", default="<none>")),
        wide("Node", at("spec", "nodeName", default="<none>")),
        wide("Nominated Node", at("status", "nominatedNodeName", default="<none>")),
        wide("Readiness Gates", _readiness_gates),
    ),
)
