"""Verdicts and scores of one template on all nodes, cached and updated row by row.

A burst of equal pods changes one row per placement. The answers of every plugin that reads no more than the row
(``Reads.ROW`` or less) are cached, and only changed rows are computed again.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import reduce

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.engine.decision import CycleAttempt
from mooring.core.engine.derived import MEMO_ROWS, Derived, Figures, Kept, Memo, are_many
from mooring.core.engine.kinds import Kinds
from mooring.core.engine.order import KeptOrder
from mooring.core.framework.cycle_state import CycleError, guarded
from mooring.core.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.core.framework.registry import Reads, ResolvedPlugin
from mooring.core.framework.runtime import FilterPlan, ScorePlan, judge
from mooring.core.framework.status import PASSES, NodeStatuses, Status, Verdict
from mooring.core.state.facets import Facet
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_info import PodShape
from mooring.core.state.sharing import constant, stamps


class ColumnRefusal(msgspec.Struct, frozen=True):
    """Why no node fits a pod of the template. Valid until a row, a nomination or a token changes."""

    statuses: NodeStatuses
    priority: int  # of the pod: decides which nominated pods count
    nominations: int  # position in their log


class FilterColumns(Derived):
    """Cached verdicts of the filters for one template."""

    __slots__ = ("by_figures", "by_more", "feasible", "memo", "num_feasible", "plan", "refusal", "verdicts", "version")

    def __init__(self, plan: FilterPlan, table: NodeTable, max_memo: int) -> None:
        super().__init__(table.node_log, table.pod_log)
        self.plan = plan
        reads = [(i, plugin.traits.filter_reads) for i, plugin in enumerate(plan.cached)]
        self.by_figures = [i for i, what in reads if what is Reads.RESOURCES]
        self.by_more = [(i, what) for i, what in reads if what is not Reads.RESOURCES]
        self.verdicts: list[Verdict | None] = []  # by plugin, in the plan's order
        self.feasible: NDArray[np.bool_] = np.zeros(0, np.bool_)  # [node]
        self.num_feasible = 0
        self.version = 0  # changes when all rows were judged again
        self.memo: Memo[tuple[int, ...]] = Memo(max_memo)  # verdicts of filters that read resource figures only
        self.refusal: ColumnRefusal | None = None  # of the last pod that fitted no node

    def update(self, attempt: CycleAttempt, figures: Figures) -> None:
        """Judge the rows that have changed since the last pod of the template."""
        token = self.plan.token()
        changes = self.changes(token)
        if changes is None or are_many(changes, self.feasible):
            self.refusal = None
            self._judge_all(attempt)
        elif changes[0] or changes[1]:
            self.refusal = None
            self._judge_rows(attempt, figures, *changes)
        self.settle(token)

    def refusals(self) -> Sequence[tuple[str, Verdict]]:
        """Return the verdicts by plugin, in order, without those that let all nodes pass."""
        if not any(self.verdicts):
            return ()
        pairs = zip(self.plan.cached, self.verdicts, strict=True)
        return [(plugin.name, verdict) for plugin, verdict in pairs if verdict is not None]

    def passed_node_filters(self) -> NDArray[np.bool_]:
        """Return rows that pass every filter that depends only on the Node object."""
        passed = np.ones(len(self.feasible), np.bool_)
        for plugin, verdict in zip(self.plan.cached, self.verdicts, strict=True):
            if verdict is not None and plugin.traits.filter_reads is Reads.NODE:
                passed &= verdict.passes()
        return passed

    def _judge_all(self, attempt: CycleAttempt) -> None:
        self.memo.clear()
        self.feasible = np.ones(len(attempt.nodes), np.bool_)
        self.verdicts = []
        for plugin in self.plan.cached:
            verdict = judge(plugin, attempt.state, attempt.pod, attempt.nodes, lambda: self.feasible)
            self.verdicts.append(verdict)
            if verdict is not None:
                self.feasible &= verdict.passes()
        self.num_feasible = int(np.count_nonzero(self.feasible))
        self.version = next(stamps)

    def _judge_rows(self, attempt: CycleAttempt, figures: Figures, node_rows: Set[int], pod_rows: Set[int]) -> None:
        every = node_rows | pod_rows if node_rows else pod_rows
        # Two ways to the same verdicts: few rows are looked up by their resource figures, many are judged together.
        if len(every) <= MEMO_ROWS and self.memo.pays:
            if self.by_figures:
                self._judge_figures(attempt, figures, every)
            self._judge_more(attempt, node_rows, every)
            verdicts = [verdict for verdict in self.verdicts if verdict is not None]
            for row in every:
                passes = not any(verdict.ids[row] for verdict in verdicts)
                self.num_feasible += passes - self.feasible.item(row)
                self.feasible[row] = passes
            return
        nodes = attempt.some(every)
        for i in self.by_figures:
            self._judge(attempt, i, nodes)
        self._judge_more(attempt, node_rows, every)
        numbers = [verdict.ids.take(nodes.rows) for verdict in self.verdicts if verdict is not None]
        self.feasible[nodes.rows] = reduce(np.bitwise_or, numbers) == PASSES if numbers else True
        self.num_feasible = int(np.count_nonzero(self.feasible))  # faster than tracking what these rows change

    def _judge_more(self, attempt: CycleAttempt, node_rows: Set[int], every: Set[int]) -> None:
        """Run the filters that read more than resource figures on the rows where that may have changed."""
        for i, reads in self.by_more:
            rows = node_rows if reads is Reads.NODE else every
            if rows:
                self._judge(attempt, i, attempt.some(rows))

    def _judge_figures(self, attempt: CycleAttempt, figures: Figures, rows: Set[int]) -> None:
        table = attempt.nodes.table
        unknown: dict[bytes, list[int]] = {}
        for row in rows:
            fullness = figures.of(table, row)
            answers = self.memo.get(fullness)
            if answers is None:
                unknown.setdefault(fullness, []).append(row)
                continue
            for i, number in zip(self.by_figures, answers, strict=True):
                verdict = self.verdicts[i]
                if verdict is not None:  # numbers other than 0 are stored only if there is a verdict
                    verdict.ids[row] = number
        if not unknown:
            return
        asked = NodeRows(table, np.array([row for alike in unknown.values() for row in alike]))
        for i in self.by_figures:
            self._judge(attempt, i, asked)
        verdicts = [self.verdicts[i] for i in self.by_figures]
        for fullness, alike in unknown.items():
            self.memo.put(fullness, tuple(0 if v is None else int(v.ids[alike[0]]) for v in verdicts))

    def _judge(self, attempt: CycleAttempt, i: int, nodes: NodeRows) -> None:
        """Run one filter on some rows and store its answer."""
        fresh = judge(self.plan.cached[i], attempt.state, attempt.pod, nodes)
        kept = self.verdicts[i]
        if kept is None:
            if fresh is None:
                return
            kept = self.verdicts[i] = Verdict(np.zeros(len(nodes.table), np.int64), fresh.status_of)
        kept.put(nodes.rows, fresh)


# ---- scores --------------------------------------------------------------------------------------------------------
# ---- scores --------------------------------------------------------------------------------------------------------
#
# The cache has the raw scores of every plugin that reads no more than the row, and the weighted sum of those that do
# not depend on the other nodes: scores without normalising, and, where a plugin gives 0 to every node, the normalised
# value of that. As soon as such a plugin gives one node more than 0, it leaves the sum (``_score_more``).


class ScoreColumns(Derived):
    """Cached scores for one template."""

    __slots__ = (
        "_even",
        "_order",
        "_weighted",
        "by_figures",
        "by_more",
        "memo",
        "open",
        "plan",
        "raw",
        "summed",
        "total",
        "version",
    )

    def __init__(self, plan: ScorePlan, table: NodeTable, max_memo: int) -> None:
        super().__init__(table.node_log, table.pod_log)
        self.plan = plan
        self.by_figures = [plugin for plugin, _ in plan.cached if plugin.traits.score_reads is Reads.RESOURCES]
        self.by_more = [plugin for plugin, _ in plan.cached if plugin.traits.score_reads is not Reads.RESOURCES]
        self.raw: dict[str, NDArray[np.int64]] = {}  # by plugin
        self.summed: set[str] = set()  # plugins included in ``total``
        self.open: list[tuple[ResolvedPlugin, int]] = []  # plugins of the plan that are not
        self.total: NDArray[np.int64] = np.zeros(0, np.int64)
        self.version = 0  # changes when all rows were summed again
        self._order = KeptOrder(table)  # of the feasible nodes by ``total``
        self.memo: Memo[tuple[int, ...]] = Memo(max_memo)  # scores of plugins that read resource figures only
        self._weighted: list[tuple[str, int]] = []  # plugins summed without normalising, with weights
        self._even = constant(0)  # contribution of the other summed plugins to every node

    def update(self, attempt: CycleAttempt, figures: Figures) -> None:
        """Score the rows that have changed since the last pod of the template."""
        token = self.plan.token()
        changes = self.changes(token)
        if changes is None or are_many(changes, self.total):
            self.memo.clear()
            self.raw = {plugin.name: np.array(_score(plugin, attempt, attempt.nodes)) for plugin, _ in self.plan.cached}
            self._add_up(attempt)
        elif changes[0] or changes[1]:
            self._score_rows(attempt, figures, *changes)
        self.settle(token)

    def _score_rows(self, attempt: CycleAttempt, figures: Figures, node_rows: Set[int], pod_rows: Set[int]) -> None:
        every = node_rows | pod_rows if node_rows else pod_rows
        if len(every) <= MEMO_ROWS and self.memo.pays:
            if self.by_figures:
                self._score_figures(attempt, figures, every)
            if self._score_more(attempt, node_rows, every):
                for row in every:
                    self._add_up_row(row)
            return
        nodes = attempt.some(every)
        fresh = {plugin.name: self._score(plugin, attempt, nodes) for plugin in self.by_figures}
        if self._score_more(attempt, node_rows, every):
            total = self._even
            for name, weight in self._weighted:
                scores = fresh[name] if name in fresh else self.raw[name].take(nodes.rows)
                total = total + (scores if weight == 1 else scores * weight)
            self.total[nodes.rows] = total

    def _score_more(self, attempt: CycleAttempt, node_rows: Set[int], every: Set[int]) -> bool:
        """Run the scores that read more than resource figures on the rows where that may have changed.

        Report whether the sum still has the same parts. If not, it was computed again.
        """
        is_even_no_more = False
        for plugin in self.by_more:
            rows = node_rows if plugin.traits.score_reads is Reads.NODE else every
            if rows:
                scores = self._score(plugin, attempt, attempt.some(rows))
                is_summed = plugin.name in self.summed
                is_even_no_more |= is_summed and plugin.normalize is not None and bool(scores.any())
        if is_even_no_more:
            self._add_up(attempt)
        return not is_even_no_more

    def _score(self, plugin: ResolvedPlugin, attempt: CycleAttempt, nodes: NodeRows) -> Scores:
        """Score some rows, and store the result."""
        scores = _score(plugin, attempt, nodes)
        self.raw[plugin.name][nodes.rows] = scores
        return scores

    def _score_figures(self, attempt: CycleAttempt, figures: Figures, rows: Set[int]) -> None:
        """Score a few rows by their resource figures; known figures are looked up."""
        table = attempt.nodes.table
        unknown: dict[int, bytes] = {}  # row -> its resource figures
        for row in rows:
            fullness = figures.of(table, row)
            answers = self.memo.get(fullness)
            if answers is None:
                unknown[row] = fullness
                continue
            for plugin, score in zip(self.by_figures, answers, strict=True):
                self.raw[plugin.name][row] = score
        if not unknown:
            return
        together = NodeRows(table, np.fromiter(unknown, np.int64, len(unknown)))
        scores = [_score(plugin, attempt, together) for plugin in self.by_figures]
        for plugin, column in zip(self.by_figures, scores, strict=True):
            self.raw[plugin.name][together.index] = column
        for i, fullness in enumerate(unknown.values()):
            self.memo.put(fullness, tuple(int(column[i]) for column in scores))

    def _add_up(self, attempt: CycleAttempt) -> None:
        self.summed.clear()
        self._weighted, even = [], 0
        first = NodeRows(attempt.nodes.table, np.zeros(1, np.int64))
        for plugin, weight in self.plan.cached:
            raw, normalize = self.raw[plugin.name], plugin.normalize
            if normalize is None:
                self._weighted.append((plugin.name, weight))
            elif plugin.traits.even_normalize and not raw.any():
                even += weight * int(normalize(attempt.state, attempt.pod, np.zeros(1, np.int64), first)[0])
            else:
                continue
            self.summed.add(plugin.name)
        self.open = [(plugin, weight) for plugin, weight in self.plan.active if plugin.name not in self.summed]
        self._even = constant(even)
        self.version = next(stamps)
        self.total = np.full(len(attempt.nodes), even, np.int64)
        for name, weight in self._weighted:
            self.total += self.raw[name] * weight

    def _add_up_row(self, row: int) -> None:
        total = self._even.item()
        for name, weight in self._weighted:
            total += self.raw[name].item(row) * weight
        self.total[row] = total

    def winner(self, filters: FilterColumns) -> tuple[int, int]:
        """Return the row that kube-scheduler takes by this sum from the feasible nodes, and its total."""
        return self._order.find((filters.version, self.version), filters.feasible, self.total)

    def totals_of(self, nodes: NodeRows) -> NDArray[np.int64]:
        """Return a copy of the sum for these nodes."""
        return self.total.copy() if nodes.index is None else self.total.take(nodes.index)


def _score(plugin: ResolvedPlugin, attempt: CycleAttempt, nodes: NodeRows) -> Scores:
    call = attempt.state.timer or guarded
    scores = call(plugin.name, 'running Score plugin "{}": {}', plugin.score, attempt.state, attempt.pod, nodes)
    if scores is None:
        return np.zeros(len(nodes), np.int64)
    if plugin.normalize is None and not plugin.traits.in_range:
        check_range(plugin.name, scores)
    return scores


def check_range(name: str, scores: Scores) -> None:
    """Raise upstream's error for a plugin that scores outside 0 to 100."""
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


