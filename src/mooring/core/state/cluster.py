"""The scheduler's cache: nodes, pods (running and assumed), and every other object, in any order of arrival.

A pod is *assumed* when the scheduler has placed it but the API server has not confirmed it yet. From then on it counts
on its node, until the watch confirms it, or the binding fails and it is forgotten. There is no expiry, as in upstream
since 1.36; the live scheduler looks up assumed pods that are never confirmed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, Self, TypeVar, cast

from mooring.api.core import Namespace, Node, Pod
from mooring.api.errors import ParseError
from mooring.api.meta import Object
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_index import PodIndex, TermIndex
from mooring.core.state.pod_info import NO_TERMS, PodClass, PodInfo, PodInterner, is_resized
from mooring.core.state.sharing import ChangeLog, Forkable, Overlay

# ---- members of pod groups: those in the API server, and those with a node
# ---------------------------------------------

M = TypeVar("M")
_NOBODY: Mapping[str, PodInfo] = MappingProxyType({})
_NO_PODS: Mapping[str, Pod] = MappingProxyType({})


def group_of(pod: Pod) -> str:
    """Return ``namespace/name`` of the pod's group, or ""."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return ""
    return f"{pod.metadata.namespace}/{group.pod_group_name}"


class GroupMembers:
    """Members by group (``namespace/name``) and uid. Copies share the inner maps until one of them changes a group."""

    __slots__ = ("_known", "_own_known", "_own_placed", "_placed")

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Pod]] = {}  # pods without a node, as the API server last sent them
        self._placed: dict[str, dict[str, PodInfo]] = {}  # running and assumed
        self._own_known: set[str] = set()  # groups whose map no copy shares
        self._own_placed: set[str] = set()

    def copy(self) -> GroupMembers:
        copy = GroupMembers()
        copy._known, copy._placed = dict(self._known), dict(self._placed)
        self._own_known.clear()
        self._own_placed.clear()
        return copy

    # ---- queries --------------------------------------------------------------------------------------------------

    def count(self, group: str) -> int:
        """Count the group's pods, with a node or without."""
        known, placed = self._known.get(group, _NO_PODS), self._placed.get(group, _NOBODY)
        return len(known) + len(placed) - len(known.keys() & placed.keys())  # fast where few have a node, or most

    def placed(self, group: str) -> Mapping[str, PodInfo]:
        """Return the group's pods that have a node: running or assumed. The mapping is updated in place."""
        return self._placed.get(group, _NOBODY)

    @property
    def has_placed(self) -> bool:
        """Whether any pod with a node belongs to a group."""
        return bool(self._placed)

    def nodes(self) -> set[str]:
        """Return the names of the nodes with members of any group."""
        return {pod.pod.spec.node_name for members in self._placed.values() for pod in members.values()}

    def unplaced(self, group: str) -> list[Pod]:
        """Return the group's pods without a node."""
        placed = self.placed(group)
        return [pod for uid, pod in self._known.get(group, _NO_PODS).items() if uid not in placed]

    # ---- changes --------------------------------------------------------------------------------------------------

    def note(self, pod: Pod) -> None:
        """Add or update a member from the API server."""
        if pod.spec.node_name:
            self.forget(pod)
        else:
            _writable(self._known, self._own_known, group_of(pod))[pod.uid] = pod

    def forget(self, pod: Pod) -> None:
        """Remove a member without a node, which was deleted or has a node now."""
        _drop(self._known, self._own_known, group_of(pod), pod.uid)

    def place(self, pod: PodInfo) -> None:
        _writable(self._placed, self._own_placed, group_of(pod.pod))[pod.uid] = pod

    def displace(self, pod: PodInfo) -> None:
        _drop(self._placed, self._own_placed, group_of(pod.pod), pod.uid)


def _writable(by_group: dict[str, dict[str, M]], own: set[str], group: str) -> dict[str, M]:
    """The members of a group in a map that no copy shares."""
    if group not in own:
        by_group[group] = dict(by_group.get(group, ()))
        own.add(group)
    return by_group[group]


def _drop(by_group: dict[str, dict[str, M]], own: set[str], group: str, uid: str) -> None:
    if uid not in by_group.get(group, ()):
        return
    members = _writable(by_group, own, group)
    del members[uid]
    if not members:
        del by_group[group]
        own.discard(group)


# ---- other objects: namespaces, services, volumes, classes, budgets, claims
# --------------------------------------------

T = TypeVar("T", bound=Object)


