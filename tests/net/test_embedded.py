"""The client against the embedded API server, over TLS, with faults."""

from __future__ import annotations

import asyncio
import json

import pytest

from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.live.events import EventRecorder, InvolvedObject
from mooring.live.leader_election import LeaderElectionSettings, LeaderElector
from mooring.net.errors import AlreadyExists, Conflict, NotFound
from mooring.net.informer import InformerSet
from mooring.net.kinds import NODES, PODS, SCHEDULER_KINDS
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient

pytestmark = pytest.mark.e2e

PODS_PATH = "/api/v1/namespaces/default/pods"


class Cluster:
    def __init__(self, plane: ControlPlane, client: RestClient, faults: Faults) -> None:
        self.plane, self.client, self.faults = plane, client, faults

    async def node(self, name: str) -> None:
        await self.client.create("/api/v1/nodes", json.dumps({"metadata": {"name": name}}).encode())

    async def pod(self, name: str) -> dict:
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        return json.loads((await self.client.create(PODS_PATH, json.dumps(body).encode())).body)

    async def bind(self, pod: dict, node: str) -> None:
        meta = pod["metadata"]
        body = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {"name": meta["name"], "namespace": "default", "uid": meta["uid"]},
            "target": {"kind": "Node", "name": node},
        }
        await self.client.create(f"{PODS_PATH}/{meta['name']}/binding", json.dumps(body).encode())


@pytest.fixture
async def cluster(tmp_path):
    faults = Faults()
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig", faults=faults) as plane:
        config = load_kubeconfig([str(tmp_path / "kubeconfig")], environ={})
        async with RestClient(config, qps=-1) as client:
            yield Cluster(plane, client, faults)


async def test_all_kinds_synchronise(cluster):
    await cluster.node("a")
    informers = InformerSet(cluster.client)
    for kind in SCHEDULER_KINDS:
        informers.add(kind)
    informers.start()
    assert await informers.wait_for_sync()
    assert [node.metadata.name for node in informers["nodes"]] == ["a"]
    assert {namespace.metadata.name for namespace in informers["namespaces"]} >= {"default", "kube-system"}
    assert all(informer.is_served for informer in informers)
    await informers.stop()


async def test_a_pod_is_created_bound_and_gone(cluster, eventually):
    await cluster.node("a")
    informers = InformerSet(cluster.client)
    pods = informers.add(PODS)
    informers.start()
    await informers.wait_for_sync()
    pod = await cluster.pod("web")
    await eventually(lambda: pods.get("default/web"))
    assert pods.get("default/web").spec.node_name == ""
    await cluster.bind(pod, "a")
    await eventually(lambda: pods.get("default/web").spec.node_name == "a")
    with pytest.raises(Conflict):
        await cluster.bind(pod, "b")
    await cluster.client.patch(f"{PODS_PATH}/web/status", b'{"status":{"phase":"Succeeded"}}')
    await eventually(lambda: pods.get("default/web") is None)
    with pytest.raises(NotFound):
        await cluster.client.get(f"{PODS_PATH}/nobody")
    with pytest.raises(AlreadyExists):
        await cluster.pod("web")
    await informers.stop()


@pytest.mark.parametrize("action", ["gone", "duplicate"])
async def test_faults_on_watches_lose_nothing(cluster, eventually, action):
    await cluster.node("first")
    informers = InformerSet(cluster.client)

    async def nap(seconds: float) -> None:
        await asyncio.sleep(seconds / 1000)

    nodes = informers.add(NODES, sleep=nap)
    heard: list[str] = []
    nodes.add_handler(on_add=lambda node: heard.append(node.metadata.name))
    informers.start()
    await informers.wait_for_sync()
    cluster.faults.add(FaultRule(action, path="/nodes", on_watch=True, times=4))
    names = [f"n{number}" for number in range(12)]
    for name in names:
        await cluster.node(name)
        await asyncio.sleep(0.002)
    await eventually(lambda: len(nodes) == 13)
    assert sorted(heard) == sorted(["first", *names]), "every node is heard of once"
    await informers.stop()


async def test_a_throttled_write_is_repeated(cluster):
    cluster.faults.add(FaultRule("throttle", method="POST", path="/pods", times=1))
    pod = await cluster.pod("patient")
    assert pod["metadata"]["name"] == "patient"


async def test_many_concurrent_writes(cluster):
    pods = await asyncio.gather(*(cluster.pod(f"p{number}") for number in range(200)))
    assert len({pod["metadata"]["uid"] for pod in pods}) == 200
    listed = json.loads((await cluster.client.get(PODS_PATH)).body)
    assert len(listed["items"]) == 200


async def test_leadership_is_handed_over(cluster, eventually):
    settings = LeaderElectionSettings(retry_period_s=0.02)
    electors = [LeaderElector(cluster.client, settings, identity=name) for name in ("one", "two")]
    leading: list[str] = []

    async def run(elector: LeaderElector) -> None:
        async def lead() -> None:
            leading.append(elector.identity)
            await asyncio.Event().wait()

        await elector.run(lead)

    first = asyncio.create_task(run(electors[0]))
    await eventually(lambda: leading == ["one"])
    second = asyncio.create_task(run(electors[1]))
    await eventually(lambda: electors[1].leader == "one")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await eventually(lambda: leading == ["one", "two"])
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)


async def test_an_event_can_be_read_through_both_apis(cluster):
    pod = await cluster.pod("web")
    recorder = EventRecorder(cluster.client, hostname="host")
    await recorder.start()
    meta = pod["metadata"]
    regarding = InvolvedObject(
        kind="Pod",
        namespace="default",
        name="web",
        uid=meta["uid"],
        api_version="v1",
        resource_version=meta["resourceVersion"],
    )
    for _ in range(2):
        recorder.record(regarding, type="Normal", reason="Scheduled", action="Binding", note="assigned")
        assert await recorder.drain(10)
    await recorder.stop()
    assert recorder.failed == 0
    [event] = json.loads((await cluster.client.get("/apis/events.k8s.io/v1/namespaces/default/events")).body)["items"]
    assert (event["note"], event["series"]["count"]) == ("assigned", 2)
    [event] = json.loads((await cluster.client.get("/api/v1/namespaces/default/events")).body)["items"]
    assert (event["message"], event["involvedObject"]["name"]) == ("assigned", "web")
