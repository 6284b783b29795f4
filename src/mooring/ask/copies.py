"""Copies of a pod: each with a name, and with its own claims where its controller would create them.

| the pod's claim | each copy has |
|---|---|
| of a StatefulSet's template (``data-db-0`` of the pod ``db-0``) | one of its own, not bound yet |
| of a generic ephemeral volume (``web-1-cache`` of the pod ``web-1``) | one of its own, not bound yet |
| of a ResourceClaimTemplate | one of its own, without an allocation |
| any other | the same, as kubectl would leave it |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass

import msgspec

from mooring.api.core import Node, PersistentVolumeClaimVolume, Pod, PodResourceClaimStatus
from mooring.api.meta import ObjectMeta, OwnerReference
from mooring.api.resource import ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate, ResourceSlice
from mooring.api.storage import CSINode, CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.api.text import taint_text
from mooring.api.well_known import CONDITION_PREFIX, HOSTNAME, INSTANCE_TYPE, MIRROR, ZONE
from mooring.core.framework.runtime import Profile
from mooring.core.plugins.gpus.requests import MODEL, NVIDIA_MODEL
from mooring.core.plugins.volumes.claims import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, claim_of
from mooring.core.session import Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import written

_BINDING = (BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE)


class Copies:
    """Creates copies of a pod, for one cluster."""

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
        """Return the same for a fork: names continue from here."""
        other = Copies(self.pod, cluster)
        other.count = self.count
        return other

    def next(self) -> PodInfo:
        """Return the next copy, and add its own claims to the cluster."""
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
        """The existing templates, by the claim's name in the pod."""
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
    """Return the claim as it was before it was bound."""
    fresh = deepcopy(claim)
    fresh.spec.volume_name = ""
    fresh.status.phase = "Pending"
    fresh.metadata.annotations = {key: text for key, text in claim.metadata.annotations.items() if key not in _BINDING}
    return fresh


def _own_claims(pod: Pod, cluster: ClusterState) -> Iterator[tuple[int, PersistentVolumeClaim]]:
    """Yield the claims created for this pod alone, with the positions of their volumes."""
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
    """Nodes that the filters treat alike for new copies of the pods."""

    name: str
    like: Node  # one of them
    count: int


def node_kinds(session: Session, pods: Iterable[PodInfo]) -> list[NodeKind]:
    """Return the kinds of nodes that take new pods, those with most nodes first.

    Nodes are of one kind if they have the same instance type (without that label: the same size), zone and taints, and
    the same in everything else that may matter to these pods. A kind's name includes its difference from another kind
    with the same type, zone and taints.
    """
    pods = list(pods)
    rows, drivers = session.state.nodes(), any(pod.shape.volumes for pod in pods)
    keys = _labels_read(session, pods)
    asked = sorted({"cpu", "memory"}.union(*(pod.shape.requests for pod in pods)))
    amounts = {name: rows.allocatable(name).tolist() for name in asked}
    found: dict[str, dict[tuple[str, ...], list[Node]]] = {}
    for i, info in enumerate(rows.infos):
        node = info.node
        if node is None or node.spec.unschedulable or any(t.key.startswith(CONDITION_PREFIX) for t in node.spec.taints):
            continue
        sizes = [_about(name, column[i]) for name, column in amounts.items()]
        details = [
            *(f"{key}={node.labels[key]}" if key in node.labels else f"no {key}" for key in keys),
            *(f"{name} {size}" for name, size in zip(asked, sizes, strict=True)),
            f"{rows.allowed_pods[i]} pods",
            f"features {', '.join(sorted(node.status.declared_features)) or 'none'}",
            *([_drivers(session.state.objects.get(CSINode, node.name))] if drivers else []),
        ]
        size = f"{sizes[asked.index('cpu')]} CPU, {sizes[asked.index('memory')]}"
        found.setdefault(_name(node, size), {}).setdefault(tuple(details), []).append(node)
    kinds = []
    for name, alike in found.items():
        differing = [i for i, texts in enumerate(zip(*alike, strict=True)) if len(set(texts)) > 1]
        for known, nodes in alike.items():
            kinds.append(NodeKind(", ".join([name, *(known[i] for i in differing)]), nodes[0], len(nodes)))
    return sorted(kinds, key=lambda kind: (-kind.count, kind.name))


def _labels_read(session: Session, pods: Sequence[PodInfo]) -> list[str]:
    """Return the labels that filters may read for these pods; too many only make kinds smaller than necessary.

    An in-tree filter reads a label if its key is named by the pods, the configuration, the affinity of running pods,
    volumes or devices. A user's own filter may read any label except those that name a node.
    """
    state = session.state
    values: dict[str, list[str]] = {}
    for info in state.nodes().infos:
        for key, value in info.labels.items():
            values.setdefault(key, []).append(value)
    keys = sorted(values.keys() - {HOSTNAME, INSTANCE_TYPE, ZONE})
    if not all(are_ours(session.profile_for(pod.pod)) for pod in pods):
        return [key for key in keys if len(values[key]) <= A_FEW or len(set(values[key])) < len(values[key])]
    affinities = {info.shape.id: info.shape.spec.affinity for info in state.pods() if info.shape.has_pod_affinity}
    specs = {pod.shape.id: pod.shape.spec for pod in pods}
    naming: list[object] = [list(specs.values()), session.config.profiles, list(affinities.values())]
    if any(pod.shape.volumes or pod.shape.spec.resource_claims or pod.shape.scalar_requests for pod in pods):
        naming += [obj for kind in _NAMING_LABELS for obj in state.objects.all(kind)]
    text = msgspec.json.encode(naming).decode()
    return [key for key in keys if f'"{key}"' in text or key in (MODEL, NVIDIA_MODEL)]


A_FEW = 12  # nodes; a label with a different value on each of more nodes is a name
_NAMING_LABELS = (PersistentVolume, StorageClass, CSIStorageCapacity, ResourceSlice)


def are_ours(profile: Profile) -> bool:
    """Report whether all plugins that can reject a pod come with mooring."""
    plugins = (*profile.pre_enqueue, *profile.judges, *profile.reserve)
    return all(type(each.plugin).__module__.startswith("mooring.core.plugins.") for each in plugins)


def _about(name: str, amount: int) -> str:
    """Return bytes as whole GiB: the kubelets of equal machines report slightly different amounts."""
    is_large = name in ("memory", "ephemeral-storage") and amount >> 30
    return f"{amount >> 30}Gi" if is_large else written(name, amount)


def _name(node: Node, size: str) -> str:
    zone, taints = node.labels.get(ZONE), sorted(map(taint_text, node.spec.taints))
    name = node.labels.get(INSTANCE_TYPE, size) + (f" in {zone}" if zone else "")
    return name + (f", tainted {', '.join(taints)}" if taints else "")


def _drivers(node: CSINode | None) -> str:
    limits = {} if node is None else {each.name: each.allocatable for each in node.spec.drivers or ()}
    texts = (f"{name}{'' if limit is None else f' ({limit.count})'}" for name, limit in sorted(limits.items()))
    return f"CSI drivers {', '.join(texts) or 'none'}"


def add_node_like(cluster: ClusterState, like: Node, name: str) -> None:
    """Add a new node like this one, with pods of DaemonSets and static ones."""
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
    """Return the pod as on another node."""
    twin = copy(pod)
    twin.metadata, twin.spec = copy(pod.metadata), copy(pod.spec)
    twin.metadata.name, twin.metadata.uid = f"{pod.name}-{node}", f"{pod.uid}:{node}"
    twin.spec.node_name = node
    return twin
