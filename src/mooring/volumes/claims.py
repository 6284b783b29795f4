"""A pod's claims: how they are called, whose they are, and how far they are bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mooring.api.core import Pod, Volume
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.state.pod_info import PodInfo

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class ClaimRef(NamedTuple):
    """A volume's claim: by its name, or by the name that an ephemeral volume's claim must have."""

    name: str
    ephemeral: bool


def claim_of(pod: Pod, volume: Volume) -> ClaimRef | None:
    """The claim behind a volume; None for a volume that has none."""
    if volume.persistent_volume_claim is not None:
        return ClaimRef(volume.persistent_volume_claim.claim_name, False)
    if volume.ephemeral is not None:
        return ClaimRef(f"{pod.metadata.name}-{volume.name}", True)
    return None


def claims_of(pod: PodInfo) -> Iterator[ClaimRef]:
    """The claims behind a pod's volumes, in their order; one that is used twice comes twice."""
    for volume in pod.shape.volumes:
        ref = claim_of(pod.pod, volume)
        if ref is not None:
            yield ref


def refers_to(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool) -> bool:
    """Report whether one of the pod's volumes means this claim."""
    if pod.metadata.namespace != claim.metadata.namespace:
        return False
    refs = (claim_of(pod, volume) for volume in pod.spec.volumes)
    return any(ref is not None and ref.name == claim.name and (ephemeral or not ref.ephemeral) for ref in refs)


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Why a claim cannot be the one of the pod's ephemeral volume; empty if it can."""
    owner = claim.metadata.controller()
    if claim.namespace == pod.namespace and owner is not None and owner.uid == pod.uid:
        return ""
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The claim's storage class: the beta annotation first."""
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
