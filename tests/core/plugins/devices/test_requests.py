"""A claim as the allocator works through it."""

from __future__ import annotations

import pytest

from mooring.core.plugins.devices.claims import RequestedDevices, plan_claim

from .builders import Wire, claim, device_class, everything, exactly, first_of


def planned(*requests: Wire) -> list[list[RequestedDevices]]:
    return plan_claim(claim(*requests), device_class).requests


def test_a_request_has_one_alternative_and_a_list_several() -> None:
    found = planned(exactly("r0"), first_of("r1", exactly("s0", 2), exactly("s1")))
    assert [[request.full_name for request in alternatives] for alternatives in found] == [["r0"], ["r1/s0", "r1/s1"]]
    assert [request.base_name for alternatives in found for request in alternatives] == ["r0", "r1", "r1"]
    assert [sorted(request.names) for alternatives in found for request in alternatives] == [
        ["r0"],
        ["r1", "r1/s0"],
        ["r1", "r1/s1"],
    ]


@pytest.mark.parametrize(
    ("wire", "wants_all", "count", "admin_access"),
    [
        pytest.param(exactly(count=3), False, 3, False, id="so many"),
        pytest.param(everything(), True, 0, False, id="all"),
        pytest.param(exactly(adminAccess=True), False, 1, True, id="with admin access"),
        pytest.param(first_of("r", exactly("s", 2)), False, 2, False, id="an alternative"),
    ],
)
def test_what_is_asked_for(wire: Wire, wants_all: bool, count: int, admin_access: bool) -> None:
    ((request,),) = planned(wire)
    assert (request.wants_all, request.count, request.admin_access) == (wants_all, count, admin_access)


def test_selectors_of_the_class_come_first() -> None:
    ((request,),) = planned(exactly(cls="big", cel="true"))
    assert (len(request.expressions), request.class_expressions, request.expressions[1]) == (2, 1, "true")


@pytest.mark.parametrize(
    ("wire", "problem"),
    [
        pytest.param(exactly(), "", id="none"),
        pytest.param(
            exactly(cls="ghost"),
            "claim ns/c, request r: could not retrieve device class ghost: "
            'deviceclass.resource.k8s.io "ghost" not found',
            id="no such class",
        ),
        pytest.param(
            exactly(cls=""),
            "claim ns/c, request r: missing device class name (unsupported request type?)",
            id="no class named",
        ),
        pytest.param(
            exactly(selectors=[{"cel": {"expression": "true"}}, {}]),
            "claim ns/c, request r, selector #1: CEL expression empty (unsupported selector type?)",
            id="a selector of an unknown kind",
        ),
        pytest.param(
            exactly(allocationMode="Most"), "claim ns/c, request r: unsupported count mode Most", id="an unknown mode"
        ),
        pytest.param(
            {"name": "r"},
            "claim ns/c, request r: missing device class name (unsupported request type?)",
            id="neither exact nor a list",
        ),
    ],
)
def test_why_a_request_cannot_be_served_at_all(wire: Wire, problem: str) -> None:
    ((request,),) = planned(wire)
    assert request.problem == problem
