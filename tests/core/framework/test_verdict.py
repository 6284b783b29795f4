"""A filter's answer for many nodes: numbers now, text when it is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.core.framework.status import SKIP, SUCCESS, LateVerdict, Status, Verdict

NO, NEVER, PENDING, BROKEN = (
    Status.unschedulable("no"),
    Status.unresolvable("never"),
    Status.pending("not yet"),
    Status.error("broken"),
)


def test_only_what_is_asked_is_phrased() -> None:
    asked: list[int] = []

    def phrase(number: int) -> Status:
        asked.append(number)
        return Status.unschedulable(f"reason {number}")

    verdict = Verdict(np.array([0, 7, 7]), phrase)
    assert verdict.status_of(0) is SUCCESS and not asked, "0 always passes"
    assert verdict.status_of(7).message == "reason 7" and asked == [7]


@pytest.mark.parametrize(
    ("status", "only_refuses"),
    [(NO, True), (NEVER, True), (PENDING, True), (BROKEN, False), (SKIP, False)],
    ids=["unschedulable", "unresolvable", "pending", "error", "skip"],
)
def test_one_status_for_all_nodes_that_are_rejected(status: Status, only_refuses: bool) -> None:
    verdict = Verdict.where(np.array([False, True, True]), status)
    assert verdict.ids.tolist() == [0, 1, 1] and verdict.ids.dtype == np.int64
    assert [verdict.status_of(number) for number in (0, 1)] == [SUCCESS, status]
    assert verdict.only_refuses is only_refuses, "a check is needed only if a number means a failure"


@pytest.mark.parametrize(
    ("ids", "statuses", "want", "only_refuses"),
    [
        pytest.param([0, 2, 1], (NO, NEVER), [SUCCESS, NEVER, NO], True, id="numbers are positions from 1"),
        pytest.param([1, 2], [NO, BROKEN], [NO, BROKEN], False, id="a failure among them"),
        pytest.param([5, 0, -3], {5: NO, -3: NEVER}, [NO, SUCCESS, NEVER], False, id="numbers are keys"),
    ],
)
def test_several_statuses(ids: list[int], statuses: Any, want: list[Status], only_refuses: bool) -> None:
    verdict = Verdict.choose(np.array(ids), statuses)
    assert [verdict.status_of(int(number)) for number in verdict.ids] == want
    assert verdict.only_refuses is only_refuses


def test_new_answers_for_some_rows_replace_the_old_ones() -> None:
    kept = Verdict(np.array([1, 1, 0]), lambda number: NO)
    before = kept.copy()
    kept.put(np.array([0, 2]), Verdict(np.array([0, 2]), lambda number: NEVER))
    assert (kept.ids.tolist(), kept.passes().tolist(), kept.status_of(2)) == ([0, 1, 2], [True, False, False], NEVER)
    kept.put(np.array([1]), None)
    assert kept.ids.tolist() == [0, 0, 2]
    assert (before.ids.tolist(), before.status_of(1)) == ([1, 1, 0], NO)


def test_a_late_verdict_works_out_why_once_and_only_when_asked() -> None:
    asked: list[str] = []

    def ids() -> Any:
        asked.append("why")
        return np.array([0, 3])

    verdict = LateVerdict(np.array([True, False]), ids, lambda number: NO)
    assert verdict.passes().tolist() == [True, False] and verdict.only_refuses and not asked
    assert [verdict.status_of(int(number)) for number in verdict.ids] == [SUCCESS, NO]
    assert verdict.copy().ids.tolist() == [0, 3] and asked == ["why"]
    verdict.put(np.array([0, 1]), Verdict(np.array([3, 0]), lambda number: NEVER))
    assert (verdict.passes().tolist(), verdict.status_of(3)) == ([False, True], NEVER)
