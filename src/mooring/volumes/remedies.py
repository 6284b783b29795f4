"""What would help a pod whose volumes keep it away from nodes."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.core import Pod, Volume
from mooring.api.storage import PersistentVolumeClaim
from mooring.framework.remedies import Change, Remedy
from mooring.state.objects import Objects
from mooring.state.pod_info import PodInfo


def without_volumes(pod: PodInfo, objects: Objects) -> Iterator[Remedy]:
    """The pod without one of its volumes, or without any: if it fits then, the volume stands in the way."""
    changes = tuple(_without_volume(volume, pod.pod, objects) for volume in pod.shape.volumes)
    yield from ((change,) for change in changes)
    if len(changes) > 1:
        yield changes


def _without_volume(volume: Volume, pod: Pod, objects: Objects) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.volumes = [other for other in pod.spec.volumes if other.name != volume.name]

    return Change(_text(volume, pod, objects), "volume", 6.0, edit=edit)


def _text(volume: Volume, pod: Pod, objects: Objects) -> str:
    if volume.persistent_volume_claim is not None:
        key = f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
    elif volume.ephemeral is not None:
        key = f"{pod.namespace}/{pod.name}-{volume.name}"
    else:
        return f"without volume {volume.name}"
    claim = objects.get(PersistentVolumeClaim, key)
    if claim is None:
        return f"create persistentvolumeclaim {key} of volume {volume.name}: without it the pod fits"
    if not claim.spec.volume_name:
        kind = claim.spec.storage_class_name
        of_class = f" (storage class {kind})" if kind else ""
        return f"bind persistentvolumeclaim {key}{of_class} of volume {volume.name}: without it the pod fits"
    return f"without volume {volume.name} (claim {key}, volume {claim.spec.volume_name})"
