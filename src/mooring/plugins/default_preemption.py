"""DefaultPreemption: when nothing fits, look for a node where evicting less important pods makes room."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.selectors import Selector, compile_selector
from mooring.api.workloads import PodDisruptionBudget
from mooring.config.types import DefaultPreemptionArgs
from mooring.errors import ParseError
from mooring.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.framework.cycle_state import CycleState
from mooring.framework.extender import ExtenderError, VictimsOnNode
from mooring.framework.filter_runner import FilterRunner
from mooring.framework.guarded import CycleError
from mooring.framework.handle import Handle
from mooring.framework.interfaces import PostFilterResult
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.status import SUCCESS, Code, Status
from mooring.plugins.trial_columns import CANDIDATE, REFUSED, UNKNOWN, DryRuns, TrialColumns, start_time
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable
from mooring.state.pod_info import PodInfo

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL = Status.unresolvable("Preemption is not helpful for scheduling")
MIN_CHUNK = 32
CHUNK = 512  # nodes tried at once where one node's pods cannot matter to another

Rows = NDArray[np.int64]


@dataclass(slots=True)
class Candidate:
    """A node, and whom to evict there, the most important first."""

    node: str
    victims: Sequence[PodInfo]
    pdb_violations: int


@dataclass(slots=True)
class Trial:
    """One node in a dry run: who may go, in the order of reprieve, and who has to."""

    row: int
    potential: list[PodInfo]
    order: list[PodInfo] = field(default_factory=list)
    violating: int = 0  # the first so many of ``order`` would break a budget
    victims: list[PodInfo] = field(default_factory=list)
    pdb_violations: int = 0
    fullness: Hashable = None  # equal for nodes on which the same would happen


class DefaultPreemption:
    """Removes all less important pods from a node in thought, and takes back as many as still leave room.

    Budgets are respected where possible; among the nodes that remain, the one
    is chosen that hurts least. The victims are evicted by the scheduler, after
    the decision; the pod is promised the node and comes again.
    """

    name: ClassVar[str] = "DefaultPreemption"

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._dry_runs = DryRuns()

    def pre_enqueue(self, pod: Pod) -> Status:
        preemptions = self._handle.preemptions
        if preemptions is not None and preemptions.is_running(pod.metadata.uid):
            return Status.unresolvable("waiting for the preemption for this pod to be finished")
        return SUCCESS

    def events_to_register(self) -> Sequence[EventRegistration]:
        # A victim's end wakes the pod through the plugin that had refused it; here it only re-opens the gate.
        return (on(EventResource.POD, ActionType.DELETE, _never),)

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> PostFilterResult:
        self._handle.meters(pod.pod.spec.scheduler_name).preemption_attempted()
        result = self._preempt(state, pod, nodes, statuses)
        if not result.status.reasons:
            return result
        text = f"preemption: {result.status.message}"
        return PostFilterResult(Status(result.status.code, (text,)), result.nominated_node, result.victims)

    def _preempt(self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> PostFilterResult:
        objection = self._objection(pod, nodes, statuses)
        if objection:
            return PostFilterResult(Status.unschedulable(objection))
        search = DryRun(self._handle, self._args, self._dry_runs, state, pod, nodes)
        rows = statuses.rows_with(Code.UNSCHEDULABLE)
        candidates = search.run(rows)
        if not len(candidates):
            if search.errors:
                return PostFilterResult(Status.error(_aggregate(search.errors)))
            return PostFilterResult(Status.unschedulable(search.refusal(rows, len(statuses))), nominated_node="")
        if not any(extender.supports_preemption for extender in self._handle.extenders):
            row = search.columns.least_harm(candidates, self._handle.clock.now())
            return PostFilterResult(SUCCESS, nodes.table.infos[row].name, tuple(search.columns.victims[row]))
        try:
            left = self._ask_extenders(pod, search.candidates(candidates))
        except ExtenderError as error:
            return PostFilterResult(Status.error(str(error)))
        if not left:
            return PostFilterResult(Status.unschedulable("no candidate node for preemption"))
        best = pick_least_harm(left, self._handle.clock.now())
        return PostFilterResult(SUCCESS, best.node, tuple(best.victims))

    def _objection(self, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> str:
        """Why this pod may not evict anybody now, or nothing."""
        if pod.pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        name = pod.pod.status.nominated_node_name
        if name and statuses.get(name).code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            info = nodes.table.nodes.get(name)
            if info is not None and any(
                other.priority < pod.priority and _goes_for_preemption(other.pod) for other in info.pods.values()
            ):
                return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _ask_extenders(self, pod: PodInfo, candidates: list[Candidate]) -> list[Candidate]:
        victims = {c.node: VictimsOnNode(tuple(c.victims), c.pdb_violations) for c in candidates}
        asked = False
        for extender in self._handle.extenders:
            if not extender.supports_preemption or not extender.is_interested(pod):
                continue
            asked = True
            try:
                answer = dict(extender.process_preemption(pod, victims, self._handle.cluster.table.nodes))
            except ExtenderError:
                if extender.is_ignorable:
                    continue
                raise
            for node in [node for node, found in answer.items() if not found.pods]:
                if not extender.is_ignorable:
                    raise ExtenderError(f'expected at least one victim pod on node "{node}"')
                del answer[node]
            victims = answer
            if not victims:
                break
        if not asked:
            return candidates
        left = [Candidate(node, list(found.pods), found.pdb_violations) for node, found in victims.items()]
        first = self._handle.pick(len(left)) if left else 0  # an answer has no order: upstream takes any of equals
        return left[first:] + left[:first]


class DryRun:
    """Tries nodes, many at once where the profile's filters allow it, one at a time where they do not."""

    def __init__(
        self,
        handle: Handle,
        args: DefaultPreemptionArgs,
        known: DryRuns,
        state: CycleState,
        pod: PodInfo,
        nodes: NodeRows,
    ) -> None:
        assert handle.filters is not None
        self._filters: FilterRunner = handle.filters
        self._handle = handle
        self._args = args
        self._state = state
        self._pod = pod
        self._nodes = nodes
        self._now = handle.clock.now()
        self._is_local = handle.filters.is_local(state)  # what happens on one node cannot matter to another
        self._budgets: Budgets | None = None
        nominated = handle.filters.nominated()
        key, verdicts = handle.filters.shared(state, pod) or (None, None)
        token = (verdicts, handle.cluster.objects.version(PodDisruptionBudget))
        self.columns = known.columns(key, token, nodes.table, nominated, self._now)
        # Of pods that share what was found, what the filters say that no pod can sway is known, too.
        passed = handle.filters.passed_node_filters(state, pod) if self.columns.is_kept else None
        self._passed_node_filters: NDArray[np.bool_] | None = passed
        self.errors: list[str] = []
        self._fork: NodeTable | None = None  # one for all dry runs: each changes its own nodes and looks at no others

    def run(self, rows: Rows) -> Rows:
        """Candidates among these nodes, those that break no budget first."""
        if not len(rows):
            return rows
        wanted = min(len(rows), max(len(rows) * self._args.min_candidate_nodes_percentage // 100,
                                    self._args.min_candidate_nodes_absolute))  # fmt: skip
        rows = np.roll(rows, -self._handle.pick(len(rows)))
        has_victims = self._nodes.table.lowest_priority[rows] < self._pod.priority
        if not has_victims.all():
            self.columns.refuse(rows[~has_victims], NO_VICTIMS)
            rows = rows[has_victims]
        rows = rows[self.columns.outcome[rows] != REFUSED]
        clean: list[Rows] = [rows[:0]]
        violating: list[Rows] = [rows[:0]]
        num_clean = num_violating = start = 0
        while start < len(rows):
            # No more at once than are still wanted: nodes beyond that would be tried for nothing.
            size = min(CHUNK, max(wanted - num_clean - num_violating, MIN_CHUNK)) if self._is_local else 1
            chunk = rows[start : start + size]
            start += size
            unknown = chunk[self.columns.outcome[chunk] == UNKNOWN]
            if len(unknown):
                self._try(unknown)
            chunk = chunk[self.columns.outcome[chunk] == CANDIDATE]
            breaks = self.columns.breaks_budgets[chunk] > 0
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
        """The same in words."""
        infos, columns = self._nodes.table.infos, self.columns
        return [
            Candidate(infos[row].name, columns.victims[row], int(columns.breaks_budgets[row])) for row in rows.tolist()
        ]

    def _try(self, rows: Rows) -> None:
        """Find out what would happen on these nodes."""
        priority = self._pod.priority
        columns = self.columns
        trials: list[Trial] = []
        infos = self._nodes.table.infos
        for row in rows.tolist():
            trials.append(Trial(row, [pod for pod in infos[row].pods.values() if pod.priority < priority]))
        if self._passed_node_filters is not None:
            trials = [trial for trial in trials if not self._is_refused_like_another(trial)]
            if not trials:
                return
        state = self._state.clone()
        if self._fork is None:
            self._fork = self._nodes.table.fork()
        fork = NodeRows(self._fork, np.array([trial.row for trial in trials]))
        self._move(state, fork, [(i, pod) for i, trial in enumerate(trials) for pod in trial.potential], -1)
        passed = self._passed_node_filters
        pods_only = passed is not None and bool(passed[fork.rows].all())
        try:
            outcome = self._filters.judge(state, self._pod, fork, pods_only=pods_only)
        except CycleError as error:
            if len(trials) == 1:
                self._fail(trials[0].row, error.status)
                return
            self._fork = None  # its nodes are without these pods
            for trial in trials:  # one of them breaks a plugin: the others need not suffer for it
                self._try(np.array([trial.row]))
            return
        for i in np.flatnonzero(~outcome.feasible).tolist():
            status = outcome.status_at(i)
            columns.refuse(trials[i].row, status)
            if trials[i].fullness is not None:
                columns.remember(trials[i].fullness, status)
        kept = np.flatnonzero(outcome.feasible)
        if not len(kept):
            return
        if len(kept) < len(trials):
            trials = [trials[i] for i in kept.tolist()]
            fork = fork.subset(kept)
        self._reprieve(state, fork, trials)
        for trial in trials:
            if trial.victims:
                # Pods that have not started come after all others, unless one is to start in the future.
                latest, not_started = max(start_time(pod.pod, -np.inf) for pod in trial.potential), np.inf
                if latest > self._now:
                    latest, not_started = np.inf, self._now
                columns.accept(trial.row, trial.victims, trial.pdb_violations, latest, not_started)
            else:
                name = infos[trial.row].name
                self._fail(trial.row, Status.error(f'expected at least one victim pod on node "{name}"'))

    def _is_refused_like_another(self, trial: Trial) -> bool:
        """Report whether it is no use, as on an equally full node before: most nodes that change are just promised."""
        passed = self._passed_node_filters
        if passed is None or not passed[trial.row]:
            return False
        fullness = self._filters.fullness(self._state, self._pod, trial.row)
        if fullness is None:
            return False
        trial.fullness = (fullness, tuple(pod.shape.placement_id for pod in trial.potential))
        status = self.columns.refused.get(trial.fullness)
        if status is None:
            return False
        self.columns.refuse(trial.row, status)
        return True

    def _fail(self, row: int, status: Status) -> None:
        self.columns.refuse(row, status, np.inf)  # for this time
        self.errors.append(status.message)

    def _reprieve(self, state: CycleState, fork: NodeRows, trials: list[Trial]) -> None:
        """Take pods back one by one, on all nodes at once; whoever no longer fits has to go."""
        if self._budgets is None:
            self._budgets = Budgets(self._handle.cluster.objects.all(PodDisruptionBudget))
        for trial in trials:
            by_importance = self._by_importance(trial.potential)
            violating, others = self._budgets.partition(by_importance)
            trial.order, trial.violating = violating + others, len(violating)
        for turn in range(max(len(trial.order) for trial in trials)):
            moves = [(i, trial.order[turn]) for i, trial in enumerate(trials) if turn < len(trial.order)]
            self._move(state, fork, moves, 1)
            feasible = self._filters.judge(state, self._pod, fork, pods_only=True).feasible
            refused = [(i, pod) for i, pod in moves if not feasible[i]]
            self._move(state, fork, refused, -1)
            for i, pod in refused:
                trials[i].victims.append(pod)
                trials[i].pdb_violations += turn < trials[i].violating
        for trial in trials:
            if 0 < trial.violating < len(trial.order):
                trial.victims = self._by_importance(trial.victims)

    def _move(self, state: CycleState, fork: NodeRows, moves: list[tuple[int, PodInfo]], sign: int) -> None:
        rows, infos = fork.rows.tolist(), fork.table.infos
        fork.table.move_pods([(rows[i], pod) for i, pod in moves], sign)
        if self._is_local:
            return  # no pre-filter counts pods
        change = self._filters.add_pod if sign > 0 else self._filters.remove_pod
        for i, pod in moves:
            change(state, self._pod, pod, infos[rows[i]])

    def _by_importance(self, pods: list[PodInfo]) -> list[PodInfo]:
        """The most important first; of equals that have not started, the one that comes last in the list.

        Upstream asks the clock anew for every pod without a start time, so each of them is older than
        whichever it is compared with next: its sort turns their order round.
        """
        waiting = [pod for pod in reversed(pods) if not pod.pod.status.start_time]
        started = [pod for pod in pods if pod.pod.status.start_time] if waiting else pods
        return sorted(started + waiting, key=self._importance)

    def _importance(self, pod: PodInfo) -> tuple[int, float]:
        return -pod.priority, start_time(pod.pod, self._now)

    def refusal(self, rows: Rows, num_nodes: int) -> str:
        """The text for a search among these nodes without candidates, in the form of a refusal."""
        counts = self.columns.reasons(rows)
        others = num_nodes - len(rows)
        if others:
            reason = NOT_HELPFUL.reasons[0]
            counts[reason] = counts.get(reason, 0) + others
        entries = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        return f"0/{num_nodes} nodes are available: {entries}." if entries else f"0/{num_nodes} nodes are available:"


