"""The scheduling cycle of a pod group: all its pods in one go, each on top of those before it.

A pod for which a node is found is assumed and reserved there, so that the next one sees it. Whatever comes of it,
all of that is undone before the attempt ends: a decision changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from mooring.engine.cycle import Engine
from mooring.engine.decision import Decision, Outcome
from mooring.engine.groups.decision import GroupDecision
from mooring.engine.groups.placements import best_placement, generate
from mooring.framework.cycle_state import UNLIMITED, Budget
from mooring.framework.guarded import CycleError, guarded
from mooring.framework.handle import Handle
from mooring.framework.pod_groups import (
    GROUP_UNSCHEDULABLE,
    PlacedGroup,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
    Tried,
)
from mooring.framework.runtime import Profile
from mooring.framework.status import SUCCESS, Code, Status
from mooring.state.pod_info import PodInfo


@dataclass(slots=True)
class Run:
    """One pass over a group's pods: what was decided about those that were tried, and what came of it."""

    status: Status
    decisions: list[Decision] = field(default_factory=list)
    any_scheduled: bool = False

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

    def decide(self, info: PodGroupInfo, *, detail: bool = True, budget: Budget = UNLIMITED) -> GroupDecision:
        """Find nodes for the group's pods, or say why there are not enough; then look for room."""
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
                status = Status(before.code, (*before.reasons, answer.status.message), before.plugin)
        makes_room = before.code is Code.UNSCHEDULABLE and answer.status.is_success
        decisions = [
            _final(decision, before, status, answer, makes_room)
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

    def run(self, info: PodGroupInfo, *, detail: bool = False, budget: Budget = UNLIMITED) -> Run:
        """One pass, in the best placement where there are several. At least one pod has to find a node."""
        if self._by_placement:
            run = self._run_by_placement(info, detail, budget)
        else:
            run = self._pass(info, None, detail, budget)
        if run.status.is_success and not run.any_scheduled:
            run.status = Status.unschedulable(GROUP_UNSCHEDULABLE)
        return run

    def still_fit(self, assignments: Sequence[Tried]) -> Callable[[Collection[str]], bool]:
        """A question to ask again and again: do all these pods fit on their nodes, now that some have changed?

        They are looked at one after another. Where no filter looks at other nodes' pods, only pods on nodes that have
        changed have to be looked at.
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
        nodes = self._engine.cluster.table.nodes
        undo: list[Callable[[], object]] = []
        cycle = object()
        try:
            for each in assignments:
                self._engine.cluster.nodes()  # brings the rows up to date
                row = np.array([nodes[each.node_name].row])
                decision = self._engine.attempt(
                    each.pod, self._profile, detail=False, within=row, makes_room=False, group_cycle=cycle
                )
                if decision.outcome is not Outcome.SCHEDULED:
                    return False
                self._assume(decision, undo)
        finally:
            for step in reversed(undo):
                step()
        return True

    # ---- one pass ----------------------------------------------------------------------------------------------

    def _pass(self, info: PodGroupInfo, within: NDArray[np.int64] | None, detail: bool, budget: Budget) -> Run:
        """Try the pods one after another, until it is clear that there will not be enough."""
        cluster = self._engine.cluster
        progress = Progress(len(cluster.groups.placed(info.key)), len(info.pods))
        run = Run(self._feasible(info, progress))
        if run.status.code is Code.UNSCHEDULABLE:
            run.status = Status.unschedulable(GROUP_UNSCHEDULABLE, *run.status.reasons)
        if run.status.code in (Code.UNSCHEDULABLE, Code.ERROR):
            return run
        undo: list[Callable[[], object]] = []
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
                    decision = self._assume(decision, undo)
                run.decisions.append(decision)
                is_placed = decision.outcome is Outcome.SCHEDULED
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
            for step in reversed(undo):
                step()
        if run.status.code is Code.WAIT:
            run.status = Status.unschedulable(GROUP_UNSCHEDULABLE, *run.status.reasons)
        if not run.status.is_success:
            run.any_scheduled = False
        return run

    def _feasible(self, info: PodGroupInfo, progress: Progress) -> Status:
        """Ask whether enough pods can still find a node: a no counts at once, then a not yet."""
        waits = SUCCESS
        for plugin in self._profile.plugins.values():
            if plugin.placement_feasible is None:
                continue
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

    def _assume(self, decision: Decision, undo: list[Callable[[], object]]) -> Decision:
        """Count the pod on its node for those that come after it; a plugin may have reserved the last of something."""
        cluster, profile = self._engine.cluster, self._profile
        pod, node = decision.pod, decision.node or ""
        try:
            placed = cluster.assume(pod, node)
        except ValueError as error:
            return _failed(decision, Outcome.ERROR, Status.error(str(error)))
        undo.append(lambda: cluster.forget(pod.uid))
        try:
            status = profile.run_reserve(decision.state, placed, node)
        except CycleError as error:
            status = error.status
        undo.append(lambda: profile.run_unreserve(decision.state, placed, node))
        if status.is_success:
            return decision
        undo.pop()()
        undo.pop()()
        if not status.is_rejected:
            return _failed(decision, Outcome.ERROR, status)
        entries = ", ".join(sorted(f"1 {reason}" for reason in status.reasons))
        refused = _failed(decision, Outcome.UNSCHEDULABLE, status)
        refused._message = "0/1 nodes are available:" + (f" {entries}." if entries else "")
        refused.unschedulable_plugins = frozenset((status.plugin,))
        return refused

    def _run_by_placement(self, info: PodGroupInfo, detail: bool, budget: Budget) -> Run:
        """Try every placement, and keep the best in which the group succeeds."""
        try:
            placements = generate(self._profile, info, self._engine.cluster.nodes())
        except CycleError as error:
            return Run(error.status)
        self._meters.placements_generated(len(placements))
        first: Run | None = None
        succeeded: list[tuple[PlacedGroup, Run]] = []
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
            first.status = Status.unschedulable(GROUP_UNSCHEDULABLE, text)
            return first
        try:
            best = best_placement(self._profile, info, [placed for placed, _ in succeeded])
        except CycleError as error:
            return Run(error.status)
        return succeeded[best][1]

    # ---- after the pass ----------------------------------------------------------------------------------------

    def _post_filter(self, info: PodGroupInfo, tried: Sequence[Tried]) -> PodGroupPostFilterResult:
        """Ask in order; success or an unresolvable no ends it, a resolvable one lets the next plugin try."""
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

    def _not_tried(self, info: PodGroupInfo, run: Run) -> list[Decision]:
        """Pods that nobody has looked at, because it was clear before: the group's status is theirs."""
        num_nodes = len(self._engine.cluster.nodes())
        outcome = Outcome.ERROR if run.status.code is Code.ERROR else Outcome.UNSCHEDULABLE
        return [_without_attempt(pod, outcome, run.status, num_nodes) for pod in info.pods[len(run.decisions) :]]


def _without_attempt(pod: PodInfo, outcome: Outcome, status: Status, num_nodes: int) -> Decision:
    return Decision(pod, outcome, status=status, num_nodes=num_nodes)


def _failed(decision: Decision, outcome: Outcome, status: Status) -> Decision:
    return structs.replace(decision, outcome=outcome, node=None, status=status, nominated_node="", _message=None)


def _final(
    decision: Decision, before: Status, status: Status, answer: PodGroupPostFilterResult, makes_room: bool
) -> Decision:
    """What becomes of one pod, now that it is clear what becomes of its group."""
    if status.code is Code.ERROR:
        if decision.outcome is Outcome.ERROR:
            return structs.replace(decision, nominated_node="")
        return structs.replace(
            _failed(decision, Outcome.ERROR, status),
            is_fit_error=False,
            unschedulable_plugins=frozenset(),
            pending_plugins=frozenset(),
        )
    nominated = answer.nominations.get(decision.pod.uid) if makes_room else None
    if decision.outcome is not Outcome.SCHEDULED:
        return decision if nominated is None else structs.replace(decision, nominated_node=nominated)
    if before.is_success:
        return decision
    if makes_room:
        said = status
    else:
        said, nominated = Status.unschedulable(_prefixed(status)), ""
    return structs.replace(_failed(decision, Outcome.UNSCHEDULABLE, said), nominated_node=nominated)


def _prefixed(status: Status) -> str:
    return f"{GROUP_UNSCHEDULABLE}, {status.message}"


def _as_error(status: Status) -> str:
    """What kube-scheduler prints of a status as an error: the error that it wraps, where it wraps one."""
    return GROUP_UNSCHEDULABLE if status.reasons[:1] == (GROUP_UNSCHEDULABLE,) else status.message
