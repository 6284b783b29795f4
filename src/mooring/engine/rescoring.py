"""Batching, since 1.37: the node that the pod before took is scored again and takes part once more."""

from __future__ import annotations

import numpy as np

from mooring.engine.attempt import Attempt
from mooring.engine.ranking import Ranking
from mooring.engine.score_columns import check_range
from mooring.framework.guarded import CycleError, guarded
from mooring.state.node_rows import NodeRows

# Why a ranking is of no use, as the metric scheduler_batch_cache_flushed_total has it.
PRE_SCORE_ERROR = "prescore_error"
RESCORE_ERROR = "rescore_error"
NORMALIZE_ERROR = "normalize_error"


def rescored(attempt: Attempt, ranking: Ranking, row: int) -> Ranking | str:
    """The ranking with this row in it, or why that cannot be.

    The other nodes keep the scores that plugins gave them when the ranking was made. All are normalised anew,
    because the row may be the best or the worst of them now.
    """
    left, raw = ranking.candidates()
    rows = np.append(left, row)
    nodes, one = NodeRows(attempt.nodes.table, rows), attempt.nodes.subset(np.array([row]))
    state, pod = attempt.state.clone(), attempt.pod
    state.skip_score = set()
    try:
        attempt.profile.run_pre_score(state, pod, nodes)
    except CycleError:
        return PRE_SCORE_ERROR
    plugins = attempt.profile.score_plan(state).active
    scored = {}
    try:
        for plugin, _ in plugins:
            fresh = guarded(plugin.name, 'running Score plugin "{}": {}', plugin.score, state, pod, one)
            before = raw.get(plugin.name, np.zeros(len(left), np.int64))
            scored[plugin.name] = np.append(before, 0 if fresh is None else fresh[0])
    except CycleError:
        return RESCORE_ERROR
    totals = np.zeros(len(rows), np.int64)
    try:
        for plugin, weight in plugins:
            column = scored[plugin.name].copy()
            if plugin.normalize is not None:
                text = 'running NormalizeScore plugin "{}": {}'
                column = guarded(plugin.name, text, plugin.normalize, state, pod, column, nodes)
            check_range(plugin.name, column)
            totals += column * weight
    except CycleError:
        return NORMALIZE_ERROR
    return Ranking(rows, totals, None, scored)