class Budgets:
    """PodDisruptionBudgets with a selector that can match; others protect nobody."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: list[tuple[PodDisruptionBudget, Selector]] = []
        for budget in budgets:
            try:
                selector = compile_selector(budget.spec.selector)
            except ParseError:
                continue  # a budget with a nonsense selector matches no pod, as upstream has it
            if not selector.is_empty and not selector.matches_nothing:
                self._budgets.append((budget, selector))

    def partition(self, pods: list[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """(would break a budget, would not), evicting in this order with what each budget still allows."""
        if not self._budgets:
            return [], pods
        allowed = [budget.status.disruptions_allowed for budget, _ in self._budgets]
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            meta = pod.pod.metadata
            breaks = False
            for i, (budget, selector) in enumerate(self._budgets):
                if (
                    not meta.labels
                    or budget.metadata.namespace != meta.namespace
                    or meta.name in budget.status.disrupted_pods
                    or not selector.matches(meta.labels)
                ):
                    continue
                allowed[i] -= 1
                breaks = breaks or allowed[i] < 0
            (violating if breaks else others).append(pod)
        return violating, others


def pick_least_harm(candidates: list[Candidate], now: float) -> Candidate:
    """The one to take, of candidates as extenders leave them; see :meth:`TrialColumns.least_harm`."""
    columns = TrialColumns(len(candidates))
    for i, candidate in enumerate(candidates):
        columns.accept(i, candidate.victims, candidate.pdb_violations, not_started=now)
    return candidates[columns.least_harm(np.arange(len(candidates)), now)]


def _goes_for_preemption(pod: Pod) -> bool:
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False


def _never(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    return Hint.SKIP


def _aggregate(messages: list[str]) -> str:
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
