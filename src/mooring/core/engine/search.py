"""The search: on which nodes a pod fits, why it does not fit on the others, and which feasible node wins."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.engine.columns import (
    ColumnRefusal,
    FilterColumns,
    KnownTemplate,
    ScoreColumns,
    TemplateColumns,
    check_range,
)
from mooring.core.engine.decision import CycleAttempt, ScheduleResult, ScoreTable
from mooring.core.engine.derived import Figures
from mooring.core.engine.extenders import Extenders, ExtenderScores, StatusesWithExtenders
from mooring.core.engine.kinds import FEW_NODES, Kinds
from mooring.core.engine.nominated import NominatedJudge
from mooring.core.engine.order import heap_winner
from mooring.core.framework.cycle_state import CycleError, guarded
from mooring.core.framework.extender import EXTENDER_PLUGIN, AnsweredNode
from mooring.core.framework.interfaces import Scores
from mooring.core.framework.runtime import PreFilterOutcome, Profile, ScorePlan, judge
from mooring.core.framework.status import (
    PASSES,
    SUCCESS,
    FilterOutcome,
    LateVerdict,
    NodeStatuses,
    Status,
    Verdict,
)
from mooring.core.state.facets import Facet
from mooring.core.state.node_rows import KindRows, LateRows, NodeRows, extender_rows
from mooring.core.state.sharing import holds_everywhere, holds_somewhere

Rows = NDArray[np.int64]
_NO_ROWS: Rows = np.zeros(0, np.int64)
_NO_MASK: NDArray[np.bool_] = np.zeros(0, np.bool_)
_SCORE = 'running Score plugin "{}": {}'
_NORMALIZE = 'running NormalizeScore plugin "{}": {}'


class FeasibleKinds(msgspec.Struct):
    """The nodes that a pod fits on, as kinds that no rule can tell apart. It is read before the next decision."""

    kinds: Kinds
    which: list[int]  # those that no filter refuses
    rows: KindRows  # a row of each of these
    size: int

    def winner(self, scores: ScoreColumns, added: Scores) -> tuple[int, int]:
        return self.kinds.find(scores.version, scores.total, self.which, added)


class SearchResult(msgspec.Struct):
    """Feasible rows of the table in order, and why the others are not feasible."""

    listed: Rows | None  # None: those of ``filters``
    statuses: NodeStatuses
    pre_filter_message: str = ""
    plugins: frozenset[str] = frozenset()
    from_nomination: bool = False  # without a search
    hint: int | None = None  # the row that batching proposed
    nodes: NodeRows | None = None  # what to score instead of the table's rows: nodes returned by an extender
    evaluated: int | None = None  # number that extenders report
    filters: FilterColumns | None = None  # cached for the template, if it alone decides which rows are feasible
    by_kind: FeasibleKinds | None = None  # or what is cached of kinds of nodes

    @property
    def rows(self) -> Rows:
        """The feasible rows, listed on first access, which must precede the next decision."""
        if self.listed is None:
            if self.by_kind is not None:
                self.listed = self.by_kind.kinds.mask_of(self.by_kind.which).nonzero()[0]
            else:
                assert self.filters is not None
                self.listed = _rows_of(self.filters.feasible)
        return self.listed

    @property
    def num_feasible(self) -> int:
        if self.by_kind is not None:
            return self.by_kind.size
        return self.filters.num_feasible if self.filters is not None else len(self.rows)


class Search:
    """Runs PreFilter and Filter. Remembers where the last search stopped, and caches by template."""

    def __init__(
        self, nominated: NominatedJudge, extenders: Extenders | None, percentage_of_nodes_to_score: int
    ) -> None:
        self._nominated = nominated
        self._extenders = extenders
        self._percentage = percentage_of_nodes_to_score
        self.next_start = 0  # where the next search begins if it covers a part of the nodes
        self.kept: dict[str, TemplateColumns] = {}  # by scheduler name

    def kept_for(self, profile: Profile) -> TemplateColumns:
        """Return the caches for this profile's templates."""
        columns = self.kept.get(profile.scheduler_name)
        if columns is None:
            columns = self.kept[profile.scheduler_name] = TemplateColumns()
        return columns

    def run(self, attempt: CycleAttempt, hint_of: Callable[[], int | None] | None = None) -> SearchResult:
        """Search all nodes, unless the pod fits on its nominated node or on batching's hint."""
        profile, state, table = attempt.profile, attempt.state, attempt.nodes.table
        pre = profile.run_pre_filter(state, attempt.pod, attempt.nodes)
        plan = attempt.plan = profile.filter_plan(state)
        attempt.stopwatch.point("PreFilter", pre.status, pre.asked or plan.asked, 1)
        if not pre.status.is_success:
            statuses = NodeStatuses.everywhere(table, pre.status)
            return SearchResult(_NO_ROWS, statuses, pre.status.message, pre.plugins)
        hint = None if hint_of is None else hint_of()
        said: dict[str, Status] = {}  # statuses by extenders, and by filters of the nominated node
        nominated = self._try_nominated(attempt, hint, said)
        if nominated is not None:
            return nominated
        index, absent = _narrowed(attempt, pre, said)
        nodes = attempt.nodes if index is None else attempt.nodes.subset(index)
        columns = self._columns(attempt, nodes)
        if columns is not None and (refused := self._still_refused(attempt, columns)) is not None:
            attempt.stopwatch.point("Filter", SUCCESS, plan.active, len(nodes))
            return SearchResult(_NO_ROWS, refused, "", pre.plugins, hint=hint)
        verdicts: list[tuple[str, Verdict]] = []
        if columns is not None and (by_kind := self._by_kind(attempt, columns, verdicts)) is not None:
            attempt.stopwatch.point("Filter", SUCCESS, plan.active, len(nodes))
            return SearchResult(None, NodeStatuses(table, verdicts), "", pre.plugins, hint=hint, by_kind=by_kind)
        if columns is not None and self._is_known(attempt, columns):
            attempt.stopwatch.point("Filter", SUCCESS, plan.active, len(nodes))
            statuses = NodeStatuses(table, columns.refusals())
            return SearchResult(None, statuses, "", pre.plugins, hint=hint, filters=columns)
        outcome = self._filter(attempt, nodes, columns)
        self._count_nominated(attempt, nodes, outcome)
        rows = _rows_of(outcome.feasible) if index is None else index[outcome.feasible]
        attempt.stopwatch.point("Filter", SUCCESS, plan.active, len(nodes))  # upstream also reports it without a node
        if attempt.detail or not len(rows):  # the verdicts will be read later, and cached ones keep changing
            outcome.verdicts = [(name, verdict.copy()) for name, verdict in outcome.verdicts]
        rows, index, outcome = self._sample(profile, len(table), rows, index, outcome)
        statuses = NodeStatuses(table, outcome.verdicts, index, absent, attempt.within)
        result = SearchResult(rows, statuses, "", pre.plugins, hint=hint)
        if self._extenders is not None:
            _ask_extenders(self._extenders, attempt, result, said)
        elif columns is not None and not len(rows):
            self._remember_refusal(attempt, columns, statuses)
        elif said and index is not None:  # the nominated node keeps its own reason though the search left it out
            result.statuses = StatusesWithExtenders(result.statuses, said)
        return result

    def _try_nominated(self, attempt: CycleAttempt, hint: int | None, said: dict[str, Status]) -> SearchResult | None:
        """Return the nominated node or the hint without a search, if the pod fits there."""
        table = attempt.nodes.table
        name = attempt.pod.pod.status.nominated_node_name
        if not name and hint is not None:
            name = table.infos[hint].name
        info = table.nodes.get(name) if name else None
        if info is None or info.row < 0 or (attempt.within is not None and info.row not in attempt.within):
            return None
        row = np.array([info.row])
        try:
            outcome = self._nominated.run(attempt, attempt.nodes.subset(row), attempt.plan.active)
        except CycleError:
            return None  # upstream logs it and continues with the ordinary search
        if not outcome.feasible[0]:
            said[name] = outcome.status_at(0)
            return None
        result = SearchResult(row, NodeStatuses(table, (), row), from_nomination=True, hint=hint)
        if self._extenders is not None:
            try:
                _ask_extenders(self._extenders, attempt, result, said)
            except CycleError:
                return None
        return result if len(result.rows) else None

    def _columns(self, attempt: CycleAttempt, nodes: NodeRows) -> FilterColumns | None:
        """Return the cached verdicts of the pod's template, if they apply to these rows."""
        if nodes.index is not None or not attempt.uses_kept:
            return None
        return self.kept_for(attempt.profile).filters_of(attempt)

    def known(self, attempt: CycleAttempt) -> KnownTemplate | None:
        """Return what is known of the pod's template, if nothing else has a say."""
        known = self.kept_for(attempt.profile).known.get(attempt.pod.shape.id)
        if (
            known is None
            or attempt.profile.observer is not None
            or attempt.within is not None
            or attempt.pod.pod.status.nominated_node_name
            or not attempt.uses_kept
            or not self._looks_at_all(attempt, known.filters)
        ):
            return None
        return known

    def _is_known(self, attempt: CycleAttempt, columns: FilterColumns) -> bool:
        """Report whether the cached verdicts alone decide which rows are feasible, and no caller reads them later."""
        return self._looks_at_all(attempt, columns) and attempt.plan.keeps_all(attempt.pod)

    def _looks_at_all(self, attempt: CycleAttempt, columns: FilterColumns) -> bool:
        """Report whether all nodes count, nothing but the filters says which are feasible, and no caller asks why."""
        n = len(attempt.nodes)
        return (
            columns.num_feasible > 0
            and not attempt.detail
            and self._extenders is None
            and not self._nominated.nominated.by_row
            and self._nodes_to_find(attempt.profile, n) >= n
        )

    def _by_kind(
        self, attempt: CycleAttempt, columns: FilterColumns, verdicts: list[tuple[str, Verdict]]
    ) -> FeasibleKinds | None:
        """The feasible nodes, if rules that read the whole cluster decide about the pod, and judge kinds of nodes.

        None also where no node is feasible: why is a question about every node. ``verdicts`` is filled.
        """
        profile, state, pod, plan = attempt.profile, attempt.state, attempt.pod, attempt.plan
        if not profile.by_kind or len(attempt.nodes) <= FEW_NODES or not self._looks_at_all(attempt, columns):
            return None
        facets: dict[Facet, None] = {}
        for plugin in profile.by_kind.values():
            named = plugin.node_facets(state, pod)
            if named is None:
                return None
            facets.update(dict.fromkeys(named))
        if not facets:
            return None
        others = [each for each in plan.others if each.concerns is None or each.concerns(pod)]
        if any(each.name not in profile.by_kind for each in others):
            return None
        kinds = self.kept_for(profile).kinds_of(attempt, columns, tuple(facets))
        if kinds is None:
            return None
        which = kinds.present()
        rows = kinds.rows_of(which)
        refused: list[tuple[str, Verdict, list[int]]] = []
        for plugin in others:
            verdict = judge(plugin, state, pod, rows)
            if verdict is not None:
                refused.append((plugin.name, verdict, which))
                passes = verdict.passes().tolist()
                which = [kind for kind, is_left in zip(which, passes, strict=True) if is_left]
                if not which:
                    return None
                rows = kinds.rows_of(which)
        verdicts += columns.refusals()
        verdicts += [(name, KindVerdict(kinds, judged, verdict)) for name, verdict, judged in refused]
        return FeasibleKinds(kinds, which, rows, kinds.size_of(which))

    def _still_refused(self, attempt: CycleAttempt, columns: FilterColumns) -> NodeStatuses | None:
        """Return the last refusal of the template, if nothing that matters has changed since."""
        refusal, nominated, pod = columns.refusal, self._nominated.nominated, attempt.pod
        if refusal is None or refusal.nominations != nominated.log.end or not attempt.plan.keeps_all(pod):
            return None
        if nominated.by_row and (refusal.priority != pod.priority or nominated.includes(pod.uid)):
            return None
        return refusal.statuses

    def _remember_refusal(self, attempt: CycleAttempt, columns: FilterColumns, statuses: NodeStatuses) -> None:
        nominated, pod = self._nominated.nominated, attempt.pod
        if attempt.plan.keeps_all(pod) and not nominated.includes(pod.uid):
            columns.refusal = ColumnRefusal(statuses, pod.priority, nominated.log.end)

    def _filter(self, attempt: CycleAttempt, nodes: NodeRows, columns: FilterColumns | None) -> FilterOutcome:
        """Run all filters on these rows, with cached verdicts of the pod's template."""
        pod, state, plan = attempt.pod, attempt.state, attempt.plan
        if columns is None:
            return attempt.profile.run_filters(state, pod, nodes, plan.active)
        outcome = FilterOutcome([], columns.feasible.copy())
        for plugin, kept in plan.places:
            if kept is not None:
                verdict = columns.verdicts[kept]
            elif plugin.concerns is not None and not plugin.concerns(pod):
                continue
            else:
                if outcome.verdicts and not (holds_somewhere(outcome.feasible) or outcome.passed_so_far().any()):
                    break  # no node is left for this plugin or a later one
                verdict = judge(plugin, state, pod, nodes, outcome.passed_so_far)
                if verdict is not None:
                    outcome.feasible &= verdict.passes()
            if verdict is not None:
                outcome.verdicts.append((plugin.name, verdict))
        return outcome

    def _count_nominated(self, attempt: CycleAttempt, nodes: NodeRows, outcome: FilterOutcome) -> None:
        """Take nominated pods into account, with cached verdicts where possible."""
        if not self._nominated.nominated.by_row:
            return
        keeps = attempt.uses_kept and nodes.index is None
        if keeps and not self._nominated.nominated.includes(attempt.pod.uid) and attempt.plan.keeps_all(attempt.pod):
            self._nominated.judge_all(attempt, outcome)
        else:
            self._nominated.judge(attempt, nodes, outcome)

    def _sample(
        self, profile: Profile, total: int, rows: Rows, index: Rows | None, outcome: FilterOutcome
    ) -> tuple[Rows, Rows | None, FilterOutcome]:
        """Stop early if configured, continuing round from where the last search stopped.

        Unlike upstream, a percentage of 0 ("adaptive") means every node: checking all of them is cheap here.
        """
        n = total if index is None else len(index)
        wanted = self._nodes_to_find(profile, n)
        if wanted >= n:  # the whole round: the next search starts where this one did
            return rows, index, outcome
        start = self.next_start % n if n else 0
        looked_at = np.arange(total) if index is None else index
        if len(rows) <= wanted:
            rows = _rotated(rows, looked_at, start)
            self.next_start = (self.next_start + n) % total
            return rows, index, outcome
        order = np.roll(np.arange(n), -start)
        passes = outcome.feasible[order]
        seen = np.cumsum(passes)
        stop = int(np.searchsorted(seen, wanted + 1))  # one too many: neither feasible nor rejected
        taken = order[:stop]
        kept = taken[passes[:stop]]
        self.next_start = (self.next_start + stop) % total
        verdicts = [(name, Verdict(verdict.ids[taken], verdict.status_of)) for name, verdict in outcome.verdicts]
        return looked_at[kept], looked_at[taken], FilterOutcome(verdicts, outcome.feasible[taken])

    def _nodes_to_find(self, profile: Profile, n: int) -> int:
        """Return how many feasible nodes are enough."""
        if not profile.score and (self._extenders is None or not self._extenders.want_many):
            return 1
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self._percentage
        if n < 100 or percentage == 0:
            return n
        return max(100, n * percentage // 100)


def _rows_of(feasible: NDArray[np.bool_]) -> Rows:
    """List the feasible rows. Often all are, which is detected quickly."""
    return _all_rows(len(feasible)) if holds_everywhere(feasible) else feasible.nonzero()[0]


class KindVerdict(LateVerdict):
    """A verdict about kinds of nodes as one about all nodes, worked out if it is read before the next decision."""

    __slots__ = ()

    def __init__(self, kinds: Kinds, judged: list[int], verdict: Verdict) -> None:
        super().__init__(_NO_MASK, lambda: kinds.numbers_of(judged, verdict.ids), verdict.status_of)

    def passes(self) -> NDArray[np.bool_]:
        passes: NDArray[np.bool_] = self.ids == PASSES
        return passes


@lru_cache(maxsize=4)
def _all_rows(n: int) -> Rows:
    rows = np.arange(n)
    rows.flags.writeable = False
    return rows


def _narrowed(attempt: CycleAttempt, pre: PreFilterOutcome, said: dict[str, Status]) -> tuple[Rows | None, Status]:
    """Return the rows that the pre-filters leave (None: all), and the status of the others."""
    if pre.node_names is None:
        return attempt.within, SUCCESS
    nodes = attempt.nodes.table.nodes
    known = (nodes[name].row for name in pre.node_names if name in nodes)
    # A plugin that rejects the nominated node also counts as one that narrows the search.
    pre.plugins |= {status.plugin for status in said.values() if status.plugin}
    absent = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(pre.plugins))}]")
    rows = np.array(sorted(row for row in known if row >= 0), np.int64)
    return rows if attempt.within is None else np.intersect1d(rows, attempt.within), absent


