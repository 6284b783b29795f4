from __future__ import annotations

import asyncio
import gc
import weakref
from collections import defaultdict
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from mooring.api.clock import VirtualClock
from mooring.api.core import Node, Pod
from mooring.api.errors import ApiError
from mooring.api.meta import Object
from mooring.api.pod_groups import PodGroup, PodGroupResourceClaim
from mooring.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from mooring.core.config.types import DynamicResourcesArgs
from mooring.core.framework.cluster_event import Hint
from mooring.core.framework.cycle_state import Budget, CycleState, OutOfTime
from mooring.core.framework.extension_points import points_of
from mooring.core.framework.handle import Handle, PluginMeters
from mooring.core.framework.pod_groups import PodGroupInfo, Tried
from mooring.core.framework.registry import Registry
from mooring.core.framework.status import SUCCESS, Code, NodeStatuses, Status
from mooring.core.plugins.devices.allocator import STRATEGIC_MERGE, attempt_of, binding_problem, chosen_devices
from mooring.core.plugins.devices.cluster_devices import ClusterDevices
from mooring.core.plugins.dynamic_resources import DynamicResources
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.testing import make_pod_group

Wire = dict[str, Any]
KINDS = {k.__name__: k for k in (Node, Pod, DeviceClass, ResourceClaim, ResourceSlice)}
NOW = 1_800_000_000.0


def obj(kind: str, name: str, namespace: str = "", **parts: Any) -> Object:
    meta = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": "1"}
    meta |= parts.pop("metadata", {})
    found: Object = msgspec.convert({"metadata": meta, **parts}, KINDS[kind])
    return found


def node(name: str) -> Object:
    return obj("Node", name)


def gpus(node_name: str, *devices: str, **more: Any) -> Object:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "drv", "pool": pool, "nodeName": node_name, "devices": [{"name": d, **more} for d in devices]}
    return obj("ResourceSlice", f"slice-{node_name}", spec=spec)


def claim(name: str, *requests: Wire, **parts: Any) -> Object:
    return obj("ResourceClaim", name, "ns", spec={"devices": {"requests": list(requests) or [exactly()]}}, **parts)


def exactly(name: str = "r", count: int = 1, cls: str = "gpu") -> Wire:
    return {"name": name, "exactly": {"deviceClassName": cls, "allocationMode": "ExactCount", "count": count}}


def pod(*claims: str, name: str = "p", requests: Wire | None = None, **parts: Any) -> Pod:
    spec = {
        "containers": [{"name": "main", "resources": {"requests": requests or {}}}],
        "resourceClaims": [{"name": c, "resourceClaimName": c} for c in claims],
    }
    found = obj("Pod", name, "ns", spec={**spec, **parts.pop("spec", {})}, **parts)
    assert isinstance(found, Pod)
    return found


def held(device: str, on: str = "a", users: tuple[str, ...] = (), **result: Any) -> Wire:
    """The status of an allocated claim."""
    results = [{"request": "r", "driver": "drv", "pool": on, "device": device, **result}]
    where = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}]}
    return {
        "allocation": {"devices": {"results": results}, "nodeSelector": where},
        "reservedFor": [{"resource": "pods", "name": u, "uid": f"uid-of-{u}"} for u in users],
    }


class World:
    """A small cluster and the plugin in it."""

    def __init__(self, *objects: Object, **features: bool) -> None:
        self.group_cycle: object | None = None
        self.cluster = ClusterState()
        self.cluster.put(obj("DeviceClass", "gpu"))
        for each in objects:
            self.cluster.put(each)
        self.clock = VirtualClock(NOW)
        self.devices = ClusterDevices(self.cluster)
        self.handle = Handle(self.cluster, clock=self.clock, devices=self.devices, features=features)
        self.plugin = DynamicResources(DynamicResourcesArgs(filter_timeout=10.0, binding_timeout=600.0), self.handle)
        self.state = CycleState()

    def info(self, pod: Pod) -> PodInfo:
        return self.cluster.info(pod)

    async def after_failure(self) -> None:
        work = self.plugin.after_failure(self.state, self.info(pod()))
        if work is not None:
            await work

    def nodes(self) -> NodeRows:
        return self.cluster.nodes()

    def pre_filter(self, pod: Pod) -> Status:
        self.state = CycleState()
        self.state.group_cycle = self.group_cycle
        status = self.plugin.pre_filter(self.state, self.info(pod), self.nodes())
        assert isinstance(status, Status)
        return status

    def filter(self, pod: Pod) -> dict[str, str]:
        """Run both; the reasons by node, empty where the pod fits."""
        status = self.pre_filter(pod)
        assert status.is_success, status
        nodes = self.nodes()
        verdict = self.plugin.filter(self.state, self.info(pod), nodes)
        found = [SUCCESS if verdict is None else verdict.status_of(int(verdict.ids[i])) for i in range(len(nodes))]
        assert all(s.code in (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE) for s in found), found
        return {info.name: status.message for info, status in zip(nodes.infos, found, strict=True)}

    def post_filter(self, pod: Pod) -> Status:
        statuses = NodeStatuses.everywhere(self.cluster.table, Status.unresolvable())
        return self.plugin.post_filter(self.state, self.info(pod), self.nodes(), statuses).status

    def place(self, pod: Pod, on: str) -> Status:
        self.filter(pod)
        return self.plugin.reserve(self.state, self.info(pod), on)


AB = (node("a"), node("b"), gpus("a", "gpu-0", "gpu-1"), gpus("b", "gpu-0"))


def test_the_registry_accepts_it_at_all_its_points() -> None:
    Registry([DynamicResources])
    want = {"preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind", "podGroupPostFilter"}
    assert points_of(DynamicResources) == want


def test_pods_with_claims_are_never_equal() -> None:
    world = World()
    assert world.plugin.sign(world.info(pod("c"))) is None
    assert world.plugin.sign(world.info(pod())) == ()


def test_an_attempt_goes_without_the_garbage_collector() -> None:
    """It remembers every node. Hundreds of them would wait for the collector, which comes seldom."""
    world = World(*AB, claim("c"))
    gc.disable()
    try:
        world.place(pod("c"), "a")
        attempt = attempt_of(world.state)
        assert attempt is not None and attempt.allocator is not None and attempt.node_allocations
        is_there = weakref.ref(attempt.allocator)
        del attempt
        world.state = CycleState()
        assert is_there() is None
    finally:
        gc.enable()


