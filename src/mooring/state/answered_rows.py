"""Nodes as an extender sent them back, for scoring: no pods, no images, and possibly other labels than ours.

kube-scheduler scores what came back and not what it knows. Most columns are
still the table's; what pods put there is nothing, and a node that came back
different is read anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node
from mooring.api.quantity import milli_value_of, value_of
from mooring.errors import ParseError
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import Mask, NodeRows
from mooring.state.node_table import MISSING, NodeTable
from mooring.state.pod_index import CountColumn
from mooring.state.pod_info import HostPort, PodInfo
from mooring.state.requests import CPU, PODS, is_scalar_name


class AnsweredRows(NodeRows):
    """Rows for nodes that came back whole; a node's ``row`` is -1 if the cluster does not know it."""

    __slots__ = ("_allocatable", "_allowed_pods", "_changed", "_taint_set", "_unschedulable")

    def __init__(self, table: NodeTable, answered: Sequence[NodeInfo]) -> None:
        rows = np.fromiter((info.row for info in answered), np.int64, len(answered))
        super().__init__(table, rows)
        self._infos = answered
        self._changed: dict[int, Node] = {}
        for i, info in enumerate(answered):
            ours = table.infos[info.row].node if info.row >= 0 else None
            if info.node is not None and (ours is None or _differs(ours, info.node)):
                self._changed[i] = info.node
        for node in self._changed.values():  # now, so that no column grows between pre-score and score
            for key, value in node.metadata.labels.items():
                table.label(key).intern(value)
            for name in node.status.allocatable:
                if is_scalar_name(name):
                    table.resource_index(name)
        self._allocatable: NDArray[np.int64] = table.allocatable[:, rows]  # [resource, node]
        self._allowed_pods: NDArray[np.int64] = table.allowed_pods[rows]
        self._taint_set: NDArray[np.int32] = table.taint_set[rows]
        self._unschedulable: Mask = table.unschedulable[rows]
        for i, node in self._changed.items():
            self._read(i, node)

    def _read(self, i: int, node: Node) -> None:
        self._allocatable[:, i] = 0
        self._allowed_pods[i] = 0
        for name, text in node.status.allocatable.items():
            try:
                amount = milli_value_of(text) if name == CPU else value_of(text)
            except ParseError:
                continue
            if name == PODS:
                self._allowed_pods[i] = amount
            elif name in self.table.resources:
                self._allocatable[self.table.resources[name], i] = amount
        self._taint_set[i] = self.table.intern_taints(node.spec.taints)
        self._unschedulable[i] = node.spec.unschedulable

    # ---- what the node objects say -----------------------------------------------------------------------------

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        index = self.table.resources.get(resource)
        if index is None or index >= len(self._allocatable):
            return np.zeros(len(self), np.int64)
        column: NDArray[np.int64] = self._allocatable[index]
        return column

    def allocatable_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        return _stacked([self.allocatable(resource) for resource in resources], len(self))

    @property
    def allowed_pods(self) -> NDArray[np.int64]:
        return self._allowed_pods

    @property
    def unschedulable(self) -> Mask:
        return self._unschedulable

    @property
    def taint_set(self) -> NDArray[np.int32]:
        return self._taint_set

    def label_ids(self, key: str) -> NDArray[np.int32]:
        column = self.table.label(key)
        assert self.index is not None
        ids = column.ids[self.index]
        for i, node in self._changed.items():
            value = node.metadata.labels.get(key)
            ids[i] = MISSING if value is None else column.intern(value)
        return ids

    # ---- no pods, no images ------------------------------------------------------------------------------------

    @property
    def has_images(self) -> bool:
        return False

    def pods(self, i: int) -> Iterable[PodInfo]:
        return ()

    @property
    def hypothetical(self) -> Iterable[int]:
        return range(len(self))

    def subset(self, positions: NDArray[np.int64]) -> AnsweredRows:
        return AnsweredRows(self.table, [self.infos[i] for i in positions.tolist()])

    def requested(self, resource: str) -> NDArray[np.int64]:
        return np.zeros(len(self), np.int64)

    def non_zero_requested(self, resource: str) -> NDArray[np.int64]:
        return np.zeros(len(self), np.int64)

    def requested_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        return np.zeros((len(resources), len(self)), np.int64)

    def non_zero_requested_of(self, resources: tuple[str, ...]) -> NDArray[np.int64]:
        return np.zeros((len(resources), len(self)), np.int64)

    @property
    def pod_count(self) -> NDArray[np.int64]:
        return np.zeros(len(self), np.int64)

    def counts(self, column: CountColumn) -> NDArray[np.int64]:
        return np.zeros(len(self), np.int64)

    def port_conflicts(self, wanted: Iterable[HostPort]) -> Mask:
        return np.zeros(len(self), np.bool_)


def _differs(ours: Node, theirs: Node) -> bool:
    return ours is not theirs and (
        ours.metadata.labels != theirs.metadata.labels
        or ours.status.allocatable != theirs.status.allocatable
        or ours.spec.taints != theirs.spec.taints
        or ours.spec.unschedulable != theirs.spec.unschedulable
    )


def _stacked(columns: list[NDArray[np.int64]], n: int) -> NDArray[np.int64]:
    return np.stack(columns) if columns else np.zeros((0, n), np.int64)
