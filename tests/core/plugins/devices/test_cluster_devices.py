"""What outlives an attempt: published devices, devices in use, and those about to be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from mooring.core.plugins.devices import cel
from mooring.core.plugins.devices.cluster_devices import ClusterDevices
from mooring.core.plugins.devices.pools import DeviceId
from mooring.core.state.cluster import ClusterState

from .builders import ABC, Wire, allocation, device, sliced


def result(name: str) -> Wire:
    return {"request": "r", "driver": "drv", "pool": "p", "device": name}


def stored(name: str = "c", version: int = 1, uses: str = "") -> ResourceClaim:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    status = {"allocation": {"devices": {"results": [result(uses)]}}} if uses else {}
    return msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)


def made(*objects: Any) -> tuple[ClusterState, ClusterDevices]:
    cluster = ClusterState()
    for each in objects:
        cluster.put(each)
    return cluster, ClusterDevices(cluster)


def in_use(devices: ClusterDevices) -> set[str]:
    return {id.device for id in devices.allocated().devices}


class TestDevicesInUse:
    def test_claims_that_are_there_count(self) -> None:
        _, devices = made(stored(uses="a"), stored("idle"))
        assert in_use(devices) == {"a"}

    def test_claims_are_followed(self) -> None:
        cluster, devices = made(stored(uses="a"))
        assert in_use(devices) == {"a"}
        cluster.put(stored(version=2, uses="b"))
        assert in_use(devices) == {"b"}
        cluster.objects.remove(ResourceClaim, "ns/c")
        assert in_use(devices) == set()

    def test_positions_follow_what_is_in_use(self) -> None:
        cluster, devices = made(msgspec.convert(ABC, ResourceSlice), stored(uses="a"))
        reach = devices.inventory().reach_of("n", {})
        assert devices.allocated().taken(reach) == (0,)
        devices.add_pending("u", stored("d"), allocation(result("c")))
        assert devices.allocated().taken(reach) == (0, 2)
        cluster.put(stored(version=2))
        assert devices.allocated().taken(reach) == (2,)


class TestAllocationsUnderWay:
    def pending(self) -> AllocationResult:
        return allocation(result("a"))

    def test_they_count_immediately(self) -> None:
        _, devices = made(stored())
        devices.add_pending("uid-c", stored(), self.pending())
        assert (in_use(devices), devices.pending_allocation("uid-c")) == ({"a"}, self.pending())

    def test_they_count_no_longer_when_they_are_withdrawn(self) -> None:
        _, devices = made(stored())
        devices.add_pending("uid-c", stored(), self.pending())
        devices.remove_pending("uid-c")
        assert (in_use(devices), devices.pending_allocation("uid-c")) == (set(), None)

    def test_a_claim_with_an_allocation_counts_once(self) -> None:
        cluster, devices = made(stored())
        devices.add_pending("uid-c", stored(), self.pending())
        cluster.put(stored(version=2, uses="a"))
        assert devices.allocated().devices == {DeviceId("drv", "p", "a"): 1}
        assert devices.pending_allocation("uid-c") is None

    def test_a_fork_knows_them(self) -> None:
        cluster, devices = made(stored())
        devices.add_pending("uid-c", stored(), self.pending())
        fork = devices.on(cluster.fork())
        fork.remove_pending("uid-c")
        assert (in_use(fork), in_use(devices)) == (set(), {"a"})


class TestAssumedClaims:
    @pytest.mark.parametrize(
        ("watched", "want"),
        [
            pytest.param(None, {"b"}, id="the watch says nothing new"),
            pytest.param(stored(version=4), {"b"}, id="the watch shows an older version"),
            pytest.param(stored(version=5), set(), id="the watch has caught up"),
            pytest.param(stored(version=9, uses="c"), {"c"}, id="the watch knows better"),
        ],
    )
    def test_what_was_stored_counts_until_the_watch_has_caught_up(
        self, watched: ResourceClaim | None, want: set[str]
    ) -> None:
        cluster, devices = made(stored(version=1))
        devices.assume(stored(version=5, uses="b"))
        if watched is not None:
            cluster.put(watched)
        assert in_use(devices) == want

    def test_a_claim_of_ours_counts_before_the_watch_shows_it(self) -> None:
        cluster, devices = made()
        devices.assume(stored("new", 5, "a"), is_new=True)
        assert in_use(devices) == {"a"} and devices.claim("ns/new") is not None
        cluster.put(stored("new", 5, "a"))
        cluster.objects.remove(ResourceClaim, "ns/new")
        assert in_use(devices) == set() and devices.claim("ns/new") is None

    def test_a_claim_that_we_deleted_is_gone(self) -> None:
        _, devices = made()
        devices.assume(stored("new", 5, "a"), is_new=True)
        devices.forget(stored("new", 5))
        assert in_use(devices) == set()

    def test_all_claims_are_listed_as_they_are_known(self) -> None:
        _, devices = made(stored(version=1), stored("d"))
        newest = stored(version=5, uses="b")
        devices.assume(newest)
        assert {claim.key: claim is newest for claim in devices.claims()} == {"ns/c": True, "ns/d": False}


def test_slices_are_followed() -> None:
    cluster, devices = made()
    assert devices.inventory().reach_of("n", {}).ids == []
    cluster.put(msgspec.convert(ABC, ResourceSlice))
    assert len(devices.inventory().reach_of("n", {}).ids) == 3
    cluster.put(msgspec.convert(sliced(device("a")), ResourceSlice))
    assert len(devices.inventory().reach_of("n", {}).ids) == 1
    cluster.objects.remove(ResourceSlice, "s")
    assert devices.inventory().reach_of("n", {}).ids == []


def test_classes_stand_for_extended_resources() -> None:
    cluster, devices = made()
    before = devices.mapping_version()
    assert not devices.backs("example.com/gpu")
    wire = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    cluster.put(msgspec.convert(wire, DeviceClass))
    assert devices.backs("example.com/gpu") and devices.mapping_version() != before
    assert not ClusterDevices(cluster, extended=False).backs("example.com/gpu")


def class_with(*expressions: str) -> DeviceClass:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}, DeviceClass)


class TestGettingReady:
    def test_a_class_sets_cel_up_before_a_pod_needs_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, devices = made()
        devices.get_ready(class_with("nonsense(", "device.driver != 'drv'"))
        monkeypatch.setattr(cel, "_Runtime", None)  # it is there, or this fails
        devices.selectors.compile("device.driver != 'drv'")

    def test_a_class_without_selectors_needs_no_cel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, devices = made()
        monkeypatch.setattr(cel, "_Runtime", None)
        devices.get_ready(class_with())


def test_nodes_that_the_same_slices_target_hold_what_they_reach_once() -> None:
    spec = {each: ABC["spec"][each] for each in ("driver", "devices")}
    everywhere = {**spec, "allNodes": True, "pool": {"name": "q", "resourceSliceCount": 1}}
    local = {**spec, "nodeName": "n", "pool": {"name": "r", "resourceSliceCount": 1}}
    cluster, devices = made(msgspec.convert({"metadata": {"name": "s"}, "spec": everywhere}, ResourceSlice))
    inventory = devices.inventory()
    reach = inventory.reach_of("n", {})
    assert inventory.reach_of("m", {"zone": "z"}) is reach and len(reach.ids) == 3
    cluster.put(msgspec.convert({"metadata": {"name": "t"}, "spec": local}, ResourceSlice))
    assert len(devices.inventory().reach_of("n", {}).ids) == 6
    assert len(devices.inventory().reach_of("m", {"zone": "z"}).ids) == 3
