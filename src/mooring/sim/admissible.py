"""Whether an API server would take an object: pods of a workload go past it, and rows of a table have line numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

from mooring.api.checks import problems_in
from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.api.meta import Object as ApiObject
from mooring.api.pod_templates import made_by
from mooring.controlplane.registry import meta
from mooring.controlplane.types import schema
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import StatusError
from mooring.errors import InputError
from mooring.sim.backend import kind_of


def check_admissible(kind: Kind, manifest: Object, obj: ApiObject) -> None:
    """Raise InputError with the first thing that an API server would refuse. ``obj`` is the manifest, decoded."""
    for problem in problems_in(obj):
        raise InputError(problem)
    for field in check_manifest(kind, manifest):
        raise InputError(f"unknown field {field!r}; a {kind.kind} has none of that name")


def check_workload(manifest: Object) -> None:
    """The same of a Deployment, a Job or the like, of which only a controller makes objects that are decoded."""
    metadata = dict(manifest.get("metadata") or {})
    name = metadata.setdefault("name", f"{metadata['generateName']}x" if metadata.get("generateName") else "")
    metadata.setdefault("namespace", "default")
    kind = kind_of(manifest)
    try:
        if manifest.get("apiVersion", kind.api_version) != kind.api_version:
            raise InputError(f"apiVersion: expected {kind.api_version}, found {manifest['apiVersion']}")
        for problem in _problems_of_pods(manifest):  # with their places, which the words of an API server lack
            raise InputError(problem)
        check_manifest(kind, {**manifest, "metadata": metadata})
    except InputError as error:
        raise InputError(f"{manifest.get('kind')} {name or 'without a name'}: {error}") from None


def _problems_of_pods(workload: Object) -> Iterator[str]:
    try:
        pod = from_plain(Pod, made_by(workload)[0])
    except InputError:  # it has no pods to speak of; what it lacks is said next
        return
    pod.metadata.name = pod.metadata.name or "made"
    place = "spec.jobTemplate.spec.template" if workload.get("kind") == "CronJob" else "spec.template"
    for problem in problems_in(pod):
        yield f"{place}.{problem}"


def check_manifest(kind: Kind, manifest: Object) -> Sequence[str]:
    """The same of a manifest alone; returns the fields that Kubernetes does not know, which a server only warns of."""
    completed = deepcopy(manifest)
    try:
        unknown = schema.check(kind.type_name, completed, kind.kind, kind.version)
        kind.strategy.default(completed)
        style = kind.strategy.name_style
        causes = meta.validate(completed["metadata"], is_namespaced=kind.is_namespaced, style=style)
        causes += kind.strategy.validate(completed)
    except StatusError as error:
        raise InputError(str(error)) from None
    for cause in causes:
        raise InputError(str(cause))
    return unknown
