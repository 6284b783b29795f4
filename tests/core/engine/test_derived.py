"""What all derived columns have in common: following logs, tokens, and being few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.core.engine.derived import MEMO_TRIAL, Derived, Figures, Kept, Memo, are_many
from mooring.core.state.sharing import ChangeLog
from mooring.testing import make_cluster, make_node, make_pod


def settled(*logs: ChangeLog[int], token: object = "token") -> Derived:
    columns = Derived(*logs)
    assert columns.changes(token) is None
    columns.settle(token)
    return columns


@pytest.mark.parametrize(
    ("happens", "token", "wanted"),
    [
        pytest.param(lambda one, other: None, "token", [set(), set()], id="nothing happened"),
        pytest.param(lambda one, other: one.note(3), "token", [{3}, set()], id="a row changed"),
        pytest.param(lambda one, other: (one.note(3), other.note(3), other.note(5)), "token", [{3}, {3, 5}], id="more"),
        pytest.param(lambda one, other: (one.note(3), one.note(3)), "token", [{3}, set()], id="a row twice"),
        pytest.param(lambda one, other: other.restart(), "token", None, id="everything changed"),
        pytest.param(lambda one, other: one.note(3), "another", None, id="what else they depend on changed"),
    ],
)
def test_what_is_computed_again(happens: Callable[[Any, Any], Any], token: str, wanted: Any) -> None:
    one: ChangeLog[int] = ChangeLog()
    other: ChangeLog[int] = ChangeLog()
    columns = settled(one, other)
    happens(one, other)
    assert columns.changes(token) == wanted


def test_columns_that_were_never_settled_are_computed_as_a_whole() -> None:
    log: ChangeLog[int] = ChangeLog()
    columns = settled(log)
    log.note(1)
    assert columns.changes("token") == [{1}]  # and then a plugin fails, so that settle is not called
    log.note(2)
    assert columns.changes("token") is None


@pytest.mark.parametrize(
    ("node_rows", "pod_rows", "n", "wanted"),
    [
        pytest.param(set(), set(), 8, False, id="none"),
        pytest.param({1}, {2}, 8, False, id="a quarter is not many"),
        pytest.param({1}, {2, 3}, 8, True, id="more than a quarter is"),
    ],
)
def test_many_changes(node_rows: set[int], pod_rows: set[int], n: int, wanted: bool) -> None:
    assert are_many([node_rows, pod_rows], range(n)) is wanted


def test_the_least_recently_used_columns_are_forgotten_first() -> None:
    kept: Kept[str] = Kept(0)
    for key in "abc":
        kept.put(key, key.upper(), 3)
    assert kept.get("a") == "A"
    kept.put("d", "D", 3)
    assert (kept.get("b"), len(kept), set(kept.values())) == (None, 3, {"A", "C", "D"})


def test_what_comes_for_the_second_time_is_worth_keeping() -> None:
    kept: Kept[str] = Kept(2)
    assert [kept.was_seen_before(key) for key in ("a", "b", "a")] == [False, False, True]
    assert not kept.was_seen_before("c"), "of too many keys the oldest is forgotten"
    assert [kept.was_seen_before(key) for key in ("a", "b")] == [True, False]


def test_a_full_memo_is_cleared() -> None:
    memo: Memo[int] = Memo(2)
    memo.put("one", 1)
    memo.put("two", 2)
    assert (memo.get("one"), len(memo)) == (1, 2)
    memo.put("three", 3)
    assert (memo.get("one"), memo.get("three"), len(memo)) == (None, 3, 1)
    memo.clear()
    assert len(memo) == 0


def test_equally_full_rows_have_equal_figures_until_a_pod_comes() -> None:
    cluster = make_cluster(make_node("a"), make_node("b"), make_node("c", cpu="2"))
    table, figures = cluster.nodes().table, Figures()
    assert figures.of(table, 0) == figures.of(table, 1) != figures.of(table, 2)
    cluster.set_pod(make_pod("p", node="a", cpu="1"))
    assert figures.of(table, 0) != figures.of(table, 1)


def test_a_memo_that_knows_few_answers_does_not_pay_until_it_is_cleared() -> None:
    memo: Memo[int] = Memo(100)
    for i in range(MEMO_TRIAL):
        assert memo.pays, "it has not been tried for long enough"
        memo.get(i)
    assert not memo.pays
    memo.clear()
    assert memo.pays
    memo.put("full", 1)
    for i in range(2 * MEMO_TRIAL):
        memo.get("full" if i % 2 else i)
    assert memo.pays, "it answers every other question"
