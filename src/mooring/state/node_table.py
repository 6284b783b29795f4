"""The cluster as columns: one row per node, in node-tree order.

Arrays are laid out ``[resource, node]`` so that a rule about one resource
reads memory in a straight line. A pod that comes or goes touches one row; a
node that comes or goes re-lays the table, once, when the next snapshot is
taken.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Taint
from mooring.api.quantity import milli_value_of, value_of
from mooring.errors import ParseError
from mooring.state.images import ImageStates
from mooring.state.node_info import NodeInfo
from mooring.state.node_tree import NodeTree
from mooring.state.pod_info import HostPort, PodInfo
from mooring.state.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_scalar_name

MAX_LOG = 100_000
MISSING = -1  # the id of a label that a node does not have
NOBODY = 2**31  # above every priority
SLACK = 64  # label values and sets of taints that are kept although no node has them any more


class LabelColumn:
    """One label key over all nodes: an id per distinct value, -1 where the label is missing."""

    __slots__ = ("_id_of", "_present", "ids", "values", "version")

    def __init__(self) -> None:
        self.ids: NDArray[np.int32] = np.empty(0, np.int32)  # [node]
        self.values: list[str] = []
        self.version = 0  # grows when a row's id changes, for those who keep something by id
        self._id_of: dict[str, int] = {}
        self._present: tuple[int, NDArray[np.bool_], bool] | None = None

    def put(self, row: int, value: str | None) -> None:
        """Write a row's value."""
        new = self.intern(value)
        if self.ids[row] != new:
            self.ids[row] = new
            self.version += 1

    def renumber_rows(self, ids: NDArray[np.int32]) -> None:
        """Take a column whose rows have moved."""
        self.ids = ids
        self.version += 1

    def present(self) -> tuple[NDArray[np.bool_], bool]:
        """Which values some node has ([id]), and whether every node has the label."""
        known = self._present
        if known is None or known[0] != self.version or len(known[1]) != len(self.values):
            by_id = np.bincount(self.ids + 1, minlength=len(self.values) + 1)
            known = self._present = (self.version, by_id[1:] > 0, not by_id[0])
        return known[1], known[2]

    def id_of(self, value: str) -> int:
        """The id of a value; one that no node has gets an id that equals none."""
        return self._id_of.get(value, -2)

    def intern(self, value: str | None) -> int:
        if value is None:
            return MISSING
        found = self._id_of.get(value)
        if found is None:
            found = self._id_of[value] = len(self.values)
            self.values.append(value)
        return found

    def forget_unused(self) -> None:
        """Keep the values that a node has, numbered anew: names of nodes that are gone would pile up for ever."""
        used, ids = np.unique(self.ids[self.ids >= 0], return_inverse=True)
        self.ids[self.ids >= 0] = ids
        self.version += 1
        self.values = [self.values[i] for i in used.tolist()]
        self._id_of = {value: i for i, value in enumerate(self.values)}


