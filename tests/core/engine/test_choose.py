"""The choice: normalised weighted scores, with and without what is kept, and ties as upstream breaks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.core.engine.columns import TemplateColumns
from mooring.core.engine.extenders import Extenders, ExtenderScores
from mooring.core.engine.search import SearchResult, choose
from mooring.core.framework.cycle_state import CycleError
from mooring.core.framework.registry import Reads
from mooring.core.framework.status import NodeStatuses
from mooring.testing import make_cluster, make_node

from .conftest import Noting, make_attempt, make_profile

NAMES = ("a", "b", "c")


def chosen(*plugins: Any, rows: tuple[int, ...] = (0, 1, 2), uses_kept: bool = False, **more: Any) -> Any:
    cluster = make_cluster(*(make_node(name) for name in NAMES))
    attempt = make_attempt(cluster, make_profile(*plugins, weights=more.get("weights")), uses_kept=uses_kept)
    index = np.array(rows)
    result = SearchResult(index, NodeStatuses(attempt.nodes.table, (), index))
    choice = choose(attempt, result, TemplateColumns(), more.get("extenders"))
    return choice.name, choice.scores.to_dict(), choice.scores.totals.tolist()


@pytest.mark.parametrize("uses_kept", [False, True], ids=["computed", "kept"])
@pytest.mark.parametrize(
    ("rows", "node", "totals"),
    [
        pytest.param((0, 1, 2), "c", [20, 10, 32], id="all nodes"),
        pytest.param((0, 1), "a", [20, 10], id="only the feasible ones are scored"),
        pytest.param((1, 0), "a", [10, 20], id="in the order of the search"),
    ],
)
def test_the_highest_weighted_sum_wins(rows: tuple[int, ...], node: str, totals: list[int], uses_kept: bool) -> None:
    one = Noting(name="One", scores={"a": 10, "b": 5, "c": 1})
    two = Noting(Reads.CLUSTER, name="Two", scores={"c": 30})
    got, by_node, sums = chosen(one, two, rows=rows, uses_kept=uses_kept, weights={"One": 2})
    assert (got, sums) == (node, totals)
    assert by_node["a"] == {"One": 20, "Two": 0}


def test_a_score_out_of_range_breaks_the_attempt() -> None:
    with pytest.raises(CycleError, match="invalid score 101"):
        chosen(Noting(scores={"a": 101}))


def test_without_score_plugins_all_nodes_are_equal() -> None:
    class OnlyFilters:
        name = "OnlyFilters"

        def filter(self, state: Any, pod: Any, nodes: Any) -> None:
            return None

    assert chosen(OnlyFilters())[2] == [1, 1, 1]


def test_extenders_add_to_the_sum_and_one_that_they_mention_wins() -> None:
    class Scoring(Extenders):
        def score(self, pod: Any, nodes: Any) -> ExtenderScores:
            return ExtenderScores(np.array([20, 20, 0]), np.array([False, True, False]), {"b": {"x": [2]}})

    got, _, totals = chosen(Noting(), extenders=Scoring(()))
    assert (got, totals) == ("b", [20, 20, 0])
