"""The node.k8s.io group: RuntimeClasses."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME, at
from mooring.controlplane.registry.meta import immutable
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Column, Kind, Strategy
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, required


def _default_runtime_class(obj: Object) -> None:
    quantities.canonicalize((obj.get("overhead") or {}).get("podFixed"))


def _validate_runtime_class(obj: Object) -> list[Cause]:
    return [] if obj.get("handler") else [required("handler")]


def _update_runtime_class(new: Object, old: Object) -> list[Cause]:
    return immutable(new, old, "handler", "handler")


RUNTIME_CLASSES = Kind(
    "RuntimeClass",
    "runtimeclasses",
    "node.k8s.io",
    is_namespaced=False,
    strategy=Strategy(
        default=_default_runtime_class, validate=_validate_runtime_class, validate_update=_update_runtime_class
    ),
    columns=(NAME, Column("Handler", at("handler")), AGE),
)
