"""Objects for stories: manifests in any form as dicts, and short forms of nodes, pods and taints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from mooring.api import yaml
from mooring.api.checks import problems_in
from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object as ApiObject
from mooring.api.pod_templates import made_by
from mooring.controlplane.registry.validation import validate
from mooring.controlplane.types import schema
from mooring.controlplane.types.kind import Kind, Object
from mooring.controlplane.types.status import StatusError
from mooring.sim.backend import kind_of


def documents(*manifests: Any) -> list[Object]:
    """Manifests as dicts: from mappings, lists, Lists, and YAML or JSON text."""
    found: list[Object] = []
    for each in manifests:
        if isinstance(each, str | bytes):
            found += documents(*yaml.load_all(each))
        elif isinstance(each, Mapping):
            if str(each.get("kind", "")).endswith("List") and "items" in each:
                found += documents(*(each["items"] or ()))
            else:
                found.append(dict(each))
        elif isinstance(each, Sequence):
            found += documents(*each)
        elif each is not None:
            raise InputError(f"a manifest is a mapping or YAML text, not {type(each).__name__}")
    return found


def taint(text: str) -> Object:
    """``key=value:Effect`` or ``key:Effect`` as a taint."""
    left, colon, effect = text.rpartition(":")
    if not colon or not left or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise InputError(f"taint {text!r}: expected key=value:NoSchedule (or PreferNoSchedule, NoExecute)")
    key, _, value = left.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    unschedulable: bool = False,
    capacity: Mapping[str, str] | None = None,
) -> Object:
    """A node as a healthy kubelet would register it."""
    made = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if zone:
        made["topology.kubernetes.io/zone"] = zone
    spec: Object = {}
    if unschedulable:
        spec["unschedulable"] = True
    if taints:
        spec["taints"] = [taint(each) for each in taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**made, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": {"cpu": cpu, "memory": memory, "pods": pods, **(capacity or {})}},
    }


def pod(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    image: str = "registry.k8s.io/pause:3.10",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> Object:
    """A pod with one container; further keyword arguments are fields of its spec, as the wire names them."""
    container: Object = {"name": "main", "image": image}
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    if requests:
        container["resources"] = {"requests": requests}
    metadata: Object = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


# --------------------------------------------------------------------------------------------------------------------
# Validation as by an API server: pods of a workload bypass it, and table rows have line numbers.


def check_admissible(kind: Kind, manifest: Object, obj: ApiObject) -> None:
    """Raise InputError with the first thing that an API server would reject. ``obj`` is the decoded manifest."""
    for problem in problems_in(obj):
        raise InputError(problem)
    for field in check_manifest(kind, manifest):
        raise InputError(f"unknown field {field!r}; a {kind.kind} has none of that name")


def check_workload(manifest: Object) -> None:
    """Check a Deployment, a Job or the like, whose objects only a controller creates."""
    metadata = dict(manifest.get("metadata") or {})
    name = metadata.setdefault("name", f"{metadata['generateName']}x" if metadata.get("generateName") else "")
    metadata.setdefault("namespace", "default")
    kind = kind_of(manifest)
    try:
        if manifest.get("apiVersion", kind.api_version) != kind.api_version:
            raise InputError(f"apiVersion: expected {kind.api_version}, found {manifest['apiVersion']}")
        for problem in _problems_of_pods(manifest):  # with their places, which the API server's messages lack
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
    """Check a manifest alone; return unknown fields, which a server only warns about."""
    completed = deepcopy(manifest)
    try:
        unknown = schema.check(kind.type_name, completed, kind.kind, kind.version)
        kind.default(completed)
        style = kind.name_style
        causes = validate(completed["metadata"], is_namespaced=kind.is_namespaced, style=style)
        causes += kind.validate(completed)
    except StatusError as error:
        raise InputError(str(error)) from None
    for cause in causes:
        raise InputError(str(cause))
    return unknown
