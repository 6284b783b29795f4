"""What a plugin is shown: some rows of the node table, as arrays, or a hypothesis about them.

``NodeRows`` reads the table. ``ForkedRows`` is the same set of rows with pods
taken away or added in thought: its own copies of the few columns that pods
change. A rule reads both in the same way and cannot tell which it got.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Taint
from mooring.state.domains import at_domain, sum_by_domain
from mooring.state.node_info import NodeInfo
from mooring.state.node_table import LabelColumn, NodeTable
from mooring.state.pod_index import CountColumn
from mooring.state.pod_info import HostPort, PodInfo

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

CPU_AND_MEMORY: Rows = np.array([0, 1])


class NodeRows:
    """Rows of the table: all of them (``index`` is None) or those listed. Arrays are read-only by agreement."""

    __slots__ = ("_all", "_gathered", "_infos", "index", "table")

    def __init__(self, table: NodeTable, index: Rows | None = None) -> None:
        self.table = table
        self.index = index
        self._all = table.infos  # as laid out now: a later layout makes a new list
        self._infos: Sequence[NodeInfo] | None = None
        self._gathered: dict[tuple[str, ...], NDArray[np.int64]] = {}  # several plugins of a cycle ask for the same

    def __len__(self) -> int:
        return len(self._all) if self.index is None else len(self.index)

    def _take(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        return column if self.index is None else column[self.index]

    # ---- who ---------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """The rows' numbers in the table."""
        return np.arange(len(self.table.infos)) if self.index is None else self.index

    @property
    def infos(self) -> Sequence[NodeInfo]:
        if self.index is None:
            return self._all
        if self._infos is None:
            self._infos = [self._all[row] for row in self.index.tolist()]
        return self._infos

    def pods(self, i: int) -> Iterable[PodInfo]:
        """The pods on the i-th of these nodes."""
        return self.infos[i].pods.values()

    @property
    def hypothetical(self) -> Iterable[int]:
        """Positions of the nodes whose pods are not what the table counts: what a column per table cannot answer."""
        return ()

    @property
    def has_images(self) -> bool:
        """Whether the table's image states hold for these nodes."""
        return True

    def subset(self, positions: Rows) -> NodeRows:
        """These of the rows, by position among them."""
        return NodeRows(self.table, positions if self.index is None else self.index[positions])

    # ---- resources ---------------------------------------------------------------------------------------------

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        index = self.table.resources.get(resource)
        return np.zeros(len(self), np.int64) if index is None else self._take(self.table.allocatable[index])

    def requested(self, resource: str) -> NDArray[np.int64]:
        index = self.table.resources.get(resource)
        return np.zeros(len(self), np.int64) if index is None else self._take(self.table.requested[index])

    def non_zero_requested(self, resource: str) -> NDArray[np.int64]:
        """CPU or memory with defaults for containers that name none; other resources as requested."""
        if resource == "cpu":
            return self._take(self.table.non_zero_requested[0])
        if resource == "memory":
            return self._take(self.table.non_zero_requested[1])
        return self.requested(resource)

    def allocatable_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        """[resource, node] for several resources at once."""
        known = self._gathered.get(resources)
        if known is None:
            indices = self.table.indices(resources)  # first: a new resource makes the table's arrays anew
            known = self._gathered[resources] = self._matrix(self.table.allocatable, indices)
        return known

    def requested_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        indices = self.table.indices(resources)
        return self._matrix(self.table.requested, indices)

    def non_zero_requested_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        if resources == ("cpu", "memory"):
            return self._matrix(self.table.non_zero_requested, CPU_AND_MEMORY)
        return _stacked([self.non_zero_requested(resource) for resource in resources], len(self))

    def _matrix(self, columns: NDArray[np.int64], indices: Rows) -> NDArray[np.int64]:
        if self.index is None:
            return columns[indices]
        picked = np.empty((len(indices), len(self.index)), np.int64)
        for row, i in zip(picked, indices.tolist(), strict=True):
            columns[i].take(self.index, out=row, mode="clip")  # row by row: several times faster than in one go
        return picked

    @property
    def pod_count(self) -> NDArray[np.int64]:
        return self._take(self.table.pod_count)

    @property
    def allowed_pods(self) -> NDArray[np.int64]:
        return self._take(self.table.allowed_pods)

    # ---- what the node objects say -----------------------------------------------------------------------------

    @property
    def unschedulable(self) -> Mask:
        column = self.table.unschedulable
        return column if self.index is None else column[self.index]

    @property
    def taint_set(self) -> NDArray[np.int32]:
        """Index into ``taint_sets``: nodes with equal taints share one."""
        column = self.table.taint_set
        return column if self.index is None else column[self.index]

    @property
    def taint_sets(self) -> list[tuple[Taint, ...]]:
        return self.table.taint_sets

    @property
    def feature_set(self) -> NDArray[np.int32]:
        column = self.table.feature_set
        return column if self.index is None else column[self.index]

    def label(self, key: str) -> LabelColumn:
        """The whole column of a key (for interning values); see ``label_ids`` for these rows."""
        return self.table.label(key)

    def label_ids(self, key: str) -> NDArray[np.int32]:
        """The id of the label's value on each node, -1 where it is missing."""
        ids = self.table.label(key).ids
        return ids if self.index is None else ids[self.index]

    # ---- pods by selector --------------------------------------------------------------------------------------

    def counts(self, column: CountColumn) -> NDArray[np.int64]:
        dense = column.dense(len(self.table.infos), self.table.generation)
        return dense if self.index is None else dense[self.index]

    def counts_by_domain(self, column: CountColumn, key: str) -> NDArray[np.int64]:
        """The column summed over the domains of a label key; nodes without the label are in none."""
        if self.index is None:
            return column.by_domain(self.table.label(key), self.table.generation)
        return sum_by_domain(self.label_ids(key), self.counts(column), len(self.table.label(key).values))

    def at_domain(self, key: str, by_domain: NDArray[np.int64]) -> NDArray[np.int64]:
        """A number per domain of a label key, read at each node; 0 for nodes without the label."""
        return at_domain(self.label_ids(key), by_domain, len(self.table.label(key).values))

    def port_conflicts(self, wanted: Iterable[HostPort]) -> Mask:
        """Where one of these host ports is taken: same protocol and port, and equal or wildcard addresses."""
        conflict = np.zeros(len(self.table.infos), np.bool_)
        for want in wanted:
            for info in self.table.port_users.get(want[1:], ()):
                if info.row >= 0 and any(ports_clash(want, have) for have in info.host_ports):
                    conflict[info.row] = True
        return conflict if self.index is None else conflict[self.index]

    def fork(self) -> ForkedRows:
        return ForkedRows(self)


