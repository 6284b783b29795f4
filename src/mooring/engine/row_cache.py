"""What a template's pods share: verdicts and scores that depend on the node alone, repaired row by row.

A burst of equal pods changes one row per placement. For every shape the cache
keeps the columns of all plugins that promise to read no more than the row
(``Reads.NODE``, ``Reads.ROW``); before they are used, only the rows that the
table's logs name since the last use are computed again. It must never change
a decision: a property test compares histories with and without it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.framework.cycle_state import CycleState
from mooring.framework.interfaces import MAX_NODE_SCORE, FilterPlugin, Reads, ScorePlugin, Scores
from mooring.framework.runtime import CycleError, guarded, judge
from mooring.framework.status import Status
from mooring.framework.verdict import Verdict
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable
from mooring.state.pod_info import PodInfo

MAX_BYTES = 128 << 20


class FilterColumns:
    """The cached filters' verdicts for one shape."""

    __slots__ = ("feasible", "plugins", "position", "token", "verdicts")

    def __init__(self, plugins: Sequence[FilterPlugin]) -> None:
        self.plugins = plugins
        self.verdicts: list[Verdict | None] = []
        self.feasible: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.position = (-1, 0, 0)
        self.token: Hashable = None


class ScoreColumns:
    """The cached raw scores for one shape, and the weighted sum of those that need no normalising."""

    __slots__ = ("plugins", "position", "raw", "token", "total")

    def __init__(self, plugins: Sequence[tuple[ScorePlugin, int]]) -> None:
        self.plugins = plugins
        self.raw: list[NDArray[np.int64]] = []
        self.total: NDArray[np.int64] = np.zeros(0, np.int64)
        self.position = (-1, 0, 0)
        self.token: Hashable = None


