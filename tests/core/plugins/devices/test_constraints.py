"""Constraints between the devices of a claim: what may be added, and what a constraint remembers."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.resource import DeviceConstraint
from mooring.core.plugins.devices.claims import RequestedDevices, plan_claim
from mooring.core.plugins.devices.constraints import AttributeConstraint, build_constraint
from mooring.core.plugins.devices.pools import PublishedDevice

from .builders import Wire, claim, device, device_class, exactly, first_of, inventory_of, sliced

MATCH, DISTINCT = {"matchAttribute": "drv/numa"}, {"distinctAttribute": "drv/numa"}


def published(*devices: Wire) -> list[PublishedDevice]:
    return [candidate for _, candidate in inventory_of([sliced(*devices)]).reach_of("n", {}).devices]


def requests() -> dict[str, RequestedDevices]:
    plan = plan_claim(claim(exactly("r0"), exactly("r1"), first_of("r2", exactly("s0"), exactly("s1"))), device_class)
    return {request.full_name: request for alternatives in plan.requests for request in alternatives}


def built(wire: Wire) -> AttributeConstraint:
    found = build_constraint(msgspec.convert(wire, DeviceConstraint))
    assert found is not None
    return found


NUMA_0, ALSO_0, NUMA_1, NONE = published(
    device("a", numa=0), device("b", numa=0), device("c", numa=1), device("d", other=1)
)
(STRANGE,) = published(device("e", attributes={"numa": {"list": [1]}}))
(FULL_NAME,) = published(device("f", attributes={"drv/numa": {"int": 0}}))
(TEXT,) = published(device("g", attributes={"numa": {"string": "0"}}))


@pytest.mark.parametrize(
    ("wire", "devices", "want"),
    [
        pytest.param(MATCH, [NUMA_0, ALSO_0], [True, True], id="equal values"),
        pytest.param(MATCH, [NUMA_0, NUMA_1], [True, False], id="different values"),
        pytest.param(MATCH, [NONE, NUMA_0], [False, True], id="a device without the attribute"),
        pytest.param(MATCH, [NUMA_0, TEXT], [True, False], id="values of different types"),
        pytest.param(MATCH, [NUMA_0, FULL_NAME], [True, True], id="the attribute by its full name"),
        pytest.param(MATCH, [STRANGE, STRANGE], [True, False], id="a kind of value that is not known stays alone"),
        pytest.param({"matchAttribute": "else/numa"}, [NUMA_0], [False], id="another domain's attribute"),
        pytest.param(DISTINCT, [NUMA_0, NUMA_1], [True, True], id="distinct values"),
        pytest.param(DISTINCT, [NUMA_0, ALSO_0], [True, False], id="the same value twice"),
        pytest.param(DISTINCT, [NONE], [False], id="distinct, without the attribute"),
        pytest.param(DISTINCT, [NUMA_0, STRANGE], [True, False], id="an unknown value differs from nothing"),
    ],
)
def test_what_may_be_added_for_one_request_after_another(
    wire: Wire, devices: list[PublishedDevice], want: list[bool]
) -> None:
    constraint, names = built(wire), requests()
    assert [constraint.add(names[f"r{i}"], each) for i, each in enumerate(devices)] == want


@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param([], {"r0", "r1", "r2/s0", "r2/s1"}, id="no names mean all requests"),
        pytest.param(["r0"], {"r0"}, id="a request"),
        pytest.param(["r2"], {"r2/s0", "r2/s1"}, id="a prioritised list with all alternatives"),
        pytest.param(["r2/s1", "r1"], {"r2/s1", "r1"}, id="one alternative and a request"),
    ],
)
def test_which_requests_it_is_about(names: list[str], want: set[str]) -> None:
    constraint = built(MATCH | {"requests": names})
    assert {name for name, request in requests().items() if constraint.applies(request)} == want


@pytest.mark.parametrize("wire", [MATCH, DISTINCT])
def test_others_are_not_looked_at(wire: Wire) -> None:
    constraint, other = built(wire | {"requests": ["r0"]}), requests()["r1"]
    before = constraint.state()
    assert constraint.add(other, NONE)
    constraint.remove(other)
    assert constraint.state() == before


def test_a_value_that_was_removed_no_longer_counts() -> None:
    constraint, names = built(MATCH), requests()
    assert constraint.add(names["r0"], NUMA_0)
    constraint.remove(names["r0"])
    assert constraint.add(names["r0"], NUMA_1)


def test_distinct_forgets_all_devices_of_a_request_together() -> None:
    """Upstream keeps one value per request, and drops it when any of the request's devices is removed."""
    constraint, names = built(DISTINCT), requests()
    assert constraint.add(names["r0"], NUMA_0) and constraint.add(names["r0"], NUMA_1)
    constraint.remove(names["r0"])
    assert constraint.add(names["r0"], ALSO_0)


@pytest.mark.parametrize(
    ("wire", "added", "want"),
    [
        pytest.param(MATCH, None, [True, True, False, True], id="match, nothing added: all that have the attribute"),
        pytest.param(MATCH, NUMA_0, [True, False, False, False], id="match, one added: those of its value"),
        pytest.param(DISTINCT, NUMA_0, [True, True, False, True], id="distinct: all that have the attribute"),
    ],
)
def test_which_devices_have_a_group(wire: Wire, added: PublishedDevice | None, want: list[bool]) -> None:
    constraint = built(wire)
    if added is not None:
        constraint.add(requests()["r0"], added)
    assert [constraint.group(each) is not None for each in (ALSO_0, NUMA_1, NONE, STRANGE)] == want


def test_devices_that_cannot_go_together_are_of_different_groups() -> None:
    constraint = built(MATCH)
    assert constraint.group(NUMA_0) == constraint.group(ALSO_0) != constraint.group(NUMA_1)


def test_an_empty_constraint_is_none() -> None:
    assert build_constraint(DeviceConstraint()) is None
