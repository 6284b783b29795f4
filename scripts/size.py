"""Measures a whole `mooring run` on a cluster of a given size and prints a row for the table in docs/run/sizing.md.

    python scripts/size.py --nodes 1000 --pods 30000                          the embedded API server
    python scripts/size.py --nodes 1000 --pods 30000 --kubeconfig FILE        one that is there, for trials

Nodes and running pods are made first; then the scheduler starts in a process of its own, binds a pod that waits, and
then a burst of pods that come at once. In a cluster that is there everything is made in the namespace and under the
label `mooring-size` and deleted afterwards; no kubelet runs those pods, and no other pod can go to those nodes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mooring.api.errors import MooringError
from mooring.controlplane.registry.catalog import by_resource
from mooring.controlplane.server import ControlPlane
from mooring.net.errors import Conflict, ConnectionFailed, Forbidden, NotFound, ServerError
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient

NAME = "mooring-size"
TEMPLATES = 50
CONNECTIONS = 16
PATIENCE_S = 600.0
Object = dict[str, Any]
Make = Callable[[str, Object], Awaitable[None]]


@dataclass(frozen=True)
class Usage:
    """What the operating system says about a process."""

    memory_mib: int
    cpu_s: float


def usage(pid: int) -> Usage:
    status = Path(f"/proc/{pid}/status").read_text()
    resident_kib = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(after_name[11]) + int(after_name[12])
    return Usage(resident_kib // 1024, ticks / os.sysconf("SC_CLK_TCK"))


def node(number: int) -> Object:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    name = f"{NAME}-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, NAME: "node"}},
        "spec": {"taints": [{"key": NAME, "effect": "NoSchedule"}]},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(kind: str, number: int, node_name: str = "") -> Object:
    """A pod of one of fifty templates; with a node it counts as running there."""
    labels = {"app": f"app-{number % TEMPLATES}", "pod-template-hash": f"{number % TEMPLATES:010d}", NAME: kind}
    container = {
        "name": "app",
        "image": f"registry.example.com/team/app-{number % TEMPLATES}:1.2.3",
        "env": [{"name": f"SETTING_{i}", "value": f"the value of setting {i}"} for i in range(6)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    spec: Object = {
        "schedulerName": NAME,
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {NAME: "node"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    if node_name:
        spec["nodeName"] = node_name
    metadata = {"name": f"{kind}-{number}", "namespace": NAME, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def over_http(client: RestClient, resource: str, obj: Object) -> None:
    """Create an object; a node's status is written separately, as its kubelet would."""
    base = f"/api/v1/namespaces/{NAME}/pods" if resource == "pods" else f"/api/v1/{resource}"
    for _ in range(100):
        try:
            await client.create(base, json.dumps(obj).encode())
            break
        except Conflict:
            break
        except Forbidden as error:
            if "serviceaccount" not in str(error):  # a new namespace gets its account a moment later
                raise
            await asyncio.sleep(0.2)
    if resource == "nodes":
        body = json.dumps({"status": obj["status"]}).encode()
        path = f"{base}/{obj['metadata']['name']}/status"
        await client.patch(path, body, content_type="application/merge-patch+json")


@contextlib.asynccontextmanager
async def api_server(kubeconfig: str, folder: Path) -> AsyncIterator[tuple[str, RestClient, Make]]:
    """An API server: how to reach it and how to fill it. One that was there is left as it was."""
    if not kubeconfig:
        path = folder / "kubeconfig"
        async with ControlPlane(kubeconfig_path=path) as plane:

            async def directly(resource: str, obj: Object) -> None:
                plane.api.create(by_resource(resource), obj["metadata"].get("namespace", ""), obj)

            async with RestClient(load_kubeconfig([str(path)]), qps=1e6, burst=10**6) as client:
                yield str(path), client, directly
        return
    async with RestClient(load_kubeconfig([kubeconfig]), qps=1e6, burst=10**6, timeout_s=120) as client:
        try:
            yield kubeconfig, client, lambda resource, obj: over_http(client, resource, obj)
        finally:
            await delete_everything(client)