class NodeTable:
    """All columns, and the log of rows that changed."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}  # also those without a node object (ghosts)
        self.infos: list[NodeInfo] = []  # by row
        self.generation = 0  # grows when rows move
        self.resources: dict[str, int] = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}  # name -> index
        self.allocatable: NDArray[np.int64] = np.zeros((3, 0), np.int64)  # [resource, node], cpu in thousandths
        self.requested: NDArray[np.int64] = np.zeros((3, 0), np.int64)  # [resource, node]
        self.non_zero_requested: NDArray[np.int64] = np.zeros((2, 0), np.int64)  # [cpu | memory, node]
        self.pod_count: NDArray[np.int64] = np.zeros(0, np.int64)  # [node]
        self.allowed_pods: NDArray[np.int64] = np.zeros(0, np.int64)  # [node]
        self.lowest_priority: NDArray[np.int64] = np.zeros(0, np.int64)  # [node], of its pods; NOBODY without any
        self.unschedulable: NDArray[np.bool_] = np.zeros(0, np.bool_)  # [node]
        self.taint_set: NDArray[np.int32] = np.zeros(0, np.int32)  # [node], index into taint_sets
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.feature_set: NDArray[np.int32] = np.zeros(0, np.int32)  # [node], index into feature_sets
        self.feature_sets: list[frozenset[str]] = [frozenset()]
        self.images = ImageStates()
        self.port_users: dict[tuple[str, int], set[NodeInfo]] = {}  # (protocol, port) -> nodes where it is taken
        self.node_log: list[int] = []  # rows whose node object changed, in order; positions are what caches remember
        self.pod_log: list[int] = []  # rows whose pods changed
        self.start_log: list[int] = []  # rows where nothing changed but when a pod started
        self.log_epoch = 0  # grows when the logs start anew: positions from before mean nothing then
        self.problems: dict[str, str] = {}  # node name -> what could not be read in it
        self._taint_ids: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._feature_ids: dict[frozenset[str], int] = {frozenset(): 0}
        self._labels: dict[str, LabelColumn] = {}
        self._indices: dict[tuple[str, ...], NDArray[np.int64]] = {}  # an index never changes once given
        self._tree = NodeTree()
        self._stale = False

    def __len__(self) -> int:
        return len(self.infos)

    # ---- nodes -------------------------------------------------------------------------------------------------

    def info(self, name: str) -> NodeInfo:
        """The node of that name, made as a ghost if it is not known yet."""
        info = self.nodes.get(name)
        if info is None:
            info = self.nodes[name] = NodeInfo(name)
        return info

    def set_node(self, node: Node) -> None:
        """Add a node or take over its new version."""
        info = self.info(node.metadata.name)
        is_new = info.node is None
        info.node = node
        self._tree.add(info.name, node.metadata.labels)
        self.images.set_node(info, node)
        if is_new:
            self._stale = True
        elif info.row >= 0:
            self._write_node(info)
            self.node_log.append(info.row)

    def remove_node(self, name: str) -> None:
        """Forget the node object; pods that are still counted on it wait for it as on a ghost."""
        info = self.nodes.get(name)
        if info is None or info.node is None:
            return
        info.node = None
        self._tree.remove(name)
        self.images.remove_node(info)
        self.problems.pop(name, None)
        self._stale = True
        info.row = -1  # at once: if the node comes back before the next snapshot, it is a new one to lay out
        if not info.pods:
            del self.nodes[name]

    def refresh(self) -> None:
        """Bring the layout up to date before a snapshot is read."""
        if self._stale:
            self._lay_out()
        elif len(self.pod_log) + len(self.node_log) + len(self.start_log) > MAX_LOG:
            self._start_logs()
        self.images.refresh()

    def _start_logs(self) -> None:
        self.log_epoch += 1
        self.node_log.clear()
        self.pod_log.clear()
        self.start_log.clear()

    def _lay_out(self) -> None:
        """Put the rows into node-tree order, keeping what is known of the nodes that stay."""
        infos = [self.nodes[name] for name in self._tree.names()]
        n, width = len(infos), len(self.resources)
        old_rows = np.fromiter((info.row for info in infos), np.int64, n)
        kept = old_rows >= 0
        source = old_rows[kept]

        def moved(column: NDArray[np.int64]) -> NDArray[np.int64]:
            fresh = np.zeros((*column.shape[:-1], n), np.int64)
            fresh[..., kept] = column[..., source]
            return fresh

        self.allocatable = moved(self.allocatable)
        self.requested = moved(self.requested)
        self.non_zero_requested = moved(self.non_zero_requested)
        self.pod_count = moved(self.pod_count)
        self.allowed_pods = moved(self.allowed_pods)
        self.lowest_priority = moved(self.lowest_priority)
        self.unschedulable = moved(self.unschedulable.astype(np.int64)).astype(np.bool_)
        self.taint_set = moved(self.taint_set.astype(np.int64)).astype(np.int32)
        self.feature_set = moved(self.feature_set.astype(np.int64)).astype(np.int32)
        for label in self._labels.values():
            label.renumber_rows(moved(label.ids.astype(np.int64)).astype(np.int32))
        assert self.allocatable.shape == (width, n)
        self.infos = infos
        self.generation += 1
        self._start_logs()
        self._stale = False
        for row, info in enumerate(infos):
            is_new = info.row < 0
            info.row, info.table_generation = row, self.generation
            if is_new:
                self._write_node(info)
                self.lowest_priority[row] = NOBODY
                for pod in info.pods.values():
                    self._count_pod(info, pod, 1)

    def _write_node(self, info: NodeInfo) -> None:
        node, row = info.node, info.row
        assert node is not None
        self.allocatable[:, row] = 0
        self.allowed_pods[row] = 0
        self.problems.pop(info.name, None)
        for name, text in node.status.allocatable.items():
            try:
                amount = milli_value_of(text) if name == CPU else value_of(text)
            except ParseError as error:
                self.problems[info.name] = f"status.allocatable[{name}]: {error}"
                continue
            if name == PODS:
                self.allowed_pods[row] = amount
            elif name in self.resources or is_scalar_name(name):
                index = self.resource_index(name)
                self.allocatable[index, row] = amount
        self.unschedulable[row] = node.spec.unschedulable
        most = 2 * len(self.nodes) + SLACK
        if len(self.taint_sets) > most:
            self._forget_unused_taints()
        self.taint_set[row] = self.intern_taints(node.spec.taints)
        features = frozenset(node.status.declared_features)
        if features not in self._feature_ids:
            self._feature_ids[features] = len(self.feature_sets)
            self.feature_sets.append(features)
        self.feature_set[row] = self._feature_ids[features]
        labels = node.metadata.labels
        for key, column in self._labels.items():
            if len(column.values) > most:
                column.forget_unused()
            column.put(row, labels.get(key))

    def intern_taints(self, taints: list[Taint]) -> int:
        key = _taint_key(taints)
        found = self._taint_ids.get(key)
        if found is None:
            found = self._taint_ids[key] = len(self.taint_sets)
            self.taint_sets.append(tuple(taints))
        return found

    def _forget_unused_taints(self) -> None:
        """Number the sets anew, those alone that a node has: autoscalers write the time into the taints they set."""
        used, ids = np.unique(np.append(self.taint_set, 0), return_inverse=True)  # 0, no taints, stays what it is
        self.taint_set = ids[:-1].astype(np.int32)
        self.taint_sets = [self.taint_sets[i] for i in used.tolist()]
        self._taint_ids = {_taint_key(taints): i for i, taints in enumerate(self.taint_sets)}

    # ---- columns -----------------------------------------------------------------------------------------------

    def resource_index(self, name: str) -> int:
        """The index of a resource, widening the columns for one that is new."""
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = len(self.resources)
            row = np.zeros((1, self.allocatable.shape[1]), np.int64)
            self.allocatable = np.concatenate((self.allocatable, row))
            self.requested = np.concatenate((self.requested, row))
        return index

    def indices(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """The indices of several resources, for reading their columns together."""
        found = self._indices.get(names)
        if found is None:
            found = np.array([self.resource_index(name) for name in names], np.int64)
            if len(self._indices) > 1024:
                self._indices.clear()
            self._indices[names] = found
        return found

    def resource_key(self, row: int) -> bytes:
        """All figures of a row in one value: rows with equal keys are equally full."""
        return b"".join(
            (
                self.allocatable[:, row].tobytes(),
                self.requested[:, row].tobytes(),
                self.non_zero_requested[:, row].tobytes(),
                self.pod_count[row].tobytes(),
                self.allowed_pods[row].tobytes(),
            )
        )

    def label(self, key: str) -> LabelColumn:
        """The column of a label key, made when it is first asked for."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn()
            column.ids = np.fromiter((column.intern(info.labels.get(key)) for info in self.infos), np.int32, len(self))
        return column

    # ---- pods --------------------------------------------------------------------------------------------------

    def add_pod(self, info: NodeInfo, pod: PodInfo) -> None:
        info.pods[pod.uid] = pod
        self.images.touch(info)
        if info.row >= 0:
            self._count_pod(info, pod, 1)
            self.pod_log.append(info.row)
        self.take_ports(info, pod.shape.host_ports)

    def remove_pod(self, info: NodeInfo, pod: PodInfo) -> None:
        del info.pods[pod.uid]
        self.images.touch(info)
        if info.row >= 0:
            self._count_pod(info, pod, -1)
            self.pod_log.append(info.row)
        self.free_ports(info, pod.shape.host_ports)
        if info.node is None and not info.pods:
            self.nodes.pop(info.name, None)

    def _count_pod(self, info: NodeInfo, pod: PodInfo, sign: int) -> None:
        shape, row = pod.shape, info.row
        for name, amount in shape.requests.items():
            index = self.resources.get(name)
            if index is None:
                index = self.resource_index(name)
            self.requested[index, row] += sign * amount
        self.non_zero_requested[0, row] += sign * shape.non_zero_cpu
        self.non_zero_requested[1, row] += sign * shape.non_zero_memory
        self.pod_count[row] += sign
        lowest = self.lowest_priority[row]
        if sign > 0:
            if pod.priority < lowest:
                self.lowest_priority[row] = pod.priority
        elif pod.priority == lowest and not any(other.priority == lowest for other in info.pods.values()):
            self.lowest_priority[row] = min((other.priority for other in info.pods.values()), default=NOBODY)

    def touch(self, info: NodeInfo, ports: tuple[HostPort, ...], *, started: bool = False) -> None:
        """A pod was updated, and counts as before: upstream takes it out and puts it back in.

        ``started`` says that its start time is another one now.
        """
        self.images.touch(info)
        if started and info.row >= 0:
            self.start_log.append(info.row)
        if not info.host_ports.issuperset(ports):  # a pod that shared one has taken it away
            self.take_ports(info, ports)
            if info.row >= 0:
                self.pod_log.append(info.row)

    def take_ports(self, info: NodeInfo, ports: tuple[HostPort, ...]) -> None:
        for port in ports:
            info.host_ports.add(port)
            self.port_users.setdefault(port[1:], set()).add(info)

    def free_ports(self, info: NodeInfo, ports: tuple[HostPort, ...]) -> None:
        for port in ports:
            info.host_ports.discard(port)
            users = self.port_users.get(port[1:], set())
            if info in users and not any(other[1:] == port[1:] for other in info.host_ports):
                users.discard(info)
                if not users:
                    del self.port_users[port[1:]]


def _taint_key(taints: Iterable[Taint]) -> tuple[tuple[str, str, str], ...]:
    return tuple((taint.key, taint.value, taint.effect) for taint in taints)
