"""One loss on a fork: nodes go, controllers make their pods anew, and these are placed in the queue's order.

| the pod of a lost node | what becomes of it |
|---|---|
| of a controller (ReplicaSet, StatefulSet, Job …) | a new pod is placed like any other; its claims stay, its node-local data are gone |
| of a DaemonSet, or static | it belongs to the node, and does not come back elsewhere |
| without a controller | it is placed again, too: whoever made it has to make it anew |
| about to end already | it ends |
"""  # noqa: E501

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from mooring.api.core import Pod
from mooring.api.resource import ResourceClaim, ResourceClaimStatus
from mooring.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from mooring.devices.claims import ClaimProblem, claim_name
from mooring.errors import ParseError
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo
from mooring.volumes.claims import claims_of
from mooring.volumes.node_topology import compile_affinity
from mooring.whatif.copies import unbound
from mooring.whatif.node_kinds import stays_with_node
from mooring.whatif.placing import Placing


@dataclass(slots=True)
class Loss:
    """What losing these nodes does."""

    lost: tuple[str, ...]  # the names of what is lost: nodes, zones, values of a label
    nodes: tuple[str, ...]
    pods: int = 0  # how many pods were on these nodes
    replaced: dict[str, str] = field(default_factory=dict)  # pods that come back, and their new node
    unplaced: dict[str, str] = field(default_factory=dict)  # pods for which there is no place, and why
    preempted: dict[str, str] = field(default_factory=dict)  # pods that give way, and for whom
    broken_budgets: list[str] = field(default_factory=list)
    bare_pods: list[str] = field(default_factory=list)  # that come back only if somebody makes them anew
    lost_volumes: list[str] = field(default_factory=list)  # that only these nodes can reach
    node_pods: list[str] = field(default_factory=list)  # of DaemonSets, and static ones
    use: dict[str, float] = field(default_factory=dict)  # of the nodes that are left, in percent, by resource

    @property
    def is_harmless(self) -> bool:
        """Report whether all pods come back, nothing is lost for good, and no budget breaks."""
        return not (self.unplaced or self.broken_budgets or self.lost_volumes)

    @property
    def harm(self) -> tuple[int, ...]:
        """Larger is worse: pods that are gone, volumes, budgets, pods that give way, and how full it gets."""
        full = round(10 * max(self.use.values(), default=0))
        return len(self.unplaced), len(self.lost_volumes), len(self.broken_budgets), len(self.preempted), full

    def to_dict(self) -> dict[str, Any]:
        return {
            "lost": list(self.lost),
            "nodes": list(self.nodes),
            "pods": self.pods,
            "replaced": self.replaced,
            "unplaced": [{"pod": pod, "message": message} for pod, message in self.unplaced.items()],
            "preempted": [{"pod": pod, "for": whom} for pod, whom in self.preempted.items()],
            "brokenBudgets": self.broken_budgets,
            "barePods": self.bare_pods,
            "lostVolumes": self.lost_volumes,
            "nodePods": self.node_pods,
            "use": self.use,
            "isHarmless": self.is_harmless,
        }


def lose(base: Placing, lost: Sequence[str], nodes: Sequence[str]) -> Loss:
    """Lose these nodes on a fork, and place again what comes back."""
    loss = Loss(tuple(lost), tuple(nodes))
    placing = base.fork()
    gone = [pod for node in nodes for pod in placing.state.table.nodes[node].pods.values()]
    loss.pods = len(gone)
    loss.lost_volumes = sorted(set(lost_volumes(placing.state, gone, frozenset(nodes))))
    for pod in gone:
        placing.evict(pod)
    for node in nodes:
        for waiting in list(placing.nominations.nominated_pods(node)):
            placing.nominations.withdraw(waiting.uid)
        placing.state.remove_node(node)
        placing.state.objects.remove(CSINode, node)
    coming: list[PodInfo] = []
    for pod in sorted(gone, key=lambda pod: pod.pod.key):
        if pod.pod.is_terminating:
            continue
        if stays_with_node(pod.pod):
            loss.node_pods.append(pod.pod.key)
        else:
            coming.append(_coming_back(placing, pod.pod, loss))
    _place(placing, coming, loss)
    loss.broken_budgets = sorted(placing.broken_budgets)
    loss.use = _use(placing.state)
    return loss