def test_a_binding_under_way_remembers_one_node() -> None:
    """There may be thousands of them, each of a pod that many nodes could have taken."""
    world = World(*AB, claim("c"))
    world.place(pod("c"), "a")
    attempt = attempt_of(world.state)
    assert attempt is not None and attempt.node_allocations.keys() == {"a", "b"}
    before = chosen_devices(world.state, "p", "a")
    world.plugin.pre_bind_pre_flight(world.state, world.info(pod("c")), "a")
    assert attempt.node_allocations.keys() == {"a"} and not attempt.verdicts and attempt.allocator is None
    assert chosen_devices(world.state, "p", "a") == before


class TestPreEnqueue:
    @pytest.mark.parametrize(
        ("waiting", "text"),
        [
            pytest.param(pod("gone"), 'could not find ResourceClaim "ns/gone"', id="no such claim"),
            pytest.param(pod("dying"), 'resourceclaim "dying" is being deleted', id="a claim being deleted"),
            pytest.param(
                pod(spec={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}),
                'pod "ns/p": ResourceClaim not created yet',
                id="a template's claim not made yet",
            ),
            pytest.param(
                pod(
                    spec={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]},
                    status={"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "free"}]},
                ),
                "ResourceClaim ns/free was not created for Pod ns/p (Pod is not owner)",
                id="a claim of another pod",
            ),
            pytest.param(
                pod(spec={"resourceClaims": [{"name": "x"}]}),
                'pod "ns/p", spec.resourceClaim "x": none of the supported fields are set',
                id="neither a name nor a template",
            ),
        ],
    )
    def test_pods_wait_for_their_claims(self, waiting: Pod, text: str) -> None:
        world = World(claim("free"), claim("dying", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
        assert world.plugin.pre_enqueue(waiting) == Status.unresolvable(text)
        assert world.pre_filter(waiting) == Status.unresolvable(text)

    @pytest.mark.parametrize(
        "ready",
        [
            pytest.param(pod(), id="no claims"),
            pytest.param(pod("free"), id="a claim by name"),
            pytest.param(
                pod(
                    spec={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]},
                    status={"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "mine"}]},
                ),
                id="its own claim of a template",
            ),
            pytest.param(
                pod(
                    spec={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]},
                    status={"resourceClaimStatuses": [{"name": "x"}]},
                ),
                id="a template that needs no claim",
            ),
        ],
    )
    def test_pods_that_have_their_claims(self, ready: Pod) -> None:
        owner = {"kind": "Pod", "name": "p", "uid": "uid-of-p", "controller": True}
        world = World(claim("free"), claim("mine", metadata={"ownerReferences": [owner]}))
        assert world.plugin.pre_enqueue(ready).is_success


class TestFilter:
    def test_a_pod_without_claims_is_none_of_its_business(self) -> None:
        world = World(*AB)
        assert world.pre_filter(pod()).is_skip
        assert world.plugin.filter(world.state, world.info(pod()), world.nodes()) is None
        assert world.post_filter(pod()) == Status.unschedulable("no new claims to deallocate")

    def test_an_unknown_class(self) -> None:
        sub = {"name": "s", "deviceClassName": "ghost", "allocationMode": "ExactCount", "count": 1}
        world = World(*AB, claim("c", {"name": "r", "firstAvailable": [sub]}))
        assert world.pre_filter(pod("c")) == Status.unresolvable("request r/s: device class ghost does not exist")
        assert world.post_filter(pod("c")) == Status.unschedulable("no new claims to deallocate")

    def test_nodes_without_enough_devices(self) -> None:
        world = World(*AB, claim("c", exactly(count=2)))
        assert world.filter(pod("c")) == {"a": "", "b": "cannot allocate all claims"}
        assert world.post_filter(pod("c")) == Status.unschedulable("still not schedulable")

    def test_devices_of_other_claims_are_taken(self) -> None:
        world = World(*AB, claim("c"), claim("other", status=held("gpu-0", "b")))
        assert world.filter(pod("c")) == {"a": "", "b": "cannot allocate all claims"}

    def test_devices_come_back_when_a_claim_goes(self) -> None:
        world = World(*AB, claim("c"), claim("other", status=held("gpu-0", "b")))
        world.filter(pod("c"))
        world.cluster.objects.remove(ResourceClaim, "ns/other")
        assert world.filter(pod("c")) == {"a": "", "b": ""}

    def test_new_slices_are_seen(self) -> None:
        world = World(node("a"), claim("c"))
        assert world.filter(pod("c")) == {"a": "cannot allocate all claims"}
        world.cluster.put(gpus("a", "gpu-0"))
        assert world.filter(pod("c")) == {"a": ""}

    def test_an_allocated_claim_binds_the_pod_to_its_node(self) -> None:
        world = World(*AB, claim("c", status=held("gpu-0", "b")))
        assert world.filter(pod("c")) == {"a": "resourceclaim not available on the node", "b": ""}

    def test_an_error_names_the_claim(self) -> None:
        every = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
        spec = {"driver": "drv", "pool": {"name": "x", "generation": 1, "resourceSliceCount": 2}, "allNodes": True}
        world = World(*AB, claim("c", every), obj("ResourceSlice", "half", spec={**spec, "devices": [{"name": "d"}]}))
        assert world.pre_filter(pod("c")).is_success
        verdict = world.plugin.filter(world.state, world.info(pod("c")), world.nodes())
        assert verdict is not None
        number = int(verdict.ids[np.flatnonzero(verdict.ids)[0]])
        text = "claim ns/c, request r: asks for all devices, but resource pool drv/x is currently being updated"
        assert verdict.status_of(number) == Status.error(text)

    def test_a_search_that_takes_too_long_ends_with_an_error(self) -> None:
        class TickingClock(VirtualClock):
            def monotonic(self) -> float:
                self.advance(4.0)
                return super().monotonic()

        world = World(node("a"), gpus("a", "gpu-0", "gpu-1", "gpu-2"), claim("c", exactly(count=3)))
        world.plugin._clock = TickingClock(NOW)
        assert world.pre_filter(pod("c")).is_success
        verdict = world.plugin.filter(world.state, world.info(pod("c")), world.nodes())
        assert verdict is not None
        assert verdict.status_of(int(verdict.ids[0])) == Status.error("node a: timed out trying to allocate devices")

    def test_a_search_ends_with_the_time_of_its_attempt(self) -> None:
        world = World(node("a"), gpus("a", "gpu-0", "gpu-1"), claim("c", exactly(count=2)))
        state, info = CycleState(), world.info(pod("c"))
        state.budget = Budget()
        assert world.plugin.pre_filter(state, info, world.nodes()) == SUCCESS
        state.budget.is_spent = True
        with pytest.raises(OutOfTime):
            world.plugin.filter(state, info, world.nodes())

    def test_a_pool_that_contradicts_itself_rejects_the_node(self) -> None:
        world = World(node("a"), gpus("a", "same", "same"), claim("c"))
        assert world.filter(pod("c")) == {"a": "invalid resource pools were encountered"}


class TestBindingConditions:
    CONDITIONS: Wire = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}

    def world(self, allocated: float, *conditions: str) -> World:
        status = held("gpu-0", "a", ("p",), **self.CONDITIONS)
        status["allocation"]["allocationTimestamp"] = "2027-01-15T08:00:00Z"  # NOW
        of_device = [{"type": c, "status": "True"} for c in conditions]
        status["devices"] = [{"driver": "drv", "pool": "a", "device": "gpu-0", "conditions": of_device}]
        world = World(*AB, claim("c", status=status))
        world.clock.advance(allocated)
        return world

    def test_devices_that_are_ready_or_may_become_so(self) -> None:
        assert self.world(1_000, "ready").filter(pod("c"))["a"] == ""
        assert self.world(599).filter(pod("c"))["a"] == ""

    @pytest.mark.parametrize(
        ("after_s", "conditions"),
        [pytest.param(1, ["failed"], id="the device failed"), pytest.param(601, [], id="it took too long")],
    )
    def test_devices_that_will_not_be_ready_are_released(self, after_s: float, conditions: list[str]) -> None:
        world = self.world(after_s, *conditions)
        assert world.filter(pod("c"))["a"] == "resourceclaim not available on the node"
        assert world.post_filter(pod("c")).message == "deallocation of ResourceClaim completed"


