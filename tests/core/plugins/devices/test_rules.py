"""In which details the allocator of one version differs from that of another."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from mooring.core.config.features import Features
from mooring.core.config.versions import V1_34, V1_35, V1_36, V1_37
from mooring.core.plugins.devices.pools import FIRST_RULES, AllocationError, Rules

from .builders import (
    allocate,
    allocation,
    chosen,
    claim,
    device,
    everything,
    exactly,
    first_of,
    holding,
    in_use,
    sliced,
)

BEFORE, NOW = Rules.of(Features(V1_34)), Rules.of(Features(V1_37))
BOTH = pytest.mark.parametrize("rules", [pytest.param(FIRST_RULES, id="1.36"), pytest.param(NOW, id="1.37")])


def test_rules_are_those_of_the_version() -> None:
    assert Rules.of(Features(V1_36)) == FIRST_RULES
    old = {"sees_only_slices_of_the_node", "fails_at_invalid_pools", "mixes_alternatives"}
    changes = {field.name: field.name not in old | {"counts_milli"} for field in fields(Rules)}
    assert Rules(**changes) == NOW
    assert Rules(**dict.fromkeys(old, True)) == BEFORE
    assert Rules(mixes_alternatives=True) == Rules.of(Features(V1_35))
    assert Rules.of(Features(V1_37, DRAFractionalCapacityRange=True)).counts_milli


@BOTH
def test_distinct_values_within_one_request(rules: Rules) -> None:
    """Values 0, 1, 0: the third is like the first, which 1.36 has forgotten."""
    found = allocate(
        [sliced(device("a", numa=0), device("b", numa=1), device("c", numa=0))],
        claim(exactly(count=3), constraints=[{"distinctAttribute": "drv/numa"}]),
        rules=rules,
    )
    assert chosen(found) == (None if rules is NOW else [["r=a", "r=b", "r=c"]])


@BOTH
def test_distinct_values_are_forgotten_with_their_device(rules: Rules) -> None:
    found = allocate(
        [sliced(device("a", numa=0), device("b", numa=0), device("c", numa=1))],
        claim(exactly(count=2), constraints=[{"distinctAttribute": "drv/numa"}]),
        rules=rules,
    )
    assert chosen(found) == [["r=a", "r=c"]]


@BOTH
def test_all_devices_where_one_is_used_up(rules: Rules) -> None:
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}}
    found = allocate(
        [sliced(device("a", **shared), device("b", **shared))],
        claim(everything()),
        allocated=in_use("a", share=True, consumed={"memory": "4Gi"}),
        rules=rules,
    )
    assert chosen(found) == (None if rules is NOW else [["r=b"]])


@BOTH
def test_a_configuration_for_several_requests(rules: Rules) -> None:
    own = [{"requests": ["r1", "r2"]}, {"requests": ["r1"]}]
    found = allocate([sliced(device("a"), device("b"))], claim(exactly("r1"), exactly("r2"), config=own), rules=rules)
    assert found is not None
    written = [each.requests for each in found[0].devices.config]
    assert written == ([[], ["r1"]] if rules is NOW else [["r1", "r2"], ["r1", "r2"], ["r1"]])


@BOTH
def test_what_an_error_of_a_selector_says(rules: Rules) -> None:
    with pytest.raises(AllocationError) as caught:
        allocate([sliced(device("a"))], claim(exactly(cel='device.attributes["drv"].none')), rules=rules)
    where = "claim ns/c: selector #0" + (" on device drv/p/a" if rules is NOW else "")
    assert str(caught.value).startswith(f"{where}: CEL runtime error: no such key: none")
    assert ("consider using CEL optional chaining" in str(caught.value)) is (rules is NOW)


@BOTH
def test_counters_of_a_device_that_is_shared_without_capacity(rules: Rules) -> None:
    """Another share of the device draws nothing more: it is in use already."""
    counted = {"consumesCounters": [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}]}
    whole = device("a", allowMultipleAllocations=True, **counted)
    counters = [{"name": "set", "counters": {"slots": {"value": "1"}}}]
    slices = [
        sliced(whole, count=2),
        sliced(name="t", count=2, sharedCounters=counters),
    ]
    share = {"request": "x", "driver": "drv", "pool": "p", "device": "a", "shareID": "0"}
    allocated = holding(allocation(share))
    found = allocate(slices, claim(exactly()), allocated=allocated, rules=rules)
    assert chosen(found) == ([["r=a"]] if rules is NOW else None)


@BOTH
def test_counters_of_another_nodes_slice(rules: Rules) -> None:
    """A pool that another node has counters of, and whose slices are not all there, is no matter of this node."""
    counters = [{"name": "set", "counters": {"slots": {"value": "1"}}}]
    slices = [
        sliced(device("a"), name="here", pool="here", nodeName="n"),
        sliced(name="there", pool="there", count=2, sharedCounters=counters, nodeName="elsewhere"),
    ]
    if rules is NOW:
        assert chosen(allocate(slices, claim(everything()), rules=rules)) == [["r=a"]]
    else:
        with pytest.raises(AllocationError, match="resource pool drv/there is currently being updated"):
            allocate(slices, claim(everything()), rules=rules)


@BOTH
def test_devices_with_compatibility_groups(rules: Rules) -> None:
    """The whole pool waits for an allocator that understands them."""
    draws = {"counterSet": "set", "counters": {"slots": {"value": "1"}}, "compatibilityGroups": ["g"]}
    counters = [{"name": "set", "counters": {"slots": {"value": "4"}}}]
    slices = [
        sliced(device("a"), name="s", count=3),
        sliced(device("b", consumesCounters=[draws]), name="t", count=3),
        sliced(name="u", count=3, sharedCounters=counters),
    ]
    found = allocate(slices, claim(exactly()), rules=rules)
    assert chosen(found) == (None if rules is NOW else [["r=a"]])


@BOTH
def test_the_notation_of_a_share(rules: Rules) -> None:
    policy = {"validRange": {"min": "1G", "step": "1G"}, "default": "1G"}
    shared = device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "8G", "requestPolicy": policy}})
    wanted = claim(exactly(capacity={"requests": {"memory": "1500M"}}))
    found = allocate([sliced(shared)], wanted, rules=rules)
    assert found is not None
    consumed = found[0].devices.results[0].consumed_capacity
    assert consumed == {"memory": "2G" if rules is NOW else "1953125Ki"}


@BOTH
def test_an_amount_beyond_all_bounds(rules: Rules) -> None:
    policy = {"validRange": {"min": "1", "step": "1"}, "default": "1"}
    shared = device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "8", "requestPolicy": policy}})
    wanted = claim(exactly(capacity={"requests": {"memory": "10E"}}))
    if rules is NOW:
        with pytest.raises(AllocationError, match=r"checking capacity for device drv/p/a: .* exceeds MaxInt64"):
            allocate([sliced(shared)], wanted, rules=rules)
    else:
        assert allocate([sliced(shared)], wanted, rules=rules) is None


# ---- until 1.35 ------------------------------------------------------------------------------------------------------

ONE_EACH = sliced(device("a", k=1), device("b", k=2), device("c", k=2))
K_IS = 'device.attributes["drv"].k == {}'


def all_with(name: str, k: int) -> dict[str, Any]:
    return everything(name, selectors=[{"cel": {"expression": K_IS.format(k)}}])


@pytest.mark.parametrize(
    ("alternatives", "before", "after"),
    [
        pytest.param(
            [exactly("x", count=1, cel=K_IS.format(3)), all_with("y", 2)],
            [["r/y=b"]],
            [["r/y=b", "r/y=c"]],
            id="after its first device the first alternative continues",
        ),
        pytest.param(
            [all_with("x", 3), all_with("y", 2)], None, [["r/y=b", "r/y=c"]], id="two that want all select as one"
        ),
    ],
)
def test_alternatives_that_want_all_are_mixed_up(
    alternatives: list[dict[str, object]], before: object, after: object
) -> None:
    wanted = claim(first_of("r", *alternatives))
    assert chosen(allocate([ONE_EACH], wanted, rules=Rules.of(Features(V1_35)))) == before
    assert chosen(allocate([ONE_EACH], wanted)) == after


# ---- until 1.34 ------------------------------------------------------------------------------------------------------


def test_an_incomplete_pool_yields_devices() -> None:
    incomplete = [sliced(device("a"), count=2)]
    assert chosen(allocate(incomplete, claim(exactly()), rules=BEFORE)) == [["r=a"]]
    assert allocate(incomplete, claim(exactly())) is None


def test_a_pool_is_complete_on_its_node() -> None:
    """Slices for other nodes are missing where a request wants all devices."""
    slices = [sliced(device("a"), count=2), sliced(device("b"), name="t", count=2, nodeName="m")]
    with pytest.raises(AllocationError, match="resource pool drv/p is currently being updated"):
        allocate(slices, claim(everything()), rules=BEFORE)
    assert chosen(allocate(slices, claim(everything()))) == [["r=a"]]


def test_an_invalid_pool_fails_the_attempt() -> None:
    twice = [sliced(device("a"), device("a"))]
    with pytest.raises(AllocationError, match="pool p is invalid: duplicate device name a"):
        allocate(twice, claim(exactly()), rules=BEFORE)
    with pytest.raises(AllocationError, match="invalid resource pools were encountered"):
        allocate(twice, claim(exactly()))