def _ask_extenders(extenders: Extenders, attempt: CycleAttempt, result: SearchResult, said: dict[str, Status]) -> None:
    """Ask the extenders about the feasible nodes; those they drop change the result."""
    table = attempt.nodes.table
    offered = NodeRows(table, result.rows).infos
    kept = extenders.filter(attempt.pod, offered, said)
    if len(kept) != len(offered):
        result.plugins |= result.statuses.plugins() | {EXTENDER_PLUGIN}
    statuses = StatusesWithExtenders(result.statuses, said)
    if kept is not offered:
        result.listed = np.fromiter((info.row for info in kept), np.int64, len(kept))
        result.nodes = extender_rows(table, kept) if kept and isinstance(kept[0], AnsweredNode) else None
    result.statuses = statuses
    result.evaluated = len(kept) + statuses.num_explicit


def _rotated(rows: Rows, looked_at: Rows, start: int) -> Rows:
    """Return the feasible rows in the order of a search that began at position ``start``."""
    positions = np.searchsorted(looked_at, rows)
    return np.concatenate((rows[positions >= start], rows[positions < start]))


# ---- the choice among feasible nodes by score
# ---------------------------------------------------------------------------


class Choice:
    """The winner and the scores."""

    __slots__ = ("extender_scores", "name", "row", "scores")

    def __init__(self, row: int, name: str, scores: ScoreTable, extender_scores: ExtenderScores | None = None) -> None:
        self.row = row
        self.name = name
        self.scores = scores
        self.extender_scores = extender_scores


