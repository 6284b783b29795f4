"""What a learned policy sees: columns of numbers from 0 to 1 about every node, and a few about the pod.

The environment and the score plugin make them with the same functions, so that what was learned holds in a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mooring.gpus.columns import GpuColumns, safe_request_of
from mooring.gpus.requests import WHOLE
from mooring.gpus.scoring import LARGEST_CPU
from mooring.state.change_log import EVERYTHING, Cursor
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable
from mooring.state.pod_info import PodInfo
from mooring.state.requests import CPU, MEMORY

Matrix = NDArray[np.float32]

NODE_FEATURES = (
    "cpu free",  # of the node's own
    "memory free",  # of the node's own
    "pods free",  # of the node's own
    "cpu free of the largest",  # of a node with 128 cores
    "gpu free",  # of the node's own
    "gpu free of the largest",  # of a node with 8 GPUs
    "largest gpu free",  # of one GPU
    "idle gpus",  # of 8
)
POD_FEATURES = ("cpu", "memory", "gpu share", "gpus", "shares a gpu", "priority")
LARGEST_MEMORY, LARGEST_GPUS, LARGEST_PRIORITY = 1 << 40, 8, 1_000_000


def node_features(nodes: NodeRows, base: NodeTable) -> Matrix:
    """[node, feature] of these rows; ``base`` is the table of the plugin's own cluster."""
    if nodes.table is base:
        kept = _KEPT.get(base)
        if kept is None:
            kept = _KEPT[base] = NodeFeatures(base)
        matrix = kept.matrix(base)
        return matrix.copy() if nodes.index is None else matrix[nodes.index]
    gpus = GpuColumns.of(base).on(nodes, base)
    rows = range(len(nodes)) if nodes.index is None else nodes.index.tolist()
    each = zip(rows, gpus.left.tolist(), gpus.capacity.tolist(), strict=True)
    found = [_features(nodes.table, *node) for node in each]
    return np.array(found, np.float32).reshape(len(nodes), len(NODE_FEATURES))


class NodeFeatures:
    """The features of all nodes of a table, computed again where a node or its pods have changed."""

    def __init__(self, table: NodeTable) -> None:
        self._matrix: Matrix = np.zeros((0, len(NODE_FEATURES)), np.float32)
        self._generation = -1  # of the table that the rows belong to
        self._cursors: tuple[Cursor[int], ...] = (table.node_log.cursor(), table.pod_log.cursor())

    def matrix(self, table: NodeTable) -> Matrix:
        """[node, feature], for reading."""
        changes = [cursor.take() for cursor in self._cursors]
        gpus = GpuColumns.of(table)
        rows: Iterable[int]
        if table.generation != self._generation or EVERYTHING in changes:
            self._matrix = np.zeros((len(table), len(NODE_FEATURES)), np.float32)
            self._generation = table.generation
            rows = range(len(table))
        else:
            rows = {row for each in changes if each is not EVERYTHING for row in each}
        for row in rows:
            self._matrix[row] = _features(table, row, gpus.left[row].tolist(), int(gpus.capacity[row]))
        return self._matrix


_KEPT: WeakKeyDictionary[NodeTable, NodeFeatures] = WeakKeyDictionary()


def _features(table: NodeTable, row: int, left: list[int], gpus: int) -> tuple[float, ...]:
    """The features of one node with so much left on its GPUs. Nothing is more than free, or less than not."""
    cpus, memory = table.allocatable[:2, row].tolist()
    cpus_used, memory_used = table.requested[:2, row].tolist()
    pods = int(table.allowed_pods[row])
    total = sum(left)
    return (
        _part(cpus - cpus_used, cpus),
        _part(memory - memory_used, memory),
        _part(pods - int(table.pod_count[row]), pods),
        _part(cpus - cpus_used, LARGEST_CPU),
        _part(total, gpus * WHOLE),
        _part(total, LARGEST_GPUS * WHOLE),
        _part(max(left, default=0), WHOLE),
        _part(left.count(WHOLE), LARGEST_GPUS),
    )


def _part(amount: int, whole: int) -> float:
    return 0.0 if amount <= 0 or whole <= 0 else 1.0 if amount >= whole else amount / whole


def pod_features(pod: PodInfo) -> Matrix:
    """[feature]"""
    request = safe_request_of(pod)
    requests = pod.shape.requests
    found = (
        _part(requests.get(CPU, 0), LARGEST_CPU),
        _part(requests.get(MEMORY, 0), LARGEST_MEMORY),
        _part(request.milli, WHOLE),
        _part(request.count, LARGEST_GPUS),
        float(request.is_share),
        _part(pod.priority, LARGEST_PRIORITY),
    )
    return np.array(found, np.float32)
