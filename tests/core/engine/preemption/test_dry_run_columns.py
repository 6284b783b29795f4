"""What dry runs found: the least harm wins, and what no longer holds is forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.api.times import format_time
from mooring.core.engine.victims import CANDIDATE, REFUSED, UNKNOWN, Candidate, DryRunColumns, max_kept, pick_one_node
from mooring.core.framework.status import Status
from mooring.core.state.sharing import ChangeLog
from mooring.testing import NOON, make_cluster, make_pod

CLUSTER = make_cluster()


def pod(priority: int = 0, start: float | None = 0) -> Any:
    status = {} if start is None else {"startTime": format_time(NOON + start)}
    return CLUSTER.info(make_pod("p", priority=priority, status=status))


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        pytest.param(Candidate("one", [pod()], 1), Candidate("other", [pod(9)], 0), "other",
                     id="fewest broken budgets"),
        pytest.param(Candidate("one", [pod(2)], 0), Candidate("other", [pod(1), pod(1)], 0), "other",
                     id="then the least important first victim"),
        pytest.param(Candidate("one", [pod(1), pod(1)], 0), Candidate("other", [pod(1), pod(0)], 0), "other",
                     id="then the smallest sum of priorities"),
        pytest.param(Candidate("one", [pod(1), pod(-(2**31))], 0), Candidate("other", [pod(1)], 0), "other",
                     id="then the fewest victims"),
        pytest.param(Candidate("one", [pod(1, start=5)], 0), Candidate("other", [pod(1, start=9)], 0), "other",
                     id="then the latest start"),
        pytest.param(Candidate("one", [pod(1, start=-5)], 0), Candidate("other", [pod(1, start=None)], 0), "other",
                     id="one that has not started counts as starting now"),
        pytest.param(Candidate("one", [pod(1)], 0), Candidate("other", [pod(1)], 0), "one", id="then the first"),
    ],
)  # fmt: skip
def test_least_harm(one: Candidate, other: Candidate, wanted: str) -> None:
    assert pick_one_node([one, other], NOON).node == wanted


def test_reasons_are_counted_by_node() -> None:
    columns = DryRunColumns(3)
    columns.refuse(np.array([0, 2]), Status.unresolvable("a"))
    columns.refuse(1, Status.unschedulable("b", "c"))
    assert columns.reasons(np.array([0, 1, 2])) == {"a": 2, "b": 1, "c": 1}
    assert columns.reasons(np.array([1])) == {"b": 1, "c": 1}


def test_rows_that_changed_are_forgotten_and_others_are_not() -> None:
    log: ChangeLog[int] = ChangeLog()
    columns = DryRunColumns(3, log)
    assert columns.is_kept
    columns.update("token", 3, NOON)
    columns.refuse(0, Status.unschedulable("full"))
    columns.accept(1, [pod()], 0)
    columns.accept(2, [pod()], 0)
    log.note(1)
    columns.update("token", 3, NOON)
    assert columns.outcome.tolist() == [REFUSED, UNKNOWN, CANDIDATE]
    assert list(columns.victims) == [2]
    columns.update("another token", 3, NOON)
    assert columns.outcome.tolist() == [UNKNOWN] * 3


@pytest.mark.parametrize(
    ("latest", "now", "wanted"),
    [
        pytest.param(-np.inf, NOON, CANDIDATE, id="it holds always"),
        pytest.param(NOON, NOON, CANDIDATE, id="it holds from then on"),
        pytest.param(NOON + 1, NOON, UNKNOWN, id="the clock was set back"),
        pytest.param(np.inf, NOON, UNKNOWN, id="it held only then"),
    ],
)
def test_what_depends_on_the_time_is_forgotten(latest: float, now: float, wanted: int) -> None:
    columns = DryRunColumns(1, ChangeLog[int]())
    columns.update("token", 1, NOON)
    columns.accept(0, [pod()], 0, latest)
    columns.update("token", 1, now)
    assert columns.outcome.tolist() == [wanted]


def test_without_logs_columns_are_for_one_preemptor() -> None:
    assert not DryRunColumns(1).is_kept


def test_fewer_are_kept_on_more_nodes() -> None:
    assert max_kept(0) > max_kept(5_000) > max_kept(100_000) >= 2
