"""Free amounts of every GPU of every node, as columns that follow the cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.core.plugins.gpus.requests import WHOLE, GpuRequest, gpus_of, held_by, least_left, model_of
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import EVERYTHING, Cursor

Left = NDArray[np.int64]
Ranked = NDArray[np.int16]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=np.generic)

MAX_KEPT = 1024
SHARE_TAG = 1  # bit for pods that share a GPU; pods with n whole GPUs have the bit 1 << n


class GpuColumns:
    """The GPUs of one cluster's nodes. The plugins of all profiles read the same columns.

    A GPU that a node does not have has nothing left. A running pod without a GPU index is counted on the GPUs that
    ``least_left`` would assign.
    """

    def __init__(self, table: NodeTable) -> None:
        self.left: Left = np.zeros((0, 0), np.int64)  # [node, gpu], milli
        # [rank, node], the same with each node's emptiest GPU first; small numbers are compared several times faster
        self.ranked: Ranked = np.zeros((0, 0), np.int16)
        self.total: NDArray[np.int64] = np.zeros(0, np.int64)  # [node], milli left on all GPUs of the node
        self.capacity: NDArray[np.int64] = np.zeros(0, np.int64)  # [node], GPUs
        self.model: NDArray[np.int64] = np.zeros(0, np.int64)  # [node], index into models
        self.tags: NDArray[np.int64] = np.zeros(0, np.int64)  # [node], one bit for each kind of GPU pod on it
        self.models: list[str] = [""]
        self.generation = -1  # of the table that the rows belong to
        self.total_capacity = 0  # GPUs of all nodes
        self._kept: dict[Hashable, NDArray[Any]] = {}  # derived from capacities and models alone
        # By row the pods that are counted; None where some lack a GPU index, or exceed the node's GPUs.
        self._counted: list[set[str] | None] = []
        self._node_cursor: Cursor[int] = table.node_log.cursor()
        self._pod_cursor: Cursor[int] = table.pod_log.cursor()

    @staticmethod
    def of(table: NodeTable) -> GpuColumns:
        """Return the up-to-date columns of this table."""
        columns: GpuColumns | None = table.kept.get(GpuColumns)
        if columns is None:
            columns = table.kept[GpuColumns] = GpuColumns(table)
        columns._follow(table)
        return columns

    def _follow(self, table: NodeTable) -> None:
        if table.generation == self.generation and not (self._node_cursor.is_behind() or self._pod_cursor.is_behind()):
            return
        nodes, pods = self._node_cursor.take(), self._pod_cursor.take()
        if nodes is EVERYTHING or pods is EVERYTHING or table.generation != self.generation:
            self._read_all(table)
            return
        for row in set(nodes):
            if not self._read_node(row, table.infos[row]):
                self._read_all(table)
                return
        for row in {*nodes, *pods}:
            now = table.infos[row].pods
            uid = None if row in nodes or pods.count(row) > 1 else self._new_one(row, now)
            if uid is None or not self._count_one(row, now[uid]):
                self._read_pods(row, now)

    def _read_node(self, row: int, info: NodeInfo) -> bool:
        """Read a changed node; report whether the columns are wide enough for it."""
        count, model = 0 if info.node is None else gpus_of(info.node), model_of(info.labels)
        if count > self.left.shape[1] or model not in self.models:
            return False
        self.model[row] = self.models.index(model)
        self._kept.clear()
        self.total_capacity += count - int(self.capacity[row])
        self.capacity[row] = count
        self.left[row] = 0
        self.ranked[:, row] = 0
        return True

    def _read_all(self, table: NodeTable) -> None:
        infos = list(table.infos)
        counts = [0 if info.node is None else gpus_of(info.node) for info in infos]
        self.capacity = np.array(counts, np.int64)
        self.total_capacity = sum(counts)
        self.left = np.zeros((len(infos), max(counts, default=0)), np.int64)
        self.ranked = np.zeros(self.left.shape[::-1], np.int16)
        self.total = np.zeros(len(infos), np.int64)
        self.tags = np.zeros(len(infos), np.int64)
        numbers = {"": 0}
        self.model = np.array([numbers.setdefault(model_of(info.labels), len(numbers)) for info in infos], np.int64)
        self.models = list(numbers)
        self._kept.clear()
        self._counted = [None] * len(infos)
        for row, info in enumerate(infos):
            self._read_pods(row, info.pods)
        self.generation = table.generation

    def _read_pods(self, row: int, pods: Mapping[str, PodInfo]) -> None:
        left, tags, is_sum = _left_and_tags(int(self.capacity[row]), pods.values())
        self._write(row, left, tags)
        self._counted[row] = set(pods) if is_sum else None

    def _new_one(self, row: int, pods: Mapping[str, PodInfo]) -> str | None:
        """Return the added pod, if one more pod is the only change since the node was read."""
        counted = self._counted[row]
        if counted is None or len(pods) != len(counted) + 1:
            return None
        come = pods.keys() - counted
        return come.pop() if len(come) == 1 else None

    def _count_one(self, row: int, pod: PodInfo) -> bool:
        """Count one more pod; report whether that was possible without reading the others."""
        counted, (request, indices) = self._counted[row], held_by(pod)
        assert counted is not None, "only a new pod has none"
        if request.count:
            left: list[int] = self.left[row, : self.capacity[row]].tolist()
            for i in indices or ():
                if i < len(left):
                    left[i] -= request.milli
            if indices is None or min(left, default=0) < 0:
                return False
            if left:
                self._write(row, left, int(self.tags[row]) | tag_of(request))
        counted.add(pod.uid)
        return True

    def _lack_only(self, table: NodeTable, info: NodeInfo, uid: str) -> bool:
        """Report whether the arrival of this pod is the only change since these columns were last used."""
        is_so_far = table.generation == self.generation and not self._node_cursor.is_behind()
        return is_so_far and self._pod_cursor.num_behind == 1 and self._new_one(info.row, info.pods) == uid

    def _write(self, row: int, left: list[int], tags: int) -> None:
        self.left[row, : len(left)] = left
        self.total[row] = sum(left)
        self.ranked[: len(left), row] = sorted(left, reverse=True)
        self.tags[row] = tags

    @staticmethod
    def left_without(table: NodeTable, info: NodeInfo, uid: str) -> list[int]:
        """Return milli left on each GPU of a node without this pod, which mostly has just been placed."""
        columns: GpuColumns | None = table.kept.get(GpuColumns)
        if columns is not None and columns._lack_only(table, info, uid):
            left: list[int] = columns.left[info.row, : columns.capacity[info.row]].tolist()
            return left
        capacity = 0 if info.node is None else gpus_of(info.node)
        return gpus_left(capacity, (pod for pod in info.pods.values() if pod.uid != uid))[0]

    def kept(self, key: K, make: Callable[[GpuColumns, K], NDArray[T]]) -> NDArray[T]:
        """Return, by node, what ``make`` derives from capacities and models, cached until a node changes."""
        found = self._kept.get((make, key))
        if found is None:
            if len(self._kept) > MAX_KEPT:
                self._kept.clear()
            found = self._kept[make, key] = make(self, key)
        return found

    def allowed(self, models: tuple[str, ...]) -> NDArray[np.bool_]:
        """Return, by node, whether its GPUs are of one of these models; no models: all nodes."""
        return self.kept(models, _allowed)

    def room(self, nodes: NodeRows, base: NodeTable, count: int) -> Ranked:
        """Return, by node, what this many of its GPUs have left, each; rows as in :meth:`on`."""
        if count > len(self.ranked):
            return np.zeros(len(nodes), np.int16)
        column: Ranked = self.ranked[count - 1]
        if nodes.table is base:
            return column if nodes.index is None else column[nodes.index]
        column = column.copy() if nodes.index is None else column[nodes.index]
        for i in nodes.moved_since(base):
            row = i if nodes.index is None else int(nodes.index[i])
            left = sorted(gpus_left(int(self.capacity[row]), nodes.pods(i))[0], reverse=True)
            column[i] = left[count - 1] if count <= len(left) else 0
        return column

    def on(self, nodes: NodeRows, base: NodeTable) -> GpuRows:
        """Return what is left on these rows, which may be of a fork of ``base``, the table of these columns."""
        return GpuRows(self, nodes, base)


class GpuRows:
    """The GPUs of some nodes. Columns are gathered lazily; treat arrays as read-only."""

    __slots__ = ("_columns", "_index", "_moved")

    def __init__(self, columns: GpuColumns, nodes: NodeRows, base: NodeTable) -> None:
        self._columns = columns
        self._index = slice(None) if nodes.index is None else nodes.index
        self._moved: list[tuple[int, list[int], int]] = []  # (position, milli left, tags) of nodes that differ
        for i in nodes.moved_since(base):
            row = i if nodes.index is None else int(nodes.index[i])
            self._moved.append((i, *gpus_left(int(columns.capacity[row]), nodes.pods(i))))

    @property
    def left(self) -> Left:
        """[node, gpu], milli left."""
        found = self._gather(self._columns.left)
        for i, left, _ in self._moved:
            found[i, : len(left)] = left
        return found

    @property
    def total(self) -> NDArray[np.int64]:
        """[node], milli left on all GPUs."""
        found = self._gather(self._columns.total)
        for i, left, _ in self._moved:
            found[i] = sum(left)
        return found

    @property
    def capacity(self) -> NDArray[np.int64]:
        """[node], number of GPUs."""
        return self._columns.capacity[self._index]

    @property
    def tags(self) -> NDArray[np.int64]:
        """[node], a bit for each kind of GPU pod."""
        found = self._gather(self._columns.tags)
        for i, _, tags in self._moved:
            found[i] = tags
        return found

    def _gather(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = column[self._index]
        return found.copy() if self._moved else found


def _allowed(columns: GpuColumns, models: tuple[str, ...]) -> NDArray[np.bool_]:
    return np.array([not models or model in models for model in columns.models], np.bool_)[columns.model]


def tag_of(request: GpuRequest) -> int:
    """Return the bit of a pod's kind: 0 for a pod without GPUs."""
    if not request.count:
        return 0
    return SHARE_TAG if request.is_share else 1 << request.count


