"""A scheduler against a server that fails in every way, for thousands of steps.

Whatever happens: no pod is lost, none is bound twice, and no node is overfilled. The server keeps every request
waiting until the machine decides what becomes of it; watches deliver when the machine says so, late, twice, or as a
new list. In the end everything is answered, and what is left must be right.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from types import SimpleNamespace

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.api.clock import VirtualClock
from mooring.api.core import Node, Pod
from mooring.core.config.load import config_from_dict
from mooring.live.context import SchedulerOptions
from mooring.live.scheduler import Scheduler
from mooring.live.writer import ApiWriter
from mooring.net.connect import HttpAnswer
from mooring.net.errors import Conflict, ConnectionFailed, NotFound, ServerError
from mooring.net.informer import Informer
from mooring.net.kinds import NODES, PODS

ELSEWHERE = "elsewhere"  # a cordoned node on which only another scheduler places pods
FAULTS = ("ok", "ok", "ok", "conflict", "error", "lost", "unheard", "unheard")
PODS_TO_MAKE = st.lists(
    st.tuples(st.integers(1, 2), st.sampled_from((0, 0, 0, 100)), st.sampled_from((True, True, True, False))),
    min_size=2,
    max_size=5,
)
STEPS = st.tuples(
    st.sampled_from((10, 10, 3, 1, 0)),  # pod events delivered
    st.sampled_from((10, 1, 0)),  # node events delivered
    st.booleans(),  # twice
    st.booleans(),  # only after pods were tried
    st.integers(1, 4),  # pods tried
    st.lists(st.tuples(st.sampled_from(FAULTS), st.booleans()), max_size=5),  # what becomes of requests
)


class FakeServer:
    """Pods and nodes as plain JSON, a log of changes, and requests that wait for their fate."""

    def __init__(self):
        self.version = 0
        self.objects = {"pods": {}, "nodes": {}}
        self.log = {"pods": [], "nodes": []}
        self.waiting = []
        self.binds = Counter()

    def store(self, resource, obj, kind="MODIFIED"):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[resource][obj["metadata"]["name"]] = obj
        self.log[resource].append((kind, json.dumps(obj)))

    def remove(self, resource, name):
        obj = self.objects[resource].pop(name)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.log[resource].append(("DELETED", json.dumps(obj)))

    def bind(self, name, uid, node):
        pod = self.objects["pods"].get(name)
        if pod is None or pod["metadata"]["uid"] != uid:
            raise NotFound(f'pods "{name}" not found', code=404)
        if pod["spec"].get("nodeName"):
            raise Conflict(f"pod {name} is already assigned to node", code=409)
        self.binds[uid] += 1
        pod = json.loads(json.dumps(pod))
        pod["spec"]["nodeName"] = node
        self.store("pods", pod)

    # ---- the client's side ---------------------------------------------------------------------------------------

    async def _request(self, perform):
        fate = asyncio.get_running_loop().create_future()
        self.waiting.append(fate)
        how = await fate
        if how == "conflict":
            raise Conflict("made up", code=409)
        if how == "error":
            raise ServerError("made up", code=500)
        if how == "lost":
            raise ConnectionFailed("the server closed the connection", was_sent=True)
        answer = perform()
        if how == "unheard":
            raise ConnectionFailed("the server closed the connection", was_sent=True)
        return HttpAnswer(200, {}, answer)

    async def create(self, path, body):
        name = path.split("/")[-2]
        binding = json.loads(body)

        def perform():
            self.bind(name, binding["metadata"]["uid"], binding["target"]["name"])
            return b"{}"

        return await self._request(perform)

    async def get(self, path):
        return await self._request(lambda: json.dumps(self._pod(path)).encode())

    def _pod(self, path):
        name = path.split("/")[6]
        if name not in self.objects["pods"]:
            raise NotFound(f'pods "{name}" not found', code=404)
        return json.loads(json.dumps(self.objects["pods"][name]))

    async def patch(self, path, body, *, content_type=""):
        def perform():
            pod, change = self._pod(path), json.loads(body)["status"]
            status = pod.setdefault("status", {})
            if "nominatedNodeName" in change:
                status["nominatedNodeName"] = change["nominatedNodeName"] or ""
            conditions = {c["type"]: c for c in status.get("conditions", [])}
            for condition in change.get("conditions", []):
                conditions[condition["type"]] = {**conditions.get(condition["type"], {}), **condition}
            status["conditions"] = list(conditions.values())
            self.store("pods", pod)
            return b"{}"

        return await self._request(perform)

    async def delete(self, path, body=b""):
        def perform():
            self._pod(path)
            self.remove("pods", path.split("/")[6])
            return b"{}"

        return await self._request(perform)


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.server = FakeServer()
        self.clock = VirtualClock(1_000_000.0)
        self.seen = {"pods": 0, "nodes": 0}
        self.number = 0

    @initialize(pods=PODS_TO_MAKE)
    def begin(self, pods):
        recorder = SimpleNamespace(record=lambda *about, **more: None)
        self.go(self._begin(recorder))
        self.server.store("nodes", _node(ELSEWHERE, 100, unschedulable=True), "ADDED")
        self.add_node(2)
        self.create_pods(pods)
        self._deliver("nodes", 2)
        self._deliver("pods", 5)

    async def _begin(self, recorder):
        self.scheduler = Scheduler(
            config_from_dict(None),
            lambda pods: ApiWriter(self.server, recorder, pods, sleep=lambda seconds: asyncio.sleep(0)),
            recorder,
            SchedulerOptions(clock=self.clock, rng=random.Random(0)),
        )
        self.informers = {"pods": Informer(None, PODS), "nodes": Informer(None, NODES)}
        for informer in self.informers.values():
            informer.add_handler(self.scheduler.put, self.scheduler.update, self.scheduler.delete)

    def go(self, work):
        async def step():
            result = await work
            for _ in range(20):
                await asyncio.sleep(0)
            return result

        return self.loop.run_until_complete(step())

    # ---- what people do ----------------------------------------------------------------------------------------

    @rule(cpu=st.integers(1, 4))
    def add_node(self, cpu):
        self.number += 1
        if len(self.server.objects["nodes"]) < 6:
            self.server.store("nodes", _node(f"node-{self.number}", cpu), "ADDED")

    @rule(pods=PODS_TO_MAKE)
    def create_pods(self, pods):
        for cpu, priority, ours in pods:
            self.number += 1
            name = f"pod-{self.number}"
            self.server.store("pods", _pod(name, f"uid-{self.number}", cpu, priority, ours), "ADDED")

    @precondition(lambda self: self.server.objects["pods"])
    @rule(data=st.data(), how=st.sampled_from(("delete", "delete", "bind elsewhere", "recreate")))
    def meddle(self, data, how):
        pods = self.server.objects["pods"]
        name = data.draw(st.sampled_from(sorted(pods)))
        pod = pods[name]
        is_bound = bool(pod["spec"].get("nodeName"))
        if how == "bind elsewhere" and not is_bound:
            self.server.bind(name, pod["metadata"]["uid"], ELSEWHERE)
            return
        self.server.remove("pods", name)
        if how == "recreate" and not is_bound:
            self.number += 1
            fresh = json.loads(json.dumps(pod))
            fresh["metadata"] = {"name": name, "namespace": "default", "uid": f"uid-{self.number}"}
            fresh["status"] = {}
            self.server.store("pods", fresh, "ADDED")

    # ---- what watches do ---------------------------------------------------------------------------------------

    def _deliver(self, resource, count, twice=False):
        start = self.seen[resource]
        events = [_decoded(resource, *event) for event in self.server.log[resource][start : start + count]]
        self.seen[resource] = start + len(events)
        self.go(self.informers[resource].apply(events + events if twice else events))

    @rule(resource=st.sampled_from(("pods", "nodes")))
    def list_anew(self, resource):
        objects = [_decoded(resource, "ADDED", json.dumps(o))[1] for o in self.server.objects[resource].values()]
        self.seen[resource] = len(self.server.log[resource])
        self.go(self.informers[resource].replace(objects, str(self.server.version)))

    # ---- what the scheduler and the server do ------------------------------------------------------------------

    @rule(step=STEPS)
    def work(self, step):
        self._work(*step)

    @rule(steps=st.lists(STEPS, min_size=3, max_size=6))
    def work_for_a_while(self, steps):
        for step in steps:
            self._work(*step)

    def _work(self, pods, nodes, twice, late, count, fates):
        """Some events come, some pods are tried, and some requests meet their fate, oldest or newest first."""
        if late:
            self.go(self._schedule(count))
        self._deliver("pods", pods, twice)
        self._deliver("nodes", nodes, twice)
        if not late:
            self.go(self._schedule(count))
        for how, newest in fates:
            if self.server.waiting:
                self.go(self._settle(self.server.waiting.pop(-1 if newest else 0), how))

    async def _schedule(self, count):
        self.scheduler.queue.run_timers()
        for _ in range(count):
            info = self.scheduler.queue.pop()
            if info is None:
                return 0
            self.scheduler.schedule_one(info)
        return count

    async def _settle(self, fate, how):
        if not fate.done():
            fate.set_result(how)

    @rule(seconds=st.sampled_from((0.3, 1.0, 5.0, 40.0)))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def reload(self):
        self.go(self._reload())

    async def _reload(self):
        self.scheduler.reload(config_from_dict({"percentageOfNodesToScore": 50 + self.number % 50}))

    # ---- what must always be true ------------------------------------------------------------------------------

    @invariant()
    def nothing_is_bound_twice(self):
        assert all(count == 1 for count in self.server.binds.values())

    @invariant()
    def no_node_is_overfilled(self):
        used = Counter()
        for pod in self.server.objects["pods"].values():
            used[pod["spec"].get("nodeName", "")] += _cpu(pod)
        for name, node in self.server.objects["nodes"].items():
            assert used[name] <= int(node["status"]["allocatable"]["cpu"]), f"{name} is overfilled"

    # ---- the end -----------------------------------------------------------------------------------------------

    def teardown(self):
        try:
            if hasattr(self, "informers"):
                self._calm_down()
                self.nothing_is_lost()
        finally:
            self.loop.run_until_complete(self._end(asyncio.all_tasks(self.loop)))
            self.loop.close()

    async def _end(self, tasks):
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _calm_down(self):
        quiet = 0
        for _ in range(400):
            busy = bool(self.server.waiting)
            while self.server.waiting:
                self.go(self._settle(self.server.waiting.pop(0), "ok"))
            for resource in ("nodes", "pods"):
                while self.seen[resource] < len(self.server.log[resource]):
                    busy = True
                    self._deliver(resource, 5)
            busy = bool(self.go(self._schedule(50))) or busy or bool(self.scheduler.in_flight)
            self.clock.advance(1.0)
            quiet = 0 if busy else quiet + 1
            if quiet > 15:
                return
        raise AssertionError("the scheduler does not come to rest")

    def nothing_is_lost(self):
        scheduler, pods = self.scheduler, self.server.objects["pods"]
        cached = {pod.pod.name: pod.pod.spec.node_name for pod in scheduler.cluster.pods()}
        assert cached == {name: pod["spec"]["nodeName"] for name, pod in pods.items() if pod["spec"].get("nodeName")}
        assert not scheduler.cluster.num_assumed
        free = {name: int(node["status"]["allocatable"]["cpu"]) for name, node in self.server.objects["nodes"].items()}
        del free[ELSEWHERE]
        for pod in pods.values():
            free[pod["spec"].get("nodeName", "")] = free.get(pod["spec"].get("nodeName", ""), 0) - _cpu(pod)
        free.pop("", None)
        free.pop(ELSEWHERE, None)
        waiting = {pod.name for pod in scheduler.queue.pending_pods()}
        for name, pod in pods.items():
            if pod["spec"].get("nodeName") or pod["spec"]["schedulerName"] != "default-scheduler":
                assert name not in waiting
                continue
            assert name in waiting, f"{name} is lost"
            assert all(_cpu(pod) > room for room in free.values()), f"{name} fits and was not placed: {free}"


def _node(name, cpu, unschedulable=False):
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"unschedulable": unschedulable},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(name, uid, cpu, priority, ours):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {
            "containers": [container],
            "priority": priority,
            "schedulerName": "default-scheduler" if ours else "another",
        },
        "status": {},
    }


def _cpu(pod):
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


_DECODERS = {"pods": msgspec.json.Decoder(Pod), "nodes": msgspec.json.Decoder(Node)}


def _decoded(resource, kind, text):
    return kind, _DECODERS[resource].decode(text)


SchedulerMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
TestSchedulerMachine = SchedulerMachine.TestCase
