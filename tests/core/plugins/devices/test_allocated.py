"""Which devices are taken, followed change by change."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.resource import AllocationResult, ResourceSlice
from mooring.core.plugins.devices.extended import AllocatedState
from mooring.core.plugins.devices.pools import DeviceId, Inventory

from .builders import Wire, allocation, holding

POOLS = ("a", "b", "c")
DEVICES = ("0", "1", "2")


def held(*devices: tuple[str, str]) -> AllocationResult:
    return allocation(*({"driver": "d", "pool": pool, "device": device} for pool, device in devices))


def published(pool: str) -> ResourceSlice:
    spec = {"driver": "d", "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, "nodeName": f"on-{pool}"}
    devices = [{"name": device} for device in DEVICES]
    return msgspec.convert({"metadata": {"name": pool}, "spec": {**spec, "devices": devices}}, ResourceSlice)


def test_what_is_removed_is_forgotten() -> None:
    both = allocation(
        {"driver": "drv", "pool": "p", "device": "a"},
        {"driver": "drv", "pool": "p", "device": "s", "shareID": "1", "consumedCapacity": {"memory": "1Gi"}},
    )
    state = holding(both, both)
    state.remove(both)
    assert len(state.devices) == len(state.shares) == len(state.capacity) == 1
    state.remove(both)
    assert not state.devices and not state.shares and not state.capacity


@pytest.mark.parametrize(
    ("result", "is_in_use", "is_taken"),
    [
        pytest.param({}, True, True, id="a device that a claim holds alone"),
        pytest.param({"shareID": "1"}, True, False, id="a shared device"),
        pytest.param({"adminAccess": True}, False, False, id="admin access takes nothing away"),
    ],
)
def test_how_a_device_is_used(result: Wire, is_in_use: bool, is_taken: bool) -> None:
    state = holding(allocation({"driver": "d", "pool": "a", "device": "1", **result}))
    id = DeviceId("d", "a", "1")
    assert (state.is_in_use(id), id in state.devices) == (is_in_use, is_taken)


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
            state.add(held((pool, device)))
        elif step == "publish":
            inventory.put(published(pool))
        elif DeviceId("d", pool, device) in state.devices:
            state.remove(held((pool, device)))
        state.tell(inventory)
        for each in POOLS:
            reach = inventory.reach_of(f"on-{each}", {})
            assert state.taken(reach) == tuple(i for i, id in enumerate(reach.ids) if id in state.devices)


def test_reported_changes_are_dropped() -> None:
    state = AllocatedState()
    state.add(held(("a", "1"), ("b", "0")))
    assert state.changed == {("d", "a"), ("d", "b")}
    state.tell(Inventory())
    assert state.changed == set()


def test_what_one_state_has_found_says_nothing_about_another() -> None:
    here = Inventory([published("a")]).reach_of("on-a", {})
    used, unused = AllocatedState(), AllocatedState()
    used.add(held(("a", "1")))
    assert [used.taken(here), unused.taken(here), used.taken(here)] == [(1,), (), (1,)]
