"""The scheduling cycle: one pod, one profile, one snapshot in; one Decision out."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mooring.clock import Clock, SystemClock
from mooring.engine.batching import Batch, Ranking, signature
from mooring.engine.decision import NO_NODES, Decision, Outcome, ScoreTable
from mooring.engine.extenders import Extenders, StatusesWithExtenders
from mooring.engine.promises import PromiseJudge, Promises
from mooring.engine.row_cache import FilterColumns, RowCache, check_range
from mooring.engine.tie_break import heap_winner
from mooring.framework.cycle_state import UNLIMITED, Budget, CycleState
from mooring.framework.extender import EXTENDER_PLUGIN, AnsweredNode
from mooring.framework.filter_outcome import FilterOutcome
from mooring.framework.guarded import CycleError, guarded
from mooring.framework.interfaces import PostFilterResult, Scores
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.nominator import Nominator
from mooring.framework.runtime import FilterPlan, Profile, ScorePlan, judge
from mooring.framework.status import CODE_NAMES, SUCCESS, Code, Status
from mooring.framework.verdict import Verdict
from mooring.state.cluster import Cluster
from mooring.state.extender_rows import extender_rows
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

Rows = NDArray[np.int64]


@dataclass(slots=True)
class Found:
    """The search's result: feasible table rows in order, and why the others are not."""

    rows: Rows
    statuses: NodeStatuses
    pre_filter_message: str = ""
    plugins: frozenset[str] = frozenset()
    from_nomination: bool = False  # without a search
    hint: int | None = None  # the row that batching proposed
    nodes: NodeRows | None = None  # what to score instead of the table's rows: nodes that an extender sent back
    evaluated: int | None = None  # as extenders make it count


