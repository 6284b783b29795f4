"""The core group except for pods, nodes, volumes and workloads; events, network policies, roles and access reviews."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from mooring.controlplane.registry.columns import ago, columns, get, selector_cell, wide
from mooring.controlplane.registry.validation import fill, first_status
from mooring.controlplane.types.kind import Cell, Column, Context, Fields, Kind, Object, View
from mooring.controlplane.types.status import Cause, forbidden_field, invalid_value, required, unsupported

# Namespaces


def _default_namespace(obj: Object) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _admit_namespace(obj: Object, _: Context) -> None:
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["status"] = {"phase": "Active"}


def _update_namespace(new: Object, old: Object) -> None:
    new["spec"] = old.get("spec") or {}


NAMESPACES = Kind(
    "Namespace",
    is_namespaced=False,
    short_names=("ns",),
    subresources=("finalize", "status"),
    fields=Fields(("status.phase", "name"), lambda obj: {"status.phase": get(obj, "status.phase") or ""}),
    default=_default_namespace,
    admit=_admit_namespace,
    prepare_update=_update_namespace,
    name_style="label",
    columns=columns("Name", "Status: status.phase", "Age"),
)


# Configuration, accounts, services, quotas


def _default_secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data.update({key: base64.b64encode(value.encode()).decode() for key, value in plain.items()})


def _update_config(new: Object, old: Object) -> list[Cause]:
    if not old.get("immutable"):
        return []
    changed = [] if new.get("immutable") else ["immutable"]
    changed += [name for name in ("data", "binaryData") if new.get(name) != old.get(name)]
    return [forbidden_field(name, "field is immutable when `immutable` is set") for name in changed]


def _default_service(obj: Object) -> None:
    spec = fill(obj.setdefault("spec", {}), type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    for port in spec.get("ports") or ():
        fill(port, protocol="TCP", targetPort=port.get("port", 0))


def _ports(obj: Object, _: float) -> str:
    shown = []
    for port in get(obj, "spec.ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port', 0)}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _used(*, is_limit: bool) -> Cell:
    """Show the used part of a quota, of limits or of everything else."""

    def cell(obj: Object, _: float) -> str:
        used, hard = get(obj, "status.used") or {}, get(obj, "status.hard") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") is is_limit]
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell


_DATA = Column("Data", lambda obj, _: len(obj.get("data") or ()) + len(obj.get("binaryData") or ()))

CONFIG_MAPS = Kind(
    "ConfigMap",
    short_names=("cm",),
    validate_update=_update_config,
    columns=columns("Name", _DATA, "Age"),
)

LIMIT_RANGES = Kind("LimitRange", short_names=("limits",))

RESOURCE_QUOTAS = Kind(
    "ResourceQuota",
    short_names=("quota",),
    subresources=("status",),
    columns=columns("Name", Column("Request", _used(is_limit=False)), Column("Limit", _used(is_limit=True)), "Age"),
)

SECRETS = Kind(
    "Secret",
    fields=Fields(("type",), lambda obj: {"type": obj.get("type", "")}),
    default=_default_secret,
    validate_update=_update_config,
    columns=columns("Name", "Type: type", _DATA, "Age"),
)

SERVICE_ACCOUNTS = Kind(
    "ServiceAccount",
    short_names=("sa",),
    subresources=("token",),
    returns_deleted=True,
    columns=columns("Name", "Age"),
)

SERVICES = Kind(
    "Service",
    short_names=("svc",),
    subresources=("status",),
    categories=("all",),
    default=_default_service,
    admit=first_status({"loadBalancer": {}}),
    name_style="label",
    returns_deleted=True,
    columns=columns(
        "Name",
        "Type: spec.type",
        "Cluster-IP: spec.clusterIP | <none>",
        Column("External-IP", lambda obj, _: "<none>"),
        Column("Port(s)", _ports),
        "Age",
        wide("Selector", selector_cell("spec.selector")),
    ),
)


# Events: stored in the core form; the group events.k8s.io shows them under other names

_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _event_fields(obj: Mapping[str, Any]) -> dict[str, str]:
    involved = obj.get("involvedObject") or {}
    found = {f"involvedObject.{name}": involved[name] for name in _REFERENCE if involved.get(name)}
    for name in ("reason", "type", "reportingComponent"):
        found[name] = obj.get(name, "")
    found["source"] = (obj.get("source") or {}).get("component", "") or found["reportingComponent"]
    return found


def _default_event(obj: Object) -> None:
    fill(obj, involvedObject={}, source={}, reportingComponent="", reportingInstance="")


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


EVENTS = Kind(
    "Event",
    short_names=("ev",),
    fields=Fields(
        (*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "type", "reportingComponent", "source"),
        _event_fields,
        is_on_demand=True,
    ),
    default=_default_event,
    creates_on_update=True,
    columns=columns(
        Column("Last Seen", _event_last),
        "Type: type",
        "Reason: reason",
        Column("Object", _event_object),
        "+Subobject: involvedObject.fieldPath",
        wide("Source", _event_source),
        Column("Message", lambda obj, _: str(obj.get("message", "")).strip()),
        wide("First Seen", _event_first),
        wide("Count", lambda obj, _: int((obj.get("series") or {}).get("count") or obj.get("count") or 1)),
        "+Name: metadata.name",
    ),
)

_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def _to_core(obj: Object) -> Object:
    stored = {_OLD_NAMES.get(key, key): value for key, value in obj.items()}
    return fill({**stored, "apiVersion": "v1"}, involvedObject={})


def _from_core(obj: Object) -> Object:
    return {**{_NEW_NAMES.get(key, key): value for key, value in obj.items()}, "apiVersion": "events.k8s.io/v1"}


GROUPED_EVENTS = Kind("Event", "events.k8s.io", short_names=("ev",), view=View(EVENTS, _to_core, _from_core))


# Network policies: nothing here enforces them; they are served so that manifests with one can be applied


def _default_network_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


NETWORK_POLICIES = Kind(
    "NetworkPolicy",
    "networking.k8s.io",
    short_names=("netpol",),
    has_generation=True,
    default=_default_network_policy,
    columns=columns("Name", Column("Pod-Selector", selector_cell("spec.podSelector")), "Age"),
)


# Roles and their subjects

_RBAC = "rbac.authorization.k8s.io"


def _default_role_binding(obj: Object) -> None:
    obj.setdefault("roleRef", {}).setdefault("apiGroup", _RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", _RBAC)


def _validate_role_binding(obj: Object) -> list[Cause]:
    reference = obj.get("roleRef") or {}
    found = []
    if reference.get("kind") not in ("Role", "ClusterRole"):
        found.append(unsupported("roleRef.kind", reference.get("kind", ""), ("Role", "ClusterRole")))
    if not reference.get("name"):
        found.append(required("roleRef.name"))
    return found


def _update_role_binding(new: Object, old: Object) -> list[Cause]:
    if new.get("roleRef") != old.get("roleRef"):
        return [invalid_value("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []


def _role(obj: Object, _: float) -> str:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def cell(obj: Object, _: float) -> str:
        found = [subject for subject in obj.get("subjects") or () if subject.get("kind") == kind]
        place = [f"{each.get('namespace', '')}/" if kind == "ServiceAccount" else "" for each in found]
        return ", ".join(space + each.get("name", "") for space, each in zip(place, found, strict=True))

    return cell


_BINDING_COLUMNS = columns(
    "Name",
    Column("Role", _role),
    "Age",
    wide("Users", _subjects("User")),
    wide("Groups", _subjects("Group")),
    wide("ServiceAccounts", _subjects("ServiceAccount")),
)
_BINDING: dict[str, Any] = {
    "default": _default_role_binding,
    "validate": _validate_role_binding,
    "validate_update": _update_role_binding,
    "name_style": "path",
    "columns": _BINDING_COLUMNS,
}

CLUSTER_ROLE_BINDINGS = Kind("ClusterRoleBinding", _RBAC, is_namespaced=False, **_BINDING)
CLUSTER_ROLES = Kind("ClusterRole", _RBAC, is_namespaced=False, name_style="path")
ROLE_BINDINGS = Kind("RoleBinding", _RBAC, **_BINDING)
ROLES = Kind("Role", _RBAC, name_style="path")


# Questions about users: answered (by ``serving.access``) and not stored


def _review(kind: str, group: str, *, is_namespaced: bool = False) -> Kind:
    return Kind(kind, group, is_namespaced=is_namespaced, verbs=("create",))


SELF_SUBJECT_REVIEWS = _review("SelfSubjectReview", "authentication.k8s.io")
TOKEN_REVIEWS = _review("TokenReview", "authentication.k8s.io")
LOCAL_SUBJECT_ACCESS_REVIEWS = _review("LocalSubjectAccessReview", "authorization.k8s.io", is_namespaced=True)
SELF_SUBJECT_ACCESS_REVIEWS = _review("SelfSubjectAccessReview", "authorization.k8s.io")
SELF_SUBJECT_RULES_REVIEWS = _review("SelfSubjectRulesReview", "authorization.k8s.io")
SUBJECT_ACCESS_REVIEWS = _review("SubjectAccessReview", "authorization.k8s.io")
