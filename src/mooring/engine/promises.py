"""Which rows are promised to whom, and what filters say about a pod with those others in thought on their nodes.

A preemptor is promised its node until its victims are gone, and there may be as many promises as nodes. Both are
therefore followed change by change: who is promised what, from the nominator's log; the verdicts for a template's
pods, from that and from the table's logs. The second is a cache: a property test compares decisions with and without.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.framework.cycle_state import CycleState
from mooring.framework.filter_outcome import FilterOutcome
from mooring.framework.nominator import Nominator
from mooring.framework.resolved import ResolvedPlugin
from mooring.framework.runtime import FilterPlan, Profile
from mooring.framework.traits import Reads
from mooring.framework.verdict import Verdict
from mooring.state.change_log import EVERYTHING, ChangeLog
from mooring.state.cluster import Cluster
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable
from mooring.state.pod_info import PodInfo

MAX_KEPT = 16  # templates whose verdicts are kept
MAX_MEMO = 1024

Answers = tuple[tuple[str, int], ...]  # the plugins that refuse a row, and the number that stands for why


class Promises:
    """The nominations as rows. ``log`` names the rows that changed, for those who keep what depends on them."""

    def __init__(self, nominator: Nominator, cluster: Cluster) -> None:
        self._nominator = nominator
        self._cluster = cluster
        self._by_node: dict[str, tuple[PodInfo, ...]] = {}
        self._uids: dict[str, int] = {}  # of all pods that are promised something -> how many nodes
        self._changes = nominator.log.cursor()
        self._generation = -1
        self.by_row: dict[int, tuple[PodInfo, ...]] = {}
        self.log: ChangeLog[int] = ChangeLog()

    def refresh(self) -> None:
        """Take over what the nominator says now; call it once the table's layout is up to date."""
        table = self._cluster.table
        changed = self._changes.take()
        names: Iterable[str]
        if changed is EVERYTHING:
            names = {*self._by_node, *self._nominator.nominated_nodes()}
        else:
            names = changed
        if table.generation != self._generation:
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
        """Report whether a promise to this very pod is among them: it does not count for itself."""
        return uid in self._uids

    def fullness(self, pod: PodInfo, row: int) -> Hashable:
        """All that filters can know of a row that read figures only, the promises included that count for this pod."""
        return self.fullness_with(row, self.that_count_for(pod, (row,)).get(0, ()))

    def fullness_with(self, row: int, others: Iterable[PodInfo]) -> Hashable:
        return self._cluster.table.resource_key(row), tuple(other.shape.placement_id for other in others)

    def that_count_for(self, pod: PodInfo, rows: Iterable[int]) -> dict[int, list[PodInfo]]:
        """By position among these rows, the other pods of equal or higher priority that are promised the node."""
        found: dict[int, list[PodInfo]] = {}
        by_row = self.by_row
        for i, row in enumerate(rows):
            if row in by_row:
                others = [o for o in by_row[row] if o.priority >= pod.priority and o.uid != pod.uid]
                if others:
                    found[i] = others
        return found


