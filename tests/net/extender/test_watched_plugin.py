"""A plugin served as an extender with a watched cluster: it sees the pods on nodes, and names are enough."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring import sdk
from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.api.errors import ApiError
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.live.informers import ClusterWatch
from mooring.net.extender.conformance import args_body, make_node, make_pod
from mooring.net.extender.plugin_server import UNSEEN, PluginServer
from mooring.net.extender.requests import WrongForm
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient

NODES = [make_node(i) for i in range(3)]
NAMES = [node["metadata"]["name"] for node in NODES]


class Lonely(sdk.NodeFilter, sdk.NodeScore):
    """A pod wants a node of its own; the fewer others would be better, too."""

    name = "Lonely"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.unschedulable("node(s) have company") if node.pods else sdk.SUCCESS

    def score(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> int:
        return 0 if node.pods else sdk.MAX_NODE_SCORE


def ask(server: PluginServer, verb: str, names: list[str] | None = None) -> Any:
    offered = [make_node(i) for i in range(3)] if names is None else [{"metadata": {"name": name}} for name in names]
    return json.loads(server.served().verbs[verb](args_body(make_pod("p"), offered, by_name=names is not None))[0])


def pod_on(node: str, name: str = "there", uid: str = "u-1", **status: Any) -> Pod:
    value = make_pod(name)
    value["metadata"]["uid"] = uid
    value["spec"]["nodeName"] = node
    value["status"] |= status
    pod: Pod = from_plain(Pod, value)
    return pod


@pytest.fixture
def server() -> PluginServer:
    made = PluginServer([Lonely], is_watched=True)
    for node in NODES:
        made.put(from_plain(Node, node))
    return made


def company(server: PluginServer) -> list[str]:
    return sorted(ask(server, "filter", NAMES)["FailedNodes"])


def test_it_follows_the_pods_of_the_cluster(server: PluginServer) -> None:
    assert company(server) == []
    first = pod_on(NAMES[0])
    server.put(first)
    assert company(server) == [NAMES[0]]
    again = pod_on(NAMES[1], uid="u-2")
    server.update(first, again)
    assert company(server) == [NAMES[1]], "made anew under the same name, elsewhere"
    server.update(again, pod_on(NAMES[1], uid="u-2", phase="Succeeded"))
    assert company(server) == [], "one that has finished is no company"
    server.put(pod_on(NAMES[2], uid="u-3"))
    server.delete(pod_on(NAMES[2], uid="u-3"))
    assert company(server) == []


def test_names_and_whole_nodes_are_answered_in_kind(server: PluginServer) -> None:
    server.put(pod_on(NAMES[0]))
    by_name, whole = ask(server, "filter", NAMES), ask(server, "filter")
    assert by_name["NodeNames"] == NAMES[1:] and by_name["Nodes"] is None
    assert whole["Nodes"]["items"] == NODES[1:] and whole["NodeNames"] is None
    scores = {NAMES[0]: 0, NAMES[1]: 10, NAMES[2]: 10}
    assert {each["Host"]: each["Score"] for each in ask(server, "prioritize", NAMES)} == scores
    assert server.served().settings.node_cache_capable


def test_a_node_that_is_not_known_yet_is_refused_and_gets_no_score(server: PluginServer) -> None:
    server.delete(from_plain(Node, NODES[1]))
    answer = ask(server, "filter", [*NAMES, "new"])
    assert answer["NodeNames"] == [NAMES[0], NAMES[2]]
    assert answer["FailedNodes"] == {NAMES[1]: UNSEEN, "new": UNSEEN}
    assert [each["Host"] for each in ask(server, "prioritize", [*NAMES, "new"])] == [NAMES[0], NAMES[2]]


def test_without_a_watched_cluster_names_are_not_enough() -> None:
    with pytest.raises(WrongForm, match=r"served with --watch; set nodeCacheCapable: false"):
        ask(PluginServer([Lonely]), "filter", NAMES)


async def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not is_so():
        assert time.monotonic() < deadline, "it did not become so"
        await asyncio.sleep(0.02)


@pytest.mark.e2e
async def test_a_cluster_is_watched_from_a_thread(tmp_path: Path) -> None:
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig") as plane:
        assert plane is not None
        config = load_kubeconfig([str(tmp_path / "kubeconfig")], environ={})
        async with RestClient(config, qps=-1) as client:
            for name in NAMES:
                await client.create("/api/v1/nodes", json.dumps({"metadata": {"name": name}}).encode())
            server = PluginServer([Lonely], is_watched=True)
            watch = ClusterWatch(config, server)
            await asyncio.to_thread(watch.start, 20.0)
            try:
                assert company(server) == []
                containers = [{"name": "c", "image": "i"}]
                spec = {"containers": containers, "nodeName": NAMES[1], "terminationGracePeriodSeconds": 0}
                body = {"metadata": {"name": "there"}, "spec": spec}
                await client.create("/api/v1/namespaces/default/pods", json.dumps(body).encode())
                await eventually(lambda: company(server) == [NAMES[1]])
                await client.delete("/api/v1/namespaces/default/pods/there")
                await eventually(lambda: company(server) == [])
            finally:
                await asyncio.to_thread(watch.stop)


@pytest.mark.e2e
async def test_lists_that_do_not_come_are_named(tmp_path: Path) -> None:
    faults = Faults()
    faults.add(FaultRule("error", path="/api/v1/nodes", code=403, times=1000))
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig", faults=faults):
        config = load_kubeconfig([str(tmp_path / "kubeconfig")], environ={})
        watch = ClusterWatch(config, PluginServer([Lonely], is_watched=True))
        with pytest.raises(ApiError, match=r"could not list nodes from .* is this user allowed to list and watch them"):
            await asyncio.to_thread(watch.start, 3.0)
