"""Faults: nothing is lost, nothing is bound twice, no node is overfilled."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import ApiUser
from mooring.controlplane.serving.faults import FaultRule
from mooring.core.config.load import config_from_dict
from mooring.live.live_scheduler import LiveScheduler
from mooring.live.writer import AGAIN_S
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient

pytestmark = pytest.mark.e2e

BINDING = r"/binding$"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        pytest.param(
            FaultRule("error", "POST", BINDING, code=409),
            'running Bind plugin "DefaultBinder": fault injected',
            id="a conflict of an unbound pod",
        ),
        pytest.param(
            FaultRule("error", "POST", BINDING, code=404),
            'running Bind plugin "DefaultBinder": fault injected',
            id="404",
        ),
        pytest.param(
            FaultRule("error", "POST", BINDING, code=500, times=len(AGAIN_S)),
            'running Bind plugin "DefaultBinder": fault injected',
            id="500, however often it is sent",
        ),
    ],
)
async def test_a_refused_binding_is_reported_and_tried_again(world, rule, message):
    await world.node("a", cpu="1")
    world.faults.add(rule)
    async with world.scheduler():
        await world.pod("unlucky")
        condition = await world.condition("unlucky", reason="SchedulerError")
        assert condition["message"] == message
        assert await world.bound("unlucky") == "a"
        (event,) = await world.events("unlucky", "FailedScheduling")
        assert event["note"] == message


async def test_a_throttled_binding_is_sent_again_without_a_new_attempt(world):
    await world.node("a")
    rule = world.faults.add(FaultRule("throttle", "POST", BINDING, times=2, seconds=1))
    async with world.scheduler() as live:
        await world.pod("patient")
        assert await world.bound("patient") == "a"
        assert (rule.times, live.scheduler.decisions) == (0, 1)


async def test_a_binding_whose_connection_is_cut_is_looked_up_before_it_is_given_up(world):
    await world.node("a", cpu="1")
    rule = world.faults.add(FaultRule("drop", "POST", BINDING))
    async with world.scheduler():
        await world.pod("cut")
        assert await world.bound("cut") == "a"
        assert rule.times == 0


async def test_a_binding_without_an_answer_that_was_carried_out_is_a_success(world, monkeypatch):
    """The answer is lost, not the request: the pod is bound once and no failure is reported."""
    plane = world.plane
    if plane is None:
        pytest.skip("the embedded server is needed")
    await world.node("a", cpu="1")
    server = plane._server
    handle = server.handle

    async def deaf(request):
        answer = await handle(request)
        if request.message.target.endswith(b"/binding"):
            request.cut()
        return answer

    async with world.scheduler() as live:
        monkeypatch.setattr(server, "handle", deaf)
        await world.pod("heard")
        assert await world.bound("heard") == "a"
        await world.events("heard", "Scheduled")
        assert live.scheduler.decisions == 1


async def test_a_pod_deleted_between_decision_and_binding_leaves_nothing_behind(world):
    await world.node("a", cpu="1")
    world.faults.add(FaultRule("delay", "POST", BINDING, seconds=0.3))
    async with world.scheduler() as live:
        await world.pod("doomed")

        async def assumed():
            return live.scheduler.cluster.pods()

        await world.until("the pod is assumed", assumed)
        await world.delete("Pod", "doomed")
        await world.pod("next")
        assert await world.bound("next") == "a"
        await live.scheduler.drain(5)
        assert [pod.pod.name for pod in live.scheduler.cluster.pods()] == ["next"]
        assert live.scheduler.queue.pending_pods() == []


async def test_a_pod_bound_by_another_scheduler_stays_there(world):
    await world.node("a", cpu="1")
    await world.node("b", cpu="1")
    world.faults.add(FaultRule("delay", "POST", BINDING, skip=1, seconds=0.8))
    async with world.scheduler() as live:
        await world.pod("warm-up")
        first = await world.bound("warm-up")
        other = {"a": "b", "b": "a"}[first]
        await world.delete("Pod", "warm-up")
        await world.patch("Node", first, {"spec": {"unschedulable": True}})
        await world.pod("wanted")

        async def assumed():
            return [p for p in live.scheduler.cluster.pods() if p.pod.name == "wanted"]

        await world.until("the pod is assumed", assumed)
        await world.pod("late")
        await world.condition("late", reason="Unschedulable")
        await world.bind("wanted", first)  # the delayed binding comes later, and is refused
        assert await world.bound("late") == other  # sees that there is room after all
        await live.scheduler.drain(5)
        (counted,) = (pod for pod in live.scheduler.cluster.pods() if pod.pod.name == "wanted")
        assert (counted.pod.spec.node_name, live.scheduler.cluster.num_assumed) == (first, 0)
        assert live.scheduler.queue.pending_pods() == []
        pod = await world.get("Pod", "wanted")
        assert pod["spec"]["nodeName"] == first
        scheduled = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
        assert scheduled["status"] == "True"


async def test_a_status_patch_with_a_conflict_is_repeated(world):
    await world.node("a")
    rule = world.faults.add(FaultRule("error", "PATCH", r"/pods/contested/status$", code=409))
    async with world.scheduler():
        await world.pod("contested", cpu="99")
        await world.condition("contested", reason="Unschedulable")
        assert rule.times == 0


async def test_a_victim_that_cannot_be_deleted_is_tried_again(world):
    await world.create("PriorityClass", {"metadata": {"name": "high"}, "value": 1000})
    await world.node("a", cpu="1")
    async with world.scheduler():
        await world.pod("stuck", terminationGracePeriodSeconds=0)
        await world.bound("stuck")
        rule = world.faults.add(FaultRule("error", "DELETE", r"/pods/stuck$", code=500))
        await world.pod("thwarted", priorityClassName="high")
        assert await world.bound("thwarted") == "a"
        assert rule.times == 0


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(FaultRule("drop", on_watch=True, path="/pods$"), id="the watch of pods is cut"),
        pytest.param(FaultRule("gone", on_watch=True, path="/pods$"), id="410: everything is listed again"),
        pytest.param(FaultRule("duplicate", on_watch=True, path="/pods$", times=20), id="events come twice"),
        pytest.param(FaultRule("gone", on_watch=True, path="/nodes$"), id="410 on nodes"),
    ],
)
async def test_pods_are_bound_whatever_happens_to_watches(world, rule):
    await world.node("a")
    await world.node("b")
    async with world.scheduler() as live:
        await world.pod("before")
        await world.bound("before")
        world.faults.add(rule)
        for i in range(7):
            await world.pod(f"pod-{i}")
        await world.node("c")
        nodes = Counter([await world.bound(f"pod-{i}") for i in range(7)] + [await world.bound("before")])
        assert max(nodes.values()) <= 4
        await _agrees(world, live)


async def _agrees(world, live):
    """The cache says what the API server says."""

    async def check():
        said = {p["metadata"]["name"]: p["spec"].get("nodeName") for p in await world.list("Pod")}
        cluster = live.scheduler.cluster
        cached = {p.pod.name: p.pod.spec.node_name for p in cluster.pods() if not cluster.is_assumed(p.uid)}
        return said == cached

    await world.until("the cache agrees with the API server", check)


async def test_an_api_server_that_goes_away_and_comes_back_is_picked_up_again(tmp_path):
    """Everything is kept on disk, the port stays the same; pods made in between are bound afterwards."""
    data, path = tmp_path / "data", tmp_path / "kubeconfig"
    first = ControlPlane(use_tls=False, data_dir=data, kubeconfig_path=path)
    await first.start()
    port = int(first.url.rsplit(":", 1)[1])
    try:
        _make(first, "nodes", "", {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}})
        config = load_kubeconfig([str(path)], environ={})
        async with RestClient(config, qps=-1) as client, LiveScheduler(client, config_from_dict(None)) as live:
            _make(first, "pods", "default", _pod("before"))
            await _bound_here(first, "before")
            await first.stop()
            second = ControlPlane(use_tls=False, data_dir=data, port=port)
            second.access.add({first.token: ApiUser("kubernetes-admin", "1", ("system:masters",))})
            await second.start()
            try:
                _make(second, "pods", "default", _pod("after"))
                await _bound_here(second, "after")
                assert len(live.scheduler.cluster.pods()) == 2
            finally:
                await second.stop()
    finally:
        await first.stop()


def _pod(name):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def _make(plane, resource, namespace, body):
    from mooring.controlplane.registry.catalog import by_resource

    kind = "Node" if resource == "nodes" else "Pod"
    plane.api.create(by_resource(resource), namespace, {"apiVersion": "v1", "kind": kind, **body})


async def _bound_here(plane, name):
    from mooring.controlplane.registry.catalog import by_resource

    async with asyncio.timeout(300):
        while True:
            entry = plane.store.get(by_resource("pods"), "default", name)
            if entry is not None and entry.object().get("spec", {}).get("nodeName"):
                return
            await asyncio.sleep(0.02)
