"""Generated clusters and pods for measurements: plain Python objects, the same for the same numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from mooring.api.core import (
    Affinity,
    Container,
    Namespace,
    Node,
    NodeStatus,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from mooring.api.meta import LabelSelector, ObjectMeta
from mooring.state.cluster import Cluster

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NAMESPACE = "default"
POD_CPU, POD_MEMORY = "100m", "200Mi"


def make_node(i: int, zones: int = 10) -> Node:
    """A node as cloud clusters have them: a zone, a host name, a dozen labels, room for 110 pods."""
    name = f"node-{i:05d}"
    labels = {
        HOSTNAME: name,
        ZONE: f"zone-{i % zones}",
        "topology.kubernetes.io/region": "region-1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": f"type-{i % 4}",
        "disk": "ssd" if i % 3 else "hdd",
    }
    capacity = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    node = Node(metadata=ObjectMeta(name=name, uid=f"node-uid-{i}", labels=labels))
    node.status = NodeStatus(capacity=dict(capacity), allocatable=dict(capacity))
    if i % 50 == 49:
        node.spec.taints = [Taint(key="dedicated", value="batch", effect="NoSchedule")]
    return node


def make_pod(i: int, app: str, *, cpu: str = POD_CPU, memory: str = POD_MEMORY) -> Pod:
    container = Container(
        name="main",
        image=f"registry.example.com/{app}:1",
        resources=ResourceRequirements(requests={"cpu": cpu, "memory": memory}),
    )
    pod = Pod(metadata=ObjectMeta(name=f"{app}-{i}", namespace=NAMESPACE, uid=f"{app}-uid-{i}", labels={"app": app}))
    pod.spec = PodSpec(scheduler_name="default-scheduler", containers=[container], priority=0)
    return pod


def _plain(i: int, app: str) -> Pod:
    return make_pod(i, app)


def _spread(i: int, app: str) -> Pod:
    pod = make_pod(i, app)
    selector = LabelSelector(match_labels={"app": app})
    pod.spec.topology_spread_constraints = [
        TopologySpreadConstraint(5, ZONE, "DoNotSchedule", selector),
        TopologySpreadConstraint(3, HOSTNAME, "ScheduleAnyway", selector),
    ]
    return pod


def _affinity(i: int, app: str) -> Pod:
    pod = make_pod(i, app)
    selector = LabelSelector(match_labels={"app": app})
    pod.spec.affinity = Affinity(
        pod_affinity=PodAffinity(required=[PodAffinityTerm(selector, [], ZONE)]),
    )
    return pod


def _anti_affinity(i: int, app: str) -> Pod:
    pod = make_pod(i, app)
    selector = LabelSelector(match_labels={"app": app})
    pod.spec.affinity = Affinity(
        pod_anti_affinity=PodAffinity(required=[PodAffinityTerm(selector, [], HOSTNAME)]),
    )
    return pod


def _tolerating(i: int, app: str) -> Pod:
    pod = make_pod(i, app, cpu="250m")
    pod.spec.tolerations = [Toleration(key="dedicated", operator="Exists")]
    pod.spec.node_selector = {"disk": "ssd"}
    return pod


Template = Callable[[int, str], Pod]
TEMPLATES: dict[str, tuple[Template, ...]] = {
    "plain": (_plain,),
    "spread": (_spread,),
    "affinity": (_affinity,),
    "anti-affinity": (_anti_affinity,),
    "mixed": (_plain, _spread, _affinity, _tolerating, _anti_affinity),
}


def make_cluster(nodes: int, running: int = 0) -> Cluster:
    """A cluster with nodes and, evenly over them, running pods of a hundred different applications."""
    cluster = Cluster()
    cluster.put(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    for i in range(nodes):
        cluster.set_node(make_node(i))
    for i in range(running):
        pod = make_pod(i, f"running-{i % 100}", cpu="50m", memory="64Mi")
        pod.spec.node_name = f"node-{i % nodes:05d}"
        cluster.set_pod(pod)
    return cluster


def pods_of(workload: str, *, alike: bool = True) -> Iterator[Pod]:
    """Endless pods of a workload. ``alike`` False: every pod has a template of its own, so that no cache helps."""
    templates = TEMPLATES[workload]
    for i in itertools.count():
        template = templates[i % len(templates)]
        pod = template(i, f"{workload}-{template.__name__.strip('_')}")
        if not alike:
            pod.spec.containers[0].resources.requests = {"cpu": f"{100 + i % 997}m", "memory": f"{200 + i // 997}Mi"}
        yield pod