class Engine:
    """Decides. Holds what outlives a cycle: caches, and where the last search stopped."""

    def __init__(
        self,
        cluster: Cluster,
        nominator: Nominator,
        *,
        clock: Clock | None = None,
        percentage_of_nodes_to_score: int = 0,
        extenders: Extenders | None = None,
        batches: bool = True,  # the gate OpportunisticBatching
    ) -> None:
        self.cluster = cluster
        self.clock = clock or SystemClock()
        self.nominator = nominator
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.extenders = extenders
        self.batches = batches
        self.uses_cache = True
        self._shares = False  # whether the pod at hand takes part in the cache
        self._caches: dict[str, RowCache] = {}
        self._batches: dict[str, Batch] = {}
        self._batchable: dict[str, bool] = {}
        self._cycle = 0
        self.promises = PromiseJudge(Promises(nominator, cluster))
        self._next_start = 0

    def decide(self, pod: PodInfo, profile: Profile, *, detail: bool = True, budget: Budget = UNLIMITED) -> Decision:
        """Find a node for the pod, or say why there is none. Changes nothing in the cluster.

        Without ``detail`` the decision is the same, but keeps no scores by plugin. Once ``budget`` is spent, the
        attempt ends with OutOfTime at the next extension point, or earlier where a plugin calls ``check_time``.
        """
        self._cycle += 1
        self._shares = self.uses_cache and self._cache_of(profile).admits(pod.shape)
        state = CycleState()
        state.budget = budget
        if profile.observer is not None:
            state.timer = profile.observer.plugin_timer()
        nodes = self.cluster.nodes()
        self.promises.promises.refresh()
        decision = Decision(pod, Outcome.SCHEDULED, state=state, num_nodes=len(nodes))
        try:
            self._attempt(decision, profile, nodes, detail=detail)
        except CycleError as error:
            decision.outcome = Outcome.ERROR
            decision.status = error.status
            decision.nominated_node = ""
            decision.is_fit_error = False  # also when making room broke after a refusal: what broke is the news
            decision.unschedulable_plugins = decision.pending_plugins = frozenset()
        return decision

    def _attempt(self, decision: Decision, profile: Profile, nodes: NodeRows, *, detail: bool) -> None:
        pod, state = decision.pod, decision.state
        if not len(nodes):
            decision.outcome = Outcome.UNSCHEDULABLE
            decision.status = Status.unresolvable(NO_NODES)
            decision.nominated_node = ""
            return
        if pod.shape.problem:
            raise CycleError(Status.error(pod.shape.problem))
        batch = self._batches.setdefault(profile.scheduler_name, Batch())
        signed = signature(profile, pod) if self.batches and self._can_batch(profile) else None
        found = self._find(pod, profile, state, nodes, batch, signed, detail=detail)
        state.check_time()
        decision.statuses = found.statuses
        decision.pre_filter_message = found.pre_filter_message
        decision.feasible_nodes = len(found.rows)
        decision.evaluated_nodes = len(found.rows) if found.from_nomination else found.statuses.num_looked_at
        if found.evaluated is not None:
            decision.evaluated_nodes = found.evaluated
        if not len(found.rows):
            self._refuse(decision, profile, nodes, found)
            return
        position = 0
        ranking: Ranking | None = None
        if len(found.rows) > 1:
            position = self._choose(decision, profile, nodes, found, detail=detail)
            if signed is not None and decision.scores is not None:
                ranking = Ranking(found.rows, decision.scores.totals, int(found.rows[position]))
        row = int(found.rows[position])
        decision.node = nodes.table.infos[row].name if found.nodes is None else found.nodes.infos[position].name
        decision.from_hint = found.hint == row and found.from_nomination
        if self.batches:
            self._remember(profile, batch, signed, nodes, found, row, ranking)

    def _remember(
        self,
        profile: Profile,
        batch: Batch,
        signed: Hashable,
        nodes: NodeRows,
        found: Found,
        row: int,
        ranking: Ranking | None,
    ) -> None:
        """Let batching know where the pod goes, so that the next one like it may have a hint."""
        observer = profile.observer
        started = 0.0 if observer is None else self.clock.monotonic()
        flushed = ""
        if found.hint == row:
            batch.keep(self._cycle, row)
        else:
            has_others = len(found.rows) > 1
            flushed = batch.store(
                signed, self._cycle, nodes.table.generation, self.clock.now, row, ranking, has_others=has_others
            )
        if observer is not None:
            taken = None if found.hint is None else found.hint == row
            observer.batch_stored(taken, flushed, self.clock.monotonic() - started)

    def _can_batch(self, profile: Profile) -> bool:
        """Whether all plugins of the profile can tell when two pods are equal to them; of extenders nobody can."""
        if self.extenders is not None:
            return False
        known = self._batchable.get(profile.scheduler_name)
        if known is None:
            known = all(plugin.can_sign for plugin in profile.judges)
            self._batchable[profile.scheduler_name] = known
        return known

    def adopt(self, profile: Profile, node_name: str) -> None:
        """The last pod went to this node in the end, not to the one decided on: a replay knows better."""
        info = self.cluster.table.nodes.get(node_name)
        batch = self._batches.get(profile.scheduler_name)
        if info is not None and batch is not None and batch.row != info.row:
            batch.move(info.row)

    def _tell(self, profile: Profile, point: str, status: Status, started: float) -> float:
        """Let the profile's observer know how long a point took, and return the time for the next one."""
        now = self.clock.monotonic()
        if profile.observer is not None:
            profile.observer.extension_point(point, CODE_NAMES[status.code], now - started)
        return now

    # ---- search ------------------------------------------------------------------------------------------------

    def _find(
        self,
        pod: PodInfo,
        profile: Profile,
        state: CycleState,
        nodes: NodeRows,
        batch: Batch,
        signed: Hashable,
        *,
        detail: bool,
    ) -> Found:
        table = nodes.table
        observer = profile.observer
        started = 0.0 if observer is None else self.clock.monotonic()
        pre = profile.run_pre_filter(state, pod, nodes)
        plan = profile.filter_plan(state)
        if observer is not None:
            started = self._tell(profile, "PreFilter", pre.status, started)
            observer.evaluated("PreFilter", plan.asked, 1)
        if not pre.status.is_success:
            statuses = NodeStatuses.everywhere(table, pre.status)
            return Found(np.zeros(0, np.int64), statuses, pre.status.message, pre.plugins)
        hint: int | None = None
        if self.batches:
            hint, flushed = batch.hint(
                signed,
                self._cycle,
                table.generation,
                self.clock.now,
                lambda row: bool(profile.run_filters(state, pod, nodes.subset(np.array([row]))).feasible[0]),
            )
            if observer is not None:
                asked, started = started, self.clock.monotonic()
                observer.node_hint(is_hinted=hint is not None, flushed=flushed, seconds=started - asked)
        said: dict[str, Status] = {}  # by extenders about nodes, and by filters about the promised one
        promised = self._try_promised(pod, profile, state, nodes, hint, said)
        if promised is not None:
            return promised
        index: Rows | None = None
        absent = SUCCESS
        if pre.node_names is not None:
            known = (table.nodes[name].row for name in pre.node_names if name in table.nodes)
            index = np.array(sorted(row for row in known if row >= 0), np.int64)
            # Whoever refuses the promised node counts as one that narrows the search down, too.
            pre.plugins |= {status.plugin for status in said.values() if status.plugin}
            absent = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(pre.plugins))}]")
        looked_at = nodes if index is None else nodes.subset(index)
        outcome = self._filter(pod, profile, state, looked_at, plan)
        self._judge_promised(pod, profile, state, looked_at, outcome)
        rows = outcome.feasible.nonzero()[0] if index is None else index[outcome.feasible]
        if observer is not None:
            self._tell(profile, "Filter", SUCCESS if len(rows) else Status.unschedulable(), started)
            observer.evaluated("Filter", plan.active, len(looked_at))
        if detail or not len(rows):  # somebody will read the verdicts, and the cache goes on changing its own
            outcome.verdicts = [(name, Verdict(v.ids.copy(), v.status_of)) for name, v in outcome.verdicts]
        rows, index, outcome = self._limit(profile, len(table), rows, index, outcome)
        statuses = NodeStatuses(table, outcome.verdicts, index, absent)
        found = Found(rows, statuses, "", pre.plugins, hint=hint)
        if self.extenders is not None:
            self._ask_extenders(self.extenders, pod, nodes, found, said)
        elif said and index is not None:  # the promised node keeps its own reason though the search left it out
            found.statuses = StatusesWithExtenders(statuses, said)
        return found

    @staticmethod
    def _ask_extenders(
        extenders: Extenders, pod: PodInfo, nodes: NodeRows, found: Found, said: dict[str, Status]
    ) -> None:
        """Let the extenders have their say about the feasible nodes; what they drop changes what was found."""
        offered = NodeRows(nodes.table, found.rows).infos
        kept = extenders.filter(pod, offered, said)
        if len(kept) != len(offered):
            found.plugins |= found.statuses.plugins() | {EXTENDER_PLUGIN}
        statuses = StatusesWithExtenders(found.statuses, said)
        if kept is not offered:
            found.rows = np.fromiter((info.row for info in kept), np.int64, len(kept))
            found.nodes = extender_rows(nodes.table, kept) if kept and isinstance(kept[0], AnsweredNode) else None
        found.statuses = statuses
        found.evaluated = len(kept) + statuses.num_explicit

    def _try_promised(
        self,
        pod: PodInfo,
        profile: Profile,
        state: CycleState,
        nodes: NodeRows,
        hint: int | None,
        said: dict[str, Status],
    ) -> Found | None:
        """A pod that was promised a node, or has a hint, gets that node if it fits there, without a search."""
        name = pod.pod.status.nominated_node_name
        if not name and hint is not None:
            name = nodes.table.infos[hint].name
        info = nodes.table.nodes.get(name) if name else None
        if info is None or info.row < 0:
            return None
        row = np.array([info.row])
        try:
            promised = nodes.subset(row)
            outcome = self.promises.run(pod, profile, state, promised, profile.active_filters(state))
        except CycleError:
            return None  # upstream logs it and goes on with the ordinary search
        if not outcome.feasible[0]:
            said[name] = outcome.status_at(0)
            return None
        found = Found(row, NodeStatuses(nodes.table, (), row), from_nomination=True, hint=hint)
        if self.extenders is not None:
            try:
                self._ask_extenders(self.extenders, pod, nodes, found, said)
            except CycleError:
                return None
        return found if len(found.rows) else None

    def _filter(
        self, pod: PodInfo, profile: Profile, state: CycleState, nodes: NodeRows, plan: FilterPlan
    ) -> FilterOutcome:
        """All filters on these rows, with the columns that the pod's template shares taken from the cache."""
        if nodes.index is not None or not self._shares:
            return profile.run_filters(state, pod, nodes, plan.active)
        columns = self._cache_of(profile).filters(state, pod, nodes, plan)
        verdicts = {plugin.name: verdict for plugin, verdict in zip(plan.cached, columns.verdicts, strict=True)}
        outcome = FilterOutcome([], columns.feasible.copy())
        for plugin in plan.active:
            if plugin.name in verdicts:
                verdict = verdicts[plugin.name]
            else:
                if outcome.verdicts and not outcome.passed_so_far().any():
                    break  # no node is left that this plugin or a later one could say anything about
                verdict = judge(plugin, state, pod, nodes, outcome.passed_so_far)
                if verdict is not None:
                    outcome.feasible &= verdict.ids == 0
            if verdict is not None:
                outcome.verdicts.append((plugin.name, verdict))
        return outcome

    def _cache_of(self, profile: Profile) -> RowCache:
        cache = self._caches.get(profile.scheduler_name)
        if cache is None:
            cache = self._caches[profile.scheduler_name] = RowCache()
        return cache

    def cached_filters(self, state: CycleState, pod: PodInfo, profile: Profile) -> FilterColumns:
        """What the template's pods share, on all nodes. Do not change what is returned."""
        nodes = self.cluster.nodes()
        return self._cache_of(profile).filters(state, pod, nodes, profile.filter_plan(state))

    def _judge_promised(
        self, pod: PodInfo, profile: Profile, state: CycleState, nodes: NodeRows, outcome: FilterOutcome
    ) -> None:
        """Count in whoever is promised a node, with what is known of the pod's template where that is possible."""
        shares = self._shares and nodes.index is None and not self.promises.promises.includes(pod.uid)
        if shares and profile.filter_plan(state).is_shared(pod):
            self.promises.judge_all(pod, profile, state, nodes, outcome)
        else:
            self.promises.judge(pod, profile, state, nodes, outcome)

    def _limit(
        self, profile: Profile, total: int, rows: Rows, index: Rows | None, outcome: FilterOutcome
    ) -> tuple[Rows, Rows | None, FilterOutcome]:
        """Stop early where the configuration asks for it, going round from where the last search stopped.

        Unlike upstream, a percentage of 0 ("adaptive") means every node: looking at all of them is cheap here.
        """
        n = total if index is None else len(index)
        wanted = self.nodes_to_find(profile, n)
        if wanted >= n:  # the whole round: the next search starts where this one did
            return rows, index, outcome
        start = self._next_start % n if n else 0
        looked_at = np.arange(total) if index is None else index
        if len(rows) <= wanted:
            rows = _rotated(rows, looked_at, start)
            self._next_start = (self._next_start + n) % total
            return rows, index, outcome
        order = np.roll(np.arange(n), -start)
        passes = outcome.feasible[order]
        seen = np.cumsum(passes)
        stop = int(np.searchsorted(seen, wanted + 1))  # the one too many: neither feasible nor refused
        taken = order[:stop]
        kept = taken[passes[:stop]]
        self._next_start = (self._next_start + stop) % total
        verdicts = [(name, Verdict(verdict.ids[taken], verdict.status_of)) for name, verdict in outcome.verdicts]
        return looked_at[kept], looked_at[taken], FilterOutcome(verdicts, outcome.feasible[taken])

    def nodes_to_find(self, profile: Profile, n: int) -> int:
        """How many feasible nodes are enough."""
        if not profile.score and (self.extenders is None or not self.extenders.want_many):
            return 1
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self.percentage_of_nodes_to_score
        if n < 100 or percentage == 0:
            return n
        return max(100, n * percentage // 100)

    # ---- refusal -----------------------------------------------------------------------------------------------

    def _refuse(self, decision: Decision, profile: Profile, nodes: NodeRows, found: Found) -> None:
        decision.outcome = Outcome.UNSCHEDULABLE
        decision.is_fit_error = True
        plugins = set(found.plugins)
        pending: set[str] = set()
        for status, _ in found.statuses.groups():
            if status.plugin:
                (pending if status.code is Code.PENDING else plugins).add(status.plugin)
        decision.unschedulable_plugins = frozenset(plugins)
        decision.pending_plugins = frozenset(pending)
        decision.status = Status.unschedulable()
        if not profile.post_filter:
            decision.nominated_node = ""
            return
        started = self.clock.monotonic()
        result = self._post_filter(decision, profile, nodes, found.statuses)
        self._tell(profile, "PostFilter", result.status, started)
        decision.post_filter_message = result.status.message
        decision.nominated_node = result.nominated_node
        decision.post_filter_plugin = result.status.plugin
        decision.victims = result.victims

    @staticmethod
    def _post_filter(decision: Decision, profile: Profile, nodes: NodeRows, statuses: NodeStatuses) -> PostFilterResult:
        """Ask in order; success or an unresolvable no ends it, a resolvable one lets the next plugin try."""
        reasons: list[str] = []
        nominated: str | None = None
        call = decision.state.timer or guarded
        for plugin in profile.post_filter:
            decision.state.check_time()
            result = call(
                plugin.name,
                'running PostFilter plugin "{}": {}',
                plugin.post_filter,
                decision.state,
                decision.pod,
                nodes,
                statuses,
            )
            if result.status.is_success or result.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return replace(result, status=result.status.by(plugin.name))
            if not result.status.is_rejected:
                return PostFilterResult(result.status)
            if result.nominated_node is not None:
                nominated = result.nominated_node
            reasons.extend(result.status.reasons)
        return PostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons)), nominated)

    # ---- choice ------------------------------------------------------------------------------------------------

    def _choose(self, decision: Decision, profile: Profile, nodes: NodeRows, found: Found, *, detail: bool) -> int:
        """Score the feasible rows and return the position of the winner."""
        pod, state, table, rows = decision.pod, decision.state, nodes.table, found.rows
        feasible = nodes if len(rows) == len(table) and _is_in_order(rows) else NodeRows(table, rows)
        if found.nodes is not None:
            feasible = found.nodes
        observer = profile.observer
        started = 0.0 if observer is None else self.clock.monotonic()
        profile.run_pre_score(state, pod, feasible)
        plan = profile.score_plan(state)
        if observer is not None:
            started = self._tell(profile, "PreScore", SUCCESS, started)
            observer.evaluated("PreScore", plan.asked, 1)
        by_plugin, totals = self._score(pod, profile, state, feasible, plan, detail=detail)
        if observer is not None:
            self._tell(profile, "Score", SUCCESS, started)
            observer.evaluated("Score", plan.active, len(feasible))
        if self.extenders is not None:
            return self._choose_with_extenders(self.extenders, decision, feasible, by_plugin, totals)
        if not profile.score:
            totals = np.ones(len(rows), np.int64)
        decision.scores = ScoreTable(feasible, by_plugin, totals)
        return heap_winner(totals)

    @staticmethod
    def _choose_with_extenders(
        extenders: Extenders, decision: Decision, feasible: NodeRows, by_plugin: dict[str, Scores], totals: Scores
    ) -> int:
        """Add what extenders score; of the best nodes, one that an extender mentioned is drawn by lot."""
        scored = extenders.score(decision.pod, feasible.infos)
        totals += scored.totals
        decision.scores = ScoreTable(feasible, by_plugin, totals)
        decision.extender_scores = scored.raw
        best = np.flatnonzero((totals == totals.max()) & scored.mentioned)
        return int(best[extenders.pick(len(best))]) if len(best) else heap_winner(totals)

    def _score(
        self, pod: PodInfo, profile: Profile, state: CycleState, feasible: NodeRows, plan: ScorePlan, *, detail: bool
    ) -> tuple[dict[str, Scores], Scores]:
        """(weighted scores by plugin, totals). Without ``detail`` the cached sum stands for its parts."""
        by_plugin: dict[str, Scores] = {}
        kept: dict[str, Scores] = {}
        summed: set[str] = set()
        asked = plan.active
        if self._shares and feasible.table is self.cluster.table:  # not for nodes that an extender sent back
            columns = self._cache_of(profile).scores(state, pod, feasible.table, plan)
            kept, summed = columns.raw, columns.summed
            totals = columns.total.copy() if feasible.index is None else columns.total.take(feasible.index)
            if not detail:
                asked = columns.open
        else:
            totals = np.zeros(len(feasible), np.int64)
        call = state.timer or guarded
        for plugin, weight in asked:
            name = plugin.name
            raw = kept.get(name)
            if raw is None:
                raw = call(name, 'running Score plugin "{}": {}', plugin.score, state, pod, feasible)
                if raw is None:
                    if detail:
                        by_plugin[name] = np.zeros(len(feasible), np.int64)
                    continue
            else:
                raw = raw.copy() if feasible.index is None else raw.take(feasible.index)
            if plugin.normalize is not None:
                raw = call(name, 'running NormalizeScore plugin "{}": {}', plugin.normalize, state, pod, raw, feasible)
            if name not in summed:
                if not plugin.traits.in_range:
                    check_range(name, raw)
                totals += raw * weight
            if detail:
                by_plugin[name] = raw * weight
        return by_plugin, totals


def _is_in_order(rows: Rows) -> bool:
    return len(rows) == 0 or (int(rows[0]) == 0 and int(rows[-1]) == len(rows) - 1)


def _rotated(rows: Rows, looked_at: Rows, start: int) -> Rows:
    """The feasible rows in the order of a search that began at position ``start``."""
    positions = np.searchsorted(looked_at, rows)
    return np.concatenate((rows[positions >= start], rows[positions < start]))
