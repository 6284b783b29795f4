"""Statuses, verdicts and what nodes say together (spec 0.1, 1.13)."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.scoring import default_normalize
from mooring.framework.status import SKIP, SUCCESS, Code, Status
from mooring.framework.verdict import Verdict
from mooring.testing import make_cluster, make_node


@pytest.mark.parametrize(
    ("code", "number", "rejected"),
    [
        (Code.SUCCESS, 0, False),
        (Code.ERROR, 1, False),
        (Code.UNSCHEDULABLE, 2, True),
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 3, True),
        (Code.WAIT, 4, False),
        (Code.SKIP, 5, False),
        (Code.PENDING, 6, True),
    ],
)
def test_codes_are_upstreams(code: Code, number: int, rejected: bool) -> None:
    assert int(code) == number
    assert Status(code).is_rejected is rejected
    assert Status(code).is_success is (code is Code.SUCCESS) and Status(code).is_skip is (code is Code.SKIP)


def test_reasons_make_the_message() -> None:
    assert Status.unschedulable("a", "b").message == "a, b"
    assert SUCCESS.message == "" and SKIP.message == ""


def test_a_status_is_signed_once() -> None:
    signed = Status.error("x").by("First")
    assert signed.plugin == "First" and signed.by("Second") is signed


@pytest.mark.parametrize(
    ("scores", "plain", "reverse"),
    [
        ([0, 0], [0, 0], [100, 100]),
        ([0, 1, 2, 3], [0, 33, 66, 100], [100, 67, 34, 0]),
        ([5], [100], [0]),
        ([1, 3], [33, 100], [67, 0]),
        ([], [], []),
    ],
)
def test_default_normalize(scores: list[int], plain: list[int], reverse: list[int]) -> None:
    assert default_normalize(np.array(scores, np.int64), reverse=False).tolist() == plain
    assert default_normalize(np.array(scores, np.int64), reverse=True).tolist() == reverse


def test_verdicts_phrase_only_what_is_asked() -> None:
    asked: list[int] = []

    def phrase(number: int) -> Status:
        asked.append(number)
        return Status.unschedulable(f"reason {number}")

    verdict = Verdict(np.array([0, 7, 7]), phrase)
    assert verdict.status_of(0) is SUCCESS and not asked
    assert verdict.status_of(7).message == "reason 7" and asked == [7]
    chosen = Verdict.choose(np.array([0, 2]), [Status.error("one"), Status.error("two")])
    assert chosen.status_of(2).message == "two"
    assert Verdict.where(np.array([False, True]), SKIP).ids.tolist() == [0, 1]


class TestNodeStatuses:
    NO, NEVER = Status.unschedulable("no"), Status.unresolvable("never", "ever")

    def statuses(self, rows: list[int] | None = None, absent: Status = SUCCESS) -> NodeStatuses:
        cluster = make_cluster(*(make_node(name) for name in "abcd"))
        n = 4 if rows is None else len(rows)
        first = Verdict.choose(np.array([1, 0, 0, 0][:n]), (self.NEVER,))
        second = Verdict.choose(np.array([1, 1, 0, 0][:n]), (self.NO,))
        cluster.nodes()
        index = None if rows is None else np.array(rows)
        return NodeStatuses(cluster.table, [("First", first), ("Second", second)], index, absent)

    def test_a_node_carries_the_reasons_of_the_first_plugin_that_refused_it(self) -> None:
        found = self.statuses()
        assert (found.get("a").plugin, found.get("a").code) == ("First", self.NEVER.code)
        assert (found.get("b").plugin, found.get("b").message) == ("Second", "no")
        assert found.get("c").is_success and found.get("unknown") is SUCCESS
        assert found.plugins() == {"First", "Second"}

    def test_codes_and_rows(self) -> None:
        found = self.statuses()
        assert found.codes().tolist() == [3, 2, 0, 0]
        assert found.rows_with(Code.UNSCHEDULABLE).tolist() == [1]

    def test_every_reason_counts_once_per_node(self) -> None:
        assert self.statuses().histogram() == {"never": 1, "ever": 1, "no": 1}

    def test_rows_that_were_not_looked_at_have_the_absent_status(self) -> None:
        found = self.statuses([2, 0], Status.unresolvable("elsewhere"))
        assert found.get("c").plugin == "First" and found.get("a").plugin == "Second"
        assert found.get("b").message == found.get("d").message == "elsewhere"
        assert found.histogram() == {"never": 1, "ever": 1, "no": 1, "elsewhere": 2}
        assert found.codes().tolist() == [2, 3, 3, 3]

    def test_one_status_for_all(self) -> None:
        cluster = make_cluster(make_node("a"), make_node("b"))
        cluster.nodes()
        found = NodeStatuses.everywhere(cluster.table, self.NO.by("X"))
        assert found.histogram() == {"no": 2} and found.plugins() == {"X"}
        assert found.rows_with(Code.UNSCHEDULABLE).tolist() == [0, 1]

    def test_numbers_may_be_large_or_negative(self) -> None:
        cluster = make_cluster(*(make_node(f"n{i}") for i in range(4)))
        cluster.nodes()
        odd = Verdict(np.array([-3, 2**40, 0, -3]), lambda number: Status.unschedulable(f"number {number}"))
        found = NodeStatuses(cluster.table, [("Odd", odd)])
        assert found.histogram() == {"number -3": 2, f"number {2**40}": 1}
        assert found.rows_with(Code.UNSCHEDULABLE).tolist() == [0, 1, 3]
        assert found.rows_with(Code.SUCCESS).tolist() == [2]
