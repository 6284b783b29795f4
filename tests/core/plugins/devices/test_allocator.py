"""Node after node: what was found for one node holds for others whose devices look the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.core.plugins.devices.allocator import AllocationTask, Allocator
from mooring.core.plugins.devices.extended import AllocatedState
from mooring.core.plugins.devices.pools import AllocationError

from .builders import (
    SELECTORS,
    Wire,
    allocation,
    claim,
    device,
    device_class,
    everything,
    exactly,
    first_of,
    inventory_of,
    sliced,
)


def twins() -> list[Wire]:
    """Nodes a, b and c with two devices each."""
    return [sliced(device("x"), device("y"), name=n, pool=n, nodeName=n) for n in "abc"]


def test_nodes_that_look_alike_are_searched_once() -> None:
    searched: list[str] = []
    allocator = Allocator(
        inventory_of(twins()), SELECTORS, AllocatedState(), device_class, begin=lambda: searched.append("")
    )
    task = allocator.prepare([claim(exactly())])
    found = [allocator.allocate(name, {}, task) for name in "abc"]
    assert [each.results()[0].devices.results[0].pool for each in found if each is not None] == ["a", "b", "c"]
    assert len(searched) == 1


def drawing(*amounts: str, slots: str, pool: str, **where: Any) -> list[Wire]:
    """A pool of devices that draw so much each from one counter."""
    draws = [[{"counterSet": "gpu", "counters": {"slots": {"value": amount}}}] for amount in amounts]
    devices = [device(f"d{i}", consumesCounters=each) for i, each in enumerate(draws)]
    counters = [{"name": "gpu", "counters": {"slots": {"value": slots}}}]
    return [
        sliced(*devices, name=f"{pool}-devices", pool=pool, count=2, **where),
        sliced(name=f"{pool}-counters", pool=pool, count=2, sharedCounters=counters, **where),
    ]


def test_nodes_that_reach_the_same_counters_are_searched_once() -> None:
    searched: list[str] = []
    inventory = inventory_of(drawing("1", "1", slots="2", pool="p", allNodes=True))
    allocator = Allocator(inventory, SELECTORS, AllocatedState(), device_class, begin=lambda: searched.append(""))
    task = allocator.prepare([claim(exactly(count=2))])
    assert all(allocator.allocate(name, {}, task) is not None for name in "abc")
    assert len(searched) == 1


def test_devices_that_look_alike_may_draw_on_other_counters() -> None:
    slices = [
        each for n, slots in (("a", "2"), ("b", "1")) for each in drawing("1", "1", slots=slots, pool=n, nodeName=n)
    ]
    allocator = Allocator(inventory_of(slices), SELECTORS, AllocatedState(), device_class)
    task = allocator.prepare([claim(exactly(count=2))])
    assert [allocator.allocate(name, {}, task) is not None for name in "ab"] == [True, False]


def test_a_device_in_use_makes_a_node_look_different() -> None:
    allocated = AllocatedState()
    allocated.add(allocation({"driver": "drv", "pool": "b", "device": "x"}))
    allocator = Allocator(inventory_of(twins()), SELECTORS, allocated, device_class)
    task = allocator.prepare([claim(exactly())])
    found = [allocator.allocate(name, {}, task) for name in "abc"]
    assert [each.results()[0].devices.results[0].device for each in found if each is not None] == ["x", "y", "x"]


def test_steps_of_all_searches_are_counted() -> None:
    allocator = Allocator(inventory_of(twins()), SELECTORS, AllocatedState(), device_class)
    allocator.allocate("a", {}, allocator.prepare([claim(exactly())]))
    once = allocator.steps
    allocator.allocate("a", {}, allocator.prepare([claim(exactly())]))
    assert (once > 0, allocator.steps) == (True, 2 * once)


some_devices = st.lists(
    st.builds(
        lambda node, tainted, shareable: {
            "attributes": {"numa": {"int": node}},
            "taints": [{"key": "sick", "effect": "NoSchedule"}] if tainted else [],
            **({"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}} if shareable else {}),
        },
        st.integers(0, 1),
        st.sampled_from([False, False, True]),
        st.sampled_from([False, False, True]),
    ),
    max_size=4,
)
some_requests = st.sampled_from(
    [
        [exactly()],
        [exactly(count=2)],
        [everything()],
        [exactly("r1", cel='device.attributes["drv"].numa == 1'), exactly("r2")],
        [first_of("r", exactly("three", 3), exactly("one")), exactly("last", capacity={"requests": {"memory": "3Gi"}})],
    ]
)
some_constraints = st.sampled_from([[], [], [{"matchAttribute": "drv/numa"}], [{"distinctAttribute": "drv/numa"}]])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(some_devices, min_size=2, max_size=4),
    some_requests,
    some_constraints,
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=4),
    st.lists(st.sampled_from(["1", "500m", "2"]), max_size=3),
)
def test_what_is_remembered_between_nodes_changes_no_choice(
    nodes: list[list[Wire]],
    requests: list[Wire],
    constraints: list[Wire],
    taken: set[tuple[int, int, bool]],
    draws: list[str],
) -> None:
    slices = [
        sliced(*(device(f"d{i}", **d) for i, d in enumerate(found)), name=f"s{n}", pool=f"n{n}", nodeName=f"n{n}")
        for n, found in enumerate([*nodes, *nodes])  # every node has a twin
    ]
    inventory = inventory_of(slices + (drawing(*draws, slots="2", pool="n0-all", allNodes=True) if draws else []))
    allocated = AllocatedState()
    for n, d, share in sorted(taken):
        result: Wire = {"driver": "drv", "pool": f"n{n}", "device": f"d{d}"}
        if share:
            result |= {"shareID": "x", "consumedCapacity": {"memory": "1Gi"}}
        allocated.add(allocation(result))
    wanted = [claim(*requests, name="c1", constraints=constraints), claim(exactly(), name="c2")]

    def outcome(allocator: Allocator, task: AllocationTask, node: str) -> Any:
        try:
            found = allocator.allocate(node, {}, task)
            return None if found is None else found.results()
        except AllocationError as error:
            return str(error)

    shared = Allocator(inventory, SELECTORS, allocated, device_class)
    task = shared.prepare(wanted)
    for n in range(len(slices)):
        alone = Allocator(inventory, SELECTORS, allocated, device_class)
        assert outcome(shared, task, f"n{n}") == outcome(alone, alone.prepare(wanted), f"n{n}")
