"""What a profile's filters say together: the first refusal of a node counts."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.core.framework.status import SUCCESS, FilterOutcome, Status, Verdict

NO, NEVER = Status.unschedulable("no"), Status.unresolvable("never")


def outcome(*refused: list[bool]) -> FilterOutcome:
    statuses = (NO, NEVER)
    verdicts = [
        (name, Verdict.where(np.array(mask), status))
        for name, mask, status in zip(("First", "Second"), refused, statuses, strict=False)
    ]
    return FilterOutcome(verdicts, np.ones(3, np.bool_))


@pytest.mark.parametrize(
    ("refused", "passed"),
    [
        pytest.param([], [True, True, True], id="no refusal at all"),
        pytest.param([[True, False, False]], [False, True, True], id="one refuses"),
        pytest.param([[True, False, False], [True, True, False]], [False, False, True], id="two refuse"),
    ],
)
def test_the_nodes_that_pass_so_far(refused: list[list[bool]], passed: list[bool]) -> None:
    assert outcome(*refused).passed_so_far().tolist() == passed


@pytest.mark.parametrize(
    ("position", "want"),
    [
        pytest.param(0, NO.by("First"), id="refused by both"),
        pytest.param(1, NEVER.by("Second"), id="refused by the second"),
        pytest.param(2, SUCCESS, id="no refusal"),
    ],
)
def test_the_first_refusal_of_a_node_counts(position: int, want: Status) -> None:
    assert outcome([True, False, False], [True, True, False]).status_at(position) == want
