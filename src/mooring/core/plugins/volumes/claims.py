"""A pod's volume claims: their state, the events that concern them, and remedies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mooring.api.core import Pod, Volume
from mooring.api.meta import Object
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.core.framework.cluster_event import Hint
from mooring.core.framework.interfaces import Change, Remedy
from mooring.core.state.cluster import Objects
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import EVERYTHING

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class ClaimRef(NamedTuple):
    """A volume's claim, by its name, or by the name derived for an ephemeral volume."""

    name: str
    ephemeral: bool


def claim_of(pod: Pod, volume: Volume) -> ClaimRef | None:
    """Return the claim of a volume; None for a volume without one."""
    if volume.persistent_volume_claim is not None:
        return ClaimRef(volume.persistent_volume_claim.claim_name, False)
    if volume.ephemeral is not None:
        return ClaimRef(f"{pod.metadata.name}-{volume.name}", True)
    return None


def claims_of(pod: PodInfo) -> Iterator[ClaimRef]:
    """Yield the claims of a pod's volumes, in order and with duplicates."""
    for volume in pod.shape.volumes:
        ref = claim_of(pod.pod, volume)
        if ref is not None:
            yield ref


def refers_to(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool) -> bool:
    """Report whether one of the pod's volumes refers to this claim."""
    if pod.metadata.namespace != claim.metadata.namespace:
        return False
    refs = (claim_of(pod, volume) for volume in pod.spec.volumes)
    return any(ref is not None and ref.name == claim.name and (ephemeral or not ref.ephemeral) for ref in refs)


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Return why a claim cannot belong to the pod's ephemeral volume, or ""."""
    owner = claim.metadata.controller()
    if claim.namespace == pod.namespace and owner is not None and owner.uid == pod.uid:
        return ""
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the claim's storage class; the beta annotation takes precedence."""
    return _class(claim.metadata.annotations, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    return _class(volume.metadata.annotations, volume.spec.storage_class_name)


def _class(annotations: Mapping[str, str], name: str) -> str:
    return annotations.get(BETA_STORAGE_CLASS, name)


def claim_not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    return f'storageclass.storage.k8s.io "{name}" not found'


# ---- queueing hints shared by volume plugins: a claim of the pod was added or changed
# ---------------------------------


def after_claim(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    """Wait for claims that the pod names, and for those of its ephemeral volumes."""
    return _after_claim(pod, new, ephemeral=True)


def after_named_claim(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    """Wait only for claims that the pod names."""
    return _after_claim(pod, new, ephemeral=False)


def _after_claim(pod: Pod, new: Object | None, *, ephemeral: bool) -> Hint:
    if not isinstance(new, PersistentVolumeClaim):
        return Hint.QUEUE
    return Hint.QUEUE if refers_to(pod, new, ephemeral=ephemeral) else Hint.SKIP


# ---- nodes whose pods have changed since the last call, for counts per node
# ---------------------------------------------


class PodChanges:
    """Remembers the pods of every node that it reported."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._changes = table.pod_log.cursor()
        self._pods: dict[str, list[PodInfo]] = {}

    def take(self) -> tuple[list[NodeInfo], list[str]]:
        """Return nodes whose pods have changed since the last call, and names of deleted nodes."""
        table, rows = self._table, self._changes.take()
        gone: list[str] = []
        if rows is EVERYTHING:
            candidates = table.infos
            known = {info.name for info in table.infos}
            gone = [name for name in self._pods if name not in known]
        else:
            candidates = [table.infos[row] for row in dict.fromkeys(rows)]
        changed = []
        for info in candidates:
            pods = list(info.pods.values())
            if self._pods.get(info.name) != pods:  # by identity: a PodInfo equals only itself
                self._pods[info.name] = pods
                changed.append(info)
        for name in gone:
            del self._pods[name]
        return changed, gone


# ---- remedies for a pod whose volumes reject nodes
# -----------------------------------------------------------------------


def without_volumes(pod: PodInfo, objects: Objects) -> Iterator[Remedy]:
    """Yield removals of one of the pod's volumes, or all: if the pod fits then, the volume is the obstacle."""
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
