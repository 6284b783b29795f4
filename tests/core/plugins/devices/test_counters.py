"""Shared counters: what is left beside devices in use, and what one search may draw."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.plugins.devices.constraints import AvailableCounters, DrawnCounters, counters_of
from mooring.core.plugins.devices.extended import AllocatedState
from mooring.core.plugins.devices.pools import Pool

from .builders import Wire, device, in_use, inventory_of, sliced


def drawing(name: str, **amounts: str) -> Wire:
    counters = {counter: {"value": amount} for counter, amount in amounts.items()}
    return device(name, consumesCounters=[{"counterSet": "gpu", "counters": counters}])


def pool(*, memory: str = "40Gi", slots: str = "2", elsewhere: bool = False) -> Pool:
    """Half devices, a whole one and one that draws too much; ``elsewhere`` puts another half on another node."""
    counters = [{"name": "gpu", "counters": {"memory": {"value": memory}, "slots": {"value": slots}}}]
    half = {"memory": "20Gi", "slots": "1"}
    count = 2 + elsewhere
    slices = [
        sliced(
            drawing("half-1", **half),
            drawing("half-2", **half),
            drawing("whole", memory="40Gi", slots="2"),
            drawing("huge", memory="80Gi"),
            count=count,
        ),
        sliced(name="t", count=count, sharedCounters=counters),
    ]
    if elsewhere:
        slices.append(sliced(drawing("far", **half), name="u", count=count, nodeName="m"))
    (found,) = inventory_of(slices).reach_of("n", {}).pools
    return found


@pytest.mark.parametrize(
    ("devices", "want"),
    [
        pytest.param(["half-1", "half-2"], [True, True], id="two halves"),
        pytest.param(["whole", "half-1"], [True, False], id="nothing is left beside the whole"),
        pytest.param(["half-1", "whole", "half-2"], [True, False, True], id="what was refused draws nothing"),
        pytest.param(["huge", "whole"], [False, True], id="one counter that falls short is enough"),
    ],
)
def test_what_can_be_drawn(devices: list[str], want: list[bool]) -> None:
    found = pool()
    by_name = {candidate.device.name: candidate for candidate in found.candidates}
    drawn = DrawnCounters(AvailableCounters(AllocatedState()))
    assert [drawn.draw(found, by_name[name]) for name in devices] == want


def test_released_counters_can_be_consumed_again() -> None:
    found = pool()
    half, _, whole, _ = found.candidates
    drawn = DrawnCounters(AvailableCounters(AllocatedState()))
    assert drawn.draw(found, half) and not drawn.draw(found, whole)
    drawn.give_back(found, half)
    assert drawn.draw(found, whole)


@pytest.mark.parametrize(
    ("taken", "options", "want"),
    [
        pytest.param((), {}, (40, 2), id="nothing is in use"),
        pytest.param(("half-1",), {}, (20, 1), id="half of it is in use"),
        pytest.param(("far",), {"elsewhere": True}, (20, 1), id="a device of another node draws on the same counters"),
        pytest.param(("half-1", "half-2"), {"slots": "1"}, None, id="more is in use than there is"),
    ],
)
def test_what_is_left(taken: tuple[str, ...], options: dict[str, Any], want: tuple[int, int] | None) -> None:
    found = AvailableCounters(in_use(*taken)).of(pool(**options))
    if want is not None:
        assert found == {("gpu", "memory"): want[0] * 2**30, ("gpu", "slots"): want[1]}
    else:
        assert found is None


def test_nothing_can_be_drawn_from_a_pool_that_is_over_used() -> None:
    found = pool(slots="1")
    drawn = DrawnCounters(AvailableCounters(in_use("half-1", "half-2")))
    assert not drawn.draw(found, found.candidates[3])  # although it draws no slot


def test_what_a_device_draws() -> None:
    half = pool().candidates[0]
    assert counters_of(half) == [(("gpu", "memory"), 20 * 2**30), (("gpu", "slots"), 1)]
