"""Whether one device can serve one request, whatever else is chosen."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.plugins.devices.cel import CelSelectors
from mooring.core.plugins.devices.claims import RequestedDevices, plan_claim
from mooring.core.plugins.devices.device_checks import DeviceChecks
from mooring.core.plugins.devices.extended import AllocatedState
from mooring.core.plugins.devices.pools import AllocationError, Inventory, PublishedDevice, Rules

from .builders import SELECTORS, Wire, claim, device, device_class, exactly, in_use, inventory_of, sliced


class CountingSelectors(CelSelectors):
    """CEL that counts how often it is asked."""

    asked = 0

    def matches(self, expression: str, content: bytes) -> bool:
        self.asked += 1
        return super().matches(expression, content)


def published(*devices: Wire, **spec: Any) -> tuple[Inventory, list[PublishedDevice]]:
    inventory = inventory_of([sliced(*devices, **spec)])
    return inventory, [candidate for _, candidate in inventory.reach_of("n", {}).devices]


def request_for(wire: Wire) -> RequestedDevices:
    ((request,),) = plan_claim(claim(wire), device_class).requests
    return request


@pytest.mark.parametrize(
    ("found", "wire", "want"),
    [
        pytest.param(device("a", numa=1), exactly(), True, id="no selector"),
        pytest.param(device("a", numa=1), exactly(cel='device.attributes["drv"].numa == 1'), True, id="one that fits"),
        pytest.param(
            device("a", numa=0), exactly(cel='device.attributes["drv"].numa == 1'), False, id="one that does not"
        ),
        pytest.param(
            device("a", capacity={"memory": {"value": "8Gi"}}), exactly(cls="big"), False, id="the class's selector"
        ),
    ],
)
def test_selectors(found: Wire, wire: Wire, want: bool) -> None:
    inventory, (candidate,) = published(found)
    checks = DeviceChecks(inventory, SELECTORS, AllocatedState())
    assert checks.is_selectable(claim(), request_for(wire), candidate, "n", {}) is want


@pytest.mark.parametrize(
    ("where", "want"),
    [
        pytest.param({"nodeName": "n"}, True, id="this node"),
        pytest.param({"allNodes": True}, True, id="all nodes"),
        pytest.param({"nodeName": "m"}, False, id="another node"),
    ],
)
def test_devices_that_name_their_nodes(where: Wire, want: bool) -> None:
    inventory, (candidate, _) = published(device("a", **where), device("b", nodeName="n"), perDeviceNodeSelection=True)
    checks = DeviceChecks(inventory, SELECTORS, AllocatedState())
    assert checks.is_selectable(claim(), request_for(exactly()), candidate, "n", {}) is want


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        pytest.param(
            exactly(cel='device.attributes["drv"].gone == 1'),
            "claim ns/c: selector #0: CEL runtime error: no such key: gone",
            id="at run time",
        ),
        pytest.param(exactly(cls="broken"), "class broken: selector #0: CEL compile error: ", id="in the class"),
        pytest.param(
            exactly(cls="big", cel="device.nope"),
            "class big: selector #0: CEL runtime error: ",
            id="the class is first",
        ),
    ],
)
def test_a_selector_that_fails_says_where(wire: Wire, text: str) -> None:
    inventory, (candidate,) = published(device("a", numa=0))
    checks = DeviceChecks(inventory, SELECTORS, AllocatedState())
    with pytest.raises(AllocationError) as error:
        checks.is_selectable(claim(), request_for(wire), candidate, "n", {})
    assert str(error.value).startswith(text)


def test_devices_that_look_the_same_are_asked_about_once() -> None:
    selectors = CountingSelectors()
    inventory, candidates = published(device("a", numa=0), device("b", numa=0), device("c", numa=1))
    checks, request = DeviceChecks(inventory, selectors, AllocatedState()), request_for(exactly(cel="true"))
    assert all(checks.is_selectable(claim(), request, each, "n", {}) for each in candidates * 2)
    assert selectors.asked == 2


@pytest.mark.parametrize(
    ("asked", "consumed", "consuming", "want"),
    [
        pytest.param("4", None, 0, True, id="all of it"),
        pytest.param("5", None, 0, False, id="more than there is"),
        pytest.param("2", "2", 0, True, id="what others have left"),
        pytest.param("3", "2", 0, False, id="more than others have left"),
        pytest.param("2", "1", 2, False, id="more than this search has left"),
    ],
)
def test_capacity(asked: str, consumed: str | None, consuming: int, want: bool) -> None:
    inventory, (candidate,) = published(device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "4"}}))
    allocated = in_use("a", share=True, consumed={"memory": consumed}) if consumed else AllocatedState()
    checks = DeviceChecks(inventory, SELECTORS, allocated)
    request = request_for(exactly(capacity={"requests": {"memory": asked}}))
    assert checks.has_capacity(claim(), request, candidate, {"memory": consuming} if consuming else {}) is want  # type: ignore[dict-item]


def test_a_capacity_that_the_device_does_not_have() -> None:
    inventory, (candidate,) = published(device("a"))
    checks = DeviceChecks(inventory, SELECTORS, AllocatedState())
    request = request_for(exactly(capacity={"requests": {"memory": "1"}}))
    assert not checks.has_capacity(claim(), request, candidate, {})


def test_an_amount_that_cannot_be_computed_with_fails_the_search() -> None:
    inventory, (candidate,) = published(device("a", capacity={"memory": {"value": "4"}}))
    checks = DeviceChecks(inventory, SELECTORS, AllocatedState(), Rules(refuses_odd_amounts=True))
    request = request_for(exactly(capacity={"requests": {"memory": "-1"}}))
    with pytest.raises(AllocationError, match=r'checking capacity for device .*/a: capacity "memory": .*negative'):
        checks.has_capacity(claim(), request, candidate, {})
