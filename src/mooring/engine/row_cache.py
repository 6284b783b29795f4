"""What a template's pods share: verdicts and scores that depend on the node alone, repaired row by row.

A burst of equal pods changes one row per placement. For every shape the cache
keeps the columns of all plugins that promise to read no more than the row
(``Reads.NODE``, ``Reads.ROW``); before they are used, only the rows that the
table's logs name since the last use are computed again. It must never change
a decision: a property test compares histories with and without it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.framework.cycle_state import CycleState
from mooring.framework.guarded import CycleError, guarded
from mooring.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.framework.resolved import ResolvedPlugin
from mooring.framework.runtime import FilterPlan, ScorePlan, judge
from mooring.framework.status import Status
from mooring.framework.traits import Reads
from mooring.framework.verdict import Verdict
from mooring.state.change_log import EVERYTHING
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable
from mooring.state.pod_info import PodInfo, PodShape

MAX_BYTES = 128 << 20
MAX_SEEN = 16384  # templates whose coming is remembered
MAX_MEMO = 4096  # distinct fillings of a node that are remembered per template
MAX_MEMOS = 65_536  # the same of all templates together, about
FIXED_BYTES = 4096  # what a template's columns take however few nodes there are


class Columns:
    """What all columns of a shape have: how far they have followed the table's logs, and what they depend on."""

    __slots__ = ("_nodes", "_pods", "_tokens", "memo", "most", "token")

    def __init__(self, plugins: Iterable[ResolvedPlugin], table: NodeTable) -> None:
        self._nodes, self._pods = table.node_log.cursor(), table.pod_log.cursor()
        self._tokens = [plugin.cache_token for plugin in plugins if plugin.cache_token is not None]
        self.token: Hashable = None
        # By a row's figures, the answers of the plugins that read no more than these (``Reads.RESOURCES``).
        self.memo: dict[bytes, tuple[int, ...]] = {}
        self.most = MAX_MEMO

    def fresh_token(self) -> Hashable:
        """What the plugins say that their answers depend on besides the pod's shape and the row, as it is now."""
        return tuple(token() for token in self._tokens)

    def changed(self, table: NodeTable) -> tuple[set[int], set[int]] | None:
        """The rows whose node, and those whose pods, changed; None if so many that all must be computed anew."""
        nodes, pods = self._nodes.take(), self._pods.take()
        if nodes is EVERYTHING or pods is EVERYTHING:
            return None
        node_rows, pod_rows = set(nodes), set(pods)
        return None if 4 * (len(node_rows) + len(pod_rows)) > len(table) else (node_rows, pod_rows)

    def remember(self, key: bytes, answers: tuple[int, ...]) -> None:
        if len(self.memo) >= self.most:
            self.memo.clear()
        self.memo[key] = answers


class FilterColumns(Columns):
    """The cached filters' verdicts for one shape."""

    __slots__ = ("by_figures", "feasible", "plugins", "verdicts")

    def __init__(self, plugins: Sequence[ResolvedPlugin], table: NodeTable) -> None:
        super().__init__(plugins, table)
        self.plugins = plugins
        self.by_figures = [i for i, plugin in enumerate(plugins) if plugin.traits.filter_reads is Reads.RESOURCES]
        self.verdicts: list[Verdict | None] = []
        self.feasible: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def passed_node_filters(self) -> NDArray[np.bool_]:
        """The rows that no filter refuses which reads the node object alone: no pod can sway these."""
        passed = np.ones(len(self.feasible), np.bool_)
        for plugin, verdict in zip(self.plugins, self.verdicts, strict=True):
            if verdict is not None and plugin.traits.filter_reads is Reads.NODE:
                passed &= verdict.ids == 0
        return passed

    def set(self, i: int, index: Any, fresh: Verdict | None, n: int) -> None:
        """Take over a plugin's answer for some rows."""
        kept = self.verdicts[i]
        if kept is None:
            if fresh is None:
                return
            kept = Verdict(np.zeros(n, np.int64), fresh.status_of)
        kept.ids[index] = 0 if fresh is None else fresh.ids
        self.verdicts[i] = kept if fresh is None else Verdict(kept.ids, fresh.status_of)


