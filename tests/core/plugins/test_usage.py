"""The arithmetic of resource scores against the same formulas written for one node, in whole numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.core.plugins.resource_usage import (
    EXACT_IN_FLOAT,
    Usage,
    balance,
    floor_divide,
    least_allocated,
    most_allocated,
    requested_to_capacity,
)

AMOUNTS = st.integers(0, 1 << 40)


def usage(*columns: tuple[int, int, int], weights: list[int] | None = None) -> Usage:
    """One node; each column is (allocatable, used before, used with the pod)."""
    allocatable, used, after = (np.array([[column[i]] for column in columns], np.int64) for i in range(3))
    return Usage(allocatable, used, after, weights or [1] * len(columns))


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=3), st.integers(1, 5))
def test_least_and_most_allocated_are_the_formulas(columns: list[tuple[int, int, int]], weight: int) -> None:
    weights = [weight] + [1] * (len(columns) - 1)
    present = [(a, after, w) for (a, _, after), w in zip(columns, weights, strict=True) if a]
    total = sum(w for _, _, w in present) or 1
    least = sum(max(a - after, 0) * 100 // a * w for a, after, w in present) // total
    most = sum(min(after, a) * 100 // a * w for a, after, w in present) // total
    given = usage(*columns, weights=weights)
    assert (least_allocated(given).tolist(), most_allocated(given).tolist()) == ([least], [most])


@given(st.integers(0, 1 << 62), st.integers(1, 1 << 62))
def test_division_is_exact_also_beyond_floating_point(amount: int, by: int) -> None:
    assert floor_divide(np.array([amount]), np.array([by])).tolist() == [amount // by]


def test_large_amounts_leave_floating_point() -> None:
    amount = EXACT_IN_FLOAT * 8 - 1
    assert floor_divide(np.array([amount]), np.array([1])).tolist() == [amount]


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        pytest.param([(100, 0, 50), (200, 0, 100)], 100, id="the same share of both"),
        pytest.param([(100, 0, 100), (100, 0, 0)], 50, id="all of one and nothing of the other"),
        pytest.param([(100, 0, 300), (100, 0, 100)], 100, id="more than all counts as all"),
        pytest.param([(100, 0, 30), (0, 0, 0)], 100, id="a resource that the node lacks does not count"),
        pytest.param([(100, 0, 0), (100, 0, 50), (100, 0, 100)], 59, id="three: the standard deviation"),
    ],
)
def test_balance(columns: list[tuple[int, int, int]], wanted: int) -> None:
    given = usage(*columns)
    assert balance(given)[1].tolist() == [wanted]


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_two_resources_are_balanced_by_half_their_difference(allocatable: int, after: int) -> None:
    given = usage((allocatable, 0, after), (1, 0, 0))
    share = min(Fraction(after, allocatable), Fraction(1))
    assert abs(int(balance(given)[1, 0]) - int((1 - share / 2) * 100)) <= 1, "but for rounding"


RISING = [(0, 0), (100, 100)]


@pytest.mark.parametrize(
    ("columns", "weights", "wanted"),
    [
        pytest.param([(100, 0, 40)], [1], 40, id="on the line"),
        pytest.param([(100, 0, 500)], [1], 100, id="more than there is counts as all"),
        pytest.param([(100, 0, 0), (100, 0, 50)], [9, 1], 50, id="what scores 0 loses its weight"),
        pytest.param([(0, 0, 0)], [1], 0, id="nothing there"),
        pytest.param([(100, 0, 41), (100, 0, 42)], [1, 1], 42, id="halves are rounded up"),
    ],
)
def test_requested_to_capacity(columns: list[tuple[int, int, int]], weights: list[int], wanted: int) -> None:
    assert requested_to_capacity(usage(*columns, weights=weights), RISING).tolist() == [wanted]