def choose(
    attempt: CycleAttempt,
    result: SearchResult,
    kept: TemplateColumns,
    extenders: Extenders | None,
    raw_scores: dict[str, Scores] | None = None,
) -> Choice:
    """Score two or more feasible nodes, and take the best.

    ``raw_scores`` is filled with each plugin's scores before normalising, if it is given.
    """
    nodes, by_kind = _feasible(attempt, result), result.by_kind
    attempt.stopwatch.restart()
    attempt.profile.run_pre_score(attempt.state, attempt.pod, nodes, None if by_kind is None else by_kind.rows)
    plan = attempt.profile.score_plan(attempt.state)
    attempt.stopwatch.point("PreScore", SUCCESS, plan.asked, 1)
    columns = None
    if plan.cached and attempt.uses_kept and nodes.table is attempt.nodes.table:  # not for nodes of an extender
        columns = kept.scores_of(attempt, plan)
        if by_kind is not None and (added := _score_kinds(attempt, nodes, columns, by_kind)) is not None:
            attempt.stopwatch.point("Score", SUCCESS, plan.active, len(nodes))
            row, best = by_kind.winner(columns, added)
            totals_later = partial(_totals_by_kind, columns, by_kind, added, columns.revision)
            return Choice(row, nodes.table.infos[row].name, ScoreTable(nodes, {}, totals_later, best))
    by_plugin, totals = _score(attempt, nodes, plan, columns, raw_scores)
    attempt.stopwatch.point("Score", SUCCESS, plan.active, len(nodes))
    if totals is None:
        assert columns is not None
        if result.filters is not None:
            row, best = columns.winner(result.filters)
            later = partial(_kept_totals, columns, nodes, columns.revision)
            kept.learn(attempt, result.filters, columns)
            return Choice(row, nodes.table.infos[row].name, ScoreTable(nodes, by_plugin, later, best))
        totals = columns.totals_of(nodes)
    scored: ExtenderScores | None = None
    if extenders is not None:
        scored = extenders.score(attempt.pod, nodes.infos)
        position = _with_extenders(extenders, scored, totals)
    else:
        if not attempt.profile.score:
            totals = np.ones(len(nodes), np.int64)
        position = heap_winner(totals)
    row = int(result.rows[position])
    winner = nodes.table.infos[row] if result.nodes is None else result.nodes.infos[position]
    return Choice(row, winner.name, ScoreTable(nodes, by_plugin, totals, totals.item(position)), scored)


