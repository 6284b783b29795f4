"""Copies of a pod: each with a name, and with claims of its own where its controller would make them.

| the pod's claim | each copy has |
|---|---|
| of a StatefulSet's template (``data-db-0`` of the pod ``db-0``) | one of its own, not bound yet |
| of a generic ephemeral volume (``web-1-cache`` of the pod ``web-1``) | one of its own, not bound yet |
| of a ResourceClaimTemplate | one of its own, without an allocation |
| any other | the same, as kubectl would leave it |
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy, deepcopy

from mooring.api.core import PersistentVolumeClaimVolume, Pod, PodResourceClaimStatus
from mooring.api.meta import ObjectMeta, OwnerReference
from mooring.api.resource import ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate
from mooring.api.storage import PersistentVolumeClaim
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo
from mooring.volumes.claims import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, claim_of

_BINDING = (BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE)


class Copies:
    """Makes one copy of a pod after another, for one cluster."""

    def __init__(self, pod: Pod, cluster: Cluster) -> None:
        self.pod = pod
        self.count = 0
        self._cluster = cluster
        self._claims = list(_own_claims(pod, cluster))
        self._like = None if self._claims or self._templates() else cluster.info(pod)

    @property
    def are_alike(self) -> bool:
        """Report whether copies differ in nothing but their names."""
        return self._like is not None

    def on(self, cluster: Cluster) -> Copies:
        """The same for a fork: names go on from here."""
        other = Copies(self.pod, cluster)
        other.count = self.count
        return other

    def next(self) -> PodInfo:
        """The next copy. Its claims, if it has its own, are put into the cluster."""
        self.count += 1
        twin = copy(self.pod)
        twin.metadata = copy(self.pod.metadata)
        twin.metadata.name = f"{self.pod.name}-{self.count}"
        twin.metadata.uid = f"{self.pod.uid}:{self.count}"
        if self._like is not None:
            return PodInfo(twin, self._like.shape, self._like.cls)
        twin.spec, twin.status = copy(self.pod.spec), copy(self.pod.status)
        self._give_volumes(twin)
        self._give_devices(twin)
        return self._cluster.info(twin)

    def _give_volumes(self, twin: Pod) -> None:
        twin.spec.volumes = [copy(volume) for volume in twin.spec.volumes]
        for position, claim in self._claims:
            volume = twin.spec.volumes[position]
            own = unbound(claim)
            if volume.ephemeral is None:
                own.metadata.name = f"{volume.name}-{twin.name}"
                volume.persistent_volume_claim = PersistentVolumeClaimVolume(claim_name=own.name)
            else:
                own.metadata.name = f"{twin.name}-{volume.name}"
                own.metadata.owner_references = [_owner(twin)]
            own.metadata.uid = f"pvc:{own.key}"
            self._cluster.objects.put(own)

    def _templates(self) -> list[tuple[str, ResourceClaimTemplate]]:
        """By the claim's name in the pod, the templates that are there."""
        found = []
        for claim in self.pod.spec.resource_claims:
            name = f"{self.pod.namespace}/{claim.resource_claim_template_name}"
            template = self._cluster.objects.get(ResourceClaimTemplate, name)
            if template is not None:
                found.append((claim.name, template))
        return found

    def _give_devices(self, twin: Pod) -> None:
        made = {}
        for name, template in self._templates():
            meta = ObjectMeta(name=f"{twin.name}-{name}", namespace=twin.namespace, owner_references=[_owner(twin)])
            claim = ResourceClaim(metadata=meta, spec=deepcopy(template.spec.spec))
            claim.metadata.uid = f"resourceclaim:{claim.key}"
            claim.status = ResourceClaimStatus()
            self._cluster.objects.put(claim)
            made[name] = PodResourceClaimStatus(name=name, resource_claim_name=claim.name)
        kept = [each for each in twin.status.resource_claim_statuses if each.name not in made]
        twin.status.resource_claim_statuses = [*kept, *made.values()]


def unbound(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """The claim as it was before a volume was found for it."""
    fresh = deepcopy(claim)
    fresh.spec.volume_name = ""
    fresh.status.phase = "Pending"
    fresh.metadata.annotations = {key: text for key, text in claim.metadata.annotations.items() if key not in _BINDING}
    return fresh


def _own_claims(pod: Pod, cluster: Cluster) -> Iterator[tuple[int, PersistentVolumeClaim]]:
    """The claims that were made for this pod alone, with the positions of their volumes."""
    for position, volume in enumerate(pod.spec.volumes):
        ref = claim_of(pod, volume)
        if ref is None or not (ref.ephemeral or ref.name == f"{volume.name}-{pod.name}"):
            continue
        claim = cluster.objects.get(PersistentVolumeClaim, f"{pod.namespace}/{ref.name}")
        if claim is not None:
            yield position, claim


def _owner(pod: Pod) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
