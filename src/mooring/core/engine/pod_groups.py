"""The scheduling cycle of a pod group: its pods are decided in sequence, each with those before it in place.

A pod for which a node is found is assumed and reserved there, so that the next one sees it. All of that is undone
before the attempt ends: a decision changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from mooring.api.workloads import PodDisruptionBudget
from mooring.core.engine.cycle import Engine, hold, release
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.victims import Budgets, Unit, by_importance, goes_for_preemption, units_among
from mooring.core.framework.cycle_state import UNLIMITED, Budget, CycleError, guarded
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE
from mooring.core.framework.pod_groups import (
    GROUP_UNSCHEDULABLE,
    PlacedGroup,
    Placement,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
    Tried,
)
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import SUCCESS, Code, Status
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

# ---- the decision about a pod group: one Decision per pod, and the group's status
# -------------------------------------

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


@dataclass(slots=True)
class GroupDecision:
    """Decision about a group. If it succeeded, the pods that have a node are bound; otherwise no pod is."""

    info: PodGroupInfo
    status: Status
    decisions: list[ScheduleResult]  # one per pod, in the order in which they are tried
    found: Mapping[str, str] = field(default_factory=dict)  # uid -> node, also if the group failed
    attempt_status: Status = SUCCESS  # status before preemption: decides how the group is retried
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0
    disruptions: int = 0
    post_filter_plugin: str = ""  # the plugin that chose the victims

    @property
    def message(self) -> str:
        return self.status.message

    @property
    def condition(self) -> tuple[str, str, str]:
        """Status, reason and message of the condition PodGroupInitiallyScheduled."""
        if self.status.is_success:
            return "True", "Scheduled", self.message
        return "False", "Unschedulable" if self.status.is_rejected else "SchedulerError", self.message


# ---- placements: parts of the cluster, such as racks, for a whole group, and the best of them
# --------------------------


def generate(profile: Profile, info: PodGroupInfo, nodes: NodeRows) -> Sequence[Placement]:
    """Return the placements to try; without a plugin there is one, the whole cluster. An empty list is a CycleError."""
    if not profile.placement_generate:
        return [Placement("", nodes)]
    plugin = profile.placement_generate[0]
    placements: Sequence[Placement] = guarded(plugin.name, "{1}", plugin.generate_placements, info, nodes)
    if not placements:
        raise CycleError(Status.unschedulable("no feasible placements found").by(plugin.name))
    return placements


def best_placement(profile: Profile, info: PodGroupInfo, placed: Sequence[PlacedGroup]) -> int:
    """Return the index of the placement with the highest score; of equal ones the first, where upstream takes any."""
    if len(placed) == 1:
        return 0
    totals = [0] * len(placed)
    for plugin, weight in profile.placement_score:
        text = 'running PlacementScore plugins: plugin "{}" failed with: {}'
        scores = [guarded(plugin.name, text, plugin.score_placement, info, each) for each in placed]
        if plugin.normalize_placements is not None:
            text = 'running NormalizePlacementScore on PlacementScore plugins: plugin "{}" failed with: {}'
            scores = list(guarded(plugin.name, text, plugin.normalize_placements, info, scores))
        for i, score in enumerate(scores):
            if not 0 <= score <= MAX_NODE_SCORE:
                raise CycleError(
                    Status.error(
                        f'plugin "{plugin.name}" returns an invalid score {score}, it should in the range of '
                        f"[0, {MAX_NODE_SCORE}] after normalizing"
                    )
                )
            totals[i] += score * weight
    return max(range(len(placed)), key=totals.__getitem__)


@dataclass(slots=True)
class GroupRun:
    """One pass over a group's pods: the decisions about those that were tried, and the outcome."""

    status: Status
    decisions: list[ScheduleResult] = field(default_factory=list)
    any_scheduled: bool = False
    plugins: frozenset[str] = frozenset()  # those that found the group infeasible

    @property
    def tried(self) -> list[Tried]:
        return [Tried(each.pod, each.node or "", each.state) for each in self.decisions]

    @property
    def assignments(self) -> list[Tried]:
        return [each for each in self.tried if each.node_name]


