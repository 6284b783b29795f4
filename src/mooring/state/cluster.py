"""The scheduler's cache: nodes, pods (running and assumed), and every other object, in any order of arrival.

A pod is *assumed* when the scheduler has placed it but the API server has not
said so yet. From then on it counts on its node, until the watch confirms it
or the binding fails and it is forgotten. There is no expiry, as upstream has
none since 1.36; the live scheduler asks after those that nobody confirms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from mooring.api.core import Namespace, Node, Pod
from mooring.api.meta import Object
from mooring.errors import ParseError
from mooring.state.group_members import GroupMembers
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable
from mooring.state.objects import Objects
from mooring.state.pod_index import PodIndex
from mooring.state.pod_info import NO_TERMS, PodClass, PodInfo, PodInterner, is_resized
from mooring.state.sharing import Forkable
from mooring.state.term_index import TermIndex


class Cluster(Forkable):
    """Everything a decision reads. One owner changes it; a decision never does."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NodeTable()
        self.objects = Objects()
        self.pod_index = PodIndex(self.table)
        self.terms = TermIndex(self.table)
        self.interner = PodInterner()
        self.claim_users: dict[str, int] = {}  # "namespace/claim" -> volumes of counted pods that use it
        self.groups = GroupMembers()
        self._pods: dict[str, PodInfo] = {}  # by uid, those counted on a node
        self._assumed: set[str] = set()  # uids of those that the API server has not confirmed

    def count_resizes(self, *, whole: bool) -> None:
        """Count pods that are being resized as a whole (since 1.37), or container by container."""
        if whole == self.interner.whole_resizes:
            return
        self.interner = PodInterner(whole_resizes=whole)
        for info in self.pods():
            if is_resized(info.pod) and info.uid not in self._assumed:
                self.set_pod(info.pod)

    # ---- forks -------------------------------------------------------------------------------------------------

    def fork(self) -> Self:
        """A cluster for a question. It shares what neither has changed; no change to one is seen by the other."""
        fork = self.__class__.__new__(self.__class__)
        Forkable.__init__(fork)
        fork.table = self.table.fork()
        fork.objects = self.objects.fork()
        fork.pod_index = self.pod_index.fork(fork.table)
        fork.terms = self.terms.fork(fork.table)
        fork.interner = self.interner
        fork.claim_users, fork._pods, fork._assumed = self.claim_users, self._pods, self._assumed
        fork.groups = self.groups
        self.share_with(fork, 1)
        return fork

    def _own(self) -> None:
        if self.must_copy(1):
            self.claim_users = dict(self.claim_users)
            self._pods, self._assumed = dict(self._pods), set(self._assumed)
            self.groups = self.groups.copy()

    # ---- reading -----------------------------------------------------------------------------------------------

    def nodes(self) -> NodeRows:
        """All nodes in order, up to date, for one decision: what is read from it changes with the cluster."""
        self.table.refresh()
        return NodeRows(self.table)

    def snapshot(self) -> NodeRows:
        """All nodes in order as they are now, for as long as it is held."""
        table = self.table.fork()
        table.refresh()
        return NodeRows(table)

    def pod(self, uid: str) -> PodInfo | None:
        """The counted pod with this uid: running or assumed."""
        return self._pods.get(uid)

    def pods(self) -> list[PodInfo]:
        return list(self._pods.values())

    @property
    def num_pods(self) -> int:
        return len(self._pods)

    @property
    def num_assumed(self) -> int:
        return len(self._assumed)

    def assumed(self) -> list[PodInfo]:
        """The pods that the API server has not confirmed, in the order of their uids."""
        return [self._pods[uid] for uid in sorted(self._assumed)]

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def info(self, pod: Pod) -> PodInfo:
        """Look at a pod that is not (yet) counted: its shape and class."""
        return self.interner.info(pod)

    def namespace_labels(self, name: str) -> dict[str, str]:
        namespace = self.objects.get(Namespace, name)
        return {} if namespace is None else namespace.metadata.labels

    # ---- nodes and other objects -------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        self.table.set_node(node)

    def remove_node(self, name: str) -> None:
        self.table.remove_node(name)

    def put(self, obj: Object) -> None:
        """Add or update an object of any kind."""
        if isinstance(obj, Pod):
            self.set_pod(obj)
        elif isinstance(obj, Node):
            self.set_node(obj)
        else:
            self.objects.put(obj)

    # ---- pods --------------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod) -> None:
        """Take over what the API server says of a pod: a new one, a change, or the confirmation of an assumed one.

        A pod without a node is not counted, but its group knows it; one that has finished is not counted either.
        """
        uid = pod.metadata.uid
        self.note_member(pod)
        old = self._pods.get(uid)
        if not pod.spec.node_name:
            if old is not None and uid not in self._assumed:
                self._uncount(old)
            return
        if pod.is_finished:
            if old is not None:
                self._uncount(old)
            return
        info = self.interner.info(pod) if old is None else self.interner.info_like(old, pod)
        if old is not None:
            if _counts_alike(old, info):
                self._update(old, info)
                return
            self._uncount(old)
        self._count(info, pod.spec.node_name)

    def add_pods(self, pods: Sequence[Pod]) -> None:
        """The same for many pods that are not known yet, have nodes and have not finished: columns change once."""
        if self.shared:
            self._own()
        shape_of, class_of, node_of, counted = self.interner.shape, self.interner.pod_class, self.table.info, self._pods
        placed: list[tuple[NodeInfo, PodInfo]] = []
        by_class: dict[tuple[PodClass, NodeInfo], int] = {}
        for pod in pods:
            if pod.spec.scheduling_group is not None:
                self.note_member(pod)
            info, node = PodInfo(pod, shape_of(pod), class_of(pod)), node_of(pod.spec.node_name)
            counted[info.uid] = info
            placed.append((node, info))
            where = info.cls, node
            by_class[where] = by_class.get(where, 0) + 1
        self.table.add_pods(placed)
        for (cls, node), amount in by_class.items():
            self.pod_index.add(cls, node, amount)
        for node, info in placed:
            if info.shape.has_pod_affinity or info.shape.claim_names or info.pod.spec.scheduling_group is not None:
                self._count_relations(info, node)

    def note_member(self, pod: Pod) -> None:
        """A pod is there: if it belongs to a group, the group knows it from now on, with a node or without."""
        if pod.spec.scheduling_group is not None:
            if self.shared:
                self._own()
            if pod.is_finished:
                self.groups.forget(pod)
            else:
                self.groups.note(pod)

    def forget_member(self, pod: Pod) -> None:
        """A pod without a node is gone: its group is smaller by one."""
        if pod.spec.scheduling_group is not None:
            if self.shared:
                self._own()
            self.groups.forget(pod)

    def _update(self, old: PodInfo, new: PodInfo) -> None:
        """Take over a pod's new version, of which nothing has changed that columns hold."""
        if self.shared:
            self._own()
        self._assumed.discard(old.uid)
        started = old.pod.status.start_time != new.pod.status.start_time
        annotated = old.pod.metadata.annotations != new.pod.metadata.annotations
        if not (self.is_fork or self.has_forks() or self.table.has_forks()):
            old.pod = new.pod
        else:  # a fork holds the old one
            new.terms = old.terms
            self._pods[old.uid] = new
            self.table.replace_pod(new)
        node = self.table.nodes[new.pod.spec.node_name]
        self.table.touch(node, new.shape.host_ports, started=started, annotated=annotated)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that is gone; one that was never known is no mistake."""
        pod = self._pods.get(uid)
        if pod is not None:
            self._uncount(pod)

    def assume(self, pod: PodInfo, node_name: str) -> PodInfo:
        """Count a pod on a node before the API server knows."""
        if pod.uid in self._pods:
            raise ValueError(f"pod {pod.pod.key} is already counted on {self._pods[pod.uid].pod.spec.node_name}")
        placed = PodInfo(_with_node_name(pod.pod, node_name), pod.shape, pod.cls)
        self._count(placed, node_name)
        self._assumed.add(placed.uid)
        return placed

    def forget(self, uid: str) -> None:
        """Take back an assumption; a pod that the API server has confirmed stays."""
        if uid in self._assumed:
            self._uncount(self._pods[uid])

    def _count(self, pod: PodInfo, node_name: str) -> None:
        if self.shared:
            self._own()
        node = self.table.info(node_name)
        self._pods[pod.uid] = pod
        self.table.add_pod(node, pod)
        self.pod_index.add(pod.cls, node)
        self._count_relations(pod, node)

    def _count_relations(self, pod: PodInfo, node: NodeInfo) -> None:
        """Count what others see of a pod: its terms, its claims, its group."""
        try:
            pod.terms = pod.shape.terms(pod.pod.metadata.namespace)
        except ParseError:
            pod.terms = NO_TERMS  # upstream, too, counts such a pod without its terms
        if pod.terms is not NO_TERMS:
            self.terms.add(pod, node)
        for claim in pod.shape.claim_names:
            key = f"{pod.pod.metadata.namespace}/{claim}"
            self.claim_users[key] = self.claim_users.get(key, 0) + 1
        if pod.pod.spec.scheduling_group is not None:
            self.groups.place(pod)

    def _uncount(self, pod: PodInfo) -> None:
        if self.shared:
            self._own()
        node = self.table.nodes[pod.pod.spec.node_name]
        del self._pods[pod.uid]
        self._assumed.discard(pod.uid)
        self.table.remove_pod(node, pod)
        self.pod_index.add(pod.cls, node, -1)
        if pod.terms is not NO_TERMS:
            self.terms.remove(pod, node)
        for claim in pod.shape.claim_names:
            key = f"{pod.pod.metadata.namespace}/{claim}"
            self.claim_users[key] -= 1
            if not self.claim_users[key]:
                del self.claim_users[key]
        if pod.pod.spec.scheduling_group is not None:
            self.groups.displace(pod)


def _counts_alike(old: PodInfo, new: PodInfo) -> bool:
    return (
        old.shape is new.shape
        and old.cls is new.cls
        and old.pod.spec.node_name == new.pod.spec.node_name
        and old.pod.spec.priority == new.pod.spec.priority
        and old.pod.metadata.namespace == new.pod.metadata.namespace
    )


def _with_node_name(pod: Pod, node_name: str) -> Pod:
    """A shallow copy that says where the pod is; the parts are shared."""
    placed = pod.__copy__()
    placed.spec = pod.spec.__copy__()
    placed.spec.node_name = node_name
    return placed
