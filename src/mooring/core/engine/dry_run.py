"""Dry runs of preemption: remove the lower-priority pods of nodes in a fork, and check whether the pod fits then."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mooring.api.workloads import PodDisruptionBudget
from mooring.core.engine.cycle import Engine
from mooring.core.engine.decision import CycleAttempt
from mooring.core.engine.derived import Kept
from mooring.core.engine.victims import (
    CANDIDATE,
    REFUSED,
    UNKNOWN,
    Budgets,
    Candidate,
    DryRunColumns,
    Unit,
    by_importance,
    max_kept,
    start_time,
    units_among,
)
from mooring.core.framework.cycle_state import CycleError, CycleState
from mooring.core.framework.handle import CandidateLimits, Handle
from mooring.core.framework.registry import Reads
from mooring.core.framework.status import FilterOutcome, Status
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_info import PodInfo

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL = Status.unresolvable("Preemption is not helpful for scheduling")
MIN_CHUNK = 32
CHUNK = 512  # nodes tried together where one node's pods cannot matter to another

Rows = NDArray[np.int64]


@dataclass(slots=True)
class Trial:
    """A node in a dry run: its lower-priority pods, in the order of reprieve, and the victims."""

    row: int
    potential: list[PodInfo]
    order: list[PodInfo] = field(default_factory=list)
    violating: int = 0  # this many at the start of ``order`` would break a budget
    victims: list[PodInfo] = field(default_factory=list)
    pdb_violations: int = 0
    fullness: Hashable = None  # equal for nodes with equal outcomes


class DryRun:
    """Tries nodes for one pod: many together where the profile's filters allow it, otherwise one at a time."""

    def __init__(self, attempt: CycleAttempt, engine: Engine, handle: Handle, kept: Kept[DryRunColumns]) -> None:
        self._attempt = attempt
        self._judge = engine.nominated
        self._judge.nominated.refresh()  # this engine may not be the deciding one: explanations have their own
        self._handle = handle
        self._now = handle.clock.now()
        self._budgets: Budgets | None = None
        self._by_unit = handle.is_enabled("GenericWorkload") and handle.cluster.groups.has_placed
        self._about_pods = [plugin for plugin in attempt.plan.active if plugin.traits.filter_reads is not Reads.NODE]
        self._kept = kept
        self._filters_of = engine.search.kept_for(attempt.profile).filters_of
        self._has_victims = True  # whether there is any lower-priority pod
        self.errors: list[str] = []
        self._fork: NodeTable | None = None  # shared by all trials: each changes its own node and reads no other

    @cached_property
    def _passed_node_filters(self) -> NDArray[np.bool_] | None:
        """Return which rows pass every filter that depends only on the Node object, from cached columns."""
        return self._filters_of(self._attempt).passed_node_filters() if self.columns.is_kept else None

    @cached_property
    def _has_groups(self) -> NDArray[np.bool_]:
        """Return rows with a pod of a group; the outcome on other rows does not depend on other nodes."""
        table, cluster = self._attempt.nodes.table, self._handle.cluster
        found = np.zeros(len(table), np.bool_)
        rows = (table.nodes[name].row for name in cluster.groups.nodes() if name in table.nodes)
        found[[row for row in rows if row >= 0]] = True
        return found

    @cached_property
    def columns(self) -> DryRunColumns:
        """Return the results for earlier preemptors of the template, or empty columns."""
        kept = self._kept
        attempt, table = self._attempt, self._attempt.nodes.table
        pod, plan, nominated = attempt.pod, attempt.plan, self._judge.nominated
        key = (plan.template(pod), pod.priority)
        # A group that is evicted as a whole is also on other nodes: the outcome on a row depends on those.
        can_keep = attempt.uses_kept and plan.keeps_all(pod) and not nominated.includes(pod.uid) and not self._by_unit
        if not can_keep or not kept.was_seen_before(key):
            return DryRunColumns(len(table))
        columns = kept.get(key)
        if columns is None:
            logs = (table.node_log, table.pod_log, table.start_log, nominated.log)
            columns = kept.put(key, DryRunColumns(len(table), *logs), max_kept(len(table)))
        token = (plan.token(), self._handle.cluster.objects.version(PodDisruptionBudget))
        columns.update(token, len(table), self._now)
        return columns

    def run(self, rows: Rows, limits: CandidateLimits) -> Rows:
        """Return candidates among these nodes, those that break no budget first."""
        if not len(rows):
            return rows
        wanted = min(len(rows), max(len(rows) * limits.min_percentage // 100, limits.min_absolute))
        first = self._handle.pick(len(rows))  # start position: random upstream, so that preemptors spread out
        has_victims = self._attempt.nodes.table.lowest_priority[rows] < self._attempt.pod.priority
        if not has_victims.any():
            self._has_victims = False
            return rows[:0]
        if first:
            rows = np.concatenate((rows[first:], rows[:first]))  # np.roll takes eight times as long
            has_victims = np.concatenate((has_victims[first:], has_victims[:first]))
        if not has_victims.all():
            self.columns.refuse(rows[~has_victims], NO_VICTIMS)
            rows = rows[has_victims]
        rows = rows[self.columns.outcome[rows] != REFUSED]
        clean: list[Rows] = [rows[:0]]
        violating: list[Rows] = [rows[:0]]
        num_clean = num_violating = start = 0
        while start < len(rows):
            self._attempt.state.check_time()
            # Try at most as many together as are still wanted: further nodes would be tried in vain.
            is_local = self._attempt.plan.is_local
            size = min(CHUNK, max(wanted - num_clean - num_violating, MIN_CHUNK)) if is_local else 1
            chunk = rows[start : start + size]
            start += size
            unknown = chunk[self.columns.outcome[chunk] == UNKNOWN]
            if len(unknown):
                self._try(unknown)
            chunk = chunk[self.columns.outcome[chunk] == CANDIDATE]
            breaks = self.columns.breaks_budgets[chunk] > 0
            # Upstream stops once it has as many candidates as wanted and one of them breaks no budget. Which nodes
            # count as found before that depends on the order of rows, so the chunk is cut at that very node.
            so_far_clean = num_clean + np.cumsum(~breaks)
            so_far_violating = np.minimum(num_violating + np.cumsum(breaks), wanted)
            enough = np.flatnonzero((so_far_clean > 0) & (so_far_clean + so_far_violating >= wanted))
            if len(enough):
                chunk, breaks = chunk[: enough[0] + 1], breaks[: enough[0] + 1]
            clean.append(chunk[~breaks])
            violating.append(chunk[breaks])
            if len(enough):
                break
            num_clean += len(clean[-1])
            num_violating = min(num_violating + len(violating[-1]), wanted)
        return np.concatenate((*clean, np.concatenate(violating)[:wanted]))

    def candidates(self, rows: Rows) -> list[Candidate]:
        """Return the candidates on these rows, with names."""
        infos, columns = self._attempt.nodes.table.infos, self.columns
        return [
            Candidate(infos[row].name, columns.victims[row], int(columns.breaks_budgets[row])) for row in rows.tolist()
        ]

    def refusal(self, rows: Rows, num_nodes: int) -> str:
        """Return the message for a search among these nodes without candidates."""
        if not self._has_victims:
            return without_victims(len(rows), num_nodes)
        return _refusal(self.columns.reasons(rows), len(rows), num_nodes)

    # ---- trials ------------------------------------------------------------------------------------------------

    def _try(self, rows: Rows) -> None:
        """Run trials on these nodes."""
        attempt = self._attempt
        infos, priority = attempt.nodes.table.infos, attempt.pod.priority
        if self._by_unit:
            for row in rows[self._has_groups[rows]].tolist():
                self._try_units(row)
            rows = rows[~self._has_groups[rows]]
            if not len(rows):
                return
        trials = [
            Trial(row, [pod for pod in infos[row].pods.values() if pod.priority < priority]) for row in rows.tolist()
        ]
        if self._passed_node_filters is not None:
            trials = [trial for trial in trials if not self._is_refused_like_another(trial)]
            if not trials:
                return
        state = attempt.state.clone()
        self._move(state, [(trial.row, pod) for trial in trials for pod in trial.potential], -1)
        try:
            outcome = self._filter(state, self._rows(trials), about_pods=self._pass_node_filters(trials))
        except CycleError as error:
            if len(trials) == 1:
                self._fail(trials[0].row, error.status)
                return
            self._fork = None  # its nodes lack these pods
            for trial in trials:  # an exception of a plugin concerns only one of them
                self._try(np.array([trial.row]))
            return
        fitting = self._fitting(trials, outcome)
        del outcome  # a verdict may refer to a fork of the fork, which would have to be copied before a write
        if fitting and not self._by_unit:
            self._reprieve(state, fitting)
            for trial in fitting:
                self._conclude(trial)
        elif fitting:  # units have their own order, even if each is one pod
            for trial in fitting:
                self._try_units(trial.row)

    def _try_units(self, row: int) -> None:
        """Try one node where a group may be evicted as a whole, with its pods on other nodes."""
        attempt, cluster = self._attempt, self._handle.cluster
        node = attempt.nodes.table.infos[row]
        units = [unit for unit in units_among(node.pods.values(), cluster) if unit.priority < attempt.pod.priority]
        if not units:
            self.columns.refuse(row, NO_VICTIMS)
            return
        state = attempt.state.clone()
        self._fork = None  # a unit changes other nodes too: each trial starts from the actual cluster
        rows = NodeRows(attempt.nodes.table, np.array([row]))
        try:
            self._move_unit(state, units, -1)
            assert self._fork is not None
            rows = NodeRows(self._fork, np.array([row]))
            outcome = self._filter(state, rows, about_pods=False)
            if not outcome.feasible[0]:
                self.columns.refuse(row, outcome.status_at(0))
                return
            del outcome
            victims, violations = self._reprieve_units(state, rows, units)
        except CycleError as error:
            self._fail(row, error.status)
            return
        finally:
            self._fork = None
        if not victims:
            self._fail(row, Status.error(f'expected at least one victim pod on node "{node.name}"'))
            return
        self.columns.accept(row, [pod for unit in victims for pod in unit.pods], violations, np.inf, self._now)

    def _reprieve_units(self, state: CycleState, rows: NodeRows, units: list[Unit]) -> tuple[list[Unit], int]:
        """Return the units to evict, the most important first, and how many budgets that breaks."""
        violating, others = self._all_budgets().partition_units(by_importance(units, self._now))
        victims: list[Unit] = []
        broken = 0
        for unit, count in (*violating, *((unit, 0) for unit in others)):
            self._attempt.state.check_time()
            self._move_unit(state, [unit], 1)
            if not self._filter(state, rows, about_pods=True).feasible[0]:
                self._move_unit(state, [unit], -1)
                victims.append(unit)
                broken += count
        return by_importance(victims, self._now), broken

    def _move_unit(self, state: CycleState, units: list[Unit], sign: int) -> None:
        nodes = self._attempt.nodes.table.nodes
        moves = [(nodes[pod.pod.spec.node_name].row, pod) for unit in units for pod in unit.pods]
        self._move(state, [(row, pod) for row, pod in moves if row >= 0], sign)

    def _all_budgets(self) -> Budgets:
        if self._budgets is None:
            self._budgets = Budgets(self._handle.cluster.objects.all(PodDisruptionBudget))
        return self._budgets

    def _fitting(self, trials: list[Trial], outcome: FilterOutcome) -> list[Trial]:
        """Return trials where the pod fits without the lower-priority pods; for the others, store the rejection."""
        fitting = []
        for i, trial in enumerate(trials):
            if outcome.feasible[i]:
                fitting.append(trial)
                continue
            status = outcome.status_at(i)
            self.columns.refuse(trial.row, status)
            if trial.fullness is not None:
                self.columns.refused.put(trial.fullness, status)
        return fitting

    def _pass_node_filters(self, trials: list[Trial]) -> bool:
        """Report whether filters that depend only on the Node object pass on all these nodes."""
        passed = self._passed_node_filters
        return passed is not None and all(passed[trial.row] for trial in trials)

    def _is_refused_like_another(self, trial: Trial) -> bool:
        """Reject a node that is as full as one rejected before: most changed nodes were just nominated."""
        passed = self._passed_node_filters
        if passed is None or not passed[trial.row] or not self._attempt.plan.reads_figures_only:
            return False
        fullness = self._judge.nominated.fullness(self._attempt.pod, trial.row)
        trial.fullness = (fullness, tuple(pod.shape.placement_id for pod in trial.potential))
        status = self.columns.refused.get(trial.fullness)
        if status is None:
            return False
        self.columns.refuse(trial.row, status)
        return True

    def _rows(self, trials: list[Trial]) -> NodeRows:
        """Return the trials' nodes in the fork."""
        assert self._fork is not None
        return NodeRows(self._fork, np.array([trial.row for trial in trials]))

    def _filter(self, state: CycleState, nodes: NodeRows, *, about_pods: bool) -> FilterOutcome:
        """Run the filters, or only those that depend on pods."""
        plugins = self._about_pods if about_pods else self._attempt.plan.active
        return self._judge.run(self._attempt.with_state(state), nodes, plugins)

    def _reprieve(self, state: CycleState, trials: list[Trial]) -> None:
        """Add pods back one by one, on all nodes together; a pod with which the new one does not fit is a victim."""
        budgets = self._all_budgets()
        for trial in trials:
            violating, others = budgets.partition(self._by_importance(trial.potential))
            trial.order, trial.violating = violating + others, len(violating)
        # All trials share one fork and run in step: the n-th pod of every node is added back in one step, and one run
        # of the filters judges all nodes. That equals one node after the other, because several nodes are tried
        # together only if the outcome on one cannot matter to another (``plan.is_local``).
        nodes = self._rows(trials)
        for turn in range(max(len(trial.order) for trial in trials)):
            self._attempt.state.check_time()
            back = [(trial.row, trial.order[turn]) for trial in trials if turn < len(trial.order)]
            self._move(state, back, 1)
            feasible = self._filter(state, nodes, about_pods=True).feasible
            refused = [
                (trial, trial.order[turn])
                for i, trial in enumerate(trials)
                if turn < len(trial.order) and not feasible[i]
            ]
            self._move(state, [(trial.row, pod) for trial, pod in refused], -1)
            for trial, pod in refused:
                trial.victims.append(pod)
                trial.pdb_violations += turn < trial.violating
        for trial in trials:
            if 0 < trial.violating < len(trial.order):
                trial.victims = self._by_importance(trial.victims)

    def _conclude(self, trial: Trial) -> None:
        if not trial.victims:
            name = self._attempt.nodes.table.infos[trial.row].name
            self._fail(trial.row, Status.error(f'expected at least one victim pod on node "{name}"'))
            return
        # Pods that have not started come after all others, unless one is to start in the future.
        latest, not_started = max(start_time(pod.pod, -np.inf) for pod in trial.potential), np.inf
        if latest > self._now:
            latest, not_started = np.inf, self._now
        self.columns.accept(trial.row, trial.victims, trial.pdb_violations, latest, not_started)

    def _fail(self, row: int, status: Status) -> None:
        self.columns.refuse(row, status, np.inf)  # for this preemptor only
        self.errors.append(status.message)

    def _move(self, state: CycleState, moves: list[tuple[int, PodInfo]], sign: int) -> None:
        """Add (1) or remove (-1) pods in the fork, and in the state of pre-filters."""
        attempt = self._attempt
        if self._fork is None:
            self._fork = attempt.nodes.table.fork()
        self._fork.move_pods(moves, sign)
        if attempt.plan.is_local:
            return  # no pre-filter counts pods
        change = attempt.profile.add_pod if sign > 0 else attempt.profile.remove_pod
        for row, pod in moves:
            change(state, attempt.pod, pod, self._fork.infos[row])

    # ---- order -------------------------------------------------------------------------------------------------

    def _by_importance(self, pods: list[PodInfo]) -> list[PodInfo]:
        """Sort the most important first; of equal ones that have not started, the last in the list.

        Upstream reads the clock again for every pod without a start time, so each of them is older than the next one it
        is compared with: its sort reverses their order.
        """
        waiting = [pod for pod in reversed(pods) if not pod.pod.status.start_time]
        started = [pod for pod in pods if pod.pod.status.start_time] if waiting else pods
        return sorted(started + waiting, key=lambda pod: (-pod.priority, start_time(pod.pod, self._now)))


def without_victims(num_tried: int, num_nodes: int) -> str:
    """Return the rejection where no pod on this many nodes has a lower priority."""
    return _refusal({NO_VICTIMS.reasons[0]: num_tried} if num_tried else {}, num_tried, num_nodes)


def _refusal(counts: dict[str, int], num_tried: int, num_nodes: int) -> str:
    others = num_nodes - num_tried
    if others:
        reason = NOT_HELPFUL.reasons[0]
        counts[reason] = counts.get(reason, 0) + others
    entries = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{num_nodes} nodes are available: {entries}." if entries else f"0/{num_nodes} nodes are available:"