class PromisedColumns:
    """Verdicts on the rows that are promised to others, for one template and priority; all other rows pass.

    Filters that read the node object alone are not asked again: pods in thought do not change what they said.
    """

    __slots__ = ("_cursors", "feasible", "is_promised", "memo", "plan", "plugins", "token", "verdicts")

    def __init__(self, plan: FilterPlan, table: NodeTable, promises: Promises) -> None:
        self.plan = plan
        self.plugins = [plugin for plugin in plan.cached if plugin.traits.filter_reads is not Reads.NODE]
        self.is_promised: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.verdicts: dict[str, Verdict] = {}  # by plugin, of those that have refused a row
        self.memo: dict[Hashable, Answers] = {}  # by how full a row is
        self.feasible: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.token: Hashable = None
        self._cursors = (table.node_log.cursor(), table.pod_log.cursor(), promises.log.cursor())

    def changed(self) -> set[int] | None:
        """Rows whose node, pods or promises changed since the last look; None: anything may have."""
        rows: set[int] | None = set()
        for cursor in self._cursors:
            changes = cursor.take()
            if changes is EVERYTHING:
                rows = None
            elif rows is not None:
                rows.update(changes)
        return rows

    def begin(self, n: int) -> None:
        self.verdicts.clear()
        self.memo.clear()
        self.feasible = np.ones(n, np.bool_)
        self.is_promised = np.zeros(n, np.bool_)

    def first(self, plugins: Sequence[ResolvedPlugin], alone: dict[str, Verdict]) -> list[tuple[str, Verdict]]:
        """What counts before what the filters say without those pods, in the filters' order."""
        found = []
        for plugin in plugins:
            name = plugin.name
            if plugin.traits.filter_reads is not Reads.NODE:
                if name in self.verdicts:
                    found.append((name, self.verdicts[name]))
            elif name in alone:
                ids = np.where(self.is_promised, alone[name].ids, 0)
                found.append((name, Verdict(ids, alone[name].status_of)))
        return found

    def set(self, rows: NDArray[np.int64], tried: FilterOutcome) -> None:
        """Take over what was found out about these rows, for which nothing is known yet."""
        self.feasible[rows] = tried.feasible
        self.is_promised[rows] = True
        for name, verdict in tried.verdicts:
            kept = self.verdicts.get(name)
            ids = np.zeros(len(self.feasible), np.int64) if kept is None else kept.ids
            ids[rows] = verdict.ids
            self.verdicts[name] = Verdict(ids, verdict.status_of)

    def answers(self, row: int) -> Answers:
        return tuple((name, number) for name, verdict in self.verdicts.items() if (number := int(verdict.ids[row])))

    def set_one(self, row: int, answers: Answers) -> None:
        """The same for a row that gets the answers which one got before that is equally full."""
        self.feasible[row] = not answers
        self.is_promised[row] = True
        for name, number in answers:
            self.verdicts[name].ids[row] = number

    def remember(self, fullness: Hashable, row: int) -> None:
        if len(self.memo) >= MAX_MEMO:
            self.memo.clear()
        self.memo[fullness] = self.answers(row)

    def forget(self, rows: NDArray[np.int64]) -> None:
        self.feasible[rows] = True
        self.is_promised[rows] = False
        for verdict in self.verdicts.values():
            verdict.ids[rows] = 0


