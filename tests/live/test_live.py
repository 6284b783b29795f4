"""A scheduler with its connections, against the embedded API server."""

from __future__ import annotations

import asyncio
import gc
import json

import pytest

from mooring.api.memory import SELDOM
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.core.config.load import default_config
from mooring.core.plugins.devices.cel import CelSelectors
from mooring.live.context import SchedulerOptions
from mooring.live.live_scheduler import LiveScheduler
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def plane():
    faults = Faults()
    async with ControlPlane(use_tls=False, faults=faults) as plane:
        plane.rules = faults
        yield plane


@pytest.fixture
async def client(plane):
    from mooring.net.credentials import StaticCredentials

    config = ClientConfig(plane.url, credentials=StaticCredentials(f"Bearer {plane.token}"))
    async with RestClient(config, qps=-1) as client:
        yield client


async def create(client, path, body):
    return json.loads((await client.create(path, json.dumps(body).encode())).body)


async def make_node(client, name="a"):
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    await create(client, "/api/v1/nodes", {"metadata": {"name": name}, "status": {"allocatable": amounts}})


async def make_pod(client, name="web", **spec):
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    await create(client, PODS, {"metadata": {"name": name}, "spec": {"containers": [container], **spec}})


async def until(check):
    async with asyncio.timeout(60.0):
        while not (found := await check()):  # noqa: ASYNC110 – the server makes it true
            await asyncio.sleep(0.01)
        return found


async def test_a_pod_is_bound_while_the_scheduler_is_open(client):
    await make_node(client)
    async with LiveScheduler(client, default_config(), hostname="h") as live:
        await make_pod(client)

        async def is_bound():
            return json.loads((await client.get(f"{PODS}/web")).body)["spec"].get("nodeName")

        assert await until(is_bound) == "a"
    assert live.scheduler.in_flight == 0


async def test_a_pod_with_claims_fails_where_the_api_server_does_not_serve_them(client, plane):
    plane.rules.add(FaultRule("error", "GET", r"/apis/resource\.k8s\.io/", times=1_000_000, code=404))
    await make_node(client)
    await make_pod(client, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    async with LiveScheduler(client, default_config(), hostname="h") as live:
        assert set(live.informers.not_served()) == {
            "resourceclaims.resource.k8s.io",
            "resourceslices.resource.k8s.io",
            "deviceclasses.resource.k8s.io",
        }

        async def condition():
            conditions = json.loads((await client.get(f"{PODS}/web")).body)["status"].get("conditions", [])
            return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")

        assert "does not serve resource.k8s.io/v1" in await until(condition)


async def test_selectors_of_a_new_device_class_are_compiled_before_a_pod_asks_for_it(client, monkeypatch):
    compiled: list[str] = []
    monkeypatch.setattr(CelSelectors, "compile", lambda _, expression: compiled.append(expression))
    async with LiveScheduler(client, default_config(), hostname="h"):
        spec = {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}
        await create(client, "/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": "gpu"}, "spec": spec})

        async def is_compiled():
            return compiled

        assert await until(is_compiled) == ["device.driver == 'd'"]


async def test_nothing_is_decided_while_the_server_is_known_to_have_gone_back(client):
    await make_node(client)
    async with LiveScheduler(client, default_config(), hostname="h") as live:
        live.informers._restored()
        await make_pod(client)

        async def is_waiting():
            return live.scheduler.queue.has_ready

        await until(is_waiting)
        for _ in range(20):  # turns that would do
            await asyncio.sleep(0)
        assert live.scheduler.queue.has_ready
        live.informers._current()

        async def is_bound():
            return json.loads((await client.get(f"{PODS}/web")).body)["spec"].get("nodeName")

        assert await until(is_bound) == "a"


async def test_the_garbage_collector_is_tuned_only_while_it_runs(client):
    before = gc.get_threshold()
    live = LiveScheduler(client, default_config(), SchedulerOptions(), hostname="h", tune_gc=True)
    await live.start()
    try:
        assert gc.get_threshold() == SELDOM
        assert await live.synced(60.0)
    finally:
        assert await live.stop()
    assert gc.get_threshold() == before


async def test_a_server_that_does_not_answer_is_waited_for_only_so_long():
    async with RestClient(ClientConfig("http://127.0.0.1:1"), qps=-1) as client:
        live = LiveScheduler(client, default_config(), hostname="h")
        await live.start()
        assert not await live.synced(0.0)
        assert "pods" in live.informers.missing()
        await live.stop()
