"""Pods are bound, or told why not: the scheduler over real HTTP and TLS."""

from __future__ import annotations

import pytest

from mooring.api.errors import ApiError
from mooring.core.config.features import Features
from mooring.live.context import SchedulerOptions

pytestmark = pytest.mark.e2e


async def test_pods_are_bound_and_say_so(world):
    await world.node("a")
    async with world.scheduler():
        for i in range(3):
            await world.pod(f"web-{i}")
        assert {await world.bound(f"web-{i}") for i in range(3)} == {"a"}
        (event,) = await world.events("web-0", "Scheduled")
    assert event["note"] == "Successfully assigned default/web-0 to a"
    assert (event["type"], event["action"], event["reportingController"]) == ("Normal", "Binding", "default-scheduler")


async def test_a_pod_that_fits_nowhere_says_why_and_is_bound_when_a_label_appears(world):
    await world.node("a")
    async with world.scheduler():
        await world.pod("picky", nodeSelector={"disk": "ssd"})
        condition = await world.condition("picky", reason="Unschedulable")
        assert condition["message"] == (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to "
            "deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        (event,) = await world.events("picky", "FailedScheduling")
        assert event["note"] == condition["message"]
        await world.patch("Node", "a", {"metadata": {"labels": {"disk": "ssd"}}})
        assert await world.bound("picky") == "a"


async def test_a_gated_pod_is_left_alone_until_its_gate_is_removed(world):
    await world.node("a")
    async with world.scheduler() as live:
        await world.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
        await world.pod("free")
        await world.bound("free")
        assert live.scheduler.queue.counts()["gated"] == 1
        assert live.scheduler.decisions == 1
        await world.patch("Pod", "gated", {"spec": {"schedulingGates": []}})
        assert await world.bound("gated") == "a"


async def test_pods_of_other_schedulers_are_counted_but_not_scheduled(world):
    await world.node("a", cpu="2")
    async with world.scheduler() as live:
        await world.pod("theirs", schedulerName="another")
        await world.pod("ours")
        await world.bound("ours")
        await world.bind("theirs", "a")
        await world.pod("too-many")
        condition = await world.condition("too-many", reason="Unschedulable")
        assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert live.scheduler.decisions >= 2
        assert "theirs" not in {pod.name for pod in live.scheduler.queue.pending_pods()}


async def test_two_profiles_share_one_queue(world):
    await world.node("a", disk="ssd")
    await world.node("b")
    profiles = {
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": "careless",
                "plugins": {"filter": {"disabled": [{"name": "NodeAffinity"}]}, "score": {"disabled": [{"name": "*"}]}},
            },
        ]
    }
    async with world.scheduler(profiles):
        await world.pod("picky", nodeSelector={"disk": "ssd"})
        await world.pod("careless", nodeSelector={"disk": "nvme"}, schedulerName="careless")
        assert await world.bound("picky") == "a"
        assert await world.bound("careless") in ("a", "b")
        (event,) = await world.events("careless", "Scheduled")
    assert (event["reportingController"], event["reportingInstance"]) == ("careless", "careless-HOST")


async def test_a_more_important_pod_evicts_and_gets_the_node(world):
    await world.create("PriorityClass", {"metadata": {"name": "high"}, "value": 1000})
    await world.node("a", cpu="2")
    async with world.scheduler():
        await world.pod("low-1", terminationGracePeriodSeconds=0)
        await world.pod("low-2", terminationGracePeriodSeconds=0)
        await world.bound("low-1")
        await world.bound("low-2")
        await world.pod("high", cpu="2", priorityClassName="high")
        assert await world.bound("high") == "a"
        for victim in ("low-1", "low-2"):
            await world.gone("Pod", victim)
            (event,) = await world.events(victim, "Preempted")
            high = await world.get("Pod", "high")
            assert event["note"] == f"Preempted by pod {high['metadata']['uid']} on node a"
        (failed,) = await world.events("high", "FailedScheduling")
        assert failed["note"] == "0/1 nodes are available: 1 Insufficient cpu."


async def test_without_the_gate_victims_are_evicted_before_the_attempt_ends(world):
    """The order of requests tells: with the gate the preemptor's condition may be written before anybody is deleted."""
    await world.create("PriorityClass", {"metadata": {"name": "high"}, "value": 1000})
    await world.node("a", cpu="2")
    options = SchedulerOptions(features=Features(SchedulerAsyncPreemption=False))
    async with world.scheduler(options=options) as live:
        await world.pod("low-1", terminationGracePeriodSeconds=0)
        await world.pod("low-2", terminationGracePeriodSeconds=0)
        await world.bound("low-1")
        await world.bound("low-2")
        order = _order_of_writes(live.scheduler)
        await world.pod("high", cpu="2", priorityClassName="high")
        assert await world.bound("high") == "a"
        assert sorted(order[:4]) == ["delete low-1", "delete low-2", "patch low-1", "patch low-2"]
        assert order[4] == "patch high"
        rendered = live.scheduler.meters.render().decode()
        assert "scheduler_preemption_victims_sum 2\n" in rendered
        assert "scheduler_preemption_goroutines_execution_total{" not in rendered


