"""Points: which are best, which one is chosen, and whether it holds on what the search has not seen."""

from __future__ import annotations

import pytest

from mooring.api.errors import UsageError
from mooring.ask.pareto import Objective, Point, Tuning, choose, dominates, mark_best, pareto_svg, parse_objective

SMALL, LARGE = Objective("wait"), Objective("use", maximize=True)
BOTH = (SMALL, LARGE)


def points(*found: tuple[float, ...]) -> list[Point]:
    return [Point("default" if i == 0 else f"trial {i}", {}, None, each) for i, each in enumerate(found)]


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        pytest.param((1, 5), (2, 5), True, id="better in one"),
        pytest.param((1, 5), (1, 5), False, id="equal"),
        pytest.param((1, 4), (2, 5), False, id="better in one and worse in the other"),
        pytest.param((1, 6), (2, 5), True, id="better in both"),
    ],
)
def test_dominates(one: tuple[float, float], other: tuple[float, float], want: bool) -> None:
    assert dominates(one, other, BOTH) is want


def test_the_best_points_and_the_chosen_one() -> None:
    found = points((10, 0.2), (1, 0.1), (5, 0.5), (9, 0.9), (9, 0.8), (9, 0.9))
    best = mark_best(found, BOTH)
    assert [point.name for point in best] == ["trial 1", "trial 2", "trial 3"]
    # distances from the best wait (1 of 8) and the best use (0.9 of 0.8): 0 + 1, 0.5 + 0.5, 1 + 0; the first wins ties
    assert choose(best, BOTH).name == "trial 1"
    assert choose(mark_best(points((3,), (1,), (2,)), (SMALL,)), (SMALL,)).name == "trial 1"


@pytest.mark.parametrize(
    ("default", "chosen", "want"),
    [
        pytest.param((5.0,), (4.0,), True, id="better"),
        pytest.param((5.0,), (5.0,), False, id="no better"),
        pytest.param((5.0,), (6.0,), False, id="worse"),
        pytest.param(None, None, True, id="nothing was held out"),
    ],
)
def test_it_must_hold_on_what_was_held_out(
    default: tuple[float] | None, chosen: tuple[float] | None, want: bool
) -> None:
    found = points((9.0,), (1.0,))
    found[0].held_out, found[1].held_out = default, chosen
    mark_best(found, (SMALL,))
    assert bool(Tuning("day.yaml", (SMALL,), found, found[1])) is want
    assert not Tuning("day.yaml", (SMALL,), found, found[0]), "the default is not better than itself"


@pytest.mark.parametrize("text", ["wait", "=min", "wait=small"])
def test_an_objective_has_a_direction(text: str) -> None:
    with pytest.raises(UsageError, match="expected MEASURE=min or MEASURE=max"):
        parse_objective(text)


def test_the_picture_has_every_point_and_names_two() -> None:
    found = points((10, 0.2), (1, 0.1), (9, 0.9))
    mark_best(found, BOTH)
    svg = pareto_svg(Tuning("day.yaml", BOTH, found, found[1]))
    assert svg.count("<circle") == 5 and ">default</text>" in svg and ">chosen</text>" in svg
    assert "wait=min" in svg and "use=max" in svg and svg.count("<polyline") == 1
    alone = points((1,))
    mark_best(alone, (SMALL,))
    assert pareto_svg(Tuning("day.yaml", (SMALL,), alone, alone[0])).count("<circle") == 2