class TestPostFilter:
    def test_never_asked(self) -> None:
        assert World(*AB).post_filter(pod("c")) == Status.error("not found")

    @pytest.mark.parametrize(
        ("users", "text"),
        [
            pytest.param((), "deallocation of ResourceClaim completed", id="an idle claim is released"),
            pytest.param(("p",), "deallocation of ResourceClaim completed", id="also one only this pod holds"),
            pytest.param(("p", "q"), "still not schedulable", id="not one that others use"),
            pytest.param(("q",), "still not schedulable", id="not that of another pod"),
        ],
    )
    async def test_claims_in_the_way(self, users: tuple[str, ...], text: str) -> None:
        world = World(*AB, claim("c", status=held("gpu-0", "gone", users)))
        world.handle.writer = writer = FakeWriter(world)  # type: ignore[assignment]
        assert set(world.filter(pod("c")).values()) == {"resourceclaim not available on the node"}
        assert world.post_filter(pod("c")) == Status.unschedulable(text)
        await world.after_failure()
        stored = world.cluster.objects.get(ResourceClaim, "ns/c")
        assert stored is not None
        assert (stored.status.allocation is None) == text.startswith("deallocation")
        assert len(writer.calls) == text.startswith("deallocation")

    def test_one_of_several_is_released(self) -> None:
        world = World(*AB, claim("c", status=held("gpu-0", "gone")), claim("d", status=held("gpu-1", "gone")))
        world.handle.pick = lambda n: n - 1
        world.filter(pod("c", "d"))
        assert world.post_filter(pod("c", "d")).message == "deallocation of ResourceClaim completed"
        attempt = attempt_of(world.state)
        assert attempt is not None
        assert [write.claim.name for write in attempt.writes] == ["d"]


class TestScore:
    def test_a_better_alternative_scores_more(self) -> None:
        def sub(name: str, count: int) -> Wire:
            return {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}

        world = World(*AB, claim("c", {"name": "r", "firstAvailable": [sub("two", 2), sub("x", 9), sub("one", 1)]}))
        assert world.filter(pod("c")) == {"a": "", "b": ""}
        scores = world.plugin.score(world.state, world.info(pod("c")), world.nodes())
        assert scores.tolist() == [8, 6]
        normal = world.plugin.normalize(world.state, world.info(pod("c")), scores, world.nodes())
        assert normal.tolist() == [100, 75]

    def test_plain_requests_score_nothing(self) -> None:
        world = World(*AB, claim("c"))
        world.filter(pod("c"))
        assert world.plugin.score(world.state, world.info(pod("c")), world.nodes()).tolist() == [0, 0]
        assert world.plugin.score(CycleState(), world.info(pod()), world.nodes()) is None  # nothing anywhere


class TestReserve:
    def test_what_is_reserved_is_taken_for_others(self) -> None:
        world = World(*AB, claim("c", exactly(count=2)), claim("d", exactly(count=2)))
        assert world.place(pod("c"), "a").is_success
        assert chosen_devices(world.state, "p", "a").keys() == {"ns/c"}
        first = world.state
        assert world.filter(pod("d", name="q"))["a"] == "cannot allocate all claims"
        world.plugin.unreserve(first, world.info(pod("c")), "a")
        assert world.filter(pod("d", name="q"))["a"] == ""

    def test_a_shared_claim_waits_until_it_is_stored(self) -> None:
        world = World(*AB, claim("c"))
        world.place(pod("c"), "a")
        text = "resource claim ns/c is in the process of being allocated"
        assert world.pre_filter(pod("c", name="q")) == Status.unresolvable(text)
        world.cluster.put(claim("c", status=held("gpu-0", "a", ("p",))))
        assert world.filter(pod("c", name="q"))["a"] == ""

    def test_a_node_that_was_never_searched(self) -> None:
        world = World(*AB, claim("c", exactly(count=2)))
        assert world.place(pod("c"), "b") == Status.error("claim allocation not found for node")

    @pytest.mark.parametrize("is_stored", [False, True], ids=["reserved", "stored, and not seen yet"])
    def test_what_is_reserved_is_taken_on_a_fork_too(self, is_stored: bool) -> None:
        world = World(*AB, claim("c", exactly(count=2)), claim("d", exactly(count=2)))
        world.place(pod("c"), "a")
        if is_stored:
            status = {"allocation": msgspec.to_builtins(world.devices.pending_allocation("uid-of-c"))}
            stored = claim("c", exactly(count=2), metadata={"resourceVersion": "2"}, status=status)
            assert isinstance(stored, ResourceClaim)
            world.devices.assume(stored)
        there = World()
        there.cluster = world.cluster.fork()
        there.handle = Handle(there.cluster, clock=world.clock, devices=world.devices)
        there.plugin = DynamicResources(DynamicResourcesArgs(), there.handle)
        assert there.filter(pod("d", name="q"))["a"] == "cannot allocate all claims"
        there.cluster.put(gpus("a", "gpu-0", "gpu-1", "gpu-2", "gpu-3"))
        assert there.filter(pod("d", name="q"))["a"] == ""
        assert there.place(pod("d", name="q"), "a").is_success
        world.cluster.put(gpus("a", "gpu-0", "gpu-1", "gpu-2", "gpu-3"))
        assert world.filter(pod("d", name="q"))["a"] == "", "what is reserved there is free here"

    def test_profiles_share_what_is_reserved(self) -> None:
        world = World(*AB, claim("c", exactly(count=2)), claim("d", exactly(count=2)))
        world.place(pod("c"), "a")
        world.plugin = DynamicResources(DynamicResourcesArgs(), world.handle)
        assert world.filter(pod("d", name="q"))["a"] == "cannot allocate all claims"


