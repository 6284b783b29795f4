"""Nominated pods: their rows, and the filters' verdicts with them on their nodes.

A preemptor is nominated to its node until its victims are gone, and there may be as many nominations as nodes. Both are
therefore updated change by change.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.core.engine.decision import CycleAttempt
from mooring.core.engine.derived import Derived, Kept, Memo
from mooring.core.framework.handle import Nominator
from mooring.core.framework.registry import Reads, ResolvedPlugin
from mooring.core.framework.runtime import FilterPlan
from mooring.core.framework.status import FilterOutcome, Verdict
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import EVERYTHING, ChangeLog

MAX_KEPT = 16  # templates with cached verdicts
MAX_MEMO = 1024

Answers = tuple[tuple[str, int], ...]  # rejecting plugins of a row, with the number of the reason


class NominatedPods:
    """Nominations as rows of the table. ``log`` names the rows whose nominations changed."""

    def __init__(self, nominator: Nominator, cluster: ClusterState) -> None:
        self._nominator = nominator
        self._cluster = cluster
        self._by_node: dict[str, tuple[PodInfo, ...]] = {}
        self._uids: dict[str, int] = {}  # uids of nominated pods -> number of nodes
        self._changes = nominator.log.cursor()
        self._generation = -1
        self.by_row: dict[int, tuple[PodInfo, ...]] = {}
        self.log: ChangeLog[int] = ChangeLog()

    def refresh(self) -> None:
        """Process the nominator's changes; call it once the table's layout is up to date."""
        table = self._cluster.table
        changed = self._changes.take()
        names: Iterable[str]
        if changed is EVERYTHING:
            names = {*self._by_node, *self._nominator.nominated_nodes()}
        else:
            names = changed
        if table.generation != self._generation:
            # Rows have moved. Nominations are keyed by node name; their rows are looked up again.
            self._generation = table.generation
            self.log.restart()
            names = {*self._by_node, *names}
            self.by_row.clear()
            for name, pods in self._by_node.items():
                self._set_row(name, pods)
        for name in names:
            if name:
                self._set(name, tuple(self._nominator.nominated_pods(name)))

    def _set(self, name: str, pods: tuple[PodInfo, ...]) -> None:
        before = self._by_node.get(name, ())
        if pods == before:  # by identity: a PodInfo equals only itself
            return
        for pod in before:
            self._uids[pod.uid] -= 1
            if not self._uids[pod.uid]:
                del self._uids[pod.uid]
        for pod in pods:
            self._uids[pod.uid] = self._uids.get(pod.uid, 0) + 1
        if pods:
            self._by_node[name] = pods
        else:
            self._by_node.pop(name, None)
        self._set_row(name, pods)

    def _set_row(self, name: str, pods: tuple[PodInfo, ...]) -> None:
        info = self._cluster.table.nodes.get(name)
        if info is None or info.row < 0:
            return
        if pods:
            self.by_row[info.row] = pods
        else:
            self.by_row.pop(info.row, None)
        self.log.note(info.row)

    def includes(self, uid: str) -> bool:
        """Report whether this very pod is nominated somewhere: its own nomination does not count for it."""
        return uid in self._uids

    def fullness(self, pod: PodInfo, row: int) -> Hashable:
        """Return all resource figures of a row, including nominated pods that count."""
        return self.fullness_with(row, self.that_count_for(pod, (row,)).get(0, ()))

    def fullness_with(self, row: int, others: Iterable[PodInfo]) -> Hashable:
        return self._cluster.table.resource_key(row), tuple(other.shape.placement_id for other in others)

    def that_count_for(self, pod: PodInfo, rows: Iterable[int]) -> dict[int, list[PodInfo]]:
        """Return, by position among these rows, other pods of equal or higher priority nominated to the node."""
        counted: dict[int, list[PodInfo]] = {}
        by_row = self.by_row
        for i, row in enumerate(rows):
            if row in by_row:
                others = [o for o in by_row[row] if o.priority >= pod.priority and o.uid != pod.uid]
                if others:
                    counted[i] = others
        return counted


class NominatedColumns(Derived):
    """Verdicts on rows that other pods are nominated to, for one template and priority; all other rows pass.

    Filters that depend only on the Node object are not run again: pods do not change their verdicts.
    """

    __slots__ = ("feasible", "is_nominated", "memo", "plan", "plugins", "verdicts")

    def __init__(self, plan: FilterPlan, table: NodeTable, nominated: NominatedPods) -> None:
        super().__init__(table.node_log, table.pod_log, nominated.log)
        self.plan = plan
        self.plugins = [plugin for plugin in plan.cached if plugin.traits.filter_reads is not Reads.NODE]
        self.is_nominated: NDArray[np.bool_] = np.zeros(0, np.bool_)  # [node]
        self.verdicts: dict[str, Verdict] = {}  # by plugin, for those that have rejected a row
        self.memo: Memo[Answers] = Memo(MAX_MEMO)
        self.feasible: NDArray[np.bool_] = np.zeros(0, np.bool_)  # [node]

    def begin(self, n: int) -> None:
        self.verdicts.clear()
        self.memo.clear()
        self.feasible = np.ones(n, np.bool_)
        self.is_nominated = np.zeros(n, np.bool_)

    def first(self, plugins: Sequence[ResolvedPlugin], alone: dict[str, Verdict]) -> list[tuple[str, Verdict]]:
        """Return verdicts in the filters' order: those with the nominated pods precede those without."""
        verdicts = []
        for plugin in plugins:
            name = plugin.name
            if plugin.traits.filter_reads is not Reads.NODE:
                if name in self.verdicts:
                    verdicts.append((name, self.verdicts[name]))
            elif name in alone:
                ids = np.where(self.is_nominated, alone[name].ids, 0)
                verdicts.append((name, Verdict(ids, alone[name].status_of)))
        return verdicts

    def set(self, rows: NDArray[np.int64], tried: FilterOutcome) -> None:
        """Store the verdicts for these rows, which have none yet."""
        self.feasible[rows] = tried.feasible
        self.is_nominated[rows] = True
        for name, verdict in tried.verdicts:
            kept = self.verdicts.get(name)
            ids = np.zeros(len(self.feasible), np.int64) if kept is None else kept.ids
            ids[rows] = verdict.ids
            self.verdicts[name] = Verdict(ids, verdict.status_of)

    def answers(self, row: int) -> Answers:
        return tuple((name, number) for name, verdict in self.verdicts.items() if (number := int(verdict.ids[row])))

    def set_one(self, row: int, answers: Answers) -> None:
        """Store the verdicts of an equally full row for this one."""
        self.feasible[row] = not answers
        self.is_nominated[row] = True
        for name, number in answers:
            self.verdicts[name].ids[row] = number

    def forget(self, rows: NDArray[np.int64]) -> None:
        self.feasible[rows] = True
        self.is_nominated[rows] = False
        for verdict in self.verdicts.values():
            verdict.ids[rows] = 0