async def test_without_the_gate_the_preemptor_learns_of_a_refused_eviction(world):
    await world.create("PriorityClass", {"metadata": {"name": "high"}, "value": 1000})
    await world.node("a", cpu="2")
    options = SchedulerOptions(features=Features(SchedulerAsyncPreemption=False))
    async with world.scheduler(options=options) as live:
        await world.pod("low", cpu="2", terminationGracePeriodSeconds=0)
        await world.bound("low")
        writer = live.scheduler._context.writer
        delete_pod = writer.delete_pod

        async def refuse(pod):
            raise ApiError("pods is forbidden", code=403)

        writer.delete_pod = refuse
        await world.pod("high", cpu="2", priorityClassName="high")
        (failed,) = await world.events("high", "FailedScheduling")
        assert failed["note"] == "0/1 nodes are available: 1 Insufficient cpu. preemption: pods is forbidden"
        assert not (await world.get("Pod", "high"))["status"].get("nominatedNodeName")
        writer.delete_pod = delete_pod
        await world.pod("small", cpu="1m")  # others are tried again, too
        await world.condition("small", status="False")
        await world.node("b", cpu="2")
        assert await world.bound("high") == "b"


def _order_of_writes(scheduler):
    """What is patched and deleted from now on, in the order in which it was asked for."""
    order, writer = [], scheduler._context.writer
    patch_pod_status, delete_pod = writer.patch_pod_status, writer.delete_pod

    async def patch(namespace, name, body):
        order.append(f"patch {name}")
        await patch_pod_status(namespace, name, body)

    async def delete(pod):
        order.append(f"delete {pod.name}")
        await delete_pod(pod)

    writer.patch_pod_status, writer.delete_pod = patch, delete
    return order


async def test_a_victim_that_takes_its_time_keeps_the_nominated_pod_waiting(world):
    await world.create("PriorityClass", {"metadata": {"name": "high"}, "value": 1000})
    await world.node("a", cpu="2")
    async with world.scheduler():
        await world.pod("low", cpu="2")
        await world.bound("low")
        await world.pod("high", cpu="2", priorityClassName="high")
        pod = await world.until("high is nominated", lambda: _nominated(world, "high"))
        assert pod["status"]["nominatedNodeName"] == "a"
        victim = await world.until("low is terminating", lambda: _terminating(world, "low"))
        target = next(c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert target["reason"] == "PreemptionByScheduler"
        assert target["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
        await world.delete("Pod", "low")
        assert await world.bound("high") == "a"


async def _nominated(world, name):
    pod = await world.get("Pod", name)
    return pod if pod["status"].get("nominatedNodeName") else None


async def _terminating(world, name):
    pod = await world.get("Pod", name)
    return pod if pod["metadata"].get("deletionTimestamp") else None


async def test_a_claim_that_waits_for_its_consumer_gets_the_volume_of_the_chosen_node(world):
    await world.node("a")
    await world.node("b")
    await world.create(
        "StorageClass",
        {
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    on_b = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}
    await world.create(
        "PersistentVolume",
        {
            "metadata": {"name": "pv-b"},
            "spec": {
                "capacity": {"storage": "5Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "local": {"path": "/mnt/b"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_b]}]}},
            },
        },
    )
    await world.patch("PersistentVolume", "pv-b", {"status": {"phase": "Available"}}, "status")  # its controller's
    await world.create(
        "PersistentVolumeClaim",
        {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": "local",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    async with world.scheduler():
        await world.pod("db", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
        volume = await world.until("the volume is promised", lambda: _promised(world, "pv-b"))
        assert volume["spec"]["claimRef"]["name"] == "data"
        assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
        assert volume["spec"]["local"] == {"path": "/mnt/b"}
        assert (await world.get("Pod", "db"))["status"]["nominatedNodeName"] == "b"
        await _play_volume_controller(world, "data", "pv-b")
        assert await world.bound("db") == "b"


async def _promised(world, name):
    volume = await world.get("PersistentVolume", name)
    return volume if volume["spec"].get("claimRef") else None


async def _play_volume_controller(world, claim, volume):
    annotations = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    await world.patch(
        "PersistentVolumeClaim", claim, {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}}
    )
    await world.patch("PersistentVolumeClaim", claim, {"status": {"phase": "Bound"}}, "status")


async def test_a_claim_for_a_device_is_allocated_before_its_pod_is_bound(world):
    await world.node("a")
    await world.node("b")
    await world.create("DeviceClass", {"metadata": {"name": "gpu"}, "spec": {}})
    await world.create(
        "ResourceSlice",
        {
            "metadata": {"name": "slice-b"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "b",
                "pool": {"name": "b", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            },
        },
    )
    request = {"name": "g", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    await world.create("ResourceClaim", {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [request]}}})
    async with world.scheduler():
        pod = await world.pod("train", resourceClaims=[{"name": "g", "resourceClaimName": "one"}])
        assert await world.bound("train") == "b"
        claim = await world.get("ResourceClaim", "one")
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (result["driver"], result["pool"], result["device"]) == ("gpu.example.com", "b", "gpu-0")
        assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "train", "uid": pod["metadata"]["uid"]}]
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


async def test_kubectl_describe_shows_why_a_pod_waits_and_where_another_went(world, kubectl):
    await world.node("a")
    async with world.scheduler():
        await world.pod("big", cpu="99")
        await world.pod("small")
        await world.bound("small")
        condition = await world.condition("big", reason="Unschedulable")
        await world.events("big", "FailedScheduling")
        await world.events("small", "Scheduled")
        big = await kubectl("describe", "pod", "big")
        small = await kubectl("describe", "pod", "small")
    assert "Warning  FailedScheduling" in big and condition["message"] in big
    assert "default-scheduler  Successfully assigned default/small to a" in small