class GroupCycle:
    """Decides about groups with the plugins of one profile."""

    def __init__(self, engine: Engine, profile: Profile, handle: Handle, *, by_placement: bool = False) -> None:
        self._engine = engine
        self._profile = profile
        self._clock = handle.clock
        self._meters = handle.meters(profile.scheduler_name)
        self._by_placement = by_placement  # the gate TopologyAwareWorkloadScheduling
        self._says_reason = handle.is_enabled("GroupsSayTheirReason")
        self._names_plugin = handle.is_enabled("GroupsNameTheirPlugin")
        # Until 1.37 the point is not configured: whatever has the method is asked.
        self._judges = [plugin for plugin in profile.plugins.values() if "placementFeasible" in plugin.points]
        if handle.is_enabled("PlacementFeasibleIsConfigured"):
            self._judges = profile.placement_feasible

    def decide(self, info: PodGroupInfo, *, detail: bool = True, budget: Budget = UNLIMITED) -> GroupDecision:
        """Find nodes for the group's pods, or the reasons why there are not enough; then try preemption."""
        self._engine.batching.begin()
        started = self._clock.monotonic()
        run = self.run(info, detail=detail, budget=budget)
        self._meters.group_tried(self._clock.monotonic() - started)
        before = run.status
        answer = PodGroupPostFilterResult(SUCCESS)
        status = before
        if before.code is Code.UNSCHEDULABLE:
            answer = self._post_filter(info, run.tried)
            if answer.status.code is Code.ERROR:
                status = answer.status
            else:
                more = answer.status.message
                told = (*before.reasons, more) if more or not self._says_reason else before.reasons
                status = Status(before.code, told, before.plugin)
        makes_room = before.code is Code.UNSCHEDULABLE and answer.status.is_success
        decisions = [
            self._final(decision, run, status, answer, makes_room)
            for decision in (*run.decisions, *self._not_tried(info, run))
        ]
        found = {each.pod.uid: each.node_name for each in run.assignments}
        return GroupDecision(
            info,
            status,
            decisions,
            found,
            before,
            answer.victims,
            answer.pdb_violations,
            answer.disruptions,
            answer.status.plugin,
        )

    def run(self, info: PodGroupInfo, *, detail: bool = False, budget: Budget = UNLIMITED) -> GroupRun:
        """Run one pass, in the best placement where there are several. At least one pod has to find a node."""
        if self._by_placement:
            run = self._run_by_placement(info, detail, budget)
        else:
            run = self._pass(info, None, detail, budget)
        if run.status.is_success and not run.any_scheduled:
            run.status = self._rejected(*(("no pods were schedulable",) if self._says_reason else ()))
        return run

    def _rejected(self, *reasons: str) -> Status:
        """The status of a group that does not fit."""
        return (
            Status.unschedulable(*reasons) if self._says_reason else Status.unschedulable(GROUP_UNSCHEDULABLE, *reasons)
        )

    def still_fit(self, assignments: Sequence[Tried]) -> Callable[[Collection[str]], bool]:
        """Return a function that checks whether all these pods still fit after some nodes changed.

        They are checked one after another. Where no filter reads other nodes' pods, only pods on changed nodes are
        checked.
        """
        is_local = all(self._profile.filter_plan(each.state).is_local for each in assignments)
        on_node: dict[str, list[int]] = {}
        for position, each in enumerate(assignments):
            on_node.setdefault(each.node_name, []).append(position)

        def ask(touched: Collection[str]) -> bool:
            if not is_local:
                return self._fit(assignments)
            concerned = sorted(position for name in touched for position in on_node.get(name, ()))
            return self._fit([assignments[position] for position in concerned])

        return ask

    def _fit(self, assignments: Sequence[Tried]) -> bool:
        cluster = self._engine.cluster
        held: list[ScheduleResult] = []
        cycle = object()
        try:
            for each in assignments:
                cluster.nodes()  # updates the rows
                row = np.array([cluster.table.nodes[each.node_name].row])
                decision = self._engine.attempt(
                    each.pod, self._profile, detail=False, within=row, makes_room=False, group_cycle=cycle
                )
                if decision.outcome is not Outcome.SCHEDULED:
                    return False
                if hold(cluster, self._profile, decision) is decision:
                    held.append(decision)
        finally:
            self._release(held)
        return True

    # ---- one pass ----------------------------------------------------------------------------------------------

    def _pass(self, info: PodGroupInfo, within: NDArray[np.int64] | None, detail: bool, budget: Budget) -> GroupRun:
        """Try the pods one after another, until it is certain that there will not be enough."""
        cluster = self._engine.cluster
        progress = Progress(len(cluster.groups.placed(info.key)), len(info.pods))
        run = GroupRun(self._feasible(info, progress))
        if run.status.code is Code.UNSCHEDULABLE:
            run.plugins = frozenset((run.status.plugin,))
            run.status = self._rejected(*run.status.reasons)
        if run.status.code in (Code.UNSCHEDULABLE, Code.ERROR):
            return run
        held: list[ScheduleResult] = []
        cycle = object()
        try:
            for pod in info.pods:
                decision = self._engine.attempt(
                    pod,
                    self._profile,
                    detail=detail,
                    budget=budget,
                    within=within,
                    makes_room=False,
                    group_cycle=cycle,
                )
                if decision.outcome is Outcome.SCHEDULED:
                    decision = hold(cluster, self._profile, decision)
                run.decisions.append(decision)
                is_placed = decision.outcome is Outcome.SCHEDULED
                if is_placed:
                    held.append(decision)
                if decision.outcome is Outcome.ERROR:
                    text = f"failed to schedule other pod from a pod group: {decision.message}"
                    run.status = Status.error(text)
                    break
                progress = Progress(progress.scheduled + is_placed, progress.remaining - 1)
                run.status = self._feasible(info, progress)
                if run.status.code in (Code.UNSCHEDULABLE, Code.ERROR):
                    break
                run.any_scheduled |= is_placed
        finally:
            self._release(held)
        if run.status.code in (Code.WAIT, Code.UNSCHEDULABLE):
            run.plugins = frozenset((run.status.plugin,))
        if run.status.code is Code.WAIT or (run.status.code is Code.UNSCHEDULABLE and self._says_reason):
            run.status = self._rejected(*run.status.reasons)
        if not run.status.is_success:
            run.any_scheduled = False
        return run

    def _feasible(self, info: PodGroupInfo, progress: Progress) -> Status:
        """Check whether enough pods can still find a node: a rejection counts immediately, then a wait."""
        waits = SUCCESS
        for plugin in self._judges:
            text = "failed to evaluate placement feasibility: running PlacementFeasible plugin: {1}"
            try:
                status = guarded(plugin.name, text, plugin.placement_feasible, info, progress)
            except CycleError as error:
                return error.status
            if status.code is Code.WAIT:
                waits = status.by(plugin.name)
            elif not status.is_success:
                return status.by(plugin.name)
        return waits

    def _release(self, held: Sequence[ScheduleResult]) -> None:
        """Release all pods of a pass, the last first."""
        cluster = self._engine.cluster
        for decision in reversed(held):
            placed = cluster.pod(decision.pod.uid)
            assert placed is not None, "it is held"
            release(cluster, self._profile, decision.state, placed)

    def _run_by_placement(self, info: PodGroupInfo, detail: bool, budget: Budget) -> GroupRun:
        """Try every placement, and return the best in which the group succeeds."""
        try:
            placements = generate(self._profile, info, self._engine.cluster.nodes())
        except CycleError as error:
            return GroupRun(error.status)
        self._meters.placements_generated(len(placements))
        first: GroupRun | None = None
        succeeded: list[tuple[PlacedGroup, GroupRun]] = []
        for placement in placements:
            started = self._clock.monotonic()
            run = self._pass(info, placement.nodes.index, detail, budget)
            if run.status.code is Code.ERROR:
                return run
            took_s = self._clock.monotonic() - started
            self._meters.placement_evaluated(is_feasible=run.status.is_success, seconds=took_s)
            first = first or run
            if run.status.is_success:
                succeeded.append((PlacedGroup(placement, run.assignments), run))
        assert first is not None, "there is at least one placement"
        if not succeeded:
            text = f"0/{len(placements)} placements are available, first placement status: {_as_error(first.status)}"
            first.status = self._rejected(text)
            return first
        try:
            best = best_placement(self._profile, info, [placed for placed, _ in succeeded])
        except CycleError as error:
            return GroupRun(error.status)
        return succeeded[best][1]

    # ---- after the pass ----------------------------------------------------------------------------------------

    def _post_filter(self, info: PodGroupInfo, tried: Sequence[Tried]) -> PodGroupPostFilterResult:
        """Run in order; success or an unresolvable rejection ends it, a resolvable one lets the next plugin try."""
        reasons: list[str] = []
        for plugin in self._profile.pod_group_post_filter:
            text = 'error in "{}" PodGroupPostFilter plugins: {}'
            try:
                answer = guarded(plugin.name, text, plugin.pod_group_post_filter, info, tried)
            except CycleError as error:
                return PodGroupPostFilterResult(error.status)
            if answer.status.is_success or answer.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return replace(answer, status=answer.status.by(plugin.name))
            if not answer.status.is_rejected:
                return PodGroupPostFilterResult(Status.error(text.format(plugin.name, answer.status.message)))
            reasons += answer.status.reasons
        return PodGroupPostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons)))

    def _not_tried(self, info: PodGroupInfo, run: GroupRun) -> list[ScheduleResult]:
        """Return decisions for untried pods, because the outcome was certain: they get the group's status."""
        num_nodes = len(self._engine.cluster.nodes())
        outcome = Outcome.ERROR if run.status.code is Code.ERROR else Outcome.UNSCHEDULABLE
        untried = info.pods[len(run.decisions) :]
        plugins = run.plugins if self._names_plugin else frozenset()
        return [
            ScheduleResult(pod, outcome, status=run.status, num_nodes=num_nodes, unschedulable_plugins=plugins)
            for pod in untried
        ]

    def _final(
        self,
        decision: ScheduleResult,
        run: GroupRun,
        status: Status,
        answer: PodGroupPostFilterResult,
        makes_room: bool,
    ) -> ScheduleResult:
        """What becomes of one pod, now that it is clear what becomes of its group."""
        if status.code is Code.ERROR:
            if decision.outcome is Outcome.ERROR:
                return structs.replace(decision, nominated_node="")
            return structs.replace(
                decision.failed(Outcome.ERROR, status),
                is_fit_error=False,
                unschedulable_plugins=frozenset(),
                pending_plugins=frozenset(),
            )
        nominated = answer.nominations.get(decision.pod.uid) if makes_room else None
        if decision.outcome is not Outcome.SCHEDULED:
            return decision if nominated is None else structs.replace(decision, nominated_node=nominated)
        if run.status.is_success:
            return decision
        if makes_room:
            said = status
        else:
            prefix = "" if self._says_reason else f"{GROUP_UNSCHEDULABLE}, "
            said, nominated = Status.unschedulable(f"{prefix}{status.message}"), ""
        rejected = structs.replace(decision.failed(Outcome.UNSCHEDULABLE, said), nominated_node=nominated)
        return structs.replace(rejected, unschedulable_plugins=run.plugins) if self._names_plugin else rejected


