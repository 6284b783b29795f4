"""The choice: scores of the feasible nodes, and which of them wins."""

from __future__ import annotations

import numpy as np

from mooring.core.engine.attempt import CycleAttempt
from mooring.core.engine.columns import ScoreColumns, TemplateColumns, check_range, heap_winner
from mooring.core.engine.decision import ScoreTable
from mooring.core.engine.extenders import Extenders, ExtenderScores
from mooring.core.engine.search import SearchResult
from mooring.core.framework.interfaces import Scores
from mooring.core.framework.plugin_timing import guarded
from mooring.core.framework.runtime import ScorePlan
from mooring.core.framework.status import SUCCESS
from mooring.core.state.node_rows import NodeRows


class Choice:
    """The winner's position among the feasible rows, and the scores that made it win."""

    __slots__ = ("extender_scores", "position", "scores")

    def __init__(self, position: int, scores: ScoreTable, extender_scores: ExtenderScores | None = None) -> None:
        self.position = position
        self.scores = scores
        self.extender_scores = extender_scores


def choose(
    attempt: CycleAttempt,
    result: SearchResult,
    kept: TemplateColumns,
    extenders: Extenders | None,
    raw_scores: dict[str, Scores] | None = None,
) -> Choice:
    """Score the feasible nodes, of which there is more than one, and take the best.

    ``raw_scores`` is filled with each plugin's scores before normalising, if it is given.
    """
    nodes = _feasible(attempt, result)
    attempt.laps.restart()
    attempt.profile.run_pre_score(attempt.state, attempt.pod, nodes)
    plan = attempt.profile.score_plan(attempt.state)
    attempt.laps.point("PreScore", SUCCESS, plan.asked, 1)
    by_plugin, totals, columns = _score(attempt, nodes, plan, kept, raw_scores)
    attempt.laps.point("Score", SUCCESS, plan.active, len(nodes))
    if extenders is not None:
        return _with_extenders(attempt, nodes, by_plugin, totals, extenders)
    if not attempt.profile.score:
        totals = np.ones(len(nodes), np.int64)
    position = heap_winner(totals) if columns is None else columns.winner()
    return Choice(position, ScoreTable(nodes, by_plugin, totals, position))


def _feasible(attempt: CycleAttempt, result: SearchResult) -> NodeRows:
    if result.nodes is not None:
        return result.nodes
    rows, n = result.rows, len(attempt.nodes)
    if len(rows) == n and int(rows[0]) == 0 and int(rows[-1]) == n - 1:
        return attempt.nodes  # all nodes in their order: reading whole columns is cheaper
    return NodeRows(attempt.nodes.table, rows)


def _with_extenders(
    attempt: CycleAttempt, nodes: NodeRows, by_plugin: dict[str, Scores], totals: Scores, extenders: Extenders
) -> Choice:
    """Add what extenders score; of the best nodes, one that an extender mentioned is drawn by lot."""
    scored = extenders.score(attempt.pod, nodes.infos)
    totals += scored.totals
    best = np.flatnonzero((totals == totals.max()) & scored.mentioned)
    position = int(best[extenders.pick(len(best))]) if len(best) else heap_winner(totals)
    return Choice(position, ScoreTable(nodes, by_plugin, totals, position), scored)


def _score(
    attempt: CycleAttempt,
    nodes: NodeRows,
    plan: ScorePlan,
    templates: TemplateColumns,
    raw_scores: dict[str, Scores] | None,
) -> tuple[dict[str, Scores], Scores, ScoreColumns | None]:
    """(weighted scores by plugin, totals, the columns if their sum for all nodes is these totals).

    Without ``detail`` the kept sum stands for its parts.
    """
    pod, state = attempt.pod, attempt.state
    by_plugin: dict[str, Scores] = {}
    kept: dict[str, Scores] = {}
    summed: set[str] = set()
    asked = plan.active
    whole: ScoreColumns | None = None
    if (
        plan.cached and attempt.uses_kept and nodes.table is attempt.nodes.table
    ):  # not for nodes that an extender sent back
        columns = templates.scores_of(attempt, plan)
        kept, summed = columns.raw, columns.summed
        if nodes.index is None:
            totals, whole = columns.total.copy(), columns
        else:
            totals = columns.total.take(nodes.index)
        if not attempt.detail and raw_scores is None:
            asked = columns.open
    else:
        totals = np.zeros(len(nodes), np.int64)
    call = state.timer or guarded
    for plugin, weight in asked:
        name, normalize = plugin.name, plugin.normalize
        raw = kept.get(name)
        if raw is None:
            raw = call(name, 'running Score plugin "{}": {}', plugin.score, state, pod, nodes)
            if raw is None:
                if attempt.detail:
                    by_plugin[name] = np.zeros(len(nodes), np.int64)
                continue
        else:
            raw = raw.copy() if nodes.index is None else raw.take(nodes.index)
        if raw_scores is not None:
            raw_scores[name] = raw.copy()
        if normalize is not None:
            raw = call(name, 'running NormalizeScore plugin "{}": {}', normalize, state, pod, raw, nodes)
        if name not in summed:
            if not plugin.traits.in_range:
                check_range(name, raw)
            totals += raw * weight
            whole = None
        if attempt.detail:
            by_plugin[name] = raw * weight
    return by_plugin, totals, whole
