"""Numbers as people read them."""

from __future__ import annotations

import pytest

from mooring.show.figures import count, duration, nice_step, share, time_step
from mooring.show.plots import spans_of


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0, "0 s"), (0.12, "120 ms"), (4.2, "4.2 s"), (59.0, "59 s"), (185, "3 min 5 s"), (3600, "1 h"),
     (7800, "2 h 10 min"), (540_000, "6 d 6 h"), (-5, "-5 s")],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds: float, want: str) -> None:
    assert duration(seconds) == want


@pytest.mark.parametrize(
    ("value", "want"), [(0, "0.0 %"), (0.0004, "< 0.1 %"), (0.466, "46.6 %"), (1, "100 %"), (1.25, "125.0 %")]
)
def test_shares_are_per_cent(value: float, want: str) -> None:
    assert share(value) == want


@pytest.mark.parametrize(
    ("value", "want"), [(0, "0"), (1234, "1,234"), (12.34, "12.3"), (0.0512, "0.0512"), (2e-5, "< 0.01")]
)
def test_counts_are_short(value: float, want: str) -> None:
    assert count(value) == want


@pytest.mark.parametrize(("highest", "want"), [(0, 1), (1, 0.5), (4, 1), (7, 2), (100, 50), (414, 200), (0.03, 0.01)])
def test_marks_are_at_round_numbers(highest: float, want: float) -> None:
    assert nice_step(highest) == pytest.approx(want)


@pytest.mark.parametrize(
    ("seconds", "want"), [(3, 0.5), (60, 10), (86400, 14400 // 4 * 6), (604800, 86400 * 2), (1e8, 86400 * 200)]
)
def test_marks_of_time_are_at_round_times(seconds: float, want: float) -> None:
    assert time_step(seconds) == pytest.approx(want)


def test_waits_fall_into_spans() -> None:
    spans = spans_of([0, 0.05, 0.1, 2, 100_000])
    assert [(low, number) for low, _, number in spans if number] == [(0, 2), (0.1, 1), (1, 1), (86400, 1)]
    assert len(spans_of([])) == 4
