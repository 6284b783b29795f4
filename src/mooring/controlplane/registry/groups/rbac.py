"""The rbac.authorization.k8s.io group: roles and who has them."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME, wide
from mooring.controlplane.types.kind import Cell, Column, Kind, Strategy
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, invalid_value, required, unsupported

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