class RowCache:
    """Columns by shape, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._filters: OrderedDict[Hashable, FilterColumns] = OrderedDict()
        self._scores: OrderedDict[Hashable, ScoreColumns] = OrderedDict()

    def clear(self) -> None:
        self._filters.clear()
        self._scores.clear()

    # ---- filters -----------------------------------------------------------------------------------------------

    def filters(
        self, state: CycleState, pod: PodInfo, nodes: NodeRows, plugins: Sequence[FilterPlugin]
    ) -> FilterColumns:
        """Verdicts of these (cacheable) plugins on all nodes, up to date. Do not change what is returned."""
        table = nodes.table
        key = (pod.shape.id, id(plugins))  # plans live as long as their profile, and so does this cache
        columns = self._filters.get(key)
        token = _tokens(plugins)
        if columns is None:
            columns = self._filters[key] = FilterColumns(plugins)
            _limit(self._filters, len(table))
        else:
            self._filters.move_to_end(key)
        if columns.position[0] != table.log_epoch or columns.token != token:
            self._fill_filters(columns, state, pod, nodes)
            columns.token = token
        else:
            self._repair_filters(columns, state, pod, table)
        columns.position = (table.log_epoch, len(table.node_log), len(table.pod_log))
        return columns

    @staticmethod
    def _fill_filters(columns: FilterColumns, state: CycleState, pod: PodInfo, nodes: NodeRows) -> None:
        columns.feasible = np.ones(len(nodes), np.bool_)
        columns.verdicts = []
        for plugin in columns.plugins:
            verdict = judge(plugin, state, pod, nodes, columns.feasible)
            columns.verdicts.append(verdict)
            if verdict is not None:
                columns.feasible &= verdict.ids == 0

    def _repair_filters(self, columns: FilterColumns, state: CycleState, pod: PodInfo, table: NodeTable) -> None:
        node_rows, pod_rows = _changed(table, columns.position)
        if not node_rows and not pod_rows:
            return
        if 4 * (len(node_rows) + len(pod_rows)) > len(table):
            self._fill_filters(columns, state, pod, NodeRows(table))
            return
        every = node_rows | pod_rows
        for i, plugin in enumerate(columns.plugins):
            rows = node_rows if plugin.filter_reads is Reads.NODE else every
            if not rows:
                continue
            index = np.fromiter(rows, np.int64, len(rows))
            fresh = judge(plugin, state, pod, NodeRows(table, index), np.ones(len(index), np.bool_))
            kept = columns.verdicts[i]
            if kept is None:
                if fresh is None:
                    continue
                kept = columns.verdicts[i] = Verdict(np.zeros(len(table), np.int64), fresh.status_of)
            kept.ids[index] = 0 if fresh is None else fresh.ids
            if fresh is not None:
                columns.verdicts[i] = Verdict(kept.ids, fresh.status_of)
        index = np.fromiter(every, np.int64, len(every))
        columns.feasible[index] = True
        for verdict in columns.verdicts:
            if verdict is not None:
                columns.feasible[index] &= verdict.ids[index] == 0

    # ---- scores ------------------------------------------------------------------------------------------------

    def scores(
        self, state: CycleState, pod: PodInfo, table: NodeTable, plugins: Sequence[tuple[ScorePlugin, int]]
    ) -> ScoreColumns:
        """Raw scores of these (cacheable) plugins on all nodes, up to date. Do not change what is returned."""
        key = (pod.shape.id, id(plugins))
        columns = self._scores.get(key)
        token = _tokens([plugin for plugin, _ in plugins])
        if columns is None:
            columns = self._scores[key] = ScoreColumns(plugins)
            _limit(self._scores, len(table))
        else:
            self._scores.move_to_end(key)
        node_rows, pod_rows = _changed(table, columns.position)
        stale = columns.position[0] != table.log_epoch or columns.token != token
        if stale or 4 * (len(node_rows) + len(pod_rows)) > len(table):
            everywhere = NodeRows(table)
            columns.raw = [np.array(_score(plugin, state, pod, everywhere)) for plugin, _ in plugins]
            columns.total = self._total(columns, slice(None), len(table))
            columns.token = token
        elif node_rows or pod_rows:
            every = node_rows | pod_rows
            index = np.fromiter(every, np.int64, len(every))
            rows = NodeRows(table, index)
            for i, (plugin, _) in enumerate(plugins):
                if plugin.score_reads is Reads.ROW:
                    columns.raw[i][index] = _score(plugin, state, pod, rows)
                elif node_rows:
                    mine = np.fromiter(node_rows, np.int64, len(node_rows))
                    columns.raw[i][mine] = _score(plugin, state, pod, NodeRows(table, mine))
            columns.total[index] = self._total(columns, index, len(index))
        columns.position = (table.log_epoch, len(table.node_log), len(table.pod_log))
        return columns

    @staticmethod
    def _total(columns: ScoreColumns, rows: Any, n: int) -> NDArray[np.int64]:
        total = np.zeros(n, np.int64)
        for (plugin, weight), raw in zip(columns.plugins, columns.raw, strict=True):
            if not hasattr(plugin, "normalize"):
                total += raw[rows] * weight
        return total


def _score(plugin: ScorePlugin, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
    scores = guarded(plugin.name, 'running Score plugin "{}": {}', plugin.score, state, pod, nodes)
    if scores is None:
        return np.zeros(len(nodes), np.int64)
    if not hasattr(plugin, "normalize"):
        check_range(plugin.name, scores)
    return scores


def check_range(name: str, scores: Scores) -> None:
    """A plugin that scores outside 0 to 100 breaks the attempt, with upstream's words."""
    if not len(scores):
        return
    low, high = int(scores.min()), int(scores.max())
    if low >= 0 and high <= MAX_NODE_SCORE:
        return
    bad = low if low < 0 else high
    raise CycleError(
        Status.error(
            f'applying score defaultWeights on Score plugins: plugin "{name}" returns an invalid score {bad}, '
            f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
        )
    )


def _changed(table: NodeTable, position: tuple[int, int, int]) -> tuple[set[int], set[int]]:
    """The rows whose node object, and those whose pods, changed since then."""
    if position[0] != table.log_epoch:
        return set(), set()
    return set(table.node_log[position[1] :]), set(table.pod_log[position[2] :])


def _tokens(plugins: Sequence[object]) -> Hashable:
    """What plugins say their answers depend on besides the pod's shape and the row."""
    return tuple(plugin.cache_token() for plugin in plugins if hasattr(plugin, "cache_token"))


def _limit(kept: OrderedDict[Hashable, Any], n: int) -> None:
    while len(kept) > max(16, MAX_BYTES // (64 * max(n, 1))):
        kept.popitem(last=False)