class ForkedRows(NodeRows):
    """The same rows under a hypothesis: pods can be taken away and added, and only this copy notices."""

    __slots__ = ("_moves", "_non_zero", "_pod_count", "_ports", "_requested")

    def __init__(self, base: NodeRows) -> None:
        super().__init__(base.table, base.rows)
        self._requested: NDArray[np.int64] = base.table.requested[:, self.index]  # [resource, node]
        self._non_zero: NDArray[np.int64] = base.table.non_zero_requested[:, self.index]  # [cpu | memory, node]
        self._pod_count: NDArray[np.int64] = base.table.pod_count[self.index]  # [node]
        self._moves: dict[int, list[tuple[PodInfo, int]]] = {}  # by node, what was added (1) or taken away (-1)
        self._ports: dict[int, set[HostPort]] = {}  # only of the nodes whose taken ports were changed
        if isinstance(base, ForkedRows):
            self._requested = base._requested.copy()
            self._non_zero = base._non_zero.copy()
            self._pod_count = base._pod_count.copy()
            self._moves = {i: list(moves) for i, moves in base._moves.items()}
            self._ports = {i: set(ports) for i, ports in base._ports.items()}

    def requested(self, resource: str) -> NDArray[np.int64]:
        index = self.table.resources.get(resource)
        if index is None or index >= len(self._requested):
            return np.zeros(len(self), np.int64)
        row: NDArray[np.int64] = self._requested[index]
        return row

    def requested_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        indices = self.table.indices(resources)
        for resource in resources:
            self._widened(resource)
        matrix: NDArray[np.int64] = self._requested[indices]
        return matrix

    def non_zero_requested_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        return _stacked([self.non_zero_requested(resource) for resource in resources], len(self))

    def non_zero_requested(self, resource: str) -> NDArray[np.int64]:
        if resource not in ("cpu", "memory"):
            return self.requested(resource)
        row: NDArray[np.int64] = self._non_zero[0 if resource == "cpu" else 1]
        return row

    @property
    def pod_count(self) -> NDArray[np.int64]:
        return self._pod_count

    def pods(self, i: int) -> Iterable[PodInfo]:
        pods: Iterable[PodInfo] = self.infos[i].pods.values()
        moves = self._moves.get(i)
        if moves is None:
            return pods
        left = {pod.uid: pod for pod in pods}
        for pod, sign in moves:
            if sign > 0:
                left[pod.uid] = pod
            else:
                left.pop(pod.uid, None)
        return left.values()

    @property
    def hypothetical(self) -> Iterable[int]:
        return self._moves.keys()

    def subset(self, positions: Rows) -> ForkedRows:
        picked = ForkedRows(NodeRows(self.table, self.rows[positions]))
        picked._requested = self._requested[:, positions]
        picked._non_zero = self._non_zero[:, positions]
        picked._pod_count = self._pod_count[positions]
        moved = list(enumerate(positions.tolist()))
        picked._moves = {new: list(self._moves[old]) for new, old in moved if old in self._moves}
        picked._ports = {new: set(self._ports[old]) for new, old in moved if old in self._ports}
        return picked

    def port_conflicts(self, wanted: Iterable[HostPort]) -> Mask:
        wanted = tuple(wanted)
        conflict = NodeRows(self.table, self.index).port_conflicts(wanted)
        for i, taken in self._ports.items():
            conflict[i] = any(ports_clash(want, have) for want in wanted for have in taken)
        return conflict

    # ---- the hypothesis ----------------------------------------------------------------------------------------

    def add_pod(self, i: int, pod: PodInfo) -> None:
        self._move(i, pod, 1)
        self._count(i, pod, 1)

    def remove_pod(self, i: int, pod: PodInfo) -> None:
        if all(other.uid != pod.uid for other in self.pods(i)):
            raise KeyError(pod.uid)
        self._move(i, pod, -1)
        self._count(i, pod, -1)

    def move_pods(self, moves: Iterable[tuple[int, PodInfo]], sign: int) -> None:
        """Add (1) or take away (-1) many pods at once, counting those that ask for the same once for all nodes."""
        alike: dict[int, tuple[PodInfo, list[int]]] = {}  # by what a template asks for, whatever volumes its pods have
        for i, pod in moves:
            self._move(i, pod, sign)
            known = alike.get(pod.shape.placement_id)
            if known is None:
                alike[pod.shape.placement_id] = pod, [i]
            else:
                known[1].append(i)
        n = len(self)
        for pod, positions in alike.values():
            if len(positions) == 1:
                self._count(positions[0], pod, sign)
                continue
            shape = pod.shape
            many = sign * np.bincount(np.array(positions), minlength=n)
            for name, amount in shape.requests.items():
                index = self._widened(name)  # first: it may make room
                self._requested[index] += many * amount
            self._non_zero[0] += many * shape.non_zero_cpu
            self._non_zero[1] += many * shape.non_zero_memory
            self._pod_count += many

    def _move(self, i: int, pod: PodInfo, sign: int) -> None:
        moves = self._moves.get(i)
        if moves is None:
            moves = self._moves[i] = []
        moves.append((pod, sign))
        if pod.shape.host_ports:
            taken = self._ports.setdefault(i, set(self.infos[i].host_ports))
            if sign > 0:
                taken.update(pod.shape.host_ports)
            else:
                taken.difference_update(pod.shape.host_ports)

    def _count(self, i: int, pod: PodInfo, sign: int) -> None:
        shape = pod.shape
        for name, amount in shape.requests.items():
            index = self._widened(name)  # first: it may make room
            self._requested[index, i] += sign * amount
        self._non_zero[0, i] += sign * shape.non_zero_cpu
        self._non_zero[1, i] += sign * shape.non_zero_memory
        self._pod_count[i] += sign

    def _widened(self, resource: str) -> int:
        """The resource's index; a hypothesis may bring one that no node or pod had."""
        index = self.table.resource_index(resource)
        if index >= len(self._requested):
            missing = np.zeros((index + 1 - len(self._requested), len(self)), np.int64)
            self._requested = np.concatenate((self._requested, missing))
        return index


def _stacked(columns: list[NDArray[np.int64]], n: int) -> NDArray[np.int64]:
    return np.stack(columns) if columns else np.zeros((0, n), np.int64)


def ports_clash(want: HostPort, have: HostPort) -> bool:
    return want[1:] == have[1:] and (want[0] == have[0] or "0.0.0.0" in (want[0], have[0]))