def _as_error(status: Status) -> str:
    """Return a status as kube-scheduler prints it as an error: the wrapped error, if there is one."""
    return GROUP_UNSCHEDULABLE if status.reasons[:1] == (GROUP_UNSCHEDULABLE,) else status.message


# ---- preemption for a group: the lower-priority pods or groups to evict so that enough of it fits
# ---------------------

NO_VICTIMS = "No preemption victims found for incoming preemptor"

OnFork = Callable[[ClusterState], GroupCycle]


class GroupPreemption:
    """Removes every lower-priority pod in a fork, schedules the group there, and reprieves as many pods as possible.

    The group is scheduled once. After that a pod, or a group that is evicted as one, may stay if all pods of the group
    still fit on the nodes that were found for them.
    """

    def __init__(self, handle: Handle, on_fork: OnFork) -> None:
        """``on_fork`` creates the cycle of the same profile for a fork of the cluster."""
        self._handle = handle
        self._on_fork = on_fork

    def preempt(self, info: PodGroupInfo) -> PodGroupPostFilterResult:
        """Return success with a node for each pod and the victims; otherwise the reason why no pod is evicted."""
        groups_say = self._handle.is_enabled("PodGroupPreemptionPolicy")
        policies = [info.group.spec] if groups_say else [pod.pod.spec for pod in info.pods]
        if any(each.preemption_policy == "Never" for each in policies):
            return PodGroupPostFilterResult(Status.unschedulable("not eligible due to preemptionPolicy=Never."))
        if self._is_ongoing(info):
            nominations = {pod.uid: pod.pod.status.nominated_node_name for pod in info.pods}
            text = "ongoing preemption on nominated nodes"
            return PodGroupPostFilterResult(Status(Code.SUCCESS, (text,)), nominations)
        started = self._handle.clock.monotonic()
        result = self._find_room(info)
        meters = self._handle.meters(info.pods[0].pod.spec.scheduler_name)
        meters.preemption_evaluated("podgroup", result.status.code, self._handle.clock.monotonic() - started)
        return result

    def _find_room(self, info: PodGroupInfo) -> PodGroupPostFilterResult:
        cluster, now = self._handle.cluster, self._handle.clock.now()
        pods = [pod for node in cluster.nodes().infos for pod in node.pods.values()]
        units = [unit for unit in units_among(pods, cluster) if unit.priority < info.group.priority]
        if not units:
            return PodGroupPostFilterResult(Status.unresolvable(NO_VICTIMS))
        fork = cluster.fork()
        _remove(fork, units)
        cycle = self._on_fork(fork)
        run = cycle.run(info)
        if not run.status.is_success:
            return PodGroupPostFilterResult(run.status)
        assignments = run.assignments
        budgets = Budgets(cluster.objects.all(PodDisruptionBudget))
        violating, others = budgets.partition_units(by_importance(units, now))
        victims: list[Unit] = []
        violations = 0
        still_fit = cycle.still_fit(assignments)
        for unit, breaks in (*violating, *((unit, 0) for unit in others)):
            for pod in unit.pods:
                fork.set_pod(pod.pod)
            if not still_fit({pod.pod.spec.node_name for pod in unit.pods}):
                _remove(fork, [unit])
                victims.append(unit)
                violations += breaks
        chosen = tuple(pod for unit in by_importance(victims, now) for pod in unit.pods)
        text = f"found a placement for podgroup, preempting {len(chosen)} victims"
        nominations = {each.pod.uid: each.node_name for each in assignments}
        disruptions = sum(unit.is_of_group for unit in victims)
        return PodGroupPostFilterResult(Status(Code.SUCCESS, (text,)), nominations, chosen, violations, disruptions)

    def _is_ongoing(self, info: PodGroupInfo) -> bool:
        """Report whether victims of an earlier attempt are still terminating on a node that a pod is nominated to."""
        nodes = self._handle.cluster.table.nodes
        names = {pod.pod.status.nominated_node_name for pod in info.pods}
        on_nodes = [pod for name in names if name in nodes for pod in nodes[name].pods.values()]
        going = [pod for pod in on_nodes if goes_for_preemption(pod.pod)]
        priorities = {pod.uid: unit.priority for unit in units_among(going, self._handle.cluster) for pod in unit.pods}
        return any(priorities[pod.uid] < info.group.priority for pod in going)


def _remove(fork: ClusterState, units: Sequence[Unit]) -> None:
    for unit in units:
        for pod in unit.pods:
            fork.remove_pod(pod.uid)