class Objects(Forkable):
    """A lister per kind, by ``namespace/name`` (or bare name), like an informer's."""

    def __init__(self) -> None:
        super().__init__()
        self._by_kind: dict[type[Object], dict[str, Any]] = {}
        self._by_namespace: dict[tuple[type[Object], str], dict[str, Any]] = {}
        self._logs: defaultdict[type[Object], ChangeLog[str]] = defaultdict(ChangeLog)
        self._own_kinds: set[type[Object]] | None = None  # those that are not shared with a fork; None: all of them

    def fork(self) -> Objects:
        """Return a fork with the same objects; later changes of one do not affect the other."""
        fork = Objects()
        fork._by_kind, fork._by_namespace = self._by_kind, self._by_namespace
        self.share_with(fork, 1)
        return fork

    def put(self, obj: Object) -> Object | None:
        """Store a new or changed object; return the one it replaces."""
        kind, key = type(obj), obj.key
        of_kind = self._writable(kind)
        old = of_kind.get(key)
        of_kind[key] = obj
        self._by_namespace.setdefault((kind, obj.metadata.namespace), {})[key] = obj
        self._logs[kind].note(key)
        return cast("Object | None", old)

    def remove(self, kind: type[T], key: str) -> T | None:
        if key not in self._by_kind.get(kind, {}):
            return None
        old: T = self._writable(kind).pop(key)
        place = kind, old.metadata.namespace
        self._by_namespace[place].pop(key, None)
        if not self._by_namespace[place]:
            del self._by_namespace[place]  # namespaces are added and removed
        self._logs[kind].note(key)
        return old

    def _writable(self, kind: type[Object]) -> dict[str, Any]:
        """Return the objects of a kind, copied first if a fork or its parent also reads them."""
        if self.shared:
            if self.must_copy(1):
                self._by_kind, self._by_namespace = dict(self._by_kind), dict(self._by_namespace)
                self._own_kinds = set()
            elif not self.is_fork and not self.has_forks():
                self._own_kinds = None
        if self._own_kinds is not None and kind not in self._own_kinds:
            self._own_kinds.add(kind)
            self._by_kind[kind] = dict(self._by_kind.get(kind, {}))
            for place in [place for place in self._by_namespace if place[0] is kind]:
                self._by_namespace[place] = dict(self._by_namespace[place])
        return self._by_kind.setdefault(kind, {})

    def get(self, kind: type[T], key: str) -> T | None:
        return self._by_kind.get(kind, {}).get(key)

    def all(self, kind: type[T]) -> Iterable[T]:
        return self._by_kind.get(kind, {}).values()

    def in_namespace(self, kind: type[T], namespace: str) -> Iterable[T]:
        return self._by_namespace.get((kind, namespace), {}).values()

    def version(self, kind: type[Object]) -> int:
        """Return a number that grows whenever an object of this kind is added, changed or removed."""
        return self._logs[kind].end

    def log(self, kind: type[Object]) -> ChangeLog[str]:
        """Return the log of added, changed or removed keys of this kind."""
        return self._logs[kind]

    def __iter__(self) -> Iterator[Object]:
        for objects in self._by_kind.values():
            yield from objects.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))


PODS, RELATIONS = 1, 2  # the shared parts of a fork: pods, and counts of their claims and groups