def decide_known(known: KnownTemplate, attempt: CycleAttempt, decision: ScheduleResult, figures: Figures) -> bool:
    """Decide about another pod of a template that was decided by what is kept alone. False: decide as usual.

    The usual way looks for what is kept, asks who else has a say, and notes what others may want to read. Here all of
    that is known. Plugins that answer anew for every pod are asked as always, and have to say what they said before.
    """
    state, pod, nodes, profile = attempt.state, attempt.pod, attempt.nodes, attempt.profile
    pre = profile.run_pre_filter(state, pod, nodes)
    if pre.status is not SUCCESS or pre.node_names is not None or state.skip_filter != known.skip_filter:
        return False
    if not known.plan.keeps_all(pod):
        return False
    attempt.plan, filters, scores = known.plan, known.filters, known.scores
    filters.update(attempt, figures)
    size, n = filters.num_feasible, len(nodes)
    if size < 2:
        return False
    rows = nodes if size == n else LateRows(nodes.table, lambda: filters.feasible, size)
    profile.run_pre_score(state, pod, rows)
    if state.skip_score != known.skip_score:
        return False
    scores.update(attempt, figures)
    for plugin, _ in scores.open:
        if plugin.name in scores.raw or guarded(plugin.name, _SCORE, plugin.score, state, pod, rows) is not None:
            return False
    state.check_time()
    row, best = scores.winner(filters)
    table = nodes.table
    decision.node = table.infos[row].name
    decision.scores = ScoreTable(rows, {}, partial(_kept_totals, scores, rows, scores.revision), best)
    decision.statuses = NodeStatuses(table, filters.refusals())
    decision.feasible_nodes, decision.evaluated_nodes = size, n
    return True


