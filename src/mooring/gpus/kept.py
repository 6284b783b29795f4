"""Scores of one kind of pod on all nodes, kept from one pod to the next and repaired where nodes have changed.

A placement changes one row. A row is computed again when a pod of the kind comes for which its node is feasible: most
rows of a full cluster never are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mooring.gpus.fragmentation import PodKind
from mooring.state.change_log import EVERYTHING, Cursor
from mooring.state.node_table import NodeTable

Rows = NDArray[np.int64]
Compute = Callable[[Rows], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""(rows) -> (value, GPU) of each; GPU -1: the pod does not share one."""

MAX_BYTES = 64 << 20


class KeptScores:
    """Values and GPUs by row."""

    def __init__(self, table: NodeTable) -> None:
        n = len(table)
        self.values = np.zeros(n, np.int64)  # [node]
        self.gpus = np.full(n, -1, np.int64)  # [node]
        self._is_stale = np.ones(n, np.bool_)  # [node]
        self._cursors: tuple[Cursor[int], ...] = (table.node_log.cursor(), table.pod_log.cursor())
        for cursor in self._cursors:
            cursor.take()

    def on(self, rows: Rows, compute: Compute) -> NDArray[np.int64]:
        """The values of these rows, up to date."""
        for cursor in self._cursors:
            changes = cursor.take()
            if changes is EVERYTHING:
                self._is_stale[:] = True
            elif changes:
                self._is_stale[list(changes)] = True
        stale = rows[self._is_stale[rows]]
        if len(stale):
            self.values[stale], self.gpus[stale] = compute(stale)
            self._is_stale[stale] = False
        return self.values[rows]


class KeptByKind:
    """What is kept for each kind of pod. The least recently used are forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[PodKind, KeptScores] = OrderedDict()
        self._token: object = None

    def of(self, kind: PodKind, table: NodeTable, version: int) -> KeptScores:
        """The scores of this kind; ``version`` is another number whenever all must be computed again."""
        token = (table.generation, version)
        if token != self._token:
            self._kept.clear()
            self._token = token
        kept = self._kept.get(kind)
        if kept is None:
            kept = self._kept[kind] = KeptScores(table)
            while len(self._kept) > max(16, MAX_BYTES // (17 * len(table) + 1024)):
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(kind)
        return kept


def distinct_rows(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int]]:
    """(the rows that differ, [row]: which of them it is). Many nodes are alike before pods come."""
    rows = [row.tobytes() for row in table]
    number = {row: i for i, row in enumerate(dict.fromkeys(rows))}
    distinct = np.frombuffer(b"".join(number), table.dtype).reshape(len(number), table.shape[1])
    return distinct, [number[row] for row in rows]
