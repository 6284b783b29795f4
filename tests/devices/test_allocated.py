"""Which devices are taken, followed change by change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.api.resource import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from mooring.devices.allocated import AllocatedState
from mooring.devices.pools import DeviceId, Pool, PoolId, Reach

POOLS = ("a", "b", "c")
DEVICES = ("0", "1", "2")


def allocation(*devices: tuple[str, str]) -> AllocationResult:
    results = [
        DeviceRequestAllocationResult(request="r", driver="d", pool=pool, device=device) for pool, device in devices
    ]
    return AllocationResult(devices=DeviceAllocationResult(results=results))


def reach(*pools: str) -> Reach:
    ids = [DeviceId("d", pool, device) for pool in pools for device in DEVICES]
    return Reach([Pool(PoolId("d", pool)) for pool in pools], [], ids, 1)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(POOLS), st.sampled_from(DEVICES)), max_size=30))
def test_positions_that_are_kept_are_those_that_a_look_finds(steps: list[tuple[bool, str, str]]) -> None:
    state = AllocatedState()
    reaches = [reach("a"), reach("b", "c"), reach("c", "a", "b"), reach()]
    for adds, pool, device in steps:
        if adds:
            state.add(allocation((pool, device)))
        elif DeviceId("d", pool, device) in state.devices:
            state.remove(allocation((pool, device)))
        for each in reaches:
            assert state.taken(each) == tuple(i for i, id in enumerate(each.ids) if id in state.devices)


def test_a_pool_that_has_all_its_devices_back_is_forgotten() -> None:
    state, before = AllocatedState(), AllocatedState()
    for device in DEVICES:
        state.add(allocation(("a", device)))
    for device in DEVICES:
        state.remove(allocation(("a", device)))
    assert (state._held, state._changed) == (before._held, before._changed) == ({}, {})


def test_what_one_state_has_found_says_nothing_about_another() -> None:
    here = reach("a")
    used, unused = AllocatedState(), AllocatedState()
    used.add(allocation(("a", "1")))
    assert [used.taken(here), unused.taken(here), used.taken(here)] == [(1,), (), (1,)]
