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
from dataclasses import dataclass

from mooring.api.core import Node, PersistentVolumeClaimVolume, Pod, PodResourceClaimStatus
from mooring.api.meta import ObjectMeta, OwnerReference
from mooring.api.resource import ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate
from mooring.api.storage import CSINode, PersistentVolumeClaim
from mooring.api.well_known import CONDITION_PREFIX, HOSTNAME, INSTANCE_TYPE, MIRROR, ZONE
from mooring.core.plugins.volumes.claims import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, claim_of
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import written

_BINDING = (BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE)


class Copies:
    """Makes one copy of a pod after another, for one cluster."""

    def __init__(self, pod: Pod, cluster: ClusterState) -> None:
        self.pod = pod
        self.count = 0
        self._cluster = cluster
        self._claims = list(_own_claims(pod, cluster))
        self._like = None if self._claims or self._templates() else cluster.info(pod)

    @property
    def are_alike(self) -> bool:
        """Report whether copies differ in nothing but their names."""
        return self._like is not None

    def on(self, cluster: ClusterState) -> Copies:
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


def _own_claims(pod: Pod, cluster: ClusterState) -> Iterator[tuple[int, PersistentVolumeClaim]]:
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


# --------------------------------------------------------------------------------------------------------------------
# Kinds of nodes, and one more node of a kind.


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that a cloud would make from one template."""

    name: str
    like: Node  # one of them
    count: int


def node_kinds(cluster: ClusterState) -> list[NodeKind]:
    """The kinds of nodes that take new pods, those with most nodes first.

    Nodes are of one kind if they have the same instance type (without that label: the same size), zone and taints.
    """
    found: dict[tuple[object, ...], list[Node]] = {}
    rows = cluster.nodes()
    cpu, memory = rows.allocatable("cpu"), rows.allocatable("memory")
    for i, info in enumerate(rows.infos):
        node = info.node
        if node is None or node.spec.unschedulable or any(t.key.startswith(CONDITION_PREFIX) for t in node.spec.taints):
            continue
        size = f"{written('cpu', int(cpu[i]))} CPU, {_about(int(memory[i]))}"
        taints = tuple(sorted((t.key, t.value, t.effect) for t in node.spec.taints))
        found.setdefault((node.labels.get(INSTANCE_TYPE, size), node.labels.get(ZONE, ""), taints), []).append(node)
    kinds = [NodeKind(_name(*key), nodes[0], len(nodes)) for key, nodes in found.items()]
    return sorted(kinds, key=lambda kind: (-kind.count, kind.name))


def _about(memory: int) -> str:
    """Whole GiB: what a kubelet leaves of equal machines differs by some bytes."""
    return f"{memory >> 30}Gi" if memory >> 30 else written("memory", memory)


def _name(size: object, zone: object, taints: object) -> str:
    name = f"{size} in {zone}" if zone else str(size)
    assert isinstance(taints, tuple)
    return name + (f", tainted {', '.join(key for key, _, _ in taints)}" if taints else "")


def add_node_like(cluster: ClusterState, like: Node, name: str) -> None:
    """Add a new node like this one, with the pods that every such node has: those of DaemonSets, and static ones."""
    node = deepcopy(like)
    node.metadata.name, node.metadata.uid = name, f"node:{name}"
    if HOSTNAME in node.labels:
        node.metadata.labels = {**node.labels, HOSTNAME: name}
    node.status.images = []
    daemons = [info.pod for info in cluster.table.nodes[like.name].pods.values() if stays_with_node(info.pod)]
    cluster.set_node(node)
    drivers = cluster.objects.get(CSINode, like.name)
    if drivers is not None:
        drivers = deepcopy(drivers)
        drivers.metadata.name = name
        cluster.objects.put(drivers)
    for pod in daemons:
        cluster.set_pod(on_node(pod, name))


def stays_with_node(pod: Pod) -> bool:
    """Report whether a pod belongs to its node: a DaemonSet's, or a static one."""
    owner = pod.metadata.controller()
    return MIRROR in pod.metadata.annotations or (owner is not None and owner.kind in ("DaemonSet", "Node"))


def on_node(pod: Pod, node: str) -> Pod:
    """Such a pod as it runs on another node."""
    twin = copy(pod)
    twin.metadata, twin.spec = copy(pod.metadata), copy(pod.spec)
    twin.metadata.name, twin.metadata.uid = f"{pod.name}-{node}", f"{pod.uid}:{node}"
    twin.spec.node_name = node
    return twin
