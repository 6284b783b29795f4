"""The same stories on a remote API server: here one of ours, over HTTP, without other clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import ApiError
from mooring.cli.main import run
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.types.kind import Kind
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import MERGE_PATCH, RestClient
from mooring.sim import remote_world
from mooring.sim.library import find
from mooring.sim.player import play
from mooring.sim.remote_world import DEFAULT_NAME, OUR_NAME, ExistingWorld, KubernetesWorld, as_guest
from mooring.sim.scenario import Scenario, ScenarioCluster, node, pod
from mooring.sim.worlds import PlaySettings, World

pytestmark = pytest.mark.e2e


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """An API server with nothing around it, as kube-apiserver is."""
    path = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig_path=path, garbage_collection=False, default_tolerations=True) as running:
        yield running


class _OnAnotherServer(KubernetesWorld):
    """A world of our own around a server that is already up, in place of real binaries."""

    def __init__(self, scenario: Scenario, plane: ControlPlane, lines: list[str]) -> None:
        World.__init__(self, PlaySettings(write=lines.append), scenario)
        self._path = plane.kubeconfig_path

    async def _bring_up(self) -> RestClient:
        return await self._connect(load_kubeconfig([str(self._path)]))


@pytest.mark.parametrize("name", ["first-placement", "zone-spread", "preemption"])
async def test_controllers_and_kubelets_work_over_the_network(plane: ControlPlane, name: str) -> None:
    lines: list[str] = []
    scenario = find(name)
    async with asyncio.timeout(100):
        async with _OnAnotherServer(scenario, plane, lines) as world:
            result = await play(world, scenario)
    assert result.held, "\n".join(lines)


async def test_nothing_is_created_twice_while_the_network_is_slow(plane: ControlPlane) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 20,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"]},
        },
    }
    seen: set[str] = set()
    plane.store.subscribe(PODS, lambda event: seen.add(event.entry.name))
    async with asyncio.timeout(60):
        async with _OnAnotherServer(find("first-placement"), plane, []) as world:
            await world.cluster.create(node("node1"), deployment)
            await world.cluster.wait("deployment/web", "Available")
    assert len(seen) == 20


async def test_a_guest_leaves_other_nodes_alone_and_nothing_behind(plane: ControlPlane) -> None:
    plane.api.create(NODES, "", node("theirs", unschedulable=True))
    plane.api.create(PODS, "default", pod("theirs"))
    lines: list[str] = []

    async def story(cluster: ScenarioCluster) -> None:
        await cluster.create(node("ours"))
        await cluster.create(pod("ours"))
        await cluster.expect_pod("ours", node="ours", phase="Running")

    config = load_kubeconfig([str(plane.kubeconfig_path)])
    async with asyncio.timeout(60):
        async with ExistingWorld(PlaySettings(write=lines.append), Scenario("guest", "", story), config) as world:
            result = await play(world, Scenario("guest", "", story))
    assert result.held, "\n".join(lines)
    assert [entry.name for entry in plane.store.iterate(PODS)] == ["theirs"]
    (theirs,) = [entry.object() for entry in plane.store.iterate(NODES)]
    assert not theirs["status"].get("conditions")
    assert not plane.api.get(PODS, "default", "theirs").object()["spec"].get("nodeName")


@pytest.mark.parametrize(("manifest", "name"), [
    pytest.param(pod("p"), OUR_NAME, id="a pod without a scheduler"),
    pytest.param(pod("p", schedulerName=DEFAULT_NAME), OUR_NAME, id="a pod of the default scheduler"),
    pytest.param(pod("p", schedulerName="custom"), "custom", id="a pod of another scheduler"),
])  # fmt: skip
def test_pods_of_a_guest_name_its_scheduler(manifest: dict[str, object], name: str) -> None:
    assert as_guest(manifest)["spec"]["schedulerName"] == name
    template = {"spec": manifest["spec"]}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "w"},
        "spec": {"template": template},
    }
    assert as_guest(workload)["spec"]["template"]["spec"]["schedulerName"] == name


async def test_a_story_continues_when_its_nodes_are_schedulable(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on kube-apiserver, every node is created with a taint, which goes some time after its kubelet is ready."""
    create = plane.api.create
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

    def lift(name: str) -> None:
        plane.api.patch(NODES, "", name, MERGE_PATCH, b'{"spec": {"taints": null}}')

    def create_tainted(kind: Kind, namespace: str, obj: dict[str, Any], *rest: Any, **options: Any) -> Any:
        if kind is NODES:
            obj = {**obj, "spec": {**(obj.get("spec") or {}), "taints": [taint]}}
            name = obj["metadata"]["name"]  # the first node is the last to be ready
            asyncio.get_running_loop().call_later(0.6 if name == "node1" else 0.1, lift, name)
        return create(kind, namespace, obj, *rest, **options)

    monkeypatch.setattr(plane.api, "create", create_tainted)

    async def story(cluster: ScenarioCluster) -> None:
        await cluster.create(node("node1", cpu="2"), node("node2", cpu="2"))
        await cluster.create(pod("first", cpu="2"))
        await cluster.expect_pod("first", node="node1")

    scenario = Scenario("nodes", "", story)
    lines: list[str] = []
    config = load_kubeconfig([str(plane.kubeconfig_path)])
    async with ExistingWorld(PlaySettings(write=lines.append), scenario, config) as world:
        result = await play(world, scenario)
    assert result.held, "\n".join(lines)


async def test_a_node_that_is_never_ready_is_reported(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster without a controller that would lift the taint."""
    monkeypatch.setattr(remote_world, "NODES_READY_WITHIN_S", 0.0)
    config = load_kubeconfig([str(plane.kubeconfig_path)])
    async with ExistingWorld(PlaySettings(write=lambda line: None), None, config) as world:
        with pytest.raises(ApiError, match="node/slow is not ready within 0s of its creation"):
            await world.cluster.create(node("slow", taints=["node.kubernetes.io/not-ready:NoSchedule"]))


@pytest.mark.parametrize("command", [["start", "--once"], ["scenario", "run", "first-placement"]])
def test_an_unreachable_server_is_reported_immediately_in_one_line(
    command: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:  # bound, but it does not listen: connections are refused
        closed.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{closed.getsockname()[1]}"
        path = tmp_path / "kubeconfig"
        path.write_text(
            f"{{apiVersion: v1, kind: Config, clusters: [{{name: a, cluster: {{server: 'https://{server}'}}}}], "
            "contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a, "
            "users: [{name: a, user: {token: x}}]}"
        )
        assert run([*command, "--kubeconfig", str(path)]) == 1
    err = capfd.readouterr().err
    assert err.startswith(f"mooring: cannot connect to {server}: ") and err.count("\n") == 1
