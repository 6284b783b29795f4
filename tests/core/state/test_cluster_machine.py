"""Columns kept up to date change by change equal columns counted from scratch, whatever order a watch delivers."""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.api.core import Node, Pod
from mooring.api.meta import LabelSelector
from mooring.api.quantity import milli_value_of, value_of
from mooring.api.selectors import compile_selector
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_info import NodeTree
from mooring.core.state.pod_index import terms_of
from mooring.core.state.pod_info import HostPort, PodClass
from mooring.core.state.requests import non_zero_requests, pod_requests, rounded_requests
from mooring.testing import bound, make_node, make_pod

NODES = ("a", "b", "c", "d")
KEYS = ("topology.kubernetes.io/zone", "disk", "kubernetes.io/hostname")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB = compile_selector(LabelSelector(match_labels={"app": "web"}))


def affinity(kind: str, app: str) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [{"topologyKey": KEYS[0], "labelSelector": {"matchLabels": {"app": app}}}]}}}


SHAPES: list[dict[str, Any]] = [
    {},
    {"cpu": "100m", "memory": "64Mi"},
    {"cpu": "1500u", "requests": {"example.com/gpu": 2}},
    {"host_ports": [80]},
    {"host_ports": [80, 81]},
    {"spec": affinity("podAntiAffinity", "web")},
    {"spec": affinity("podAffinity", "db")},
    {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}},
    {"spec": {"affinity": {"podAntiAffinity": {REQUIRED: [
        {"topologyKey": "x", "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Nonsense"}]}}]}}}},
]  # fmt: skip

nodes = st.builds(
    make_node,
    st.sampled_from(NODES),
    zone=st.sampled_from(["", "z1", "z2"]),
    labels=st.sampled_from([{}, {"disk": "ssd"}, {"disk": "hdd"}]),
    cpu=st.sampled_from(["1", "2500m", "nonsense"]),
    pods=st.sampled_from([None, 2, 110]),
    allocatable=st.sampled_from([{}, {"example.com/gpu": 4}, {"hugepages-2Mi": "64Mi"}]),
    taints=st.sampled_from([[], ["k=v:NoSchedule"], ["k=v:NoSchedule", "l:NoExecute"]]),
    unschedulable=st.booleans(),
    images=st.sampled_from([{}, {"img:1": 1000}, {"img:1": 2000, "img:2": 5}]),
    features=st.sampled_from([[], ["F"], ["F", "G"]]),
)


def numbered_pod(number: int, shape: int, labels: dict[str, str], namespace: str, node: str, **more: Any) -> Pod:
    return make_pod(
        f"p{number}", uid=f"u{number}", namespace=namespace, labels=labels, node=node, **SHAPES[shape], **more
    )


pods = st.builds(
    numbered_pod,
    st.integers(0, 7),
    st.integers(0, len(SHAPES) - 1),
    st.sampled_from([{}, {"app": "web"}, {"app": "db", "x": "y"}]),
    st.sampled_from(["default", "other"]),
    st.sampled_from([*NODES, ""]),
    status=st.sampled_from([{}, {"phase": "Running"}, {"phase": "Succeeded"}]),
    metadata=st.sampled_from([{}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}]),
    priority=st.sampled_from([None, 0, 5]),
)


