"""What several watches tell is passed on in the order of resource versions."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.meta import Object
from mooring.ask.shadow.shadow import HOLD_S, InOrder
from mooring.testing import make_node, make_pod


class Told:
    """Records its calls."""

    def __init__(self) -> None:
        self.is_synced = True
        self.is_listing = lambda: False
        self.names: list[str] = []

    def put(self, obj: Object) -> None:
        self.names.append(obj.name)

    def update(self, old: Object, new: Object) -> None:
        self.names.append(f"{old.name} changed")

    def delete(self, obj: Object) -> None:
        self.names.append(f"{obj.name} went")


def at(version: str, obj: Any) -> Any:
    obj.metadata.resource_version = version
    return obj


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_000.0)


@pytest.fixture
def in_order(told: Told, clock: VirtualClock) -> InOrder:
    return InOrder(told, clock.monotonic)


def test_what_piled_up_in_two_watches_is_sorted(in_order: InOrder, told: Told, clock: VirtualClock) -> None:
    for version in ("3", "9"):
        in_order.put(at(version, make_pod(f"pod-{version}")))
    in_order.put(at("4", make_node("node-4")))
    in_order.update(make_node("node-4"), at("7", make_node("node-4")))
    in_order.delete(at("11", make_node("node-4")))
    assert told.names == []
    clock.advance(HOLD_S)
    in_order.pass_on()
    assert told.names == ["pod-3", "node-4", "node-4 changed", "pod-9", "node-4 went"]


def test_later_changes_wait_for_their_own_time(in_order: InOrder, told: Told, clock: VirtualClock) -> None:
    in_order.put(at("3", make_pod("first")))
    clock.advance(HOLD_S)
    in_order.put(at("4", make_pod("second")))
    assert told.names == ["first"]
    in_order.pass_on(is_all=True)
    assert told.names == ["first", "second"]


def test_a_version_that_is_no_number_keeps_its_place(in_order: InOrder, told: Told) -> None:
    for version in ("3", "x", "4"):
        in_order.put(at(version, make_pod(f"pod-{version}")))
    in_order.pass_on(is_all=True)
    assert told.names == ["pod-3", "pod-x", "pod-4"]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_list_is_passed_on_immediately_after_earlier_changes(in_order: InOrder, told: Told, is_first: bool) -> None:
    in_order.put(at("9", make_pod("before")))
    if is_first:
        in_order.is_synced = False
    else:
        told.is_listing = lambda: True
    in_order.put(at("3", make_pod("listed")))
    assert told.names == ["before", "listed"] and told.is_synced is not is_first