class ScoreColumns(Columns):
    """The cached raw scores for one shape, and the weighted sum of those that do not depend on the other nodes.

    These are the scores that need no normalising, and, where a plugin gives 0 to every node, what that is normalised
    to: the same on all of them.
    """

    __slots__ = ("_even", "_weighted", "by_figures", "open", "plan", "plugins", "raw", "summed", "total")

    def __init__(self, plan: ScorePlan, table: NodeTable) -> None:
        super().__init__((plugin for plugin, _ in plan.cached), table)
        self.plan = plan
        self.plugins = plan.cached
        self.by_figures = [plugin for plugin, _ in plan.cached if plugin.traits.score_reads is Reads.RESOURCES]
        self.raw: dict[str, NDArray[np.int64]] = {}  # by plugin
        self.summed: set[str] = set()  # plugins whose part is in ``total``
        self.open: list[tuple[ResolvedPlugin, int]] = []  # plugins of the plan whose part is not
        self.total: NDArray[np.int64] = np.zeros(0, np.int64)
        self._weighted: list[tuple[NDArray[np.int64], int]] = []
        self._even = 0

    def add_up(self, state: CycleState, pod: PodInfo, table: NodeTable) -> None:
        self.summed.clear()
        self._weighted, self._even = [], 0
        first = NodeRows(table, np.zeros(1, np.int64))
        for plugin, weight in self.plugins:
            raw, normalize = self.raw[plugin.name], plugin.normalize
            if normalize is None:
                self._weighted.append((raw, weight))
            elif plugin.traits.even_normalize and not raw.any():
                self._even += weight * int(normalize(state, pod, np.zeros(1, np.int64), first)[0])
            else:
                continue
            self.summed.add(plugin.name)
        self.open = [(plugin, weight) for plugin, weight in self.plan.active if plugin.name not in self.summed]
        self.total = np.full(len(table), self._even, np.int64)
        for raw, weight in self._weighted:
            self.total += raw * weight

    def add_up_row(self, row: int) -> None:
        total = self._even
        for raw, weight in self._weighted:
            total += raw.item(row) * weight
        self.total[row] = total