def _feasible(attempt: CycleAttempt, result: SearchResult) -> NodeRows:
    if result.nodes is not None:
        return result.nodes
    n, filters, by_kind = len(attempt.nodes), result.filters, result.by_kind
    if by_kind is not None:
        return LateRows(attempt.nodes.table, partial(by_kind.kinds.mask_of, by_kind.which), by_kind.size)
    if filters is not None:
        size = filters.num_feasible
        return attempt.nodes if size == n else LateRows(attempt.nodes.table, lambda: filters.feasible, size)
    rows = result.rows
    if len(rows) == n and int(rows[0]) == 0 and int(rows[-1]) == n - 1:
        return attempt.nodes  # all nodes in order: reading whole columns is cheaper
    return NodeRows(attempt.nodes.table, rows)


def _kept_totals(columns: ScoreColumns, nodes: NodeRows, revision: int) -> Scores:
    """Return the cached sum for these nodes, for the few callers that read it after the decision."""
    assert columns.revision == revision, "the scores of a decision without detail are read before the next one"
    return columns.totals_of(nodes)


def _score_kinds(
    attempt: CycleAttempt, nodes: NodeRows, columns: ScoreColumns, by_kind: FeasibleKinds
) -> Scores | None:
    """What the plugins add whose part is not in the kept sum, by kind. None if one of them tells all nodes apart."""
    pod, state, judges = attempt.pod, attempt.state, attempt.profile.by_kind
    added = np.zeros(len(by_kind.which), np.int64)
    call = state.timer or guarded
    for plugin, weight in columns.open:
        name, normalize = plugin.name, plugin.normalize
        if name in columns.raw:
            return None
        rows = by_kind.rows if name in judges else nodes
        raw = call(name, _SCORE, plugin.score, state, pod, rows)
        if raw is None:
            continue
        if rows is nodes:
            return None
        if normalize is not None:
            raw = call(name, _NORMALIZE, normalize, state, pod, raw, rows)
        if not plugin.traits.in_range:
            check_range(name, raw)
        added += raw * weight
    return added