EXTENDED = obj("DeviceClass", "ext", spec={"extendedResourceName": "example.com/gpu"})


class TestExtendedResources:
    def test_devices_serve_where_the_node_does_not_count_them(self) -> None:
        world = World(EXTENDED, *AB, node("c"))
        wanting = pod(requests={"example.com/gpu": "2"})
        assert world.filter(wanting) == {"a": "", "b": "cannot allocate all claims", "c": "cannot allocate all claims"}
        assert world.post_filter(wanting) == Status.unschedulable("still not schedulable")
        chosen = chosen_devices(world.state, "p", "a")
        assert [r.device for r in chosen["ns/extended-resources-of-p"]] == ["gpu-0", "gpu-1"]

    def test_a_node_that_counts_them_needs_no_devices(self) -> None:
        counting = obj("Node", "a", status={"allocatable": {"example.com/gpu": "4"}})
        world = World(EXTENDED, counting)
        wanting = pod(requests={"example.com/gpu": "2"})
        assert world.filter(wanting) == {"a": ""}
        assert world.plugin.reserve(world.state, world.info(wanting), "a").is_success
        assert chosen_devices(world.state, "p", "a") == {}

    def test_another_resource_that_the_node_lacks(self) -> None:
        world = World(EXTENDED, *AB)
        wanting = pod(requests={"example.com/gpu": "1", "example.com/other": "1"})
        assert world.filter(wanting)["a"] == "cannot fit resource"

    async def test_a_claim_of_an_earlier_attempt_is_deleted(self) -> None:
        owner = {"kind": "Pod", "name": "p", "uid": "uid-of-p", "controller": True}
        stale = claim(
            "p-extended-resources-x",
            metadata={
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [owner],
                "finalizers": ["resource.kubernetes.io/delete-protection"],
            },
        )
        world = World(EXTENDED, *AB, stale)
        world.handle.writer = FakeWriter(world)  # type: ignore[assignment]
        wanting = pod(requests={"example.com/gpu": "1"})
        assert world.filter(wanting)["a"] == "cannot schedule extended resource claim"
        assert world.post_filter(wanting) == Status.unschedulable("deletion of ResourceClaim completed")
        await world.after_failure()
        assert world.cluster.objects.get(ResourceClaim, stale.key) is None

    def test_totals_for_scoring(self) -> None:
        world = World(EXTENDED, *AB, claim("c", status=held("gpu-1", "a")))
        assert world.devices.backs("example.com/gpu")
        assert not world.devices.backs("example.com/other")
        devices, taken = world.devices.totals("example.com/gpu", world.nodes())
        assert (devices.tolist(), taken.tolist()) == ([2, 1], [1, 0])

    def test_the_mapping_has_a_version(self) -> None:
        world = World(*AB)
        before = world.devices.mapping_version()
        world.cluster.put(EXTENDED)
        assert world.devices.mapping_version() != before


class Counted(PluginMeters):
    """What the plugin counts."""

    def __init__(self) -> None:
        self.claims: list[bool] = []
        self.waits: list[tuple[list[str], list[str], str, float]] = []

    def claim_created(self, *, is_created: bool) -> None:
        self.claims.append(is_created)

    def devices_waited_for(
        self, drivers: Iterable[str], conditional: Iterable[str], status: str, seconds: float
    ) -> None:
        self.waits.append((list(drivers), list(conditional), status, seconds))


