"""Generated clusters and pods for measurements: plain Python objects, the same for the same parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from mooring.api.core import (
    Affinity,
    Container,
    Namespace,
    Node,
    NodeStatus,
    PersistentVolumeClaimVolume,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from mooring.api.meta import LabelSelector, ObjectMeta
from mooring.api.storage import (
    CSINode,
    CsiNodeDriver,
    CsiNodeDriverAllocatable,
    CsiNodeSpec,
    CsiSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
)
from mooring.core.state.cluster import ClusterState

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NAMESPACE = "default"
CSI_DRIVER = "csi.example.com"
POD_CPU, POD_MEMORY = "100m", "200Mi"


def make_node(i: int, zones: int = 10) -> Node:
    """Return a node like those of cloud clusters: a zone, a host name, a dozen labels, room for 110 pods."""
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


def _important(i: int, app: str) -> Pod:
    pod = make_pod(i, app, cpu="8", memory="1Gi")
    pod.spec.priority = 1000
    return pod


def _with_volume(i: int, app: str) -> Pod:
    pod = make_pod(i, app)
    pod.spec.volumes = [
        Volume(name="data", persistent_volume_claim=PersistentVolumeClaimVolume(claim_name=f"claim-{i}"))
    ]
    return pod


Template = Callable[[int, str], Pod]
TEMPLATES: dict[str, tuple[Template, ...]] = {
    "plain": (_plain,),
    "spread": (_spread,),
    "affinity": (_affinity,),
    "anti-affinity": (_anti_affinity,),
    "preemption": (_important,),
    "volumes": (_with_volume,),
    "mixed": (_plain, _spread, _affinity, _tolerating, _anti_affinity),
}


def fill_with_unimportant(cluster: ClusterState, nodes: int) -> None:
    """Fill the cluster: four pods of low priority per node, so that only preemption makes room."""
    for i in range(4 * nodes):
        pod = make_pod(i, f"filler-{i % 10}", cpu="8", memory="1Gi")
        pod.spec.priority = -10
        pod.spec.node_name = f"node-{i % nodes:05d}"
        pod.status.start_time = f"2026-01-01T00:{i % 60:02d}:00Z"
        cluster.set_pod(pod)


def add_csi_nodes(cluster: ClusterState, nodes: int) -> None:
    """Let every node attach this many volumes of one CSI driver."""
    for i in range(nodes):
        driver = CsiNodeDriver(name=CSI_DRIVER, allocatable=CsiNodeDriverAllocatable(count=39))
        cluster.put(CSINode(metadata=ObjectMeta(name=f"node-{i:05d}"), spec=CsiNodeSpec(drivers=[driver])))


def add_bound_claim(cluster: ClusterState, i: int) -> None:
    """Add a claim and its volume, bound to each other."""
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=f"claim-{i}",
            namespace=NAMESPACE,
            uid=f"claim-uid-{i}",
            annotations={"pv.kubernetes.io/bind-completed": "yes"},
        ),
        spec=PersistentVolumeClaimSpec(volume_name=f"pv-{i}", access_modes=["ReadWriteOnce"]),
    )
    claim.status.phase = "Bound"
    volume = PersistentVolume(metadata=ObjectMeta(name=f"pv-{i}"))
    volume.spec.csi = CsiSource(driver=CSI_DRIVER, volume_handle=f"handle-{i}")
    volume.spec.claim_ref = ObjectReference(namespace=NAMESPACE, name=f"claim-{i}", uid=f"claim-uid-{i}")
    cluster.put(volume)
    cluster.put(claim)


def make_cluster(nodes: int, running: int = 0) -> ClusterState:
    """Return a cluster of nodes with running pods of a hundred different applications, evenly spread."""
    cluster = ClusterState()
    cluster.put(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    for i in range(nodes):
        cluster.set_node(make_node(i))
    for i in range(running):
        pod = make_pod(i, f"running-{i % 100}", cpu="50m", memory="64Mi")
        pod.spec.node_name = f"node-{i % nodes:05d}"
        cluster.set_pod(pod)
    return cluster


def pods_of(workload: str, *, alike: bool = True) -> Iterator[Pod]:
    """Yield pods of a workload without end. ``alike`` False: every pod has its own template, so that no cache helps."""
    templates = TEMPLATES[workload]
    for i in itertools.count():
        template = templates[i % len(templates)]
        pod = template(i, f"{workload}-{template.__name__.strip('_')}")
        if not alike and workload != "preemption":
            pod.spec.containers[0].resources.requests = {"cpu": f"{100 + i % 997}m", "memory": f"{200 + i // 997}Mi"}
        yield pod
