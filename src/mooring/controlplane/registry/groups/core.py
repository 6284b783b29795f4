"""The core group, except for pods, nodes and volumes, which have modules of their own."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from mooring.controlplane.registry.columns import AGE, NAME, ago, at, get, selector_cell, wide
from mooring.controlplane.registry.workloads import (
    REPLICA_COLUMNS,
    REPLICA_FIELDS,
    default_replicas,
    first_status,
    keep_metadata,
    validate_workload,
)
from mooring.controlplane.types.kind import Cell, Column, Context, Fields, Kind, Strategy
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, forbidden_field


def _event_first(obj: Object, now: float) -> str:
    return ago(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _event_last(obj: Object, now: float) -> str:
    if obj.get("series"):
        return ago(obj["series"].get("lastObservedTime"), now)
    return ago(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else _event_first(obj, now)


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


def _ports(obj: Object, _: float) -> str:
    shown = []
    for port in get(obj, "spec", "ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port', 0)}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _used(*, is_limit: bool) -> Cell:
    """What of a quota is used, of limits or of everything else."""

    def cell(obj: Object, _: float) -> str:
        used, hard = get(obj, "status", "used") or {}, get(obj, "status", "hard") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") is is_limit]
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell


def _count(*names: str) -> Cell:
    return lambda obj, _: sum(len(obj.get(name) or ()) for name in names)


_DATA_AGE = (Column("Data", _count("data", "binaryData")), AGE)


_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _event(obj: Mapping[str, Any]) -> dict[str, str]:
    involved = obj.get("involvedObject") or {}
    found = {f"involvedObject.{name}": involved[name] for name in _REFERENCE if involved.get(name)}
    found["reason"] = obj.get("reason", "")
    found["type"] = obj.get("type", "")
    found["reportingComponent"] = obj.get("reportingComponent", "")
    found["source"] = (obj.get("source") or {}).get("component", "") or found["reportingComponent"]
    return found


def _secret(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"type": obj.get("type", "")}


def _namespace_fields(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"status.phase": (obj.get("status") or {}).get("phase", "")}


def _default_namespace(obj: Object) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _admit_namespace(obj: Object, _: Context) -> None:
    spec = obj.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["status"] = {"phase": "Active"}


def _update_namespace(new: Object, old: Object) -> None:
    new["spec"] = old.get("spec") or {}


def _default_service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port", 0))


def _admit_service(obj: Object, _: Context) -> None:
    obj["status"] = {"loadBalancer": {}}


def _default_secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data.update({key: base64.b64encode(value.encode()).decode() for key, value in plain.items()})


def _default_event(obj: Object) -> None:
    obj.setdefault("involvedObject", {})
    obj.setdefault("source", {})
    for name in ("reportingComponent", "reportingInstance"):
        obj.setdefault(name, "")


def _update_config(new: Object, old: Object) -> list[Cause]:
    if not old.get("immutable"):
        return []
    found = []
    if not new.get("immutable"):
        found.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
    for name in ("data", "binaryData"):
        if new.get(name) != old.get(name):
            found.append(forbidden_field(name, "field is immutable when `immutable` is set"))
    return found


def _default_replication_controller(obj: Object) -> None:
    default_replicas(obj)
    spec = obj["spec"]
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


CONFIG_MAPS = Kind(
    "ConfigMap",
    "configmaps",
    "",
    short_names=("cm",),
    strategy=Strategy(validate_update=_update_config),
    columns=(NAME, *_DATA_AGE),
)


EVENTS = Kind(
    "Event",
    "events",
    "",
    short_names=("ev",),
    fields=Fields(
        (*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "type", "reportingComponent", "source"),
        _event,
        is_on_demand=True,
    ),
    strategy=Strategy(default=_default_event, creates_on_update=True),
    columns=(
        Column("Last Seen", _event_last),
        Column("Type", at("type")),
        Column("Reason", at("reason")),
        Column("Object", _event_object),
        wide("Subobject", at("involvedObject", "fieldPath")),
        wide("Source", _event_source),
        Column("Message", lambda obj, _: str(obj.get("message", "")).strip()),
        wide("First Seen", _event_first),
        wide("Count", _event_count),
        wide("Name", at("metadata", "name")),
    ),
)


LIMIT_RANGES = Kind(
    "LimitRange",
    "limitranges",
    "",
    short_names=("limits",),
)


NAMESPACES = Kind(
    "Namespace",
    "namespaces",
    "",
    is_namespaced=False,
    short_names=("ns",),
    subresources=("finalize", "status"),
    fields=Fields(("status.phase", "name"), _namespace_fields),
    strategy=Strategy(
        default=_default_namespace, admit=_admit_namespace, prepare_update=_update_namespace, name_style="label"
    ),
    columns=(NAME, Column("Status", at("status", "phase")), AGE),
)


REPLICATION_CONTROLLERS = Kind(
    "ReplicationController",
    "replicationcontrollers",
    "",
    short_names=("rc",),
    subresources=("scale", "status"),
    categories=("all",),
    has_generation=True,
    fields=REPLICA_FIELDS,
    strategy=Strategy(
        default=_default_replication_controller,
        admit=first_status({"replicas": 0}),
        prepare_status=keep_metadata,
        validate=validate_workload,
    ),
    columns=REPLICA_COLUMNS,
)


RESOURCE_QUOTAS = Kind(
    "ResourceQuota",
    "resourcequotas",
    "",
    short_names=("quota",),
    subresources=("status",),
    columns=(NAME, Column("Request", _used(is_limit=False)), Column("Limit", _used(is_limit=True)), AGE),
)


SECRETS = Kind(
    "Secret",
    "secrets",
    "",
    fields=Fields(("type",), _secret),
    strategy=Strategy(default=_default_secret, validate_update=_update_config),
    columns=(NAME, Column("Type", at("type")), *_DATA_AGE),
)


SERVICE_ACCOUNTS = Kind(
    "ServiceAccount",
    "serviceaccounts",
    "",
    short_names=("sa",),
    subresources=("token",),
    strategy=Strategy(returns_deleted=True),
    columns=(NAME, AGE),
)


SERVICES = Kind(
    "Service",
    "services",
    "",
    short_names=("svc",),
    subresources=("status",),
    categories=("all",),
    strategy=Strategy(default=_default_service, admit=_admit_service, name_style="label", returns_deleted=True),
    columns=(
        NAME,
        Column("Type", at("spec", "type")),
        Column("Cluster-IP", at("spec", "clusterIP", default="<none>")),
        Column("External-IP", lambda obj, _: "<none>"),
        Column("Port(s)", _ports),
        AGE,
        wide("Selector", selector_cell("spec", "selector")),
    ),
)