class RowCache:
    """Columns by shape, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._filters: OrderedDict[Hashable, FilterColumns] = OrderedDict()
        self._scores: OrderedDict[Hashable, ScoreColumns] = OrderedDict()
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._keys: dict[int, bytes] = {}
        self._keys_at = (-1, -1)

    def admits(self, shape: PodShape) -> bool:
        """Whether this template has been seen before: what comes only once is not worth keeping."""
        known = shape.placement_id in self._seen
        self._seen[shape.placement_id] = None
        if known:
            self._seen.move_to_end(shape.placement_id)
        elif len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return known

    def _figures(self, table: NodeTable, row: int) -> bytes:
        """A row's figures, put together once although verdicts and scores both ask for them."""
        position = (table.node_version, table.pod_log.end)
        if position != self._keys_at:
            self._keys.clear()
            self._keys_at = position
        key = self._keys.get(row)
        if key is None:
            key = self._keys[row] = table.resource_key(row)
        return key

    # ---- filters -----------------------------------------------------------------------------------------------

    def filters(self, state: CycleState, pod: PodInfo, nodes: NodeRows, plan: FilterPlan) -> FilterColumns:
        """Verdicts of the plan's cacheable plugins on all nodes, up to date. Do not change what is returned."""
        plugins = plan.cached
        table = nodes.table
        key = plan.shape_key(pod)
        columns = self._filters.get(key)
        if columns is None:
            columns = self._filters[key] = FilterColumns(plugins, table)
            _limit(self._filters, len(table))
            columns.most = _memo_limit(len(self._filters))
        else:
            self._filters.move_to_end(key)
        token = columns.fresh_token()
        changed = columns.changed(table)
        if columns.token != token:
            changed = None
        columns.token = None  # until all is well: a plugin may break on the way
        if changed is None:
            self._fill_filters(columns, state, pod, nodes)
            columns.memo.clear()
        elif changed[0] or changed[1]:
            self._repair_filters(columns, state, pod, table, *changed)
        columns.token = token
        return columns

    @staticmethod
    def _fill_filters(columns: FilterColumns, state: CycleState, pod: PodInfo, nodes: NodeRows) -> None:
        columns.feasible = np.ones(len(nodes), np.bool_)
        columns.verdicts = []
        for plugin in columns.plugins:
            verdict = judge(plugin, state, pod, nodes, lambda: columns.feasible)
            columns.verdicts.append(verdict)
            if verdict is not None:
                columns.feasible &= verdict.ids == 0

    def _repair_filters(
        self,
        columns: FilterColumns,
        state: CycleState,
        pod: PodInfo,
        table: NodeTable,
        node_rows: set[int],
        pod_rows: set[int],
    ) -> None:
        every = node_rows | pod_rows
        self._repair_by_figures(columns, state, pod, table, every)
        for i, plugin in enumerate(columns.plugins):
            rows = node_rows if plugin.traits.filter_reads is Reads.NODE else every
            if rows and plugin.traits.filter_reads is not Reads.RESOURCES:
                index = np.fromiter(rows, np.int64, len(rows))
                fresh = judge(plugin, state, pod, NodeRows(table, index))
                columns.set(i, index, fresh, len(table))
        verdicts = [verdict for verdict in columns.verdicts if verdict is not None]
        for row in every:
            columns.feasible[row] = not any(verdict.ids[row] for verdict in verdicts)

    def _repair_by_figures(
        self, columns: FilterColumns, state: CycleState, pod: PodInfo, table: NodeTable, rows: set[int]
    ) -> None:
        if not columns.by_figures:
            return
        unknown: dict[bytes, list[int]] = {}
        for row in rows:
            key = self._figures(table, row)
            answers = columns.memo.get(key)
            if answers is None:
                unknown.setdefault(key, []).append(row)
                continue
            for i, number in zip(columns.by_figures, answers, strict=True):
                verdict = columns.verdicts[i]
                if verdict is not None:  # numbers other than 0 are remembered only once there is a verdict
                    verdict.ids[row] = number
        for key, alike in unknown.items():
            index = np.array(alike)
            for i in columns.by_figures:
                fresh = judge(columns.plugins[i], state, pod, NodeRows(table, index))
                columns.set(i, index, fresh, len(table))
            numbers = (columns.verdicts[i] for i in columns.by_figures)
            columns.remember(key, tuple(0 if v is None else int(v.ids[alike[0]]) for v in numbers))

    # ---- scores ------------------------------------------------------------------------------------------------

    def scores(self, state: CycleState, pod: PodInfo, table: NodeTable, plan: ScorePlan) -> ScoreColumns:
        """Raw scores of the plan's cacheable plugins on all nodes, up to date. Do not change what is returned."""
        key = (pod.shape.placement_id if plan.past_volumes else pod.shape.id, id(plan))
        columns = self._scores.get(key)
        if columns is None:
            columns = self._scores[key] = ScoreColumns(plan, table)
            _limit(self._scores, len(table))
            columns.most = _memo_limit(len(self._scores))
        else:
            self._scores.move_to_end(key)
        token = columns.fresh_token()
        changed = columns.changed(table)
        if columns.token != token:
            changed = None
        columns.token = None  # until all is well: a plugin may break on the way
        if changed is None:
            everywhere = NodeRows(table)
            columns.raw = {plugin.name: np.array(_score(plugin, state, pod, everywhere)) for plugin, _ in plan.cached}
            columns.add_up(state, pod, table)
            columns.memo.clear()
        elif changed[0] or changed[1]:
            self._repair_scores(columns, state, pod, table, *changed)
        columns.token = token
        return columns

    def _repair_scores(
        self,
        columns: ScoreColumns,
        state: CycleState,
        pod: PodInfo,
        table: NodeTable,
        node_rows: set[int],
        pod_rows: set[int],
    ) -> None:
        every = node_rows | pod_rows
        for row in every if columns.by_figures else ():
            key = self._figures(table, row)
            answers = columns.memo.get(key)
            if answers is None:
                one = NodeRows(table, np.array([row]))
                scores = (_score(plugin, state, pod, one) for plugin in columns.by_figures)
                answers = tuple(int(score[0]) for score in scores)
                columns.remember(key, answers)
            for by_figures, score in zip(columns.by_figures, answers, strict=True):
                columns.raw[by_figures.name][row] = score
        is_even_no_more = False
        for plugin, _ in columns.plugins:
            rows = node_rows if plugin.traits.score_reads is Reads.NODE else every
            if rows and plugin.traits.score_reads is not Reads.RESOURCES:
                index = np.fromiter(rows, np.int64, len(rows))
                fresh = _score(plugin, state, pod, NodeRows(table, index))
                columns.raw[plugin.name][index] = fresh
                is_summed = plugin.name in columns.summed
                is_even_no_more |= is_summed and plugin.normalize is not None and bool(fresh.any())
        if is_even_no_more:
            columns.add_up(state, pod, table)
            return
        for row in every:
            columns.add_up_row(row)


def _score(plugin: ResolvedPlugin, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
    call = state.timer or guarded
    scores = call(plugin.name, 'running Score plugin "{}": {}', plugin.score, state, pod, nodes)
    if scores is None:
        return np.zeros(len(nodes), np.int64)
    if plugin.normalize is None and not plugin.traits.in_range:
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


def _limit(kept: OrderedDict[Hashable, Any], n: int) -> None:
    while len(kept) > max(16, MAX_BYTES // (64 * n + FIXED_BYTES)):
        kept.popitem(last=False)


def _memo_limit(templates: int) -> int:
    """A thousand templates on a mixed cluster would remember millions of fillings, most of them never seen again."""
    return min(MAX_MEMO, max(64, MAX_MEMOS // templates))
