"""The scheduling.k8s.io group: PriorityClasses."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME, at, boolean
from mooring.controlplane.registry.meta import immutable
from mooring.controlplane.types.kind import Column, Kind, Strategy
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, forbidden_field, unsupported


def _default_priority_class(obj: Object) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _validate_priority_class(obj: Object) -> list[Cause]:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    known = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
    if name.startswith("system-") and known.get(name) != value:
        why = "priority class names with 'system-' prefix are reserved for system use only"
        return [forbidden_field("metadata.name", why)]
    if value > 1000000000 and name not in known:
        why = "maximum allowed value of a user defined priority is 1000000000"
        return [forbidden_field("value", why)]
    if obj["preemptionPolicy"] not in ("PreemptLowerPriority", "Never"):
        return [unsupported("preemptionPolicy", obj["preemptionPolicy"], ("PreemptLowerPriority", "Never"))]
    return []


def _update_priority_class(new: Object, old: Object) -> list[Cause]:
    found = []
    if new.get("value") != old.get("value"):
        found.append(forbidden_field("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        found += immutable(new, old, "preemptionPolicy", "preemptionPolicy")
    return found


PRIORITY_CLASSES = Kind(
    "PriorityClass",
    "priorityclasses",
    "scheduling.k8s.io",
    is_namespaced=False,
    short_names=("pc",),
    has_generation=True,
    strategy=Strategy(
        default=_default_priority_class, validate=_validate_priority_class, validate_update=_update_priority_class
    ),
    columns=(
        NAME,
        Column("Value", at("value", default=0), "integer"),
        Column("Global-Default", boolean("globalDefault"), "boolean"),
        AGE,
        Column("PreemptionPolicy", at("preemptionPolicy")),
    ),
)
