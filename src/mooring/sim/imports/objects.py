"""Single manifests of a file with many: typed objects, workloads, or nothing that scheduling reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.api.core import Pod, PodSpec
from mooring.api.errors import InputError
from mooring.api.manifests import Manifests, load_manifests, read_values
from mooring.api.meta import Object
from mooring.api.pod_templates import is_workload
from mooring.api.resource import ResourceClaim
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from mooring.api.workloads import PriorityClass, RuntimeClass
from mooring.core.queue.queued_pod import History
from mooring.sim.imports.imported import Imported, ImportedChange, Omissions, Workload

_CLASSES = (PriorityClass, RuntimeClass, StorageClass)


class ObjectReader:
    """Reads manifests one by one; earlier classes apply to later objects, as in admission."""

    def __init__(self, omissions: Omissions) -> None:
        self._omissions = omissions
        self._classes = Manifests()

    def read(self, value: Any, where: str, *, is_gone: bool = False) -> Object | Workload | None:
        """Return a typed object, a workload unchanged, or None for a kind that scheduling does not read.

        A deleted one only needs its name.
        """
        found = read_values([(where, value)], self._classes)
        for note in found.unknown:
            self._omissions.add(f"field that Kubernetes does not know: {note}", 0)
        if isinstance(value, Mapping) and is_workload(str(value.get("kind"))) and (is_gone or _has_template(value)):
            return value
        if not found.objects:
            for kind in found.ignored:
                self._omissions.add(f"{kind}: scheduling does not read it")
            return None
        (obj,) = found.objects
        if isinstance(obj, _CLASSES):
            self._classes.objects.append(obj)
        return obj


def _has_template(value: Mapping[str, Any]) -> bool:
    """Report whether pods can be created for a workload: an old ReplicaSet in a dump may have only its name."""
    spec = value.get("spec")
    return isinstance(spec, Mapping) and ("template" in spec or "jobTemplate" in spec)


def without_finished(objects: Sequence[Object], omissions: Omissions) -> list[Object]:
    """Return the objects except finished pods."""
    finished = [obj for obj in objects if isinstance(obj, Pod) and obj.is_finished]
    if finished:
        omissions.add("Pod that has ended: scheduling does not see it", len(finished))
    return [obj for obj in objects if not (isinstance(obj, Pod) and obj.is_finished)]


def is_revised(known: Pod, pod: Pod) -> bool:
    """Report whether a pod's labels or spec changed: a removed gate, another label, resized requests."""
    return known.labels != pod.labels or _unbound(known.spec) != _unbound(pod.spec)


def _unbound(spec: PodSpec) -> PodSpec:
    if spec.node_name:
        spec = copy(spec)
        spec.node_name = ""
    return spec


def is_made(obj: Object) -> bool:
    """Report whether a controller created an object for a pod: a volume, claim or attachment."""
    if isinstance(obj, PersistentVolume):
        return obj.spec.claim_ref is not None
    if isinstance(obj, (PersistentVolumeClaim, ResourceClaim)):
        owner = obj.metadata.controller()
        return owner is not None and owner.kind == "Pod"
    return isinstance(obj, VolumeAttachment)


def is_written_by_binding(obj: Object) -> bool:
    """Report whether controllers or the scheduler make this update in the course of binding.

    The simulation's own repeat it.
    """
    return isinstance(obj, (PersistentVolumeClaim, ResourceClaim)) or is_made(obj)


def before_binding(obj: Object) -> Object:
    """An object before anything was bound to it."""
    if isinstance(obj, PersistentVolumeClaim) and obj.spec.volume_name:
        obj = copy(obj)
        obj.spec = copy(obj.spec)
        obj.spec.volume_name = ""
    return obj


@dataclass(slots=True)
class PodLife:
    """A pod of a record, from arrival to end. Times are seconds from the start."""

    pod: Pod
    came_s: float
    latest: Pod
    bound_s: float | None = None
    history: History | None = None  # its history in the queue before the start
    run_s: float | None = None
    deleted_s: float | None = None
    was_evicted: bool = False


