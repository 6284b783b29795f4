"""What the kinds with a pod template share: defaults, first status, validation, columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mooring.controlplane.registry.columns import AGE, NAME, get, number, selector_cell, wide
from mooring.controlplane.registry.meta import immutable
from mooring.controlplane.registry.pod_defaults import default_pod_spec
from mooring.controlplane.registry.pod_validation import validate_pod_spec
from mooring.controlplane.registry.scheduling_validation import validate_label_selector
from mooring.controlplane.storage.selectors import from_object
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Cell, Column, Context, Fields
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, invalid_value, required, unsupported

PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
ANY_PERCENT = 10**18


def default_template(spec: Object) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_replicas(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_template(spec)


def first_status(status: Object) -> Callable[[Object, Context], None]:
    """Admission that gives a new object this status."""

    def admit(obj: Object, _: Context) -> None:
        obj["status"] = dict(status)

    return admit


def validate_workload(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if obj["kind"] == "ReplicationController":
        selector: Any = {"matchLabels": spec.get("selector") or {}}
        empty = not spec.get("selector")
    else:
        selector = spec.get("selector")
        empty = not selector
    if empty:
        found.append(required("spec.selector"))
    else:
        problems = validate_label_selector(selector, "spec.selector")
        found += problems
        parsed = from_object(selector)
        if not problems and parsed is not None and not parsed.matches(labels):
            why = "`selector` does not match template `labels`"
            found.append(invalid_value("spec.template.metadata.labels", labels, why))
    if spec.get("replicas", 0) < 0:
        found.append(invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    pod_spec = template.get("spec") or {}
    found += validate_pod_spec(pod_spec, "spec.template.spec")
    if pod_spec.get("restartPolicy") != "Always":
        found.append(unsupported("spec.template.spec.restartPolicy", pod_spec.get("restartPolicy"), ("Always",)))
    return found


def validate_share(value: Any, at: str, *, limit: int = 100) -> list[Cause]:
    """A number of pods, or a percentage of them: of at most ``limit`` percent."""
    if isinstance(value, str):
        percent = quantities.whole(value[:-1]) if value.endswith("%") else None
        if percent is None or percent < 0:
            return [invalid_value(at, value, PERCENT_RULE)]
        return [invalid_value(at, value, f"must not be greater than {limit}%")] if percent > limit else []
    if isinstance(value, int) and value < 0:
        return [invalid_value(at, value, "must be greater than or equal to 0")]
    return []


def is_none(value: Any) -> bool:
    """Whether a number or percentage of pods is zero."""
    return value in (0, None) or (isinstance(value, str) and not quantities.whole(value.removesuffix("%")))


def selector_is_immutable(new: Object, old: Object) -> list[Cause]:
    return immutable(new, old, "spec.selector", "spec", "selector")


def keep_metadata(new: Object, old: Object) -> None:
    """Status writes of workloads leave metadata alone."""
    for name in ("labels", "annotations", "ownerReferences", "finalizers"):
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
        else:
            new["metadata"].pop(name, None)


def template_columns(*path: str) -> tuple[Column, ...]:
    """Columns of a workload whose pod template and selector are at a path."""

    def names(name: str) -> Cell:
        def cell(obj: Object, _: float) -> str:
            containers = get(obj, *path, "template", "spec", "containers") or ()
            return ",".join(container.get(name, "") for container in containers)

        return cell

    return (
        wide("Containers", names("name")),
        wide("Images", names("image")),
        wide("Selector", selector_cell(*path, "selector")),
    )


WORKLOAD = template_columns("spec")


REPLICA_COLUMNS = (
    NAME,
    number("Desired", "spec", "replicas"),
    number("Current", "status", "replicas"),
    number("Ready", "status", "readyReplicas"),
    AGE,
    *WORKLOAD,
)


def _replica_fields(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


REPLICA_FIELDS = Fields(("status.replicas",), _replica_fields)
