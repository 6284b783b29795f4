"""The pods that DaemonSets put onto a new node, found from those that run elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy, deepcopy

from mooring.api.core import Node, Pod
from mooring.api.taints import first_untolerated
from mooring.state.cluster import Cluster
from mooring.state.node_requirements import NodeRequirements


class Daemons:
    """One pod of each DaemonSet, as its controller would make it for any node."""

    def __init__(self, cluster: Cluster, more: Iterable[Pod] = ()) -> None:
        """``more`` are pods of DaemonSets that are still to come."""
        found: dict[str, Pod] = {}
        for info in cluster.pods():
            owner = info.pod.metadata.controller()
            if owner is not None and owner.kind == "DaemonSet" and not info.pod.is_terminating:
                found.setdefault(owner.uid or f"{info.pod.namespace}/{owner.name}", info.pod)
        self._pods = [*(_untied(pod) for pod in found.values()), *more]

    def on(self, node: Node) -> Iterator[Pod]:
        """The pods that run on this node: those that its labels and taints let in."""
        for pod in self._pods:
            if not NodeRequirements(pod.spec).matches(node.name, node.labels):
                continue
            if first_untolerated(node.spec.taints, pod.spec.tolerations) is not None:
                continue
            twin = copy(pod)
            twin.metadata, twin.spec = copy(pod.metadata), copy(pod.spec)
            twin.metadata.name, twin.metadata.uid = f"{pod.name}-{node.name}", f"{pod.uid}:{node.name}"
            twin.spec.node_name = node.name
            yield twin


def _untied(pod: Pod) -> Pod:
    """The pod without the affinity that ties it to its node."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return pod
    free = copy(pod)
    free.spec = copy(pod.spec)
    free.spec.affinity = deepcopy(affinity)
    assert free.spec.affinity is not None and free.spec.affinity.node_affinity is not None
    required = free.spec.affinity.node_affinity.required
    assert required is not None
    for term in required.node_selector_terms:
        term.match_fields = []
    if not any(term.match_expressions for term in required.node_selector_terms):
        free.spec.affinity.node_affinity.required = None
    return free


def add_node(cluster: Cluster, node: Node, daemons: Daemons) -> None:
    """Add a new node with its DaemonSets' pods."""
    cluster.set_node(node)
    for pod in daemons.on(node):
        cluster.set_pod(pod)
