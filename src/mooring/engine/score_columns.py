"""The scores of one template on all nodes, kept and repaired row by row.

Kept are the raw scores of every plugin that reads no more than the row, and
the weighted sum of those that do not depend on the other nodes: scores that
need no normalising, and, where a plugin gives 0 to every node, what that is
normalised to.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np
from numpy.typing import NDArray

from mooring.engine.attempt import Attempt
from mooring.engine.derived import MEMO_ROWS, Derived, Figures, Memo, are_many
from mooring.engine.tie_break import MOST, PLACE_BITS, heap_winner, places, ranks_of
from mooring.framework.guarded import CycleError, guarded
from mooring.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.framework.plans import ScorePlan
from mooring.framework.resolved import ResolvedPlugin
from mooring.framework.status import Status
from mooring.framework.traits import Reads
from mooring.state.arrays import constant
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable


class ScoreColumns(Derived):
    """The kept scores for one template."""

    __slots__ = (
        "_even",
        "_ranks",
        "_weighted",
        "by_figures",
        "by_more",
        "memo",
        "open",
        "plan",
        "raw",
        "summed",
        "total",
    )

    def __init__(self, plan: ScorePlan, table: NodeTable, max_memo: int) -> None:
        super().__init__(table.node_log, table.pod_log)
        self.plan = plan
        self.by_figures = [plugin for plugin, _ in plan.cached if plugin.traits.score_reads is Reads.RESOURCES]
        self.by_more = [plugin for plugin, _ in plan.cached if plugin.traits.score_reads is not Reads.RESOURCES]
        self.raw: dict[str, NDArray[np.int64]] = {}  # by plugin
        self.summed: set[str] = set()  # plugins whose part is in ``total``
        self.open: list[tuple[ResolvedPlugin, int]] = []  # plugins of the plan whose part is not
        self.total: NDArray[np.int64] = np.zeros(0, np.int64)
        self._ranks: NDArray[np.int64] | None = None  # of ``total``, once somebody has asked who wins
        self.memo: Memo[tuple[int, ...]] = Memo(max_memo)  # the scores of the plugins that read figures only
        self._weighted: list[tuple[str, int]] = []  # plugins that are summed as they score, with their weights
        self._even = constant(0)  # what the others that are summed give to every node

    def update(self, attempt: Attempt, figures: Figures) -> None:
        """Score what has changed since the last pod of the template."""
        token = self.plan.token()
        changes = self.changes(token)
        if changes is None or are_many(changes, self.total):
            self.memo.clear()
            self.raw = {plugin.name: np.array(_score(plugin, attempt, attempt.nodes)) for plugin, _ in self.plan.cached}
            self._add_up(attempt)
        elif changes[0] or changes[1]:
            self._score_rows(attempt, figures, *changes)
        self.settle(token)

    def _score_rows(self, attempt: Attempt, figures: Figures, node_rows: Set[int], pod_rows: Set[int]) -> None:
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
            self._ranks = None

    def _score_more(self, attempt: Attempt, node_rows: Set[int], every: Set[int]) -> bool:
        """Ask the plugins that read other things than figures about the rows where these may have changed.

        Reports whether the sum is still made of the same parts. If it is not, it was added up anew.
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

    def _score(self, plugin: ResolvedPlugin, attempt: Attempt, nodes: NodeRows) -> Scores:
        """Score some rows, and keep what comes of it."""
        scores = _score(plugin, attempt, nodes)
        self.raw[plugin.name][nodes.rows] = scores
        return scores

    def _score_figures(self, attempt: Attempt, figures: Figures, rows: Set[int]) -> None:
        """Score a few rows by how full they are. Those that are as full as another one was are looked up."""
        table = attempt.nodes.table
        unknown: dict[int, bytes] = {}  # row -> how full it is
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

    def _add_up(self, attempt: Attempt) -> None:
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
        self._ranks = None
        self.total = np.full(len(attempt.nodes), even, np.int64)
        for name, weight in self._weighted:
            self.total += self.raw[name] * weight

    def _add_up_row(self, row: int) -> None:
        total = self._even.item()
        for name, weight in self._weighted:
            total += self.raw[name].item(row) * weight
        self.total[row] = total
        if self._ranks is not None:
            if 0 <= total < MOST:
                self._ranks[row] = (total << PLACE_BITS) - places(len(self.total)).item(row)
            else:
                self._ranks = None

    def winner(self) -> int:
        """The position that kube-scheduler takes from all nodes with this sum."""
        if self._ranks is None:
            self._ranks = ranks_of(self.total)
        return heap_winner(self.total) if self._ranks is None else int(self._ranks.argmax())


def _score(plugin: ResolvedPlugin, attempt: Attempt, nodes: NodeRows) -> Scores:
    call = attempt.state.timer or guarded
    scores = call(plugin.name, 'running Score plugin "{}": {}', plugin.score, attempt.state, attempt.pod, nodes)
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
