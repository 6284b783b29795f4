"""Preemption for one profile: whether a pod may evict others, where that helps, and which node to choose."""

from __future__ import annotations

from functools import lru_cache

from mooring.core.engine.cycle import Engine
from mooring.core.engine.decision import CycleAttempt, Stopwatch
from mooring.core.engine.dry_run import DryRun, without_victims
from mooring.core.engine.pod_groups import GroupPreemption
from mooring.core.engine.victims import Candidate, Fruitless, kept_dry_runs, objection, pick_one_node
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.extender import ExtenderError, VictimsOnNode
from mooring.core.framework.handle import CandidateLimits, Handle
from mooring.core.framework.pod_groups import PodGroupInfo, PodGroupPostFilterResult
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import SUCCESS, Code, NodeStatuses, PostFilterResult, Status
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo


class Evaluator:
    """Implements :class:`mooring.core.framework.handle.Preemption`, as upstream's Evaluator does.

    It removes all lower-priority pods from a node in a dry run, and reprieves as many as possible. Budgets are
    respected where possible. Among the remaining nodes, the least harmful one is chosen.
    """

    def __init__(
        self, profile: Profile, engine: Engine, handle: Handle, for_groups: GroupPreemption | None = None
    ) -> None:
        self._profile = profile
        self._engine = engine
        self._handle = handle
        self._for_groups = for_groups
        self.kept = kept_dry_runs()

    def preempt_group(self, info: PodGroupInfo) -> PodGroupPostFilterResult:
        assert self._for_groups is not None, "a profile that schedules groups has one"
        return self._for_groups.preempt(info)

    def preempt(
        self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses, limits: CandidateLimits
    ) -> PostFilterResult:
        started = self._handle.clock.monotonic()
        result = self._preempt(state, pod, nodes, statuses, limits)
        meters = self._handle.meters(self._profile.scheduler_name)
        meters.preemption_evaluated("pod", result.status.code, self._handle.clock.monotonic() - started)
        return result

    def _preempt(
        self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses, limits: CandidateLimits
    ) -> PostFilterResult:
        refusal = objection(pod, nodes, statuses)
        if refusal:
            return PostFilterResult(Status.unschedulable(refusal))
        lowest = nodes.table.lowest_priority
        if lowest.item(lowest.argmin()) >= pod.priority:  # faster than min()
            return self._without_victims(statuses)
        dry_run = DryRun(self._attempt(state, pod, nodes), self._engine, self._handle, self.kept)
        known = dry_run.columns.fruitless
        if known is not None and known.statuses is statuses:  # the same refusal as of the previous pod of the template
            self._begin_anywhere(known.num_tried)
            return known.answer
        rows = statuses.rows_with(Code.UNSCHEDULABLE)
        candidates = dry_run.run(rows, limits)
        if not len(candidates):
            if dry_run.errors:
                return PostFilterResult(Status.error(_aggregate(dry_run.errors)))
            answer = PostFilterResult(Status.unschedulable(dry_run.refusal(rows, len(statuses))), nominated_node="")
            dry_run.columns.fruitless = Fruitless(statuses, len(rows), answer)
            return answer
        if not any(extender.supports_preemption for extender in self._handle.extenders):
            row = dry_run.columns.pick_one_node(candidates, self._handle.clock.now())
            found, violations = tuple(dry_run.columns.victims[row]), int(dry_run.columns.breaks_budgets[row])
            return PostFilterResult(SUCCESS, nodes.table.infos[row].name, found, violations)
        try:
            left = self._ask_extenders(pod, dry_run.candidates(candidates))
        except ExtenderError as error:
            return PostFilterResult(Status.error(str(error)))
        if not left:
            return PostFilterResult(Status.unschedulable("no candidate node for preemption"))
        best = pick_one_node(left, self._handle.clock.now())
        return PostFilterResult(SUCCESS, best.node, tuple(best.victims), best.pdb_violations)

    def _without_victims(self, statuses: NodeStatuses) -> PostFilterResult:
        """Return the result if no pod has a lower priority: only the number of unresolvable nodes matters."""
        num_tried = statuses.count_with(Code.UNSCHEDULABLE)
        self._begin_anywhere(num_tried)
        return _refused(num_tried, len(statuses))

    def _begin_anywhere(self, num_tried: int) -> None:
        """Choose the start of a search, so that later random numbers stay the same."""
        if num_tried:
            self._handle.pick(num_tried)

    def _attempt(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> CycleAttempt:
        stopwatch = Stopwatch(None, self._handle.clock)  # this time belongs to PostFilter
        uses_kept = self._engine.uses_cache
        attempt = CycleAttempt(pod, self._profile, nodes, state, stopwatch, uses_kept=uses_kept, detail=False)
        attempt.plan = self._profile.filter_plan(state)
        return attempt

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
            for node in [node for node, on_node in answer.items() if not on_node.pods]:
                if not extender.is_ignorable:
                    raise ExtenderError(f'expected at least one victim pod on node "{node}"')
                del answer[node]
            victims = answer
            if not victims:
                break
        if not asked:
            return candidates
        left = [Candidate(node, list(on_node.pods), on_node.pdb_violations) for node, on_node in victims.items()]
        first = self._handle.pick(len(left)) if left else 0  # extenders return no order: upstream takes any
        return left[first:] + left[:first]


@lru_cache(maxsize=256)
def _refused(num_tried: int, num_nodes: int) -> PostFilterResult:
    """Return the refusal, shared by thousands of pending pods."""
    return PostFilterResult(Status.unschedulable(without_victims(num_tried, num_nodes)), nominated_node="")


def _aggregate(messages: list[str]) -> str:
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
