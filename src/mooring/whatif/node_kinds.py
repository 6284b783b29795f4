"""Kinds of nodes, and one more node of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy, deepcopy
from dataclasses import dataclass

from mooring.api.core import Node, Pod
from mooring.api.storage import CSINode
from mooring.api.well_known import CONDITION_PREFIX, HOSTNAME, ZONE
from mooring.state.cluster import Cluster
from mooring.state.quantity_text import written

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that a cloud would make from one template."""

    name: str
    like: Node  # one of them
    count: int


def node_kinds(cluster: Cluster) -> list[NodeKind]:
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


def add_node_like(cluster: Cluster, like: Node, name: str) -> None:
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
    for pod in _on(daemons, name):
        cluster.set_pod(pod)


def stays_with_node(pod: Pod) -> bool:
    """Report whether a pod belongs to its node: a DaemonSet's, or a static one."""
    owner = pod.metadata.controller()
    return MIRROR in pod.metadata.annotations or (owner is not None and owner.kind in ("DaemonSet", "Node"))


def _on(pods: list[Pod], node: str) -> Iterator[Pod]:
    for pod in pods:
        twin = copy(pod)
        twin.metadata, twin.spec = copy(pod.metadata), copy(pod.spec)
        twin.metadata.name, twin.metadata.uid = f"{pod.name}-{node}", f"{pod.uid}:{node}"
        twin.spec.node_name = node
        yield twin