def _totals_by_kind(columns: ScoreColumns, by_kind: FeasibleKinds, added: Scores, revision: int) -> Scores:
    """The same for sums that kinds of nodes add to."""
    assert columns.revision == revision, "the scores of a decision without detail are read before the next one"
    return by_kind.kinds.added_to(columns.total, by_kind.which, added)


def _with_extenders(extenders: Extenders, scored: ExtenderScores, totals: Scores) -> int:
    """Add the extenders' scores; among the best nodes, pick a random one that an extender mentioned."""
    totals += scored.totals
    best = np.flatnonzero((totals == totals.max()) & scored.mentioned)
    return int(best[extenders.pick(len(best))]) if len(best) else heap_winner(totals)


def _score(
    attempt: CycleAttempt,
    nodes: NodeRows,
    plan: ScorePlan,
    columns: ScoreColumns | None,
    raw_scores: dict[str, Scores] | None,
) -> tuple[dict[str, Scores], Scores | None]:
    """Return weighted scores by plugin, and totals; None: the cached totals. Without ``detail``, totals replace the
    parts.
    """
    pod, state = attempt.pod, attempt.state
    by_plugin: dict[str, Scores] = {}
    kept: dict[str, Scores] = {}
    summed: set[str] = set()
    asked = plan.active
    totals: Scores | None = None
    if columns is not None:
        kept, summed = columns.raw, columns.summed
        if not attempt.detail and raw_scores is None:
            asked = columns.open
    else:
        totals = np.zeros(len(nodes), np.int64)
    call = state.timer or guarded
    for plugin, weight in asked:
        name, normalize = plugin.name, plugin.normalize
        raw = kept.get(name)
        if raw is None:
            raw = call(name, _SCORE, plugin.score, state, pod, nodes)
            if raw is None:
                if attempt.detail:
                    by_plugin[name] = np.zeros(len(nodes), np.int64)
                continue
        else:
            raw = raw.copy() if nodes.index is None else raw.take(nodes.index)
        if raw_scores is not None:
            raw_scores[name] = raw.copy()
        if normalize is not None:
            raw = call(name, _NORMALIZE, normalize, state, pod, raw, nodes)
        if name not in summed:
            if not plugin.traits.in_range:
                check_range(name, raw)
            if totals is None:
                assert columns is not None
                totals = columns.totals_of(nodes)
            totals += raw * weight
        if attempt.detail:
            by_plugin[name] = raw * weight
    return by_plugin, totals
