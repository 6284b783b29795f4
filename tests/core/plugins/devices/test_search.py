"""The search, asked with objects as they stand on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.resource import ResourceClaim
from mooring.core.plugins.devices.allocator import Allocator
from mooring.core.plugins.devices.extended import AllocatedState
from mooring.core.plugins.devices.pools import AllocationError
from mooring.core.plugins.devices.search import AllocationTimeout, InvalidPools

from .builders import (
    ABC,
    SELECTORS,
    SHARED,
    Wire,
    allocate,
    chosen,
    claim,
    device,
    device_class,
    everything,
    exactly,
    first_of,
    in_use,
    inventory_of,
    sliced,
)


def numa(name: str, node: int) -> Wire:
    return device(name, numa=node)


FULL_SLOTS = [{"name": "cs", "counters": {"slots": {"value": "2"}}}]


def drawing(name: str, slots: int, **more: Any) -> Wire:
    return device(name, consumesCounters=[{"counterSet": "cs", "counters": {"slots": {"value": str(slots)}}}], **more)


PARTITIONS = [
    sliced(drawing("half-1", 1), drawing("half-2", 1), drawing("whole", 2), name="s1", count=2),
    sliced(name="s2", count=2, sharedCounters=FULL_SLOTS),
]


@pytest.mark.parametrize(
    ("slices", "claims", "allocated", "want"),
    [
        pytest.param([ABC], [claim(exactly())], None, [["r=a"]], id="the first device"),
        pytest.param([ABC], [claim(exactly(count=2))], None, [["r=a", "r=b"]], id="two devices in order"),
        pytest.param([ABC], [claim(exactly(count=4))], None, None, id="more than there are"),
        pytest.param([], [claim(exactly())], None, None, id="no devices at all"),
        pytest.param([ABC], [claim(exactly())], in_use("a"), [["r=b"]], id="devices in use are passed over"),
        pytest.param([ABC], [claim(exactly())], in_use("a", admin=True), [["r=a"]], id="admin access takes nothing"),
        pytest.param(
            [ABC],
            [claim(exactly(adminAccess=True))],
            in_use("a", "b", "c"),
            [["r=a"]],
            id="admin access may look at all",
        ),
        pytest.param(
            [ABC],
            [claim(exactly("r1", adminAccess=True), exactly("r2", adminAccess=True))],
            None,
            [["r1=a", "r2=b"]],
            id="but not twice in one claim",
        ),
        pytest.param(
            [ABC],
            [claim(exactly(count=2), name="c1"), claim(exactly(), name="c2")],
            None,
            [["r=a", "r=b"], ["r=c"]],
            id="several claims",
        ),
        pytest.param(
            [ABC],
            [claim(exactly("r1"), exactly("r2", cel='device.driver == "drv"'), exactly("r3", count=2))],
            None,
            None,
            id="requests do not share",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 1), numa("c", 1))],
            [claim(exactly(count=2), constraints=[{"matchAttribute": "drv/numa"}])],
            None,
            [["r=b", "r=c"]],
            id="equal attributes, found by backtracking",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 0), numa("c", 1))],
            [claim(exactly("r1"), exactly("r2"), constraints=[{"distinctAttribute": "drv/numa"}])],
            None,
            [["r1=a", "r2=c"]],
            id="different attributes",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 1), device("c"))],
            [
                claim(
                    exactly("r1"),
                    exactly("r2"),
                    exactly("r3"),
                    constraints=[{"matchAttribute": "drv/numa", "requests": ["r1"]}],
                )
            ],
            None,
            [["r1=a", "r2=b", "r3=c"]],
            id="a constraint on one request only",
        ),
        pytest.param(
            [ABC],
            [claim(exactly(), constraints=[{"matchAttribute": "drv/numa"}])],
            None,
            None,
            id="no device has the attribute",
        ),
        pytest.param(
            [sliced(numa("a", 0))],
            [claim(exactly(), constraints=[{"matchAttribute": "other/numa"}])],
            None,
            None,
            id="another domain's attribute",
        ),
        pytest.param(
            [ABC],
            [claim(first_of("r", exactly("four", 4), exactly("two", 2), exactly("one")))],
            None,
            [["r/two=a", "r/two=b"]],
            id="the first alternative that works",
        ),
        pytest.param(
            [ABC],
            [claim(first_of("r1", exactly("three", 3), exactly("one")), exactly("r2"))],
            None,
            [["r1/one=a", "r2=b"]],
            id="an alternative is given up for a later request",
        ),
        pytest.param([ABC], [claim(everything())], None, [["r=a", "r=b", "r=c"]], id="all devices"),
        pytest.param([ABC], [claim(everything())], in_use("b"), None, id="all, but one is in use"),
        pytest.param([], [claim(everything())], None, None, id="all of nothing is not enough"),
        pytest.param(
            [sliced(device("a", taints=[{"key": "sick", "effect": "NoSchedule"}]), device("b"))],
            [claim(exactly())],
            None,
            [["r=b"]],
            id="a tainted device",
        ),
        pytest.param(
            [sliced(device("a", taints=[{"key": "sick", "effect": "NoExecute"}]))],
            [claim(exactly(tolerations=[{"key": "sick", "operator": "Exists"}]))],
            None,
            [["r=a"]],
            id="a taint that is tolerated",
        ),
        pytest.param(
            [sliced(device("a", taints=[{"key": "sick", "value": "x", "effect": "NoExecute"}]))],
            [claim(exactly(tolerations=[{"key": "sick", "operator": "Equal", "value": "y"}]))],
            None,
            None,
            id="a toleration for another value",
        ),
        pytest.param(
            [sliced(device("a", taints=[{"key": "sick", "effect": "None"}]))],
            [claim(exactly())],
            None,
            [["r=a"]],
            id="a taint without effect",
        ),
        pytest.param(
            PARTITIONS, [claim(exactly(count=2))], None, [["r=half-1", "r=half-2"]], id="partitions share counters"
        ),
        pytest.param(PARTITIONS, [claim(exactly(count=3))], None, None, id="counters run out"),
        pytest.param(
            PARTITIONS, [claim(exactly())], in_use("whole"), None, id="a whole device in use leaves no partition"
        ),
        pytest.param(PARTITIONS, [claim(exactly())], in_use("half-2"), [["r=half-1"]], id="half of it is left"),
        pytest.param(
            [SHARED],
            [
                claim(
                    exactly("r1", capacity={"requests": {"memory": "10Gi"}}),
                    exactly("r2", capacity={"requests": {"memory": "30Gi"}}),
                )
            ],
            None,
            [["r1=shared", "r2=shared"]],
            id="two requests share one device",
        ),
        pytest.param(
            [SHARED],
            [
                claim(
                    exactly("r1", capacity={"requests": {"memory": "11Gi"}}),
                    exactly("r2", capacity={"requests": {"memory": "30Gi"}}),
                )
            ],
            None,
            None,
            id="the shares do not fit",
        ),
        pytest.param(
            [SHARED],
            [claim(exactly(capacity={"requests": {"memory": "20Gi"}}))],
            in_use("shared", share=True, consumed={"memory": "20Gi"}),
            [["r=shared"]],
            id="what is left of a shared device",
        ),
        pytest.param(
            [SHARED],
            [claim(exactly())],
            in_use("shared", share=True, consumed={"memory": "1"}),
            None,
            id="all of it is no longer there",
        ),
        pytest.param(
            [ABC],
            [claim(exactly(capacity={"requests": {"memory": "1"}}))],
            None,
            None,
            id="no device has the capacity asked for",
        ),
        pytest.param(
            [
                sliced(
                    device("a", capacity={"memory": {"value": "16Gi"}}),
                    device("b", capacity={"memory": {"value": "80Gi"}}),
                )
            ],
            [claim(exactly(cls="big"))],
            None,
            [["r=b"]],
            id="a class selects",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 1))],
            [claim(exactly(cel='device.attributes["drv"].numa == 1'))],
            None,
            [["r=b"]],
            id="a request selects",
        ),
        pytest.param(
            [sliced(device("a", nodeName="m"), device("b", nodeName="n"), perDeviceNodeSelection=True)],
            [claim(exactly())],
            None,
            [["r=b"]],
            id="devices that name their node",
        ),
        pytest.param([ABC], [], None, [], id="nothing to allocate"),
    ],
)
def test_which_devices_are_chosen(
    slices: list[Wire], claims: list[ResourceClaim], allocated: AllocatedState | None, want: list[list[str]] | None
) -> None:
    assert chosen(allocate(slices, *claims, allocated=allocated)) == want


BROKEN_POOL = sliced(device("x"), device("x"), name="bad", pool="bad")


@pytest.mark.parametrize(
    ("slices", "wanted", "text"),
    [
        pytest.param(
            [sliced(device("a"), count=2)],
            claim(everything()),
            "claim ns/c, request r: asks for all devices, but resource pool drv/p is currently being updated",
            id="all of a pool that is being updated",
        ),
        pytest.param(
            [BROKEN_POOL],
            claim(everything()),
            "claim ns/c, request r: asks for all devices, but resource pool drv/bad is currently invalid",
            id="all of a pool that contradicts itself",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 1))],
            claim(everything(), constraints=[{"matchAttribute": "drv/numa"}]),
            "claim ns/c, request r: cannot add device drv/p/b because a claim constraint would not be satisfied",
            id="all, against a constraint",
        ),
        pytest.param(
            [ABC],
            claim(exactly(count=33)),
            "claim ns/c: number of requested devices 33 exceeds the claim limit of 32",
            id="more than a claim may hold",
        ),
        pytest.param(
            [ABC],
            claim(exactly(), constraints=[{}]),
            "claim ns/c, constraint #0: empty constraint (unsupported constraint type?)",
            id="an empty constraint",
        ),
        pytest.param(
            [ABC],
            claim(exactly(selectors=[{}])),
            "claim ns/c, request r, selector #0: CEL expression empty (unsupported selector type?)",
            id="an empty selector",
        ),
        pytest.param(
            [ABC],
            claim(exactly(cls="ghost")),
            "claim ns/c, request r: could not retrieve device class ghost: "
            'deviceclass.resource.k8s.io "ghost" not found',
            id="no such class",
        ),
        pytest.param(
            [ABC],
            claim(exactly(allocationMode="Some")),
            "claim ns/c, request r: unsupported count mode Some",
            id="an unknown mode",
        ),
        pytest.param(
            [ABC],
            claim(exactly(cel='device.attributes["drv"].gone == 1')),
            "claim ns/c: selector #0: CEL runtime error: no such key: gone",
            id="a selector that fails",
        ),
    ],
)
def test_what_is_wrong_with_a_claim_stops_the_search(slices: list[Wire], wanted: ResourceClaim, text: str) -> None:
    with pytest.raises(AllocationError) as error:
        allocate(slices, wanted)
    assert str(error.value) == text


def test_a_class_that_does_not_compile_is_named() -> None:
    with pytest.raises(AllocationError, match="class broken: selector #0: CEL compile error: compilation failed"):
        allocate([ABC], claim(exactly(cls="broken")))


class TestInvalidPools:
    def test_they_matter_when_nothing_else_serves(self) -> None:
        with pytest.raises(InvalidPools, match="invalid resource pools were encountered"):
            allocate([BROKEN_POOL], claim(exactly()))

    def test_they_do_not_matter_beside_a_good_one(self) -> None:
        assert chosen(allocate([BROKEN_POOL, ABC], claim(exactly()))) == [["r=a"]]


def test_a_claim_never_holds_more_than_32_devices() -> None:
    many = sliced(*(device(f"d{i:02}") for i in range(60)))
    wanted = claim(exactly("r1", 20), first_of("r2", exactly("lots", 20), exactly("few", 2)))
    results = allocate([many], wanted)
    assert results is not None
    assert {r.request for r in results[0].devices.results} == {"r1", "r2/few"}


def test_a_search_that_times_out_reports_it() -> None:
    late = iter([False, False, True])
    allocator = Allocator(inventory_of([ABC]), SELECTORS, AllocatedState(), device_class, lambda: next(late))
    with pytest.raises(AllocationTimeout, match="node n: timed out trying to allocate devices"):
        allocator.allocate("n", {}, allocator.prepare([claim(exactly(count=3))]))


def test_pods_with_very_many_claims_do_not_exhaust_the_stack() -> None:
    many = sliced(*(device(f"d{i:04}") for i in range(960)))
    results = allocate([many], *(claim(exactly(count=32), name=f"c{i}") for i in range(30)))
    assert results is not None
    assert sum(len(result.devices.results) for result in results) == 960
