"""Whether an API server would take an object: pods of a workload go past it, and rows of a table have line numbers."""

from __future__ import annotations

from copy import deepcopy

from mooring.api.checks import problems_in
from mooring.api.meta import Object as ApiObject
from mooring.controlplane.registry import meta
from mooring.controlplane.types import schema
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import StatusError
from mooring.errors import InputError


def check_admissible(kind: Kind, manifest: Object, obj: ApiObject) -> None:
    """Raise InputError with the first thing that an API server would refuse. ``obj`` is the manifest, decoded."""
    for problem in problems_in(obj):
        raise InputError(problem)
    completed = deepcopy(manifest)
    try:
        for field in schema.check(kind.type_name, completed, kind.kind, kind.version):
            raise InputError(f"unknown field {field!r}; a {kind.kind} has none of that name")
        kind.strategy.default(completed)
        style = kind.strategy.name_style
        causes = meta.validate(completed["metadata"], is_namespaced=kind.is_namespaced, style=style)
        causes += kind.strategy.validate(completed)
    except StatusError as error:
        raise InputError(str(error)) from None
    for cause in causes:
        raise InputError(str(cause))
