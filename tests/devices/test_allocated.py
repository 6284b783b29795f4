"""Which devices are taken, followed change by change."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceSlice,
)
from mooring.devices.allocated import AllocatedState
from mooring.devices.pools import DeviceId, Inventory

POOLS = ("a", "b", "c")
DEVICES = ("0", "1", "2")


def allocation(*devices: tuple[str, str]) -> AllocationResult:
    results = [
        DeviceRequestAllocationResult(request="r", driver="d", pool=pool, device=device) for pool, device in devices
    ]
    return AllocationResult(devices=DeviceAllocationResult(results=results))


def published(pool: str) -> ResourceSlice:
    spec = {"driver": "d", "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, "nodeName": f"on-{pool}"}
    devices = [{"name": device} for device in DEVICES]
    return msgspec.convert({"metadata": {"name": pool}, "spec": {**spec, "devices": devices}}, ResourceSlice)


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "publish"]), st.sampled_from(POOLS), st.sampled_from(DEVICES)),
        max_size=30,
    )
)
def test_positions_that_are_kept_are_those_that_a_look_finds(steps: list[tuple[str, str, str]]) -> None:
    state = AllocatedState()
    inventory = Inventory(published(pool) for pool in POOLS)
    for step, pool, device in steps:
        if step == "add":
            state.add(allocation((pool, device)))
        elif step == "publish":
            inventory.put(published(pool))
        elif DeviceId("d", pool, device) in state.devices:
            state.remove(allocation((pool, device)))
        state.tell(inventory)
        for each in POOLS:
            reach = inventory.reach_of(f"on-{each}", {})
            assert state.taken(reach) == tuple(i for i, id in enumerate(reach.ids) if id in state.devices)


def test_changes_that_were_told_are_not_kept() -> None:
    state = AllocatedState()
    state.add(allocation(("a", "1"), ("b", "0")))
    assert state.changed == {("d", "a"), ("d", "b")}
    state.tell(Inventory())
    assert state.changed == set()


def test_what_one_state_has_found_says_nothing_about_another() -> None:
    here = Inventory([published("a")]).reach_of("on-a", {})
    used, unused = AllocatedState(), AllocatedState()
    used.add(allocation(("a", "1")))
    assert [used.taken(here), unused.taken(here), used.taken(here)] == [(1,), (), (1,)]
