"""Where a search begins, where it stops, and which of equal nodes wins: against a plain model of the rules."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.core.engine.batching import Ranking
from mooring.core.engine.order import _place, heap_winner
from mooring.testing import Scheduler, make_node, make_pod

# ---- the tie-break -------------------------------------------------------------------------------------------------


def go_heap(totals: list[int]) -> list[int]:
    """container/heap's Init and Pop, written down as the spec has it; positions in the order of popping."""
    heap = [(total, i) for i, total in enumerate(totals)]

    def sift_down(i: int, n: int) -> None:
        while (child := 2 * i + 1) < n:
            if child + 1 < n and heap[child + 1][0] > heap[child][0]:
                child += 1
            if not heap[child][0] > heap[i][0]:
                return
            heap[i], heap[child] = heap[child], heap[i]
            i = child

    for i in range(len(heap) // 2 - 1, -1, -1):
        sift_down(i, len(heap))
    popped = []
    while heap:
        last = len(heap) - 1
        heap[0], heap[last] = heap[last], heap[0]
        sift_down(0, last)
        popped.append(heap.pop()[1])
    return popped


@pytest.mark.parametrize(
    ("totals", "winner"),
    [([1, 1, 1], 0), ([1, 2, 2], 1), ([1, 1, 5, 5], 3), ([7], 0), ([0, 0], 0), ([1, 5, 5, 5, 5], 1), ([3, 3, 4], 2)],
)
def test_appendix_a9_host_selection(totals: list[int], winner: int) -> None:
    assert heap_winner(np.array(totals)) == winner == go_heap(totals)[0]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=70) | st.lists(st.integers(0, 1), min_size=250, max_size=600))
def test_trap_1_the_winner_is_the_root_of_gos_heap(totals: list[int]) -> None:
    assert heap_winner(np.array(totals)) == go_heap(totals)[0]


@given(st.lists(st.sampled_from([-(2**62), -1, 0, 2**40 - 1, 2**40, 2**62]), min_size=1, max_size=40))
def test_the_winner_of_totals_that_are_very_large_or_negative(totals: list[int]) -> None:
    assert heap_winner(np.array(totals)) == go_heap(totals)[0]


@settings(max_examples=15)
@given(st.integers(1000, 5000), st.integers(1, 3), st.randoms(use_true_random=False))
def test_the_winner_in_large_lists(n: int, best: int, random: Any) -> None:
    totals = [0] * n
    for _ in range(best):
        totals[random.randrange(n)] = 1
    assert heap_winner(np.array(totals)) == go_heap(totals)[0]


def test_preorder_walks_the_implicit_tree() -> None:
    def walk(i: int, n: int) -> list[int]:
        return [i, *walk(2 * i + 1, n), *walk(2 * i + 2, n)] if i < n else []

    def place(position: int) -> int:
        level = (position + 1).bit_length() - 1
        return _place(level, position + 1 - (1 << level))

    for n in (1, 2, 7, 100, 1025):
        assert sorted(range(n), key=place) == walk(0, n)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_a_ranking_pops_like_gos_heap(totals: list[int]) -> None:
    first, *rest = go_heap(totals)
    ranking = Ranking(np.arange(100, 100 + len(totals)), np.array(totals), 100 + first)
    assert len(ranking) == len(rest)
    assert [ranking.pop() - 100 for _ in rest] == rest
    assert len(ranking) == 0


def test_a_ranking_whose_pod_went_elsewhere_ranks_the_others() -> None:
    ranking = Ranking(np.arange(4), np.array([9, 5, 7, 3]), 0).without(2)
    assert [ranking.pop() for _ in range(3)] == [0, 1, 3]


# ---- percentageOfNodesToScore --------------------------------------------------------------------------------------

NODES = 130


def nodes(cordoned: set[int]) -> list[Any]:
    return [
        make_node(f"n{i:03}", unschedulable=i in cordoned, labels={"half": "even" if i % 2 == 0 else "odd"})
        for i in range(NODES)
    ]


class SequentialSearch:
    """Spec 1.5 with one worker: look at node after node from where the last search stopped."""

    def __init__(self, percentage: int) -> None:
        self.percentage = percentage
        self.next_start = 0

    def search(self, fits: list[bool]) -> tuple[list[int], int]:
        """(feasible nodes in order, number of nodes looked at)."""
        n = len(fits)
        wanted = max(100, n * self.percentage // 100)
        feasible: list[int] = []
        failed = 0
        for i in range(n):
            node = (self.next_start + i) % n
            if not fits[node]:
                failed += 1
            elif len(feasible) == wanted:
                break  # one too many: neither feasible nor refused
            else:
                feasible.append(node)
        self.next_start = (self.next_start + len(feasible) + failed) % n
        return feasible, len(feasible) + failed


@settings(max_examples=12)
@given(
    st.sets(st.integers(0, NODES - 1), max_size=60),
    st.sampled_from([1, 80, 90]),
    st.lists(st.sampled_from(["any", "even", "odd"]), min_size=1, max_size=6),
)
def test_traps_3_and_4_a_limited_search_goes_round(cordoned: set[int], percentage: int, wishes: list[str]) -> None:
    scheduler = Scheduler(*nodes(cordoned), config={"percentageOfNodesToScore": percentage})
    model = SequentialSearch(percentage)
    for number, wish in enumerate(wishes):
        spec = {} if wish == "any" else {"nodeSelector": {"half": wish}}
        decision = scheduler.decide(make_pod(f"p{number}", spec=spec))
        fits = [i not in cordoned and (wish == "any" or (wish == "even") == (i % 2 == 0)) for i in range(NODES)]
        feasible, looked_at = model.search(fits)
        assert decision.evaluated_nodes == looked_at
        assert decision.feasible_nodes == len(feasible)
        assert decision.scores is not None
        assert decision.scores.names == [f"n{i:03}" for i in feasible]
        totals = decision.scores.totals.tolist()
        assert decision.node == f"n{feasible[go_heap(totals)[0]]:03}"


@pytest.mark.parametrize(
    ("profile", "whole", "found"),
    [
        pytest.param(None, 0, 130, id="not set: every node is scored, unlike upstream"),
        pytest.param(None, 80, 104, id="set for all profiles"),
        pytest.param(90, 80, 117, id="a profile's own value wins"),
        pytest.param(0, 80, 130, id="trap 6: a profile's 0 wins over a value for all"),
        pytest.param(1, 0, 100, id="never fewer than 100"),
        pytest.param(100, 0, 130, id="100 percent is all"),
    ],
)
def test_how_many_nodes_are_enough(profile: int | None, whole: int, found: int) -> None:
    own = {"schedulerName": "default-scheduler"} | ({} if profile is None else {"percentageOfNodesToScore": profile})
    scheduler = Scheduler(*nodes(set()), config={"percentageOfNodesToScore": whole, "profiles": [own]})
    assert scheduler.decide(make_pod()).feasible_nodes == found


def test_small_clusters_are_searched_whole() -> None:
    few = [make_node(f"n{i}") for i in range(99)]
    assert Scheduler(*few, config={"percentageOfNodesToScore": 1}).decide(make_pod()).feasible_nodes == 99


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_the_model_of_the_heap_is_a_heap(totals: list[int]) -> None:
    """The tests' own model pops in descending order, as any heap does."""
    assert [totals[i] for i in go_heap(totals)] == heapq.nlargest(len(totals), totals)