class NominatedJudge:
    """Checks that a pod also fits together with nominated pods of equal or higher priority."""

    def __init__(self, nominated: NominatedPods) -> None:
        self.nominated = nominated
        self.kept: Kept[NominatedColumns] = Kept(0)

    def run(self, attempt: CycleAttempt, nodes: NodeRows, plugins: Sequence[ResolvedPlugin]) -> FilterOutcome:
        """Run these filters on these nodes, first with the nominated pods where there are any, and then without them.

        A node that is rejected with them is not checked without them.
        """
        pod, state, profile = attempt.pod, attempt.state, attempt.profile
        outcome = FilterOutcome([], np.ones(len(nodes), np.bool_))
        self.judge(attempt, nodes, outcome, plugins)
        if outcome.feasible.all():
            alone = profile.run_filters(state, pod, nodes, plugins)
            outcome.verdicts += alone.verdicts
            outcome.feasible = alone.feasible
        elif outcome.feasible.any():
            left = np.flatnonzero(outcome.feasible)
            alone = profile.run_filters(state, pod, nodes.subset(left), plugins)
            outcome.verdicts += _spread(alone.verdicts, left, len(nodes))
            outcome.feasible[left] = alone.feasible
        return outcome

    def judge(
        self,
        attempt: CycleAttempt,
        nodes: NodeRows,
        outcome: FilterOutcome,
        plugins: Sequence[ResolvedPlugin] | None = None,
    ) -> None:
        """Add the verdicts with nominated pods to those of these nodes.

        A rejection with them takes precedence over one without them.
        """
        if not self.nominated.by_row:
            return
        counted = self.nominated.that_count_for(attempt.pod, nodes.rows.tolist())
        if not counted:
            return
        plan = attempt.plan
        # Where one node's pods cannot matter to another, all are tried together. Otherwise each node is its own
        # hypothesis, as upstream: the pods nominated to the other nodes are not counted.
        groups = [list(counted)] if plan.is_local else [[position] for position in counted]
        first: list[tuple[str, Verdict]] = []
        fork = nodes.table.fork()  # one for all: each group changes its own nodes and reads no others
        for positions in groups:
            tried = _try(attempt, nodes, fork, counted, positions, plugins or plan.active)
            first += _spread(tried.verdicts, positions, len(nodes))
            outcome.feasible[positions] &= tried.feasible
        outcome.verdicts[:0] = first

    def judge_all(self, attempt: CycleAttempt, outcome: FilterOutcome) -> None:
        """Do so for all nodes, with cached verdicts of the pod's template; all of its filters must be cached."""
        if not self.nominated.by_row:
            return
        plan, nodes = attempt.plan, attempt.nodes
        key = (plan.template(attempt.pod), attempt.pod.priority)
        columns = self.kept.get(key)
        if columns is None:
            columns = self.kept.put(key, NominatedColumns(plan, nodes.table, self.nominated), MAX_KEPT)
        token = plan.token()
        changes = columns.changes(token)
        if changes is None:
            columns.begin(len(nodes))
            rows = set(self.nominated.by_row)
        else:
            rows = set[int]().union(*changes)
        if rows:
            self._repair(columns, attempt, np.fromiter(rows, np.int64, len(rows)))
        columns.settle(token)
        outcome.verdicts[:0] = columns.first(plan.cached, dict(outcome.verdicts))
        outcome.feasible &= columns.feasible

    def _repair(self, columns: NominatedColumns, attempt: CycleAttempt, rows: NDArray[np.int64]) -> None:
        columns.forget(rows)
        counted = self.nominated.that_count_for(attempt.pod, rows.tolist())
        known_by: dict[int, Hashable] = {}
        if columns.plan.reads_figures_only:
            for position in list(counted):
                row = int(rows[position])
                fullness = self.nominated.fullness_with(row, counted[position])
                answers = columns.memo.get(fullness)
                if answers is None:
                    known_by[row] = fullness
                else:
                    columns.set_one(row, answers)
                    del counted[position]
        if counted:
            positions = list(counted)
            table = attempt.nodes.table
            tried = _try(attempt, NodeRows(table, rows), table.fork(), counted, positions, columns.plugins)
            columns.set(rows[positions], tried)
            for row, fullness in known_by.items():
                columns.memo.put(fullness, columns.answers(row))


def _try(
    attempt: CycleAttempt,
    nodes: NodeRows,
    fork: NodeTable,
    counted: dict[int, list[PodInfo]],
    positions: list[int],
    plugins: Sequence[ResolvedPlugin],
) -> FilterOutcome:
    """Run filters on the nodes at these positions, in a fork with the nominated pods."""
    pod, profile = attempt.pod, attempt.profile
    rows, state = nodes.rows, attempt.state.clone()
    moves = [(int(rows[position]), other) for position in positions for other in counted[position]]
    fork.move_pods(moves, 1)
    for row, other in moves if not attempt.plan.is_local else ():
        profile.add_pod(state, pod, other, fork.infos[row])
    return profile.run_filters(state, pod, NodeRows(fork, rows[positions]), plugins)


def _spread(
    verdicts: Iterable[tuple[str, Verdict]], positions: Sequence[int] | NDArray[np.int64], n: int
) -> list[tuple[str, Verdict]]:
    """Expand verdicts on the nodes at these positions to all n nodes, of which the others pass."""
    spread = []
    for name, verdict in verdicts:
        ids = np.zeros(n, np.int64)
        ids[positions] = verdict.ids
        spread.append((name, Verdict(ids, verdict.status_of)))
    return spread
