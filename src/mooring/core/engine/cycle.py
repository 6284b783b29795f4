"""The scheduling cycle: turns a pod, a profile and the cluster into a Decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mooring.api.clock import Clock, SystemClock
from mooring.core.engine.batching import Batching, Ranking
from mooring.core.engine.decision import NO_NODES, CycleAttempt, Outcome, ScheduleResult, Stopwatch
from mooring.core.engine.extenders import Extenders
from mooring.core.engine.nominated import NominatedJudge, NominatedPods
from mooring.core.engine.search import Search, SearchResult, choose, decide_known
from mooring.core.framework.cycle_state import UNLIMITED, Budget, CycleError, CycleState, guarded
from mooring.core.framework.handle import Nominator
from mooring.core.framework.interfaces import Scores
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import Code, NodeStatuses, PostFilterResult, Status
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo


class Engine:
    """Makes decisions. Holds what outlives a cycle: caches, batching, and where the last search stopped."""

    def __init__(
        self,
        cluster: ClusterState,
        nominator: Nominator,
        *,
        clock: Clock | None = None,
        percentage_of_nodes_to_score: int = 0,
        extenders: Extenders | None = None,
        batches: bool = True,  # the gate OpportunisticBatching
        rescores: bool = False,  # whether batching scores the last node again
    ) -> None:
        self.cluster = cluster
        self.clock = clock or SystemClock()
        self.nominator = nominator
        self.extenders = extenders
        self.uses_cache = True
        self._no_stopwatch = Stopwatch(None, self.clock)  # for profiles without an observer
        self.nominated = NominatedJudge(NominatedPods(nominator, cluster))
        self.search = Search(self.nominated, extenders, percentage_of_nodes_to_score)
        self.batching = Batching(self.clock, is_enabled=batches, has_extenders=extenders is not None, rescores=rescores)

    def decide(
        self, pod: PodInfo, profile: Profile, *, detail: bool = True, budget: Budget = UNLIMITED
    ) -> ScheduleResult:
        """Find a node for the pod, or the reasons why there is none. Changes nothing in the cluster.

        Without ``detail`` the decision is the same, but keeps no scores by plugin. Once ``budget`` is spent, the
        attempt ends with OutOfTime at the next extension point, or earlier where a plugin calls ``check_time``.
        """
        self.batching.begin()
        return self.attempt(pod, profile, detail=detail, budget=budget)

    def attempt(
        self,
        pod: PodInfo,
        profile: Profile,
        *,
        detail: bool = True,
        budget: Budget = UNLIMITED,
        within: NDArray[np.int64] | None = None,
        makes_room: bool = True,
        group_cycle: object | None = None,
    ) -> ScheduleResult:
        """Make an attempt as part of a larger one, for a pod group.

        Only the rows ``within`` are searched, though plugins see all nodes. Where no node fits, PostFilter runs only if
        the pod ``makes_room`` for itself alone.
        """
        attempt = self._begin(pod, profile, detail, budget)
        attempt.within, attempt.makes_room = within, makes_room
        attempt.state.group_cycle = group_cycle
        num_nodes = len(attempt.nodes) if within is None else len(within)
        decision = ScheduleResult(pod, Outcome.SCHEDULED, state=attempt.state, num_nodes=num_nodes)
        try:
            self._try(attempt, decision)
        except CycleError as error:
            decision.outcome = Outcome.ERROR
            decision.status = error.status
            decision.nominated_node = ""
            decision.is_fit_error = False  # also when PostFilter failed after a rejection: the error is reported
            decision.unschedulable_plugins = decision.pending_plugins = frozenset()
        return decision

    def look(self, pod: PodInfo, profile: Profile, *, detail: bool = False) -> tuple[CycleAttempt, SearchResult]:
        """Return the feasible nodes for the pod, for a caller that chooses one. Raise CycleError on failure."""
        self.batching.begin()
        attempt = self._begin(pod, profile, detail, UNLIMITED)
        if pod.shape.problem:
            raise CycleError(Status.error(pod.shape.problem))
        return attempt, self.search.run(attempt)

    def _begin(self, pod: PodInfo, profile: Profile, detail: bool, budget: Budget) -> CycleAttempt:
        nodes = self.cluster.nodes()
        self.nominated.nominated.refresh()
        state = CycleState()
        state.budget = budget
        if profile.observer is not None:
            state.timer = profile.observer.plugin_timer()
        state.asks_all = not self.uses_cache
        uses_kept = self.uses_cache and self.search.kept_for(profile).is_worth_keeping(pod.shape)
        stopwatch = self._no_stopwatch if profile.observer is None else Stopwatch(profile.observer, self.clock)
        return CycleAttempt(pod, profile, nodes, state, stopwatch, uses_kept=uses_kept, detail=detail)

    def _try(self, attempt: CycleAttempt, decision: ScheduleResult) -> None:
        pod, nodes = attempt.pod, attempt.nodes
        if not decision.num_nodes:
            decision.outcome = Outcome.UNSCHEDULABLE
            decision.status = Status.unresolvable(NO_NODES)
            decision.nominated_node = ""
            return
        if pod.shape.problem:
            raise CycleError(Status.error(pod.shape.problem))
        decision.start = self.search.next_start
        batching = self.batching if self.batching.concerns(attempt.profile) else None
        known = self.search.known(attempt) if batching is None else None
        if known is not None:
            if decide_known(known, attempt, decision, self.search.kept_for(attempt.profile).figures):
                return
            decision.state = attempt.state = attempt.state.again()
        signed = batching.sign(attempt) if batching is not None else None
        result = self.search.run(attempt, None if batching is None else lambda: batching.hint(attempt, signed))
        attempt.state.check_time()
        _describe(decision, result)
        if result.hint is not None:
            decision.hint = nodes.table.infos[result.hint].name
        if not result.num_feasible:
            self._refuse(attempt, decision, result)
            return
        ranking: Ranking | None = None
        if result.num_feasible > 1:
            raw: dict[str, Scores] | None = {} if signed is not None and self.batching.rescores else None
            choice = choose(attempt, result, self.search.kept_for(attempt.profile), self.extenders, raw)
            row, decision.node, decision.scores = choice.row, choice.name, choice.scores
            if choice.extender_scores is not None:
                decision.extender_scores = choice.extender_scores.raw
            if signed is not None:
                ranking = Ranking(result.rows, choice.scores.totals, row, raw)
        else:
            row = int(result.rows[0])
            decision.node = (nodes.table.infos[row] if result.nodes is None else result.nodes.infos[0]).name
        decision.from_hint = result.hint == row and result.from_nomination
        if batching is not None:
            batching.remember(attempt, signed, row, result.hint, ranking, result.num_feasible)

    def adopt(self, profile: Profile, node_name: str) -> None:
        """Correct the node of the last pod, which a replay knows from its record."""
        info = self.cluster.table.nodes.get(node_name)
        if info is not None:
            self.batching.adopt(profile, info.row)

    # ---- refusal -----------------------------------------------------------------------------------------------

    def _refuse(self, attempt: CycleAttempt, decision: ScheduleResult, result: SearchResult) -> None:
        decision.outcome = Outcome.UNSCHEDULABLE
        decision.is_fit_error = True
        refused, decision.pending_plugins = result.statuses.rejectors()
        decision.unschedulable_plugins = refused | result.plugins if result.plugins else refused
        decision.status = Status.unschedulable()
        if not attempt.makes_room:
            return
        if not attempt.profile.post_filter:
            decision.nominated_node = ""
            return
        attempt.stopwatch.restart()
        answer = _post_filter(attempt, result.statuses)
        attempt.stopwatch.point("PostFilter", answer.status)
        decision.post_filter_message = answer.status.message
        decision.nominated_node = answer.nominated_node
        decision.post_filter_plugin = answer.status.plugin
        decision.victims = answer.victims
        decision.pdb_violations = answer.pdb_violations


# ---- counting a pod on its decided node, for the decisions after it --------------------------------------------------


def hold(cluster: ClusterState, profile: Profile, decision: ScheduleResult) -> ScheduleResult:
    """Count the pod on its node, and run Reserve for it. ``release`` undoes both.

    Reserve fails if a plugin has given the last of something to another pod. Then nothing is held, and the returned
    decision reports it as the live scheduler does.
    """
    pod, node = decision.pod, decision.node or ""
    try:
        placed = cluster.assume(pod, node)
    except ValueError as error:
        return decision.failed(Outcome.ERROR, Status.error(str(error)))
    try:
        status = profile.run_reserve(decision.state, placed, node)
    except CycleError as error:
        status = error.status
    except BaseException:  # the attempt is interrupted in a plugin, but the cluster lives on
        release(cluster, profile, decision.state, placed)
        raise
    if status.is_success:
        return decision
    release(cluster, profile, decision.state, placed)
    if not status.is_rejected:
        return decision.failed(Outcome.ERROR, status)
    entries = ", ".join(sorted(f"1 {reason}" for reason in status.reasons))
    refused = decision.failed(Outcome.UNSCHEDULABLE, status)
    refused._message = "0/1 nodes are available:" + (f" {entries}." if entries else "")
    refused.unschedulable_plugins = frozenset((status.plugin,))
    return refused


def release(cluster: ClusterState, profile: Profile, state: CycleState, placed: PodInfo) -> list[Status]:
    """Undo the reservations of an assumed pod, the last first, and forget it; return errors of plugins.

    The pod is counted until its plugins are done, so that none of them sees room that is not free yet.
    """
    problems = profile.run_unreserve(state, placed, placed.pod.spec.node_name)
    cluster.forget(placed.uid)
    return problems


def _describe(decision: ScheduleResult, result: SearchResult) -> None:
    """Copy the result of the search into the decision."""
    decision.statuses = result.statuses
    decision.pre_filter_message = result.pre_filter_message
    decision.feasible_nodes = result.num_feasible
    decision.evaluated_nodes = result.num_feasible if result.from_nomination else result.statuses.num_looked_at
    if result.evaluated is not None:
        decision.evaluated_nodes = result.evaluated


def _post_filter(attempt: CycleAttempt, statuses: NodeStatuses) -> PostFilterResult:
    """Run in order; success or an unresolvable rejection ends it, a resolvable one lets the next plugin try."""
    reasons: list[str] = []
    nominated: str | None = None
    state = attempt.state
    call = state.timer or guarded
    for plugin in attempt.profile.post_filter:
        state.check_time()
        text = 'running PostFilter plugin "{}": {}'
        answer = call(plugin.name, text, plugin.post_filter, state, attempt.pod, attempt.nodes, statuses)
        if answer.status.is_success or answer.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return replace(answer, status=answer.status.by(plugin.name))
        if not answer.status.is_rejected:
            return PostFilterResult(answer.status)
        if answer.nominated_node is not None:
            nominated = answer.nominated_node
        reasons.extend(answer.status.reasons)
    return PostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons)), nominated)