class ClusterMachine(RuleBasedStateMachine):
    """The model is what a list call would return: nodes by name, counted pods by uid."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ClusterState()
        self.tree = NodeTree()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}  # counted, with their node
        self.assumed: set[str] = set()
        self.order: list[str] = []
        self.ports: dict[str, set[HostPort]] = {name: set() for name in NODES}
        self.images = ImageModel()
        self.web_class = PodClass("default", {"app": "web"}, False)
        self.column = self.cluster.pod_index.column(
            "web", lambda cls: WEB.matches(cls.labels) and not cls.terminating, None
        )

    # ---- what a watch and the scheduler can do -----------------------------------------------------------------

    @rule(node=nodes)
    def set_node(self, node: Node) -> None:
        self.cluster.set_node(node)
        if node.name not in self.nodes:
            self.order = []  # rows will move
        self.tree.add(node.name, node.labels)
        self.nodes[node.name] = node
        self.images.set_node(node)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.cluster.remove_node(name)
        self.tree.remove(name)
        if self.nodes.pop(name, None):
            self.order = []
            self.images.remove_node(name)

    @rule(names=st.sets(st.sampled_from(NODES), max_size=2))
    def remove_nodes_with_their_pods(self, names: set[str]) -> None:
        gone = self.cluster.remove_nodes(sorted(names))
        assert {pod.uid for pod in gone} == {uid for uid, pod in self.pods.items() if pod.spec.node_name in names}
        for pod in gone:
            self.uncount(pod.uid)
        for name in names:
            self.ports[name] = set()
            self.tree.remove(name)
            if self.nodes.pop(name, None):
                self.order = []
                self.images.remove_node(name)

    @rule(node=nodes)
    def replace_node(self, node: Node) -> None:
        """A node that is deleted and made anew between two looks at the cluster, its pods still there."""
        self.remove_node(node.name)
        self.set_node(node)

    @rule(pod=pods)
    def set_pod(self, pod: Pod) -> None:
        self.cluster.set_pod(pod)
        uid = pod.uid
        if not pod.spec.node_name:
            if uid not in self.assumed:
                self.uncount(uid)
        else:
            self.uncount(uid)
            if not pod.is_finished:
                self.count(pod)

    @rule(several=st.lists(pods, max_size=5, unique_by=lambda pod: pod.uid))
    def add_pods(self, several: list[Pod]) -> None:
        """Pods of a keyframe are counted together."""
        new = [pod for pod in several if pod.spec.node_name and not pod.is_finished and pod.uid not in self.pods]
        self.cluster.add_pods(new)
        for pod in new:
            self.count(pod)

    def count(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.ports[pod.spec.node_name] |= _ports(pod)
        self.images.changed.add(pod.spec.node_name)

    def uncount(self, uid: str) -> None:
        """Of two pods that share a port, the first to go takes it with it: upstream keeps a plain set."""
        pod = self.pods.pop(uid, None)
        self.assumed.discard(uid)
        if pod is not None:
            self.ports[pod.spec.node_name] -= _ports(pod)
            self.images.changed.add(pod.spec.node_name)

    @rule(number=st.integers(0, 9))
    def remove_pod(self, number: int) -> None:
        self.cluster.remove_pod(f"u{number}")
        self.uncount(f"u{number}")

    @rule(pod=pods, name=st.sampled_from(NODES))
    def assume(self, pod: Pod, name: str) -> None:
        if pod.uid in self.pods:
            return
        waiting = bound(pod, "")
        self.cluster.assume(self.cluster.info(waiting), name)
        assert waiting.spec.node_name == "", "the pod that was handed in is not touched"
        self.count(bound(pod, name))
        self.assumed.add(pod.uid)

    @rule(number=st.integers(0, 9))
    def forget(self, number: int) -> None:
        uid = f"u{number}"
        self.cluster.forget(uid)
        if uid in self.assumed:
            self.uncount(uid)

    @rule()
    def relist(self) -> None:
        """After a gap everything is reported again."""
        for node in list(self.nodes.values()):
            self.set_node(node)
        for uid, pod in list(self.pods.items()):
            if uid not in self.assumed:
                self.set_pod(pod)

    @rule()
    def update_pods_without_a_change(self) -> None:
        """Kubelets write statuses all the time; an assumed pod is confirmed."""
        for pod in list(self.pods.values()):
            self.set_pod(copy(pod))

    @rule(key=st.sampled_from(KEYS))
    def look_at_a_label(self, key: str) -> None:
        """Columns of labels are made when they are first asked for; from then on they must be kept."""
        self.cluster.table.label(key)

    @rule()
    def take_a_snapshot(self) -> None:
        self.check_everything()

    # ---- what must hold -----------------------------------------------------------------------------------------

    @invariant()
    def pods_are_known_as_they_are(self) -> None:
        assert {pod.uid for pod in self.cluster.pods()} == set(self.pods)
        assert {pod.uid for pod in self.cluster.pods() if self.cluster.is_assumed(pod.uid)} == self.assumed
        for uid, pod in self.pods.items():
            info = self.cluster.pod(uid)
            assert info is not None
            assert info.pod.spec.node_name == pod.spec.node_name
            assert self.cluster.is_assumed(uid) == (uid in self.assumed)

    def check_everything(self) -> None:
        rows = self.cluster.nodes()
        names = [info.name for info in rows.infos]
        assert sorted(names) == sorted(self.nodes)
        if not self.order:
            self.order = self.tree.names()  # a zone that changes moves no row until a node comes or goes
        assert names == self.order
        for i, name in enumerate(names):
            self.check_row(i, self.nodes[name], [pod for pod in self.pods.values() if pod.spec.node_name == name])
        self.check_pod_index(names)
        self.check_terms(names)
        self.check_claims()
        self.check_images()

    def check_images(self) -> None:
        self.images.snapshot()
        for image in ("img:1", "img:2"):
            found = {name: (size, holders) for name, size, holders in self.cluster.table.images.holders(image)}
            assert found == self.images.holders(image)

    def check_row(self, i: int, node: Node, on_it: list[Pod]) -> None:
        table = self.cluster.table
        rows = self.cluster.nodes()
        assert rows.infos[i].row == i
        assert rows.infos[i].node is node
        assert rows.infos[i].host_ports == self.ports[node.name]
        for port in (80, 81):
            wanted = ("0.0.0.0", "TCP", port)
            assert rows.port_conflicts([wanted])[i] == (wanted in self.ports[node.name])
        assert set(rows.infos[i].pods) == {pod.uid for pod in on_it}
        allocatable = _allocatable(node)
        requested: Counter[str] = Counter()
        cpu = memory = 0
        for pod in on_it:
            amounts = pod_requests(pod)
            requested.update(rounded_requests(amounts))
            non_zero = non_zero_requests(pod, amounts)
            cpu, memory = cpu + non_zero[0], memory + non_zero[1]
        for name in table.resources:
            assert rows.allocatable(name)[i] == allocatable.get(name, 0), name
            assert rows.requested(name)[i] == requested[name], name
        assert (rows.non_zero_requested("cpu")[i], rows.non_zero_requested("memory")[i]) == (cpu, memory)
        assert rows.pod_count[i] == len(on_it)
        assert rows.allowed_pods[i] == allocatable.get("pods", 0)
        assert rows.unschedulable[i] == node.spec.unschedulable
        assert list(table.taint_sets[rows.taint_set[i]]) == node.spec.taints
        assert table.feature_sets[rows.feature_set[i]] == frozenset(node.status.declared_features)
        assert (node.name in table.problems) == ("nonsense" in node.status.allocatable.values())
        for key in KEYS:
            number = int(rows.label_ids(key)[i])
            assert (None if number < 0 else rows.label(key).values[number]) == node.labels.get(key)

    def check_pod_index(self, names: list[str]) -> None:
        counts = self.cluster.nodes().counts(self.column)
        wanted = Counter(
            pod.spec.node_name for pod in self.pods.values() if WEB.matches(pod.labels) and not pod.is_terminating
        )
        assert counts.tolist() == [wanted[name] for name in names]
        assert self.column.total == sum(wanted.values()), "pods on nodes that are not there count in the total"
        for key in KEYS:
            label = self.cluster.table.label(key)
            by_domain = Counter[str]()
            for name in names:
                by_domain[self.nodes[name].labels.get(key, "")] += wanted[name]
            found = self.cluster.nodes().counts_by_domain(self.column, key).tolist()
            assert found == [by_domain[value] for value in label.values]
            present, is_complete = label.present()
            values = {node.labels.get(key) for node in self.nodes.values()}
            assert present.tolist() == [value in values for value in label.values]
            assert is_complete == (None not in values)

    def check_terms(self, names: list[str]) -> None:
        wanted: dict[Any, Counter[str]] = {}
        for pod in self.pods.values():
            info = self.cluster.pod(pod.uid)
            assert info is not None
            for indexed in terms_of(info):
                wanted.setdefault(indexed, Counter())[pod.spec.node_name] += 1
        found = {indexed: Counter(column.counts) for indexed, column in self.cluster.terms._columns.items()}
        assert found == wanted
        cls = self.web_class
        matching = {indexed for indexed, _ in self.cluster.terms.matching(cls, {})}
        assert matching == {indexed for indexed in wanted if indexed.term.matches("default", cls.labels, {})}

    def check_claims(self) -> None:
        wanted: Counter[str] = Counter()
        for pod in self.pods.values():
            for volume in pod.spec.volumes:
                if volume.persistent_volume_claim is not None:
                    wanted[f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"] += 1
        assert self.cluster.claim_users == wanted

    def teardown(self) -> None:
        self.check_everything()


class ImageModel:
    """What ImageLocality may know: sizes as first seen, numbers of nodes as of a node's own last change."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.on: dict[str, dict[str, int]] = {}  # node -> image -> size
        self.frozen: dict[str, dict[str, int]] = {}  # node -> image -> number of nodes
        self.changed: set[str] = set()

    def set_node(self, node: Node) -> None:
        self.drop(node.name)
        self.on[node.name] = {
            name: self.sizes.setdefault(name, image.size_bytes) for image in node.status.images for name in image.names
        }
        self.changed.add(node.name)

    def remove_node(self, name: str) -> None:
        self.drop(name)
        self.frozen.pop(name, None)
        self.changed.discard(name)

    def drop(self, name: str) -> None:
        for image in self.on.pop(name, {}):
            if not any(image in images for images in self.on.values()):
                del self.sizes[image]

    def snapshot(self) -> None:
        for name in self.changed & self.on.keys():
            self.frozen[name] = {i: sum(i in images for images in self.on.values()) for i in self.on[name]}
        self.changed.clear()

    def holders(self, image: str) -> dict[str, tuple[int, int]]:
        return {name: (images[image], self.frozen[name][image]) for name, images in self.on.items() if image in images}


def _ports(pod: Pod) -> set[HostPort]:
    return {("0.0.0.0", "TCP", port.host_port) for container in pod.spec.containers for port in container.ports}


def _allocatable(node: Node) -> dict[str, int]:
    found = {}
    for name, text in node.status.allocatable.items():
        if text != "nonsense":
            found[name] = milli_value_of(text) if name == "cpu" else value_of(text)
    return found


TestClusterMachine = ClusterMachine.TestCase
TestClusterMachine.settings = settings(max_examples=150, stateful_step_count=60)
