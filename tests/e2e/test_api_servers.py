"""Real API servers of several versions: the live scheduler, ``connect`` and ``shadow`` against each of them.

    MOORING_API_SERVERS=~/servers/v1.34.11:~/servers/v1.37.0 pytest tests/e2e/test_api_servers.py

Each folder holds a ``kube-apiserver`` and an ``etcd`` and is started on loopback. Without the variable nothing runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring.core.config.features import Features
from mooring.core.config.versions import nearest_version
from mooring.live.context import SchedulerOptions
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient, server_version
from mooring.sim.remote_world import RealControlPlane

from .conftest import World

FOLDERS = [Path(each).expanduser() for each in os.environ.get("MOORING_API_SERVERS", "").split(":") if each]
REFUSED = "0/2 nodes are available: 2 Insufficient cpu."

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not FOLDERS, reason="MOORING_API_SERVERS names no folders with kube-apiserver and etcd"),
    pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name),
]


@pytest.fixture
async def server(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A new API server with two nodes, one of which has a device."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    plane = RealControlPlane(tmp_path / "kubeconfig")
    try:
        await plane.start()
        kubeconfig = str(tmp_path / "kubeconfig")
        async with RestClient(load_kubeconfig([kubeconfig], environ={}), qps=-1) as client:
            world = World(client, kubeconfig, None, None)
            await world.until("the namespace is there", lambda: client.get("/api/v1/namespaces/default"))
            for name in ("a", "b"):
                await world.node(name)
            yield world
    finally:
        await plane.stop()


async def options_for(world: World) -> SchedulerOptions:
    """The scheduler of the server's own version."""
    version, _ = nearest_version((await server_version(world.client)).release)
    return SchedulerOptions(features=Features(version))


async def with_claim(world: World) -> None:
    """A claim, and a device for it on node b."""
    request = {"name": "r", "exactly": {"deviceClassName": "any"}}
    await world.create("DeviceClass", {"metadata": {"name": "any"}, "spec": {}})
    pool = {"name": "b", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "b", "pool": pool, "devices": [{"name": "gpu-0"}]}
    await world.create("ResourceSlice", {"metadata": {"name": "b"}, "spec": spec})
    await world.create("ResourceClaim", {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}})
    await world.pod("render", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])


async def test_the_live_scheduler_binds_pods_and_claims(server: World, folder: Path) -> None:
    options = await options_for(server)
    async with server.scheduler(options=options):
        for i in range(4):
            await server.pod(f"web-{i}")
        assert {await server.bound(f"web-{i}") for i in range(4)} == {"a", "b"}
        await with_claim(server)
        assert await server.bound("render") == "b"
        claim = await server.get("ResourceClaim", "gpu")
        assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["render"]
        await server.pod("huge", cpu="32")
        assert (await server.condition("huge", reason="Unschedulable"))["message"].startswith(REFUSED)
        assert await server.events("huge", "FailedScheduling")


async def test_connect_reads_the_cluster_and_its_version(server: World, folder: Path) -> None:
    await server.pod("waits", cpu="32")
    cluster = await asyncio.to_thread(mooring.connect, server.kubeconfig)
    info = await server_version(server.client)
    assert cluster.release == info.release
    assert folder.name.startswith(f"v{info.release[0]}.{info.release[1]}.")
    scheduler = mooring.Scheduler(cluster)
    assert scheduler.kubernetes_version == "{}.{}".format(*info.release)
    assert scheduler.explain("default/waits").message.startswith(REFUSED)


async def test_a_shadow_agrees_with_a_scheduler_at_work(server: World, folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mooring", "shadow", "--kubeconfig", server.kubeconfig, "--for", "20s", "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    while b"Watching" not in (line := await process.stderr.readline()):
        assert line, "the shadow has ended"
    async with server.scheduler(options=await options_for(server)):
        for i in range(6):
            await server.pod(f"web-{i}")
        for i in range(6):
            await server.bound(f"web-{i}")
        await server.pod("huge", cpu="32")
        await server.condition("huge", reason="Unschedulable")
        out, _ = await process.communicate()
    found: dict[str, Any] = json.loads(out)
    assert process.returncode == 0, found
    assert found["decisions"] >= 7
