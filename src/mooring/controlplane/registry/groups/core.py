"""The core group, except for pods, nodes and volumes, which have modules of their own."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from mooring.controlplane.registry.columns import AGE, NAME, ago, at, get, selector_cell, wide
from mooring.controlplane.registry.groups.workloads import (
    REPLICA_COLUMNS,
    REPLICA_FIELDS,
    default_replicas,
    first_status,
    keep_metadata,
    validate_workload,
)
from mooring.controlplane.types.kind import Cell, Column, Context, Fields, Kind, Object, Strategy, View
from mooring.controlplane.types.status import Cause, forbidden_field, invalid_value, required, unsupported


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


# --------------------------------------------------------------------------------------------------------------------
# The events.k8s.io group: another view of the Events that are stored in the core form.

_RENAMED = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)


_TO_EVENTS = dict(_RENAMED)


_TO_CORE = {new: old for old, new in _RENAMED}


def to_core(obj: Object) -> Object:
    """An events.k8s.io Event as the core Event it is stored as."""
    stored = {_TO_CORE.get(key, key): value for key, value in obj.items()}
    stored["apiVersion"] = "v1"
    stored.setdefault("involvedObject", {})
    return stored


def from_core(obj: Object) -> Object:
    """A stored Event the way events.k8s.io/v1 shows it."""
    shown = {_TO_EVENTS.get(key, key): value for key, value in obj.items()}
    shown["apiVersion"] = "events.k8s.io/v1"
    return shown


GROUPED_EVENTS = Kind("Event", "events", "events.k8s.io", short_names=("ev",), view=View(EVENTS, to_core, from_core))


# --------------------------------------------------------------------------------------------------------------------
# The networking.k8s.io group: NetworkPolicies.


def _default_network_policy(obj: Object) -> None:
    """Nothing here enforces a policy; it is served so that manifests with one can be applied."""
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


NETWORK_POLICIES = Kind(
    "NetworkPolicy",
    "networkpolicies",
    "networking.k8s.io",
    short_names=("netpol",),
    has_generation=True,
    strategy=Strategy(default=_default_network_policy),
    columns=(
        NAME,
        Column("Pod-Selector", selector_cell("spec", "podSelector")),
        AGE,
    ),
)


# --------------------------------------------------------------------------------------------------------------------
# The rbac.authorization.k8s.io group: roles and who has them.

_GROUP = "rbac.authorization.k8s.io"


def _validate_role_binding(obj: Object) -> list[Cause]:
    reference = obj.get("roleRef") or {}
    found = []
    if reference.get("kind") not in ("Role", "ClusterRole"):
        found.append(unsupported("roleRef.kind", reference.get("kind", ""), ("Role", "ClusterRole")))
    if not reference.get("name"):
        found.append(required("roleRef.name"))
    return found


def _default_role_binding(obj: Object) -> None:
    obj.setdefault("roleRef", {}).setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


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


_BINDING_COLUMNS = (
    NAME,
    Column("Role", _role),
    AGE,
    wide("Users", _subjects("User")),
    wide("Groups", _subjects("Group")),
    wide("ServiceAccounts", _subjects("ServiceAccount")),
)
_BINDING = Strategy(
    default=_default_role_binding,
    validate=_validate_role_binding,
    validate_update=_update_role_binding,
    name_style="path",
)


CLUSTER_ROLE_BINDINGS = Kind(
    "ClusterRoleBinding",
    "clusterrolebindings",
    _GROUP,
    is_namespaced=False,
    strategy=_BINDING,
    columns=_BINDING_COLUMNS,
)


CLUSTER_ROLES = Kind(
    "ClusterRole",
    "clusterroles",
    _GROUP,
    is_namespaced=False,
    strategy=Strategy(name_style="path"),
)


ROLE_BINDINGS = Kind(
    "RoleBinding",
    "rolebindings",
    _GROUP,
    strategy=_BINDING,
    columns=_BINDING_COLUMNS,
)


ROLES = Kind(
    "Role",
    "roles",
    _GROUP,
    strategy=Strategy(name_style="path"),
)


# --------------------------------------------------------------------------------------------------------------------
# The authentication.k8s.io and authorization.k8s.io groups: questions that are answered and not stored.

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_CREATE_ONLY = ("create",)


SELF_SUBJECT_REVIEWS = Kind(
    "SelfSubjectReview",
    "selfsubjectreviews",
    _AUTHENTICATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)


TOKEN_REVIEWS = Kind(
    "TokenReview",
    "tokenreviews",
    _AUTHENTICATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)


LOCAL_SUBJECT_ACCESS_REVIEWS = Kind(
    "LocalSubjectAccessReview",
    "localsubjectaccessreviews",
    _AUTHORIZATION,
    verbs=_CREATE_ONLY,
)


SELF_SUBJECT_ACCESS_REVIEWS = Kind(
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    _AUTHORIZATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)


SELF_SUBJECT_RULES_REVIEWS = Kind(
    "SelfSubjectRulesReview",
    "selfsubjectrulesreviews",
    _AUTHORIZATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)


SUBJECT_ACCESS_REVIEWS = Kind(
    "SubjectAccessReview",
    "subjectaccessreviews",
    _AUTHORIZATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)
