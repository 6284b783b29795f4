"""A filter's answer for many nodes: numbers now, words when somebody reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.framework.status import SKIP, SUCCESS, Status
from mooring.framework.verdict import Verdict

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
    assert verdict.only_refuses is only_refuses, "only where no number stands for a failure nobody has to look"


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
