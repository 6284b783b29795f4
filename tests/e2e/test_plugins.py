"""Plugins of one's own: Permit that waits, and what a plugin that raises costs."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar

import pytest

from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.framework.interfaces import PreFilterResult, PreFlight
from mooring.core.framework.registry import Registry
from mooring.core.framework.status import SUCCESS, Status
from mooring.live.context import SchedulerOptions

pytestmark = pytest.mark.e2e


def with_plugins(*plugins: type) -> SchedulerOptions:
    registry: Registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    return SchedulerOptions(registry=registry)


def enabled(*names: str) -> dict:
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in names]}}
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}


class Doorkeeper:
    """Keeps pods labelled ``door`` waiting; ``door: refuse`` rejects immediately."""

    name: ClassVar[str] = "Doorkeeper"
    wait_s: ClassVar[float] = 60.0

    def __init__(self, args, handle):
        self.handle = handle
        Doorkeeper.latest = self

    def events_to_register(self):
        return ()

    def permit(self, state, pod, node_name):
        door = pod.pod.metadata.labels.get("door")
        if door == "refuse":
            return Status.unschedulable("not today"), 0.0
        return (Status.wait(), float(door)) if door else (SUCCESS, 0.0)


async def waiting(world, live, count=1):
    async def check():
        found = live.scheduler.waiting_pods.all()
        return found if len(found) == count else None

    return await world.until("a pod waits", check)


async def test_a_waiting_pod_holds_its_node_and_is_bound_when_allowed(world):
    await world.node("a", cpu="1")
    async with world.scheduler(enabled("Doorkeeper"), with_plugins(Doorkeeper)) as live:
        await world.pod("first", labels={"door": "60"})
        (found,) = await waiting(world, live)
        assert (found.node_name, found.pending_plugins) == ("a", ("Doorkeeper",))
        await world.until("the nomination is told", lambda: _nominated(world, "first"))
        await world.pod("second")
        await world.condition("second", reason="Unschedulable")
        Doorkeeper.latest.handle.waiting_pods.get(found.pod.uid).allow("Doorkeeper")
        assert await world.bound("first") == "a"


async def _nominated(world, name):
    return (await world.get("Pod", name))["status"].get("nominatedNodeName")


async def test_a_rejected_waiting_pod_gets_a_condition_and_frees_its_room(world):
    await world.node("a", cpu="1")
    async with world.scheduler(enabled("Doorkeeper"), with_plugins(Doorkeeper)) as live:
        await world.pod("first", labels={"door": "60"})
        (found,) = await waiting(world, live)
        await world.pod("second")
        await world.condition("second", reason="Unschedulable")
        found.reject("Doorkeeper", "changed my mind")
        condition = await world.condition("first", reason="Unschedulable")
        assert condition["message"] == "0/1 nodes are available: 1 changed my mind."
        assert await world.bound("second") == "a"
        assert not (await world.get("Pod", "first"))["status"].get("nominatedNodeName")


async def test_a_waiting_pod_is_rejected_when_its_time_is_up(world):
    await world.node("a")
    async with world.scheduler(enabled("Doorkeeper"), with_plugins(Doorkeeper)):
        await world.pod("slow", labels={"door": "0.1"})
        condition = await world.condition("slow", reason="Unschedulable")
    assert condition["message"] == (
        "0/1 nodes are available: 1 rejected due to timeout after waiting 100ms at plugin Doorkeeper."
    )


async def test_a_pod_refused_by_permit_is_unschedulable(world):
    await world.node("a")
    async with world.scheduler(enabled("Doorkeeper"), with_plugins(Doorkeeper)) as live:
        await world.pod("unwelcome", labels={"door": "refuse"})
        condition = await world.condition("unwelcome", reason="Unschedulable")
        assert condition["message"] == "0/1 nodes are available: 1 not today."
        assert live.scheduler.cluster.pods() == []


async def test_a_waiting_pod_that_is_deleted_frees_its_node(world):
    await world.node("a", cpu="1")
    async with world.scheduler(enabled("Doorkeeper"), with_plugins(Doorkeeper)) as live:
        await world.pod("first", labels={"door": "60"})
        await waiting(world, live)
        await world.delete("Pod", "first")
        await world.pod("second")
        assert await world.bound("second") == "a"


async def test_a_pod_that_waits_does_not_hold_up_the_end(world):
    await world.node("a")
    async with world.scheduler(enabled("Doorkeeper"), with_plugins(Doorkeeper)) as live:
        await world.pod("first", labels={"door": "600"})
        await waiting(world, live)
        assert await asyncio.wait_for(live.scheduler.finish(60.0), 5)
    assert not (await world.get("Pod", "first"))["spec"].get("nodeName")


async def test_a_waiting_victim_is_preempted_without_being_deleted(world):
    await world.create("PriorityClass", {"metadata": {"name": "high"}, "value": 1000})
    await world.node("a", cpu="1")
    async with world.scheduler(enabled("Doorkeeper"), with_plugins(Doorkeeper)) as live:
        first = await world.pod("first", labels={"door": "60"})
        await waiting(world, live)
        await world.pod("urgent", priorityClassName="high")
        assert await world.bound("urgent") == "a"
        (event,) = await world.events("first", "Preempted")
        assert event["note"].endswith("on node a (in kube-scheduler memory).")
        assert (await world.get("Pod", "first"))["metadata"]["uid"] == first["metadata"]["uid"]


class Clumsy:
    """Raises at one extension point, for pods labelled ``clumsy``."""

    name: ClassVar[str] = "Clumsy"
    point: ClassVar[str] = ""

    def __init__(self, args, handle):
        pass

    def _maybe(self, point, pod):
        labels = pod.pod.metadata.labels if hasattr(pod, "pod") else pod.metadata.labels
        if self.point == point and "clumsy" in labels:
            raise RuntimeError("stumbled")

    def pre_enqueue(self, pod):
        self._maybe("pre_enqueue", pod)
        return SUCCESS

    def pre_filter(self, state, pod, nodes):
        self._maybe("pre_filter", pod)
        return SUCCESS

    def filter(self, state, pod, nodes):
        self._maybe("filter", pod)

    def pre_score(self, state, pod, nodes):
        self._maybe("pre_score", pod)
        return SUCCESS

    def score(self, state, pod, nodes):
        self._maybe("score", pod)

    def reserve(self, state, pod, node_name):
        self._maybe("reserve", pod)
        return SUCCESS

    def unreserve(self, state, pod, node_name):
        self._maybe("unreserve", pod)

    def permit(self, state, pod, node_name):
        self._maybe("permit", pod)
        if self.point == "unreserve" and "clumsy" in pod.pod.metadata.labels:
            return Status.unschedulable("so that unreserve is called"), 0.0
        return SUCCESS, 0.0

    def pre_bind_pre_flight(self, state, pod, node_name):
        self._maybe("pre_bind_pre_flight", pod)
        return PreFlight(SUCCESS)

    async def pre_bind(self, state, pod, node_name):
        self._maybe("pre_bind", pod)
        return SUCCESS

    def post_bind(self, state, pod, node_name):
        self._maybe("post_bind", pod)


TEXTS = {
    "pre_filter": 'running PreFilter plugin "Clumsy": RuntimeError: stumbled',
    "filter": 'running "Clumsy" filter plugin: RuntimeError: stumbled',
    "pre_score": 'running PreScore plugin "Clumsy": RuntimeError: stumbled',
    "score": 'running Score plugin "Clumsy": RuntimeError: stumbled',
    "reserve": 'running Reserve plugin "Clumsy": RuntimeError: stumbled',
    "permit": 'running Permit plugin "Clumsy": RuntimeError: stumbled',
    "pre_bind_pre_flight": 'running PreBindPreFlight "Clumsy": RuntimeError: stumbled',
    "pre_bind": 'running PreBind plugin "Clumsy": RuntimeError: stumbled',
}


@pytest.mark.parametrize("point", TEXTS)
async def test_a_plugin_that_raises_costs_only_its_pod_an_attempt(world, point, monkeypatch):
    monkeypatch.setattr(Clumsy, "point", point)
    await world.node("a")
    await world.node("b")  # with one node nothing is scored
    async with world.scheduler(enabled("Clumsy"), with_plugins(Clumsy)) as live:
        await world.pod("clumsy", labels={"clumsy": "true"})
        condition = await world.condition("clumsy", reason="SchedulerError")
        assert re.sub(r" \(test_plugins\.py:\d+\)$", "", condition["message"]) == TEXTS[point]
        await world.pod("fine")
        assert await world.bound("fine") in ("a", "b")
        assert [pod.pod.name for pod in live.scheduler.cluster.pods()] == ["fine"]


@pytest.mark.parametrize(
    ("point", "is_bound"),
    [
        pytest.param("pre_enqueue", False, id="at PreEnqueue the pod is held back"),
        pytest.param("unreserve", False, id="at Unreserve the room is free all the same"),
        pytest.param("post_bind", True, id="at PostBind the pod is bound already"),
    ],
)
async def test_a_plugin_that_raises_where_there_is_no_verdict(world, point, is_bound, monkeypatch):
    monkeypatch.setattr(Clumsy, "point", point)
    await world.node("a", cpu="1")
    async with world.scheduler(enabled("Clumsy"), with_plugins(Clumsy)) as live:
        await world.pod("clumsy", labels={"clumsy": "true"})
        if is_bound:
            assert await world.bound("clumsy") == "a"
            return

        async def settled():
            return next((p for p in live.scheduler.queue.pending_pods() if p.queue in ("gated", "unschedulable")), None)

        await world.until("the pod waits", settled)
        await world.pod("fine")
        assert await world.bound("fine") == "a"


class Narrow:
    """Only the node that the pod's annotation names, and some pods to activate."""

    name: ClassVar[str] = "Narrow"

    def __init__(self, args, handle):
        pass

    def pre_filter(self, state, pod, nodes):
        return PreFilterResult(frozenset((pod.pod.metadata.labels.get("only", "a"),)))

    def reserve(self, state, pod, node_name):
        state.read("kubernetes.io/pods-to-activate").update(Narrow.activate)
        return SUCCESS

    def unreserve(self, state, pod, node_name):
        pass

    activate: ClassVar[dict] = {}


async def test_activated_pods_are_retried_immediately(world, monkeypatch):
    await world.node("a", cpu="2")
    async with world.scheduler(enabled("Narrow"), with_plugins(Narrow)) as live:
        await world.pod("sleeper", cpu="9")
        await world.condition("sleeper", reason="Unschedulable")
        sleeper = live.scheduler.pods["default/sleeper"]
        before = live.scheduler.queue.get("default/sleeper").attempts
        monkeypatch.setattr(Narrow, "activate", {"default/sleeper": sleeper})
        await world.pod("waker")
        await world.bound("waker")

        async def tried_again():
            info = live.scheduler.queue.get("default/sleeper")
            return info is not None and info.attempts > before

        await world.until("the sleeper is tried again", tried_again)