def gpus_left(capacity: int, pods: Iterable[PodInfo]) -> tuple[list[int], int]:
    """Return milli left on each GPU of a node with these pods, and the bits of the pods' kinds."""
    left, tags, _ = _left_and_tags(capacity, pods)
    return left, tags


def _left_and_tags(capacity: int, pods: Iterable[PodInfo]) -> tuple[list[int], int, bool]:
    """Return the same, and whether all pods name their GPUs and fit, so that the amounts are exact."""
    left = [WHOLE] * capacity
    tags = 0
    unsaid: list[GpuRequest] = []
    for pod in pods if capacity else ():
        request, indices = held_by(pod)
        if not request.count:
            continue
        milli = request.milli
        tags |= SHARE_TAG if milli < WHOLE else 1 << request.count
        if indices is None:
            unsaid.append(request)
            continue
        for i in indices:
            if i < capacity:
                left[i] -= milli
    for request in unsaid:
        for i in least_left(left, request) or ():
            left[i] -= request.milli
    is_too_much = min(left, default=0) < 0
    if is_too_much:  # inconsistent annotations
        left = [max(0, each) for each in left]
    return left, tags, not (unsaid or is_too_much)


def safe_request_of(pod: PodInfo) -> GpuRequest:
    """Return what a running pod holds; nothing if its annotations are invalid."""
    return held_by(pod)[0]