async def delete_everything(client: RestClient) -> None:
    for path in (f"/api/v1/namespaces/{NAME}/pods", "/api/v1/nodes"):
        for _ in range(50):  # an API server gives such a request a minute; what is gone by then is gone
            with contextlib.suppress(ConnectionFailed, ServerError):
                await client.delete(path, query={"labelSelector": NAME}, timeout_s=PATIENCE_S)
                break
    with contextlib.suppress(NotFound, TimeoutError):
        await client.delete(f"/api/v1/namespaces/{NAME}")
        async with asyncio.timeout(60):  # the next run needs a new one
            while True:
                await client.get(f"/api/v1/namespaces/{NAME}")
                await asyncio.sleep(0.5)


async def make_all(make: Make, resource: str, objects: Iterable[Object]) -> None:
    source = iter(objects)

    async def work() -> None:
        for obj in source:
            await make(resource, obj)

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


async def all_bound(client: RestClient, process: asyncio.subprocess.Process, log: Path) -> None:
    """Wait until no pod of ours is without a node."""
    query = {"labelSelector": NAME, "fieldSelector": "spec.nodeName=", "limit": "1"}
    async with asyncio.timeout(PATIENCE_S):
        while process.returncode is None:
            answer = await client.get(f"/api/v1/namespaces/{NAME}/pods", query)
            if not json.loads(answer.body)["items"]:
                return
            await asyncio.sleep(0.1)
    raise MooringError(f"the scheduler ended: {last_line(log)}")


def last_line(log: Path) -> str:
    return next(reversed(log.read_text().splitlines()), "without a word")


def row(kubeconfig: str, nodes: int, pods: int, synced: Usage, first_s: float, after: Usage) -> str:
    where = "real" if kubeconfig else "embedded"
    return (
        f"| {where} | {nodes:,} | {pods:,} | {synced.memory_mib} MiB | {first_s:.1f} s "
        f"| {after.memory_mib} MiB | {after.cpu_s - synced.cpu_s:.1f} s |"
    )


async def measure(nodes: int, pods: int, burst: int, kubeconfig: str) -> None:
    """Print the row before the cluster is cleaned up, which takes a while in a real one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with api_server(kubeconfig, folder) as (reached_by, client, make):
            await make("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})
            await make_all(make, "nodes", (node(i) for i in range(nodes)))
            await make_all(make, "pods", (pod("running", i, f"{NAME}-{i % nodes}") for i in range(pods)))
            await make("pods", pod("first", 0))
            config = folder / "scheduler.yaml"
            config.write_text(yaml.safe_dump(configuration(reached_by)))
            command = [sys.executable, "-m", "mooring", "run", f"--config={config}", "--secure-port=0"]
            started = time.monotonic()
            with (folder / "log").open("wb") as log:
                process = await asyncio.create_subprocess_exec(*command, stderr=log)
            try:
                await all_bound(client, process, folder / "log")
                first_s, synced = time.monotonic() - started, usage(process.pid)
                await make_all(make, "pods", (pod("burst", i) for i in range(burst)))
                await all_bound(client, process, folder / "log")
                print(row(kubeconfig, nodes, pods, synced, first_s, usage(process.pid)), flush=True)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()


def configuration(kubeconfig: str) -> Object:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 2000, "burst": 4000},
        "profiles": [{"schedulerName": NAME}],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=3000, help="pods that run already (default: 3000)")
    parser.add_argument("--burst", type=int, default=1000, help="pods that come at once (default: 1000)")
    parser.add_argument("--kubeconfig", default="", help="an API server that is there, instead of the embedded one")
    arguments = parser.parse_args()
    if min(arguments.nodes, arguments.burst) < 1 or arguments.pods < 0:
        parser.error("at least one node and one pod are needed")
    try:
        asyncio.run(measure(arguments.nodes, arguments.pods, arguments.burst, arguments.kubeconfig))
    except (MooringError, TimeoutError) as error:
        print(f"size: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