class FakeWriter:
    """An API server's claims, reduced to merge patches and resource versions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls: list[str] = []
        self.conflicts = 0
        self.events: list[str] = []
        self.pod_patches: list[Wire] = []
        self.on_sleep: list[Any] = []
        self.turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        raise AssertionError("not here")

    def _stored(self, key: str) -> ResourceClaim:
        found = self.world.cluster.objects.get(ResourceClaim, key)
        assert found is not None
        return found

    def _put(self, wire: Wire) -> ResourceClaim:
        meta = wire["metadata"]
        meta["resourceVersion"] = str(int(meta.get("resourceVersion", "0")) + 1)
        found = msgspec.convert(wire, ResourceClaim)
        self.world.cluster.put(found)
        return found

    def turn(self, claim_key: str) -> AbstractAsyncContextManager[None]:
        return self.turns[claim_key]

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim:
        self.calls.append("create")
        wire = msgspec.to_builtins(claim)
        wire["metadata"] |= {"name": claim.metadata.generate_name + "abcde", "uid": "new"}
        return self._put(wire)

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        self.calls.append("get")
        return self._stored(f"{namespace}/{name}")

    async def patch_claim(
        self, namespace: str, name: str, patch: Wire, *, subresource: str = "", content_type: str = ""
    ) -> ResourceClaim:
        self.calls.append(f"patch {subresource}".strip())
        wire = msgspec.to_builtins(self._stored(f"{namespace}/{name}"))
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError("the object has been modified", code=409)
        if content_type == STRATEGIC_MERGE:
            gone = {entry["uid"] for entry in patch["status"]["reservedFor"]}
            kept = [c for c in wire["status"]["reservedFor"] if c["uid"] not in gone]
            patch = {"status": {"reservedFor": kept}}
        read = patch.get("metadata", {}).pop("resourceVersion", None)
        assert read in (None, wire["metadata"]["resourceVersion"])
        return self._put(_merged(wire, patch))

    async def delete_claim(self, namespace: str, name: str) -> None:
        self.calls.append("delete")
        assert not self._stored(f"{namespace}/{name}").metadata.finalizers
        self.world.cluster.objects.remove(ResourceClaim, f"{namespace}/{name}")

    async def patch_pod_status(self, namespace: str, name: str, patch: Wire) -> None:
        self.pod_patches.append(patch)

    async def sleep(self, seconds: float) -> None:
        self.world.clock.advance(seconds)
        if self.on_sleep:
            self.on_sleep.pop(0)()

    def record_event(self, pod: Pod, type: str, reason: str, action: str, message: str) -> None:
        self.events.append(f"{type} {reason} {message}")


def _merged(into: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    into = dict(into) if isinstance(into, dict) else {}
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        else:
            into[key] = _merged(into.get(key), value)
    return into


class TestPreBind:
    def world(self, *objects: Object) -> tuple[World, FakeWriter]:
        world = World(*AB, *objects)
        writer = FakeWriter(world)
        world.handle.writer = writer  # type: ignore[assignment]
        return world, writer

    def test_nothing_to_do_without_claims(self) -> None:
        world, _ = self.world()
        world.pre_filter(pod())
        assert world.plugin.pre_bind_pre_flight(world.state, world.info(pod()), "a").status.is_skip

    async def test_pods_that_share_a_claim_meet_no_conflict(self) -> None:
        class SlowWriter(FakeWriter):
            async def patch_claim(self, namespace: str, name: str, patch: Wire, **how: Any) -> ResourceClaim:
                await asyncio.sleep(0)  # the others get that far, too
                return await super().patch_claim(namespace, name, patch, **how)

        world = World(*AB, claim("c", status=held("gpu-0")))
        writer = SlowWriter(world)
        world.handle.writer = writer  # type: ignore[assignment]
        cycles = []
        for name in ("p", "q", "r"):
            world.place(pod("c", name=name), "a")
            cycles.append(world.plugin.pre_bind(world.state, world.info(pod("c", name=name)), "a"))
        assert await asyncio.gather(*cycles) == [SUCCESS] * 3
        assert writer.calls == ["patch status"] * 3
        assert [user.name for user in writer._stored("ns/c").status.reserved_for] == ["p", "q", "r"]

    async def test_allocation_and_reservation_are_stored(self) -> None:
        world, writer = self.world(claim("c"))
        world.place(pod("c"), "a")
        assert world.plugin.pre_bind_pre_flight(world.state, world.info(pod("c")), "a").allow_parallel
        assert await world.plugin.pre_bind(world.state, world.info(pod("c")), "a") == SUCCESS
        assert writer.calls == ["patch", "patch status"]
        stored = world.cluster.objects.get(ResourceClaim, "ns/c")
        assert stored is not None and stored.status.allocation is not None
        assert stored.metadata.finalizers == ["resource.kubernetes.io/delete-protection"]
        assert [c.uid for c in stored.status.reserved_for] == ["uid-of-p"]
        assert stored.status.allocation.allocation_timestamp == "2027-01-15T08:00:00Z"
        assert world.devices.pending_allocation(stored.uid) is None

    async def test_an_allocated_claim_is_only_reserved(self) -> None:
        world, writer = self.world(claim("c", status=held("gpu-0", "a", ("q",))))
        world.place(pod("c"), "a")
        assert (await world.plugin.pre_bind(world.state, world.info(pod("c")), "a")).is_success
        assert writer.calls == ["patch status"]
        stored = world.cluster.objects.get(ResourceClaim, "ns/c")
        assert stored is not None
        assert [c.name for c in stored.status.reserved_for] == ["q", "p"]

    async def test_a_conflict_is_retried_with_the_newer_claim(self) -> None:
        world, writer = self.world(claim("c"))
        world.place(pod("c"), "a")
        writer.conflicts = 2
        assert (await world.plugin.pre_bind(world.state, world.info(pod("c")), "a")).is_success
        assert writer.calls == ["patch", "get", "patch", "get", "patch", "patch status"]

    async def test_conflicts_without_end_fail(self) -> None:
        world, writer = self.world(claim("c"))
        world.place(pod("c"), "a")
        writer.conflicts = 99
        status = await world.plugin.pre_bind(world.state, world.info(pod("c")), "a")
        assert status == Status.error("add allocation and reservation to claim ns/c: the object has been modified")
        world.plugin.unreserve(world.state, world.info(pod("c")), "a")
        assert world.devices.pending_allocation("uid-of-c") is None

    async def test_another_client_was_faster(self) -> None:
        world, writer = self.world(claim("c"))
        world.place(pod("c"), "a")
        writer.conflicts = 1
        world.cluster.put(claim("c", status=held("gpu-1", "a", ("q",))))
        status = await world.plugin.pre_bind(world.state, world.info(pod("c")), "a")
        assert status == Status.error("claim ns/c got allocated elsewhere in the meantime")

    async def test_the_answer_to_our_own_patch_was_lost(self) -> None:
        """The claim is found with our devices and our pod: a second patch met a conflict, because the first arrived."""

        class Deaf(FakeWriter):
            async def patch_claim(self, namespace: str, name: str, patch: Wire, **how: Any) -> ResourceClaim:
                stored = await super().patch_claim(namespace, name, patch, **how)
                if how.get("subresource") == "status":
                    raise ApiError("the object has been modified", code=409)
                return stored

        world = World(*AB, claim("c"))
        world.handle.writer = writer = Deaf(world)  # type: ignore[assignment]
        world.place(pod("c"), "a")
        assert await world.plugin.pre_bind(world.state, world.info(pod("c")), "a") == SUCCESS
        assert writer.calls == ["patch", "patch status", "get"]

    async def test_extended_resources_get_a_claim_of_their_own(self) -> None:
        world, writer = self.world(EXTENDED)
        wanting = pod(requests={"example.com/gpu": "1"})
        world.place(wanting, "a")
        assert (await world.plugin.pre_bind(world.state, world.info(wanting), "a")).is_success
        assert writer.calls == ["create", "patch", "patch status"]
        (patch,) = writer.pod_patches
        status = patch["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] == "p-extended-resources-abcde"
        assert status["requestMappings"] == [
            {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
        ]
        assert world.filter(pod(requests={"example.com/gpu": "2"}, name="q"))["a"] == "cannot allocate all claims"

    async def test_beside_claims_a_node_that_counts_the_resource_itself_cannot_be_bound_to(self) -> None:
        """Upstream makes a claim without requests, and then finds nothing to tell the pod about it."""
        counting = obj("Node", "a", status={"allocatable": {"example.com/gpu": "1"}})
        world, writer = self.world(EXTENDED, claim("c"), counting)
        wanting = pod("c", requests={"example.com/gpu": "1"})
        world.place(wanting, "a")
        problem = "nil or empty request mappings, no update of pod ns/p ExtendedResourceClaimStatus"
        assert binding_problem(world.state, "ns/p", "a") == problem
        assert await world.plugin.pre_bind(world.state, world.info(wanting), "a") == Status.error(problem)
        assert not writer.pod_patches

    async def test_a_failed_pod_leaves_nothing_behind(self) -> None:
        world, _ = self.world(EXTENDED, claim("c"))
        wanting = pod("c", requests={"example.com/gpu": "1"})
        world.place(wanting, "a")
        await world.plugin.pre_bind(world.state, world.info(wanting), "a")
        world.plugin.unreserve(world.state, world.info(wanting), "a")
        await world.after_failure()
        assert [claim.name for claim in world.cluster.objects.all(ResourceClaim)] == ["c"]
        stored = world.cluster.objects.get(ResourceClaim, "ns/c")
        assert stored is not None
        assert stored.status.reserved_for == []

    async def test_a_claim_that_is_not_reserved_any_more_is_known_before_the_watch_tells(self) -> None:
        """Tried again meanwhile, the pod would be bound without a reservation."""

        class Lagging(FakeWriter):
            """What is stored does not reach the cluster."""

            kept: ResourceClaim | None = None

            def _stored(self, key: str) -> ResourceClaim:
                return self.kept or super()._stored(key)

            def _put(self, wire: Wire) -> ResourceClaim:
                wire["metadata"]["resourceVersion"] = str(int(wire["metadata"].get("resourceVersion", "0")) + 1)
                self.kept = msgspec.convert(wire, ResourceClaim)
                return self.kept

        world = World(*AB, claim("c"))
        world.handle.writer = writer = Lagging(world)  # type: ignore[assignment]
        world.place(pod("c"), "a")
        assert await world.plugin.pre_bind(world.state, world.info(pod("c")), "a") == SUCCESS
        reserved = world.devices.claim("ns/c")
        assert reserved is not None and len(reserved.status.reserved_for) == 1
        world.plugin.unreserve(world.state, world.info(pod("c")), "a")
        await world.after_failure()
        known = world.devices.claim("ns/c")
        assert known is writer.kept and known is not None and known.status.reserved_for == []

    async def test_a_created_claim_is_deleted_even_if_the_pods_status_was_not_written(self) -> None:
        world, writer = self.world(EXTENDED)

        async def refuse(namespace: str, name: str, patch: Wire) -> None:
            raise ApiError("pods is forbidden", code=403)

        writer.patch_pod_status = refuse  # type: ignore[method-assign]
        wanting = pod(requests={"example.com/gpu": "1"})
        world.place(wanting, "a")
        status = await world.plugin.pre_bind(world.state, world.info(wanting), "a")
        assert status == Status.error("pods is forbidden")
        world.plugin.unreserve(world.state, world.info(wanting), "a")
        await world.after_failure()
        assert not list(world.cluster.objects.all(ResourceClaim))
        assert world.filter(pod(requests={"example.com/gpu": "2"}, name="q"))["a"] == ""

    async def test_devices_that_must_be_made_ready_are_waited_for(self) -> None:
        world, writer = self.world(claim("c"))
        world.cluster.put(gpus("a", "gpu-0", bindingConditions=["ready"]))
        world.place(pod("c"), "a")

        def become_ready() -> None:
            wire = msgspec.to_builtins(world.cluster.objects.get(ResourceClaim, "ns/c"))
            of_device = {"driver": "drv", "pool": "a", "device": "gpu-0"}
            wire["status"]["devices"] = [{**of_device, "conditions": [{"type": "ready", "status": "True"}]}]
            writer._put(wire)

        writer.on_sleep = [lambda: None, become_ready]
        assert (await world.plugin.pre_bind(world.state, world.info(pod("c")), "a")).is_success
        assert writer.events == ["Normal BindingConditionsPending waiting for binding conditions for device on node a"]
        assert world.clock.now() == NOW + 10

    async def test_waiting_ends(self) -> None:
        world, _ = self.world(claim("c"))
        world.cluster.put(gpus("a", "gpu-0", bindingConditions=["ready"]))
        world.place(pod("c"), "a")
        status = await world.plugin.pre_bind(world.state, world.info(pod("c")), "a")
        assert status.code is Code.ERROR
        assert status.message.startswith("device binding timeout")

    @pytest.mark.parametrize(
        ("conditions", "result", "waited_s"),
        [
            pytest.param({"ready": "True"}, "success", 5.0, id="ready after a while"),
            pytest.param({"failed": "True"}, "failure", 5.0, id="the device says that it failed"),
            pytest.param({}, "timeout", 600.0, id="no event"),
        ],
    )
    async def test_the_wait_is_counted_by_driver(
        self, conditions: dict[str, str], result: str, waited_s: float
    ) -> None:
        world, writer = self.world(claim("c"))
        wanted = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
        world.cluster.put(gpus("a", "gpu-0", **wanted))
        counted = Counted()
        world.handle.meters = lambda name: counted
        world.place(pod("c"), "a")

        def report() -> None:
            wire = msgspec.to_builtins(world.cluster.objects.get(ResourceClaim, "ns/c"))
            found = [{"type": kind, "status": status} for kind, status in conditions.items()]
            wire["status"]["devices"] = [{"driver": "drv", "pool": "a", "device": "gpu-0", "conditions": found}]
            writer._put(wire)

        writer.on_sleep = [report]
        await world.plugin.pre_bind(world.state, world.info(pod("c")), "a")
        assert counted.waits == [(["drv"], ["drv"], result, waited_s)]

    async def test_devices_without_conditions_are_not_waited_for(self) -> None:
        world, _ = self.world(claim("c"))
        counted = Counted()
        world.handle.meters = lambda name: counted
        world.place(pod("c"), "a")
        assert (await world.plugin.pre_bind(world.state, world.info(pod("c")), "a")).is_success
        assert counted.waits == []

    @pytest.mark.parametrize("is_created", [pytest.param(True, id="taken"), pytest.param(False, id="refused")])
    async def test_claims_that_are_made_are_counted(self, is_created: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        world, writer = self.world(EXTENDED)
        counted = Counted()
        world.handle.meters = lambda name: counted
        wanting = pod(requests={"example.com/gpu": "1"})
        world.place(wanting, "a")

        async def refuse(claim: ResourceClaim) -> ResourceClaim:
            raise ApiError("resourceclaims is forbidden", code=403)

        if not is_created:
            monkeypatch.setattr(writer, "create_claim", refuse)
        status = await world.plugin.pre_bind(world.state, world.info(wanting), "a")
        assert status.is_success is is_created
        assert counted.claims == [is_created]

    async def test_without_an_api_server_it_fails_with_a_reason(self) -> None:
        world = World(*AB, claim("c"))
        world.place(pod("c"), "a")
        status = await world.plugin.pre_bind(world.state, world.info(pod("c")), "a")
        assert status == Status.error("no API server to store claims with")


class TestHints:
    def hint(self, world: World, waiting: Pod, before: Object | None, after: Object | None) -> Hint:
        registration = {r.event.resource.value: r for r in world.plugin.events_to_register()}
        event = registration["Pod" if isinstance(after, Pod) else "resource.k8s.io/ResourceClaim"]
        assert event.hint is not None
        return event.hint(waiting, before, after)

    @pytest.mark.parametrize(
        ("before", "after", "want"),
        [
            pytest.param(None, claim("c"), Hint.QUEUE, id="its claim is created"),
            pytest.param(None, claim("d"), Hint.SKIP, id="another claim is created"),
            pytest.param(claim("d", status=held("gpu-0")), claim("d"), Hint.QUEUE, id="any claim gives devices back"),
            pytest.param(claim("c"), claim("c"), Hint.SKIP, id="its claim changes, but not in status"),
            pytest.param(claim("c"), claim("c", status=held("gpu-0")), Hint.QUEUE, id="its claim is allocated"),
            pytest.param(claim("d"), claim("d", status=held("gpu-0")), Hint.SKIP, id="another claim is allocated"),
        ],
    )
    def test_claims(self, before: Object | None, after: Object, want: Hint) -> None:
        assert self.hint(World(claim("c"), claim("d")), pod("c"), before, after) is want

    def test_a_pod_whose_claims_are_not_all_there_stays(self) -> None:
        assert self.hint(World(claim("c")), pod("c", "gone"), None, claim("c")) is Hint.SKIP

    def test_pods(self) -> None:
        world = World(claim("c"))
        assert self.hint(world, pod("c"), None, pod("c")) is Hint.QUEUE
        assert self.hint(world, pod("c"), None, pod("c", name="other")) is Hint.SKIP
        assert self.hint(world, pod("c"), None, pod("gone")) is Hint.SKIP


class TestGroups:
    """Claims that pods of a group share, and claims of the group itself (gate DRAWorkloadResourceClaims)."""

    IN_GROUP: ClassVar[Wire] = {"schedulingGroup": {"podGroupName": "g"}}

    def member(self, name: str) -> Pod:
        return pod("c", name=name, spec=self.IN_GROUP)

    def world(self, *objects: Object, **features: bool) -> tuple[World, FakeWriter]:
        group = make_pod_group("g", namespace="ns")
        group.metadata.uid = "uid-of-g"
        group.spec.resource_claims = [PodGroupResourceClaim("c", "c")]
        world = World(*AB, group, *objects, **features)
        writer = FakeWriter(world)
        world.handle.writer = writer  # type: ignore[assignment]
        return world, writer

    def tried(self, world: World, *names: str) -> list[Tried]:
        found = []
        for name in names:
            world.filter(self.member(name))
            found.append(Tried(world.info(self.member(name)), "", world.state))
        return found

    def post_filter(self, world: World, tried: list[Tried]) -> Status:
        group = world.cluster.objects.get(PodGroup, "ns/g")
        assert group is not None
        info = PodGroupInfo(group, [each.pod for each in tried])
        return world.plugin.pod_group_post_filter(info, tried).status

    def test_pods_of_one_cycle_share_what_the_first_has_reserved(self) -> None:
        world, _ = self.world(claim("c"))
        world.group_cycle = object()
        assert world.place(self.member("p"), "a").is_success
        first = world.state
        assert world.filter(self.member("q")) == {"a": "", "b": "resourceclaim not available on the node"}
        assert world.plugin.reserve(world.state, world.info(self.member("q")), "a").is_success
        assert len(world.devices.allocated().devices) == 1, "counted once"
        world.plugin.unreserve(world.state, world.info(self.member("q")), "a")
        assert world.devices.pending_allocation("uid-of-c") is not None, "the first still needs it"
        world.plugin.unreserve(first, world.info(self.member("p")), "a")
        assert world.devices.pending_allocation("uid-of-c") is None

    @pytest.mark.parametrize(
        "cycle", [pytest.param(None, id="a pod alone"), pytest.param(object(), id="a later cycle")]
    )
    def test_others_wait_for_what_is_being_allocated(self, cycle: object | None) -> None:
        world, _ = self.world(claim("c"))
        world.group_cycle = object()
        world.place(self.member("p"), "a")
        world.group_cycle = cycle
        text = "resource claim ns/c is in the process of being allocated"
        assert world.pre_filter(self.member("q")) == Status.unresolvable(text)

    async def test_the_second_of_two_that_share_an_allocation_comes_too_late(self) -> None:
        """It is tried again, and then the claim is allocated: so it was seen of a kube-scheduler v1.37.0-rc.1."""
        world, _ = self.world(claim("c"), DRAWorkloadResourceClaims=True)
        world.group_cycle = object()
        states = []
        for name in ("p", "q"):
            assert world.place(self.member(name), "a").is_success
            states.append(world.state)
        assert await world.plugin.pre_bind(states[0], world.info(self.member("p")), "a") == SUCCESS
        status = await world.plugin.pre_bind(states[1], world.info(self.member("q")), "a")
        assert status == Status.error("claim ns/c got allocated elsewhere in the meantime")

    @pytest.mark.parametrize(
        ("gate", "consumer"),
        [
            pytest.param(True, ("scheduling.k8s.io", "podgroups", "g", "uid-of-g"), id="for the group"),
            pytest.param(False, ("", "pods", "p", "uid-of-p"), id="without the gate for the pod"),
        ],
    )
    async def test_for_whom_a_claim_is_reserved(self, gate: bool, consumer: tuple[str, ...]) -> None:
        world, writer = self.world(claim("c"), DRAWorkloadResourceClaims=gate)
        world.place(self.member("p"), "a")
        assert await world.plugin.pre_bind(world.state, world.info(self.member("p")), "a") == SUCCESS
        (found,) = writer._stored("ns/c").status.reserved_for
        assert (found.api_group, found.resource, found.name, found.uid) == consumer

    async def test_a_claim_that_is_reserved_for_the_group_is_left_alone(self) -> None:
        world, writer = self.world(claim("c", status=self.held_by_group()), DRAWorkloadResourceClaims=True)
        world.place(self.member("p"), "a")
        assert await world.plugin.pre_bind(world.state, world.info(self.member("p")), "a") == SUCCESS
        world.plugin.unreserve(world.state, world.info(self.member("p")), "a")
        await world.after_failure()
        assert writer.calls == []

    def held_by_group(self) -> Wire:
        status = held("gpu-0")
        status["reservedFor"] = [
            {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-of-g"}
        ]
        return status

    @pytest.mark.parametrize(
        ("owner", "gate", "problem"),
        [
            pytest.param("g", True, "", id="its group's"),
            pytest.param("h", True, " (neither Pod nor PodGroup g is the owner)", id="another group's"),
            pytest.param("g", False, " (Pod is not owner)", id="without the gate only its own"),
        ],
    )
    def test_a_claim_of_a_template_may_be_the_groups(self, owner: str, gate: bool, problem: str) -> None:
        owners = [
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "name": owner,
                "uid": "u",
                "controller": True,
            }
        ]
        world, _ = self.world(claim("c", metadata={"ownerReferences": owners}), DRAWorkloadResourceClaims=gate)
        waiting = pod(
            spec={**self.IN_GROUP, "resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]},
            status={"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c"}]},
        )
        status = world.plugin.pre_enqueue(waiting)
        assert status.message == (f"ResourceClaim ns/c was not created for Pod ns/p{problem}" if problem else "")

    async def test_a_group_that_does_not_fit_gives_its_claim_back(self) -> None:
        """First the devices, which some node cannot use; once they are gone the group lets go of the claim, too."""
        world, writer = self.world(claim("c", status=self.held_by_group()), DRAWorkloadResourceClaims=True)
        tried = self.tried(world, "p", "q")
        status = self.post_filter(world, tried)
        assert status == Status.unschedulable("deallocation of PodGroup ResourceClaim completed")
        world.state = tried[0].state
        await world.after_failure()
        assert writer._stored("ns/c").status.allocation is None

    async def test_a_group_lets_go_of_a_claim_that_can_be_used_anywhere(self) -> None:
        status = {**self.held_by_group()}
        del status["allocation"]["nodeSelector"]
        world, writer = self.world(claim("c", status=status), DRAWorkloadResourceClaims=True)
        tried = self.tried(world, "p")
        assert self.post_filter(world, tried) == Status.unresolvable("ResourceClaim unreserved for PodGroup")
        world.state = tried[0].state
        await world.after_failure()
        assert writer.calls == ["patch status"]

    def test_a_group_with_a_pod_on_a_node_keeps_its_claims(self) -> None:
        world, _ = self.world(claim("c", status=self.held_by_group()), DRAWorkloadResourceClaims=True)
        world.cluster.put(pod("c", name="running", spec={**self.IN_GROUP, "nodeName": "a"}))
        status = self.post_filter(world, self.tried(world, "p"))
        assert status == Status.unschedulable("deallocation and deletion of ResourceClaims completed")


# ---- what an explanation says ----------------------------------------------------------------------------------------

HEALTHY = 'device.attributes["drv"].healthy'


def graded(name: str, *, healthy: bool, **more: Any) -> Wire:
    return {"name": name, "attributes": {"healthy": {"bool": healthy}}, **more}


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        pytest.param([graded("x", healthy=True)], "1 looked at: 1 would do", id="too few"),
        pytest.param([graded("gpu-0", healthy=True)], "1 looked at: 1 in use", id="another claim's"),
        pytest.param(
            [graded("x", healthy=False)],
            f"1 looked at: 1 refused by the selector of the request: {HEALTHY}",
            id="not selected",
        ),
        pytest.param(
            [graded("x", healthy=True, taints=[{"key": "broken", "effect": "NoSchedule"}])],
            "1 looked at: 1 tainted: broken:NoSchedule",
            id="tainted",
        ),
        pytest.param(
            [graded("x", healthy=True), graded("y", healthy=False), graded("z", healthy=False)],
            f"3 looked at: 2 refused by the selector of the request: {HEALTHY}; 1 would do",
            id="several, the most frequent reason first",
        ),
    ],
)
def test_why_devices_do_not_serve(devices: list[Wire], said: str) -> None:
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    slice = obj("ResourceSlice", "s", spec={"driver": "drv", "pool": pool, "nodeName": "a", "devices": devices})
    wanted = exactly(count=2)
    wanted["exactly"]["selectors"] = [{"cel": {"expression": HEALTHY}}]
    world = World(node("a"), slice, claim("c", wanted), claim("other", status=held("gpu-0", "a")))
    assert world.filter(pod("c")) == {"a": "cannot allocate all claims"}
    facts = list(world.plugin.facts(world.state, world.info(pod("c")), world.nodes()))
    assert facts[0] == f"claim ns/c, request r wants 2 devices of one node; {said}"


def test_a_cluster_without_devices_is_reported() -> None:
    world = World(node("a"), claim("c"))
    world.filter(pod("c"))
    facts = list(world.plugin.facts(world.state, world.info(pod("c")), world.nodes()))
    assert facts == ["no device is published for 1 node"]


def test_a_pod_without_claims_has_no_facts() -> None:
    world = World(node("a"))
    world.pre_filter(pod())
    assert not list(world.plugin.facts(world.state, world.info(pod()), world.nodes()))
