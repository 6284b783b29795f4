"""The verdicts of one template's filters on all nodes, kept and repaired row by row.

A burst of equal pods changes one row per placement. The verdicts of every
filter that reads no more than the row (``Reads.ROW`` or less) are kept, and
only the rows that changed since are judged again.
"""

from __future__ import annotations

from collections.abc import Set
from functools import reduce

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.engine.attempt import Attempt
from mooring.engine.derived import MEMO_ROWS, Derived, Figures, Memo, are_many
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.plans import FilterPlan
from mooring.framework.runtime import judge
from mooring.framework.traits import Reads
from mooring.framework.verdict import PASSES, Verdict
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable


class Refusal(msgspec.Struct, frozen=True):
    """Why no node fits a pod of the template. It holds until a row, a nomination or a token changes."""

    statuses: NodeStatuses
    priority: int  # of the pod: it says which nominated pods count
    nominations: int  # how far their log had come


class FilterColumns(Derived):
    """The kept filters' verdicts for one template."""

    __slots__ = ("by_figures", "by_more", "feasible", "memo", "plan", "refusal", "verdicts")

    def __init__(self, plan: FilterPlan, table: NodeTable, max_memo: int) -> None:
        super().__init__(table.node_log, table.pod_log)
        self.plan = plan
        reads = [(i, plugin.traits.filter_reads) for i, plugin in enumerate(plan.cached)]
        self.by_figures = [i for i, what in reads if what is Reads.RESOURCES]
        self.by_more = [(i, what) for i, what in reads if what is not Reads.RESOURCES]
        self.verdicts: list[Verdict | None] = []  # by plugin, in the plan's order
        self.feasible: NDArray[np.bool_] = np.zeros(0, np.bool_)  # [node]
        self.memo: Memo[tuple[int, ...]] = Memo(max_memo)  # the verdicts of the filters that read figures only
        self.refusal: Refusal | None = None  # of the last pod that no node fitted

    def update(self, attempt: Attempt, figures: Figures) -> None:
        """Judge what has changed since the last pod of the template."""
        token = self.plan.token()
        changes = self.changes(token)
        if changes is None or are_many(changes, self.feasible):
            self.refusal = None
            self._judge_all(attempt)
        elif changes[0] or changes[1]:
            self.refusal = None
            self._judge_rows(attempt, figures, *changes)
        self.settle(token)

    def passed_node_filters(self) -> NDArray[np.bool_]:
        """Rows that pass every filter that depends only on the Node object."""
        passed = np.ones(len(self.feasible), np.bool_)
        for plugin, verdict in zip(self.plan.cached, self.verdicts, strict=True):
            if verdict is not None and plugin.traits.filter_reads is Reads.NODE:
                passed &= verdict.passes()
        return passed

    def _judge_all(self, attempt: Attempt) -> None:
        self.memo.clear()
        self.feasible = np.ones(len(attempt.nodes), np.bool_)
        self.verdicts = []
        for plugin in self.plan.cached:
            verdict = judge(plugin, attempt.state, attempt.pod, attempt.nodes, lambda: self.feasible)
            self.verdicts.append(verdict)
            if verdict is not None:
                self.feasible &= verdict.passes()

    def _judge_rows(self, attempt: Attempt, figures: Figures, node_rows: Set[int], pod_rows: Set[int]) -> None:
        every = node_rows | pod_rows if node_rows else pod_rows
        if len(every) <= MEMO_ROWS and self.memo.pays:
            if self.by_figures:
                self._judge_figures(attempt, figures, every)
            self._judge_more(attempt, node_rows, every)
            verdicts = [verdict for verdict in self.verdicts if verdict is not None]
            for row in every:
                self.feasible[row] = not any(verdict.ids[row] for verdict in verdicts)
            return
        nodes = attempt.some(every)
        for i in self.by_figures:
            self._judge(attempt, i, nodes)
        self._judge_more(attempt, node_rows, every)
        numbers = [verdict.ids.take(nodes.rows) for verdict in self.verdicts if verdict is not None]
        self.feasible[nodes.rows] = reduce(np.bitwise_or, numbers) == PASSES if numbers else True

    def _judge_more(self, attempt: Attempt, node_rows: Set[int], every: Set[int]) -> None:
        """Ask the filters that read other things than figures about the rows where these may have changed."""
        for i, reads in self.by_more:
            rows = node_rows if reads is Reads.NODE else every
            if rows:
                self._judge(attempt, i, attempt.some(rows))

    def _judge_figures(self, attempt: Attempt, figures: Figures, rows: Set[int]) -> None:
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
                if verdict is not None:  # numbers other than 0 are remembered only once there is a verdict
                    verdict.ids[row] = number
        if not unknown:
            return
        asked = NodeRows(table, np.array([row for alike in unknown.values() for row in alike]))
        for i in self.by_figures:
            self._judge(attempt, i, asked)
        verdicts = [self.verdicts[i] for i in self.by_figures]
        for fullness, alike in unknown.items():
            self.memo.put(fullness, tuple(0 if v is None else int(v.ids[alike[0]]) for v in verdicts))

    def _judge(self, attempt: Attempt, i: int, nodes: NodeRows) -> None:
        """Ask one filter about some rows and take over its answer."""
        fresh = judge(self.plan.cached[i], attempt.state, attempt.pod, nodes)
        kept = self.verdicts[i]
        if kept is None:
            if fresh is None:
                return
            kept = self.verdicts[i] = Verdict(np.zeros(len(nodes.table), np.int64), fresh.status_of)
        kept.put(nodes.rows, fresh)
