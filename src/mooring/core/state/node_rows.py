"""Rows of a node table for plugins, as arrays.

The table may be the cluster's own or a fork of it for a hypothesis. A rule reads both in the same way and cannot tell
which it got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Taint
from mooring.core.state.columns import LabelColumn, at_domain, sum_by_domain
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_index import CountColumn
from mooring.core.state.pod_info import HostPort, PodInfo

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

CPU_AND_MEMORY = slice(0, 2)


class NodeRows:
    """Rows of the table: all of them (``index`` is None) or those listed. Treat arrays as read-only."""

    __slots__ = ("_all", "_gathered", "_given", "_infos", "index", "table")

    def __init__(self, table: NodeTable, index: Rows | None = None, infos: Sequence[NodeInfo] | None = None) -> None:
        """``infos`` replace the table's nodes: an extender's nodes have what it wrote of them."""
        self.table = table
        self.index = index
        self._all = table.infos  # of the current layout: a later one makes a new list
        self._given = infos
        self._infos: Sequence[NodeInfo] | None = None
        # Requested by several plugins of a cycle: allocatable, and whether every node has all of it.
        self._gathered: dict[tuple[str, ...], tuple[NDArray[np.int64], bool]] = {}

    def __len__(self) -> int:
        return len(self._all) if self.index is None else len(self.index)

    @property
    def num_nodes(self) -> int:
        """How many nodes these rows stand for: themselves, if they are not ``KindRows``."""
        return len(self)

    def num_where(self, mask: Mask) -> int:
        """How many nodes the rows of a mask stand for."""
        return int(np.count_nonzero(mask))

    def _take(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        return column if self.index is None else column[self.index]

    # ---- nodes and pods -------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """The rows' numbers in the table."""
        return np.arange(len(self.table.infos)) if self.index is None else self.index

    @property
    def infos(self) -> Sequence[NodeInfo]:
        if self._given is not None:
            return self._given
        if self.index is None:
            return self._all
        if self._infos is None or self.table.base is not None:  # a fork replaces the info of a node that it changes
            self._infos = [self._all[row] for row in self.index.tolist()]
        return self._infos

    def pods(self, i: int) -> Iterable[PodInfo]:
        """Return the pods on the i-th of these nodes."""
        if not self.table.counts_pods:
            return ()
        return self._all[i if self.index is None else int(self.index[i])].pods.values()

    def moved_since(self, base: NodeTable) -> Iterable[int]:
        """Yield positions of the nodes whose pods differ from those of ``base``, of which this may be a fork.

        A plugin with its own column, made from that table's pods, handles these nodes one by one.
        """
        if self.table is base:
            return ()
        moved = self.table.moved_since(base)
        if moved is None or not self.table.counts_pods:
            return range(len(self))
        if self.index is None:
            return moved
        return [i for i, row in enumerate(self.index.tolist()) if row in moved]

    def subset(self, positions: Rows) -> NodeRows:
        """Return some of the rows, by position among them."""
        given = None if self._given is None else [self._given[i] for i in positions.tolist()]
        return NodeRows(self.table, positions if self.index is None else self.index[positions], given)

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

    def capacity_of(self, resources: tuple[str, ...]) -> tuple[NDArray[np.int64], bool]:
        """Return [resource, node] of several resources, and whether every node has all of them: the usual case."""
        known = self._gathered.get(resources)
        if known is None:
            indices = self.table.indices(resources)  # first: a new resource reallocates the table's arrays
            matrix = self._matrix(self.table.allocatable, indices)
            known = self._gathered[resources] = matrix, np.count_nonzero(matrix) == matrix.size
        return known

    def requested_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        indices = self.table.indices(resources)
        return self._matrix(self.table.requested, indices)

    def non_zero_requested_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        if resources == ("cpu", "memory"):
            return self._matrix(self.table.non_zero_requested, CPU_AND_MEMORY)
        columns = [self.non_zero_requested(resource) for resource in resources]
        return np.stack(columns) if columns else np.zeros((0, len(self)), np.int64)

    def figures_of(self, resources: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what nodes offer and what is taken of it, each [pods | resource, node]: the number of pods comes
        first.
        """
        indices = self.table.indices_with_pods(resources)
        return self._matrix(self.table.offered, indices), self._matrix(self.table.taken, indices)

    def _matrix(self, columns: NDArray[np.int64], indices: Rows | slice) -> NDArray[np.int64]:
        if self.index is None:
            return columns[indices]
        if isinstance(indices, slice):
            return columns[indices].take(self.index, 1, None, "clip")
        picked = np.empty((len(indices), len(self.index)), np.int64)
        for row, i in zip(picked, indices.tolist(), strict=True):
            columns[i].take(self.index, out=row, mode="clip")  # row by row: several times faster than in one call
        return picked

    @property
    def pod_count(self) -> NDArray[np.int64]:
        return self._take(self.table.pod_count)

    @property
    def allowed_pods(self) -> NDArray[np.int64]:
        return self._take(self.table.allowed_pods)

    # ---- columns of the node objects ------------------------------------------------------------------------------

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
        """Return the id of the label's value on each node, -1 where it is missing."""
        ids = self.table.label(key).ids
        return ids if self.index is None else ids[self.index]

    # ---- pods by selector --------------------------------------------------------------------------------------

    def counts(self, column: CountColumn) -> NDArray[np.int64]:
        """Return the column's number on each node. Pods moved in a dry run are counted by its cycle state instead."""
        if not self.table.counts_pods:
            return np.zeros(len(self), np.int64)
        dense = column.dense()
        return dense if self.index is None else dense[self.index]

    def counts_by_domain(self, column: CountColumn, key: str) -> NDArray[np.int64]:
        """Return the column summed over the domains of a label key; nodes without the label are in none."""
        if self.index is None and self.table is column.table:
            return column.by_domain(self.table.label(key))
        return sum_by_domain(self.label_ids(key), self.counts(column), len(self.table.label(key).values))

    def at_domain(self, key: str, by_domain: NDArray[np.int64]) -> NDArray[np.int64]:
        """A number per domain of a label key, read at each node; 0 for nodes without the label."""
        return at_domain(self.label_ids(key), by_domain, len(self.table.label(key).values))

    def port_conflicts(self, wanted: Iterable[HostPort]) -> Mask:
        """Return where one of these host ports is taken: same protocol and port, and equal or wildcard addresses."""
        conflict = np.zeros(len(self.table.infos), np.bool_)
        for want in wanted:
            for name in self.table.port_users.get(want[1:], ()):
                info = self.table.nodes[name]
                if info.row >= 0 and any(ports_clash(want, have) for have in info.host_ports):
                    conflict[info.row] = True
        return conflict if self.index is None else conflict[self.index]

    def fork(self) -> NodeRows:
        """Return the same rows of a separate table, for a hypothesis."""
        return NodeRows(self.table.fork(), self.index)


class LateRows(NodeRows):
    """Rows that are listed on first access. Usually that never happens, and listing reads all nodes."""

    __slots__ = ("_mask", "_size")

    def __init__(self, table: NodeTable, mask: Callable[[], Mask], size: int) -> None:
        """``mask`` returns the rows, ``size`` is their number. The rows are listed before the mask changes."""
        super().__init__(table)
        self._mask = mask
        self._size = size
        del self.index  # so that ``__getattr__`` is called for it once

    def __len__(self) -> int:
        return self._size

    def __getattr__(self, name: str) -> Rows:
        if name != "index":
            raise AttributeError(name)
        self.index = rows = self._mask().nonzero()[0]
        return rows


class KindRows(NodeRows):
    """A row for each kind of nodes: for rules that cannot tell apart the nodes of a kind (see ``facets``)."""

    __slots__ = ("_sizes",)

    def __init__(self, table: NodeTable, index: Rows, sizes: NDArray[np.int64]) -> None:
        """``sizes``: how many nodes there are of each kind."""
        super().__init__(table, index)
        self._sizes = sizes

    @property
    def num_nodes(self) -> int:
        return int(self._sizes.sum())

    def num_where(self, mask: Mask) -> int:
        return int(self._sizes[mask].sum())


def ports_clash(want: HostPort, have: HostPort) -> bool:
    return want[1:] == have[1:] and (want[0] == have[0] or "0.0.0.0" in (want[0], have[0]))


# ---- nodes as an extender sent them back, for scoring --------------------------------------------------------------
# ---- nodes returned by an extender, for scoring
# --------------------------------------------------------------------------
#
# They have no pods, no images, and possibly other labels than ours. kube-scheduler scores the returned nodes, not its
# own. That is a hypothesis about the cluster, and so it is a fork of the node table.


def extender_rows(table: NodeTable, answered: Sequence[NodeInfo]) -> NodeRows:
    """Return rows for whole nodes returned by an extender, in that order. Some may be unknown to the cluster."""
    fork = table.fork()
    fork.forget_pods_and_images()
    for info in answered:
        ours = table.nodes.get(info.name)
        if info.node is not None and (ours is None or ours.node is None or _differs(ours.node, info.node)):
            fork.set_node(info.node)
    fork.refresh()
    index = np.fromiter((fork.nodes[info.name].row for info in answered), np.int64, len(answered))
    return NodeRows(fork, index, answered)


def _differs(ours: Node, theirs: Node) -> bool:
    return ours is not theirs and (
        ours.metadata.labels != theirs.metadata.labels
        or ours.status.allocatable != theirs.status.allocatable
        or ours.spec.taints != theirs.spec.taints
        or ours.spec.unschedulable != theirs.spec.unschedulable
    )


# ---- missing resources on nodes without room for a pod
# ----------------------------------------------------------------


def shortfalls(requests: Mapping[str, int], nodes: NodeRows) -> dict[str, NDArray[np.int64]]:
    """For each requested resource, what is missing per node."""
    return {
        name: np.maximum(wanted - (nodes.allocatable(name) - nodes.requested(name)), 0)
        for name, wanted in requests.items()
        if wanted > 0
    }


def distance(requests: Mapping[str, int], nodes: NodeRows) -> NDArray[np.float64]:
    """How far each node is from having room, as shares of the requests; smaller is closer."""
    total = np.zeros(len(nodes), np.float64)
    for name, missing in shortfalls(requests, nodes).items():
        total += missing / requests[name]
    return total + 0.5 * (nodes.pod_count >= nodes.allowed_pods)
