"""The allocator as it was until 1.36, and as it is since 1.37."""

from __future__ import annotations

import pytest

from mooring.config.features import Features
from mooring.config.versions import V1_36, V1_37
from mooring.devices.pools import AllocationError
from mooring.devices.rules import FIRST_RULES, Rules

from .builders import allocate, allocation, chosen, claim, device, everything, exactly, holding, in_use, sliced

NOW = Rules.of(Features(V1_37).__getitem__)
BOTH = pytest.mark.parametrize("rules", [pytest.param(FIRST_RULES, id="1.36"), pytest.param(NOW, id="1.37")])


def test_rules_are_those_of_the_version() -> None:
    assert Rules.of(Features(V1_36).__getitem__) == FIRST_RULES
    assert Rules(True, True, True, True, True) == NOW


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
