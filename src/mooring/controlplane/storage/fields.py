"""Which fields of an object a field selector can ask for, and their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.controlplane.types.kind import Kind

_ALWAYS = ("metadata.name", "metadata.namespace")
_POD_SPEC = ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")
_POD_STATUS = ("phase", "podIP", "nominatedNodeName")
_POD_SPEC_PATHS = [(name, f"spec.{name}") for name in _POD_SPEC]
_POD_STATUS_PATHS = [(name, f"status.{name}") for name in _POD_STATUS]
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


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


def _node(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}


def _event(obj: Mapping[str, Any]) -> dict[str, str]:
    involved = obj.get("involvedObject") or {}
    found = {f"involvedObject.{name}": involved[name] for name in _REFERENCE if involved.get(name)}
    found["reason"] = obj.get("reason", "")
    found["type"] = obj.get("type", "")
    found["reportingComponent"] = obj.get("reportingComponent", "")
    found["source"] = (obj.get("source") or {}).get("component", "") or found["reportingComponent"]
    return found


def _phase(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"status.phase": (obj.get("status") or {}).get("phase", "")}


def _replicas(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


def _secret(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"type": obj.get("type", "")}


def _job(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}


def _slice(obj: Mapping[str, Any]) -> dict[str, str]:
    spec = obj.get("spec") or {}
    return {"spec.nodeName": spec.get("nodeName", ""), "spec.driver": spec.get("driver", "")}


Extract = Callable[[Mapping[str, Any]], dict[str, str]]
_EXTRA: Final[dict[str, tuple[Extract, tuple[str, ...]]]] = {
    "pods": (
        _pod,
        (*(f"spec.{n}" for n in _POD_SPEC), *(f"status.{n}" for n in _POD_STATUS), "spec.hostNetwork"),
    ),
    "nodes": (_node, ("spec.unschedulable",)),
    "events": (
        _event,
        (*(f"involvedObject.{n}" for n in _REFERENCE), "reason", "type", "reportingComponent", "source"),
    ),
    "namespaces": (_phase, ("status.phase", "name")),
    "persistentvolumes": (lambda _: {}, ("name",)),
    "persistentvolumeclaims": (lambda _: {}, ("name",)),
    "replicationcontrollers": (_replicas, ("status.replicas",)),
    "replicasets.apps": (_replicas, ("status.replicas",)),
    "secrets": (_secret, ("type",)),
    "jobs.batch": (_job, ("status.successful",)),
    "resourceslices.resource.k8s.io": (_slice, ("spec.nodeName", "spec.driver")),
}


ON_DEMAND: Final = frozenset(["events"])
"""Kinds of which there are many and whose fields few ask for: they are read from the object each time."""


def supported(kind: Kind) -> frozenset[str]:
    extra = _EXTRA.get(kind.stored_as or kind.resource)
    return frozenset((*_ALWAYS, *(extra[1] if extra else ())))


def extract(resource: str, obj: Mapping[str, Any]) -> dict[str, str] | None:
    """The selectable values beyond name and namespace; None for kinds that have none."""
    extra = _EXTRA.get(resource)
    return extra[0](obj) if extra else None