class ClusterState(Forkable):
    """The state for decisions. One owner changes it; a decision never does."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NodeTable()
        self.objects = Objects()
        self.pod_index = PodIndex(self.table)
        self.terms = TermIndex(self.table)
        self.interner = PodInterner()
        self.claim_users: dict[str, int] = {}  # "namespace/claim" -> volumes of counted pods that use it
        self.groups = GroupMembers()
        self._pods: MutableMapping[str, PodInfo] = {}  # by uid, those counted on a node
        self._assumed: set[str] = set()  # uids of unconfirmed pods
        self._base: ClusterState | None = None  # what this is a fork of

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
        """Return a cluster for a question. Unchanged parts are shared; changes of one do not affect the other."""
        fork = self.__class__.__new__(self.__class__)
        Forkable.__init__(fork)
        fork.table = self.table.fork()
        fork.objects = self.objects.fork()
        fork.pod_index = self.pod_index.fork(fork.table)
        fork.terms = self.terms.fork(fork.table)
        fork.interner = self.interner
        fork.claim_users, fork._assumed, fork.groups = self.claim_users, self._assumed, self.groups
        self.share_with(fork, PODS | RELATIONS)
        fork._pods, fork._base = Overlay(self._pods), self  # held: it must not write to what forks of forks use
        fork.shared &= ~PODS
        fork._with_parent &= ~PODS
        return fork

    def _own(self) -> None:
        if self.shared & RELATIONS and self.must_copy(RELATIONS):
            self.claim_users, self._assumed = dict(self.claim_users), set(self._assumed)
            self.groups = self.groups.copy()
        if self.shared & PODS and self.must_copy(PODS):
            self._pods = dict(self._pods.items())

    # ---- queries --------------------------------------------------------------------------------------------------

    def nodes(self) -> NodeRows:
        """Return all nodes in order for one decision; the result changes with the cluster."""
        self.table.refresh()
        return NodeRows(self.table)

    def snapshot(self) -> NodeRows:
        """Return all nodes in order as they are now, unaffected by later changes."""
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
        """Return the unconfirmed pods, in the order of their uids."""
        return [self._pods[uid] for uid in sorted(self._assumed)]

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def info(self, pod: Pod) -> PodInfo:
        """Return the shape and class of a pod that is not counted."""
        return self.interner.info(pod)

    def namespace_labels(self, name: str) -> dict[str, str]:
        namespace = self.objects.get(Namespace, name)
        return {} if namespace is None else namespace.metadata.labels

    # ---- nodes and other objects -------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        self.table.set_node(node)

    def remove_node(self, name: str) -> None:
        self.table.remove_node(name)

    def remove_nodes(self, names: Iterable[str]) -> list[PodInfo]:
        """Forget nodes and the pods that are counted on them; returns these."""
        if self.shared:
            self._own()
        gone: list[PodInfo] = []
        for name in names:
            node = self.table.nodes.get(name)
            if node is None:
                continue
            here = list(node.pods.values())
            by_class: dict[PodClass, int] = {}
            for pod in here:
                del self._pods[pod.uid]
                self._assumed.discard(pod.uid)
                by_class[pod.cls] = by_class.get(pod.cls, 0) + 1
                self._uncount_relations(pod, node)
            for cls, amount in by_class.items():
                self.pod_index.add(cls, node, -amount)
            self.table.remove_node_with_pods(name)
            gone += here
        return gone

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
        """Update a pod from the API server: a new one, a change, or the confirmation of an assumed one.

        A pod without a node is not counted, but added to its group; a finished one is not counted either.
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
        """Add many new pods that have nodes and have not finished; columns change once."""
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
        """Add a pod to its group, if it has one, with a node or without."""
        if pod.spec.scheduling_group is not None:
            if self.shared:
                self._own()
            if pod.is_finished:
                self.groups.forget(pod)
            else:
                self.groups.note(pod)

    def forget_member(self, pod: Pod) -> None:
        """Remove a deleted pod without a node from its group."""
        if pod.spec.scheduling_group is not None:
            if self.shared:
                self._own()
            self.groups.forget(pod)

    def _update(self, old: PodInfo, new: PodInfo) -> None:
        """Replace a pod by its new version, with the same values in columns."""
        if self.shared:
            self._own()
        self._assumed.discard(old.uid)
        started = old.pod.status.start_time != new.pod.status.start_time
        annotated = old.pod.metadata.annotations != new.pod.metadata.annotations
        if not (self.is_fork or self.has_forks() or self.table.has_forks()):
            old.pod = new.pod
        else:  # a fork has the old one
            new.terms = old.terms
            self._pods[old.uid] = new
            self.table.replace_pod(new)
        node = self.table.nodes[new.pod.spec.node_name]
        self.table.touch(node, new.shape.host_ports, started=started, annotated=annotated)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod; an unknown one is ignored."""
        pod = self._pods.get(uid)
        if pod is not None:
            self._uncount(pod)

    def assume(self, pod: PodInfo, node_name: str) -> PodInfo:
        """Count a pod on a node before the API server confirms it."""
        if pod.uid in self._pods:
            raise ValueError(f"pod {pod.pod.key} is already counted on {self._pods[pod.uid].pod.spec.node_name}")
        placed = PodInfo(_with_node_name(pod.pod, node_name), pod.shape, pod.cls)
        self._count(placed, node_name)
        self._assumed.add(placed.uid)
        return placed

    def forget(self, uid: str) -> None:
        """Undo an assumption; a confirmed pod stays."""
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
        """Count what other pods' rules read of a pod: its terms, its claims, its group."""
        try:
            pod.terms = pod.shape.terms(pod.pod.metadata.namespace)
        except ParseError:
            pod.terms = NO_TERMS  # upstream also counts such a pod without its terms
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
        self._uncount_relations(pod, node)

    def _uncount_relations(self, pod: PodInfo, node: NodeInfo) -> None:
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
    """Return a shallow copy with the node's name; the parts are shared."""
    placed = pod.__copy__()
    placed.spec = pod.spec.__copy__()
    placed.spec.node_name = node_name
    return placed