class PromiseJudge:
    """Where pods of equal or higher priority are promised a node, a pod must fit with them there, too."""

    def __init__(self, promises: Promises) -> None:
        self.promises = promises
        self._kept: dict[str, OrderedDict[Hashable, PromisedColumns]] = {}

    def run(
        self, pod: PodInfo, profile: Profile, state: CycleState, nodes: NodeRows, plugins: Sequence[ResolvedPlugin]
    ) -> FilterOutcome:
        """Run these filters on these nodes, first with those pods where there are any, and then without them.

        A node that is refused with them is not looked at without them.
        """
        outcome = FilterOutcome([], np.ones(len(nodes), np.bool_))
        self.judge(pod, profile, state, nodes, outcome, plugins)
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
        pod: PodInfo,
        profile: Profile,
        state: CycleState,
        nodes: NodeRows,
        outcome: FilterOutcome,
        plugins: Sequence[ResolvedPlugin] | None = None,
    ) -> None:
        """Add to what is known of these nodes what those pods make of it.

        What fails with them counts before what fails without: their verdict is put first.
        """
        if not self.promises.by_row:
            return
        promised = self.promises.that_count_for(pod, nodes.rows.tolist())
        if not promised:
            return
        active = profile.active_filters(state)
        # Where one node's pods cannot matter to another, all are tried at once.
        is_local = all(plugin.traits.filter_reads <= Reads.LOCAL for plugin in active)
        groups = [list(promised)] if is_local else [[position] for position in promised]
        first: list[tuple[str, Verdict]] = []
        fork = nodes.table.fork()  # one for all: each group changes its own nodes and looks at no others
        for positions in groups:
            tried = self._try(pod, profile, state, nodes, fork, promised, positions, plugins or active, is_local)
            first += _spread(tried.verdicts, positions, len(nodes))
            outcome.feasible[positions] &= tried.feasible
        outcome.verdicts[:0] = first

    @staticmethod
    def _try(
        pod: PodInfo,
        profile: Profile,
        state: CycleState,
        nodes: NodeRows,
        fork: NodeTable,
        promised: dict[int, list[PodInfo]],
        positions: list[int],
        plugins: Sequence[ResolvedPlugin],
        is_local: bool,
    ) -> FilterOutcome:
        rows, thought = nodes.rows, state.clone()
        moves = [(int(rows[position]), other) for position in positions for other in promised[position]]
        fork.move_pods(moves, 1)
        for row, other in moves if not is_local else ():
            profile.add_pod(thought, pod, other, fork.infos[row])
        return profile.run_filters(thought, pod, NodeRows(fork, rows[positions]), plugins)

    def judge_all(
        self, pod: PodInfo, profile: Profile, state: CycleState, nodes: NodeRows, outcome: FilterOutcome
    ) -> None:
        """The same for all nodes, with what the pod's template is known to get; its filters must be cacheable."""
        if not self.promises.by_row:
            return
        plan = profile.filter_plan(state)
        columns = self._columns(pod, profile, plan, nodes.table)
        token = plan.token()
        rows = columns.changed()
        if rows is None or columns.token != token:
            columns.begin(len(nodes))
            rows = set(self.promises.by_row)
        columns.token = None  # until all is well: a plugin may break on the way
        if rows:
            self._repair(columns, pod, profile, state, nodes, np.fromiter(rows, np.int64, len(rows)))
        columns.token = token
        outcome.verdicts[:0] = columns.first(plan.cached, dict(outcome.verdicts))
        outcome.feasible &= columns.feasible

    def _columns(self, pod: PodInfo, profile: Profile, plan: FilterPlan, table: NodeTable) -> PromisedColumns:
        kept = self._kept.setdefault(profile.scheduler_name, OrderedDict())
        key = (plan.shape_key(pod), pod.priority)
        columns = kept.get(key)
        if columns is None:
            columns = kept[key] = PromisedColumns(plan, table, self.promises)
            if len(kept) > MAX_KEPT:
                kept.popitem(last=False)
        else:
            kept.move_to_end(key)
        return columns

    def _repair(
        self,
        columns: PromisedColumns,
        pod: PodInfo,
        profile: Profile,
        state: CycleState,
        nodes: NodeRows,
        rows: NDArray[np.int64],
    ) -> None:
        columns.forget(rows)
        promised = self.promises.that_count_for(pod, rows.tolist())
        known_by: dict[int, Hashable] = {}
        if columns.plan.reads_figures_only():
            for position in list(promised):
                row = int(rows[position])
                fullness = self.promises.fullness_with(row, promised[position])
                answers = columns.memo.get(fullness)
                if answers is None:
                    known_by[row] = fullness
                else:
                    columns.set_one(row, answers)
                    del promised[position]
        if promised:
            positions = list(promised)
            fork, changed = nodes.table.fork(), nodes.subset(rows)
            tried = self._try(pod, profile, state, changed, fork, promised, positions, columns.plugins, True)
            columns.set(rows[positions], tried)
            for row, fullness in known_by.items():
                columns.remember(fullness, row)


def _spread(
    verdicts: Iterable[tuple[str, Verdict]], positions: Sequence[int] | NDArray[np.int64], n: int
) -> list[tuple[str, Verdict]]:
    """Verdicts on the nodes at these positions, as verdicts on all n of which the others pass."""
    spread = []
    for name, verdict in verdicts:
        ids = np.zeros(n, np.int64)
        ids[positions] = verdict.ids
        spread.append((name, Verdict(ids, verdict.status_of)))
    return spread