class ObjectChanges:
    """Decides what a repeated object, other than a pod, means for a simulation.

    ``seen`` gives what of an object counts as a change, ``update`` is the word for one in the list of omissions.
    """

    def __init__(
        self, changes: list[ImportedChange], omissions: Omissions, seen: Callable[[Object], object], update: str
    ) -> None:
        self.known: dict[tuple[str, str], Object] = {}  # by kind and key, the last version in the record
        self._changes, self._omissions, self._seen, self._update = changes, omissions, seen, update

    def put(self, at_s: float, obj: Object) -> bool:
        """Process an object; false if it is unchanged."""
        key = (type(obj).__name__, obj.key)
        known = self.known.get(key)
        self.known[key] = obj
        if known is None and is_made(obj):
            self._omissions.add(f"{key[0]} that the recorded cluster made for a pod: the simulation makes its own")
        elif known is None:
            self._changes.append(ImportedChange(at_s, before_binding(obj)))
        elif is_written_by_binding(obj):
            what = f"{self._update} of a {key[0]} in the course of binding"
            self._omissions.add(f"{what}: the simulation does it itself")
        elif self._seen(known) != self._seen(obj):
            self._changes.append(ImportedChange(at_s, obj))
        else:
            return False
        return True


def pending(pod: Pod) -> Pod:
    """Return the pod as it was before scheduling; the argument is changed."""
    pod.spec.node_name = ""
    pod.status = type(pod.status)()
    return pod


# --------------------------------------------------------------------------------------------------------------------
# What ``kubectl get`` prints, and other manifests: single objects, lists, several documents, directories of these.


def import_manifests(paths: Iterable[Path], contents: Mapping[Path, bytes] | None = None) -> Imported:
    """The cluster that the manifests describe, at the start; nothing happens later. ``contents``: what was read."""
    paths = list(paths)
    found = load_manifests(paths, contents=contents)
    if not (found.objects or found.workloads or found.ignored):
        names = ", ".join(map(str, paths))
        raise InputError(f"{names}: no object; expected nodes, pods or workloads, as kubectl get -o yaml prints them")
    omissions = Omissions()
    for kind, count in sorted(found.ignored.items()):
        if kind not in _kinds(found):
            omissions.add(f"{kind}: scheduling does not read it", count)
    for note in found.unknown_notes:
        omissions.add(f"field that Kubernetes does not know: {note}", 0)
    there = without_finished(found.objects, omissions)
    owners = _owners(found)
    workloads: list[Workload] = []
    places: list[str] = []
    for where, workload in found.workloads:
        if _identity(workload) in owners or _is_owned(workload):
            omissions.add(f"{workload.get('kind')} whose pods are in the file or that another workload owns: "
                          "the pods stay as they are")  # fmt: skip
        else:
            workloads.append(workload)
            places.append(where)
    notes = omissions.lines()
    return Imported("Kubernetes manifests", objects=there, workloads=workloads, places=places, not_simulated=notes)


def _kinds(found: Manifests) -> set[str]:
    return {str(workload.get("kind")) for _, workload in found.workloads}


def _owners(found: Manifests) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of everything that owns a pod of the file, directly or through another object."""
    above: dict[tuple[str, str, str], list[tuple[str, str, str]]] = {}
    for _, workload in found.workloads:
        above[_identity(workload)] = _references(workload)
    owners: set[tuple[str, str, str]] = set()
    left = [
        (owner.kind, pod.namespace, owner.name)
        for pod in found.of(Pod)
        if not pod.is_finished
        for owner in pod.metadata.owner_references
    ]
    while left:
        owner = left.pop()
        if owner not in owners:
            owners.add(owner)
            left += above.get(owner, ())
    return owners


def _is_owned(workload: Workload) -> bool:
    return bool(_references(workload))


def _references(workload: Workload) -> list[tuple[str, str, str]]:
    _, namespace, _ = _identity(workload)
    listed = _meta(workload).get("ownerReferences")
    references = listed if isinstance(listed, list) else []
    return [
        (str(each.get("kind")), namespace, str(each.get("name"))) for each in references if isinstance(each, Mapping)
    ]


def _identity(workload: Workload) -> tuple[str, str, str]:
    meta = _meta(workload)
    return str(workload.get("kind")), str(meta.get("namespace") or "default"), str(meta.get("name"))


def _meta(workload: Workload) -> Mapping[str, Any]:
    meta = workload.get("metadata")
    return meta if isinstance(meta, Mapping) else {}