# ---- cached verdicts and scores by template, for one profile
# ------------------------------------------------------------

MAX_BYTES = 128 << 20
MAX_SEEN = 16384  # templates seen once
MAX_MEMO = 4096  # distinct resource figures cached per template
MAX_MEMOS = 65_536  # the same for all templates together, approximately
FIXED_BYTES = 4096  # size of a template's columns independent of the number of nodes


MAX_KNOWN = 16


class KnownTemplate(msgspec.Struct):
    """A template that these columns decide alone, as long as the other plugins skip it as they did."""

    shape: PodShape  # holds its number
    plan: FilterPlan
    skip_filter: set[str]
    skip_score: set[str]
    filters: FilterColumns
    scores: ScoreColumns


class TemplateColumns:
    """Columns by template, updated on access. Do not change what is returned."""

    def __init__(self) -> None:
        self.filters: Kept[FilterColumns] = Kept(MAX_SEEN)
        self.scores: Kept[ScoreColumns] = Kept(MAX_SEEN)
        self.kinds: Kept[Kinds] = Kept(0)
        self.figures = Figures()
        self.known: dict[int, KnownTemplate] = {}  # by shape: templates of which the rest is known, too

    def is_worth_keeping(self, shape: PodShape) -> bool:
        """Report whether the template has been seen before."""
        return self.filters.was_seen_before(shape.placement_id)

    def filters_of(self, attempt: CycleAttempt) -> FilterColumns:
        """Return the verdicts of the filters that read no more than the row."""
        plan, table = attempt.plan, attempt.nodes.table
        key = plan.template(attempt.pod)
        columns = self.filters.get(key)
        if columns is None:
            columns = FilterColumns(plan, table, _max_memo(len(self.filters)))
            self.filters.put(key, columns, _most(len(table)))
        columns.update(attempt, self.figures)
        return columns

    def scores_of(self, attempt: CycleAttempt, plan: ScorePlan) -> ScoreColumns:
        """Return the scores of the plugins that read no more than the row."""
        table = attempt.nodes.table
        key = plan.template(attempt.pod)
        columns = self.scores.get(key)
        if columns is None:
            columns = ScoreColumns(plan, table, _max_memo(len(self.scores)))
            self.scores.put(key, columns, _most(len(table)))
        columns.update(attempt, self.figures)
        return columns

    def learn(self, attempt: CycleAttempt, filters: FilterColumns, scores: ScoreColumns) -> None:
        """Remember that these columns alone decided about the pod."""
        if len(self.known) >= MAX_KNOWN:
            self.known.clear()
        shape, state = attempt.pod.shape, attempt.state
        self.known[shape.id] = KnownTemplate(shape, attempt.plan, state.skip_filter, state.skip_score, filters, scores)

    def kinds_of(self, attempt: CycleAttempt, filters: FilterColumns, facets: Sequence[Facet]) -> Kinds | None:
        """The kinds of nodes by these facets, if they are few."""
        table = attempt.nodes.table
        key = (attempt.plan.template(attempt.pod), facets)
        kinds = self.kinds.get(key)
        if kinds is None:
            kinds = self.kinds.put(key, Kinds(table, facets), _most(len(table)))
        return kinds if kinds.follow(filters.version, filters.feasible) else None


def _most(n: int) -> int:
    """Return how many templates' columns fit into their memory limit at this number of nodes."""
    return max(16, MAX_BYTES // (64 * n + FIXED_BYTES))


def _max_memo(templates: int) -> int:
    """Return the memo size per template: many templates on a mixed cluster would cache millions of unused entries."""
    return min(MAX_MEMO, max(64, MAX_MEMOS // (templates + 1)))