def _place(placing: Placing, pods: Iterable[PodInfo], loss: Loss) -> None:
    """Place pods in the queue's order. Those that give way come back later."""
    queue: list[tuple[Any, int, PodInfo]] = []
    count = 0

    def put(pod: PodInfo, time: int) -> None:
        nonlocal count
        count += 1
        sort_key = placing.profile_of(pod.pod).queue_sort[0].sort_key
        heapq.heappush(queue, (sort_key(pod.priority, float(time)), count, pod))

    for pod in pods:
        put(pod, 0)
    while queue:
        pod = heapq.heappop(queue)[2]
        decision = placing.place(pod, preempt=True)
        key = pod.pod.key
        if decision.node is not None:
            loss.replaced[key] = decision.node
        else:
            loss.unplaced[key] = decision.message
        for victim in decision.victims:
            name = victim.pod.key
            loss.preempted[name] = key
            loss.replaced.pop(name, None)
            put(_coming_back(placing, victim.pod, loss), count)


def _coming_back(placing: Placing, pod: Pod, loss: Loss) -> PodInfo:
    """The pod that comes in place of this one; noted if no controller makes it."""
    if pod.metadata.controller() is None and pod.key not in loss.bare_pods:
        loss.bare_pods.append(pod.key)
    return made_anew(placing.state, pod)


def made_anew(cluster: Cluster, pod: Pod) -> PodInfo:
    """The pod that is made in place of this one, with claims as they are then."""
    new = copy(pod)
    new.metadata, new.spec, new.status = copy(pod.metadata), copy(pod.spec), copy(pod.status)
    new.metadata.uid = f"{pod.uid}:anew"
    new.metadata.deletion_timestamp = None
    new.spec.node_name = ""
    new.status.nominated_node_name = new.status.phase = ""
    new.status.start_time, new.status.conditions = None, []
    for volume in pod.spec.volumes:
        claim = cluster.objects.get(PersistentVolumeClaim, f"{pod.namespace}/{pod.name}-{volume.name}")
        if volume.ephemeral is not None and claim is not None:
            fresh = unbound(claim)
            for owner in fresh.metadata.owner_references:
                owner.uid = new.uid
            cluster.objects.put(fresh)
    _release_devices(cluster, pod, new)
    return cluster.info(new)


def _release_devices(cluster: Cluster, pod: Pod, new: Pod) -> None:
    """Give back the devices of claims that nobody else uses, and let claims of its own belong to the new pod."""
    for wanted in pod.spec.resource_claims:
        try:
            name, _ = claim_name(pod, wanted)
        except ClaimProblem:
            continue
        claim = cluster.objects.get(ResourceClaim, f"{pod.namespace}/{name}")
        if claim is None:
            continue
        changed = copy(claim)
        changed.metadata, changed.status = copy(claim.metadata), copy(claim.status)
        changed.status.reserved_for = [each for each in claim.status.reserved_for if each.uid != pod.uid]
        if not changed.status.reserved_for:
            changed.status = ResourceClaimStatus()
        owners = [copy(owner) for owner in claim.metadata.owner_references]
        for owner in owners:
            owner.uid = new.uid if owner.uid == pod.uid else owner.uid
        changed.metadata.owner_references = owners
        cluster.objects.put(changed)


def lost_volumes(cluster: Cluster, gone: Iterable[PodInfo], nodes: frozenset[str]) -> Iterator[str]:
    """Volumes of these pods that no other node can reach."""
    for pod in gone:
        for ref in claims_of(pod) if pod.shape.volumes else ():
            claim = cluster.objects.get(PersistentVolumeClaim, f"{pod.pod.namespace}/{ref.name}")
            volume = cluster.objects.get(PersistentVolume, claim.spec.volume_name) if claim is not None else None
            if (
                volume is not None
                and volume.spec.node_affinity is not None
                and not _is_reachable(volume, cluster, nodes)
            ):
                yield volume.name


def _is_reachable(volume: PersistentVolume, cluster: Cluster, lost: frozenset[str]) -> bool:
    try:
        terms = compile_affinity(volume.spec.node_affinity)
    except ParseError:
        return False
    return any(
        all(requirement.matches(info.labels) for requirement in term)
        for info in cluster.nodes().infos
        if info.name not in lost
        for term in terms
    )


def _use(cluster: Cluster) -> dict[str, float]:
    """How much of all that is left is requested, in percent."""
    rows = cluster.nodes()
    found = {}
    for resource in ("cpu", "memory"):
        whole = int(rows.allocatable(resource).sum())
        if whole:
            found[resource] = round(100 * int(rows.requested(resource).sum()) / whole, 1)
    return found
