"""Single manifests of a file with many: typed objects, workloads, or nothing that scheduling reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from mooring.api.core import Pod, PodSpec
from mooring.api.manifests import Manifests, read_values
from mooring.api.meta import Object
from mooring.api.pod_templates import is_workload
from mooring.api.resource import ResourceClaim
from mooring.api.runtime_class import RuntimeClass
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from mooring.api.workloads import PriorityClass
from mooring.importing.imported import Omissions, Workload

_CLASSES = (PriorityClass, RuntimeClass, StorageClass)


class ObjectReader:
    """Reads manifests one by one; classes that came before count for what comes later, as admission has it."""

    def __init__(self, omissions: Omissions) -> None:
        self._omissions = omissions
        self._classes = Manifests()

    def read(self, value: Any, where: str, *, is_gone: bool = False) -> Object | Workload | None:
        """A typed object, a workload as it stands, or None for a kind that scheduling does not read.

        Of one that is gone the name is enough.
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
    """Whether pods can be made of a workload: a ReplicaSet in a dump of old may say nothing but its name."""
    spec = value.get("spec")
    return isinstance(spec, Mapping) and ("template" in spec or "jobTemplate" in spec)


def without_finished(objects: Sequence[Object], omissions: Omissions) -> list[Object]:
    """The objects but for pods that have ended."""
    finished = [obj for obj in objects if isinstance(obj, Pod) and obj.is_finished]
    if finished:
        omissions.add("Pod that has ended: scheduling does not see it", len(finished))
    return [obj for obj in objects if not (isinstance(obj, Pod) and obj.is_finished)]


def is_revised(known: Pod, pod: Pod) -> bool:
    """Whether a pod is asked for in other words: a gate is gone, it has another label, its requests were resized."""
    return known.labels != pod.labels or _unbound(known.spec) != _unbound(pod.spec)


def _unbound(spec: PodSpec) -> PodSpec:
    if spec.node_name:
        spec = copy(spec)
        spec.node_name = ""
    return spec


def is_made(obj: Object) -> bool:
    """Whether a controller made an object for a pod: a provisioned volume, the claim of a pod, an attachment."""
    if isinstance(obj, PersistentVolume):
        return obj.spec.claim_ref is not None
    if isinstance(obj, (PersistentVolumeClaim, ResourceClaim)):
        owner = obj.metadata.controller()
        return owner is not None and owner.kind == "Pod"
    return isinstance(obj, VolumeAttachment)


def is_written_by_binding(obj: Object) -> bool:
    """Whether an update of an object is what controllers and the scheduler write in the course of binding.

    The simulation's own do it again.
    """
    return isinstance(obj, (PersistentVolumeClaim, ResourceClaim)) or is_made(obj)


def as_it_came(obj: Object) -> Object:
    """An object before anything was bound to it."""
    if isinstance(obj, PersistentVolumeClaim) and obj.spec.volume_name:
        obj = copy(obj)
        obj.spec = copy(obj.spec)
        obj.spec.volume_name = ""
    return obj


def pending(pod: Pod) -> Pod:
    """The pod as it was before any scheduler saw it; the argument is changed."""
    pod.spec.node_name = ""
    pod.status = type(pod.status)()
    return pod
