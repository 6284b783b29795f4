"""Batching since 1.37: the node of the pod before takes part again, with the score that it has now."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.core.engine.batching import Ranking
from mooring.testing import Scheduler, make_node, make_pod
from tests.core.engine.test_batching import LIST


def scheduler(version: str, **more: Any) -> Scheduler:
    nodes = (make_node(f"n{i}", cpu=4 + i, memory=f"{8 + 2 * i}Gi") for i in range(4))
    return Scheduler(*nodes, config=LIST, kubernetes_version=version, **more)


def pod(number: int, **more: Any) -> Any:
    return make_pod(f"p{number}", cpu="500m", memory="1Gi", **more)


def test_until_1_36_there_is_no_hint_while_the_last_node_has_room() -> None:
    on = scheduler("1.36")
    assert not any(on.place(pod(i)).from_hint for i in range(8))


def test_equal_pods_take_hints_while_the_last_node_has_room() -> None:
    on = scheduler("1.37")
    decisions = [on.place(pod(i)) for i in range(8)]
    assert [decision.from_hint for decision in decisions] == [False] + [True] * 7


@pytest.mark.parametrize("detail", [True, False], ids=["with scores kept", "without"])
def test_a_hinted_pod_goes_where_a_search_would_have_put_it(detail: bool) -> None:
    """Nothing but the last node has changed, so scoring it again is as good as a search."""
    hinted, searched = scheduler("1.37"), scheduler("1.36")
    for i in range(24):
        info = hinted.cluster.info(pod(i))
        decision = hinted.session.engine.decide(info, hinted.profiles["default-scheduler"], detail=detail)
        scored = searched.decide(pod(i)).scores
        assert scored is not None and decision.node is not None
        names = [info.name for info in scored.nodes.infos]
        assert scored.totals[names.index(decision.node)] == scored.totals.max(), f"pod {i}"
        for each in (hinted, searched):
            each.put(pod(i, node=decision.node))


def test_a_nominated_pod_takes_no_hint() -> None:
    on = scheduler("1.37")
    on.place(pod(0))
    assert not on.place(pod(1, status={"nominatedNodeName": "n0"})).from_hint
    assert not on.place(pod(2)).from_hint, "the ranking is gone"


def test_a_plugin_that_fails_on_the_last_node_leads_to_a_search() -> None:
    on = scheduler("1.37")
    on.place(pod(0))
    fit = on.profiles["default-scheduler"].plugins["NodeResourcesFit"]

    def fails_alone(score: Any) -> Any:
        return lambda state, pod, nodes: score(state, pod, nodes) if len(nodes) > 1 else 1 // 0

    fit.wrap("score", fails_alone)
    on.session.engine.uses_cache = False
    assert not on.place(pod(1)).from_hint


def test_candidates_are_in_the_heaps_own_order() -> None:
    raw = {"P": np.array([1, 2, 3, 4])}
    ranking = Ranking(np.array([10, 11, 12, 13]), np.array([5, 9, 7, 9]), 11, raw)
    rows, scores = ranking.candidates()
    assert rows.tolist() == [13, 10, 12] and scores["P"].tolist() == [4, 1, 3]
    assert ranking.pop() == 13 and len(ranking) == 2


def test_without_takes_back_the_last_hint() -> None:
    ranking = Ranking(np.array([10, 11, 12, 13]), np.array([5, 9, 7, 8]), 11)
    assert ranking.pop() == 13
    moved = ranking.without(12)
    assert [moved.pop() for _ in range(len(moved))] == [13, 10]
