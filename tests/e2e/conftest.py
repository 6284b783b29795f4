"""A cluster to schedule on: the embedded API server over TLS, or any empty cluster named by MOORING_E2E_KUBECONFIG."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from mooring.api.errors import ApiError
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import Faults
from mooring.core.config.load import config_from_dict
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.live.context import SchedulerOptions
from mooring.live.live_scheduler import LiveScheduler
from mooring.net.errors import NotFound
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import MERGE_PATCH, RestClient

EXTERNAL = os.environ.get("MOORING_E2E_KUBECONFIG", "")
WAIT_S = 300.0
COLLECTIONS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/namespaces/default/persistentvolumeclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodGroup": "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups",
    "Group": "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "Event": "/apis/events.k8s.io/v1/namespaces/default/events",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
}


class World:
    """A cluster, and what a test does to it, always through its API."""

    def __init__(self, client: RestClient, kubeconfig: str, plane: ControlPlane | None, faults: Faults | None) -> None:
        self.client, self.kubeconfig, self.plane = client, kubeconfig, plane
        self._faults = faults

    @property
    def faults(self) -> Faults:
        if self._faults is None:
            pytest.skip("faults can be injected into the embedded API server only")
        return self._faults

    async def create(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        api_version = COLLECTIONS[kind].removeprefix("/apis/").removeprefix("/api/").split("/namespaces/")[0]
        api_version = "/".join(api_version.split("/")[: 1 if api_version.startswith("v1") else 2])
        body = {"apiVersion": api_version, "kind": kind, **body}
        answer = await self.client.create(COLLECTIONS[kind], json.dumps(body).encode())
        return json.loads(answer.body)

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        return json.loads((await self.client.get(f"{COLLECTIONS[kind]}/{name}")).body)

    async def list(self, kind: str) -> list[dict[str, Any]]:
        return json.loads((await self.client.get(COLLECTIONS[kind])).body)["items"]

    async def patch(self, kind: str, name: str, body: dict[str, Any], subresource: str = "") -> dict[str, Any]:
        path = f"{COLLECTIONS[kind]}/{name}" + (f"/{subresource}" if subresource else "")
        return json.loads((await self.client.patch(path, json.dumps(body).encode(), content_type=MERGE_PATCH)).body)

    async def delete(self, kind: str, name: str, grace_s: int | None = 0) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        await self.client.delete(f"{COLLECTIONS[kind]}/{name}", json.dumps(options).encode())

    async def node(self, name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
        node = await self.create(
            "Node", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}}
        )
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        await self.patch("Node", name, {"status": {"capacity": amounts, "allocatable": amounts}}, "status")
        with contextlib.suppress(ApiError):  # a real API server taints new nodes
            await self.patch("Node", name, {"spec": {"taints": None}})
        return node

    async def pod(self, name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
        labels = spec.pop("labels", {})
        container = {"name": "c", "image": "example.com/app", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container], **spec}}
        return await self.create("Pod", body)

    async def bind(self, name: str, node: str) -> None:
        body = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "default"},
            "target": {"kind": "Node", "name": node},
        }
        await self.client.create(f"{COLLECTIONS['Pod']}/{name}/binding", json.dumps(body).encode())

    async def until(self, what: str, check: Callable[[], Awaitable[Any]], timeout_s: float = WAIT_S) -> Any:
        """Ask until the answer is true, and return it."""
        found: Any = None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    with contextlib.suppress(ApiError):
                        found = await check()
                        if found:
                            return found
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pytest.fail(f"{what}: not within {timeout_s:g}s, last seen {found!r}")

    async def bound(self, name: str, timeout_s: float = WAIT_S) -> str:
        """Wait until a pod is bound; return its node."""

        async def check() -> str:
            return (await self.get("Pod", name))["spec"].get("nodeName", "")

        return await self.until(f"pod {name} is bound", check, timeout_s)

    async def condition(self, name: str, **wanted: str) -> dict[str, Any]:
        """Wait for a pod's PodScheduled condition with these fields."""

        async def check() -> dict[str, Any] | None:
            conditions = (await self.get("Pod", name))["status"].get("conditions", [])
            found = next((c for c in conditions if c["type"] == "PodScheduled"), {})
            return found if wanted.items() <= found.items() else None

        return await self.until(f"condition of pod {name} with {wanted}", check)

    async def events(self, name: str, reason: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for events about a pod."""

        async def check() -> list[dict[str, Any]]:
            found = [e for e in await self.list("Event") if e["regarding"]["name"] == name and e["reason"] == reason]
            return found if len(found) >= count else []

        return await self.until(f"event {reason} of pod {name}", check)

    async def gone(self, kind: str, name: str) -> None:
        async def check() -> bool:
            try:
                await self.get(kind, name)
            except NotFound:
                return True
            return False

        await self.until(f"{kind} {name} is gone", check)

    async def settled(self, name: str) -> None:
        """Wait until the watch has shown a pod's own condition to its watchers."""
        version = (await self.get("Pod", name))["metadata"]["resourceVersion"]
        live = self.live

        async def check() -> bool:
            known = live.scheduler.pods.get(f"default/{name}")
            return known is not None and known.metadata.resource_version == version

        await self.until(f"the watch shows pod {name}", check)

    async def rested(self, live: LiveScheduler, name: str) -> None:
        """Wait until a pod waits for an event, its condition written and seen, and its backoff over."""
        await self.settled(name)

        async def check() -> bool:
            info = live.scheduler.queue.get(f"default/{name}")
            return info is not None and live.scheduler.queue.counts()["unschedulable"] > 0

        await self.until(f"pod {name} rests", check)

    async def tried(self, live: LiveScheduler, name: str, attempts: int) -> None:
        """Wait until a pod has been tried more often than this."""

        async def check() -> bool:
            info = live.scheduler.queue.get(f"default/{name}")
            return info is not None and info.attempts > attempts

        await self.until(f"pod {name} is tried again", check)

    async def clean(self) -> None:
        for kind in ("Pod", "PersistentVolumeClaim", "ResourceClaim", "PodDisruptionBudget"):
            await self.client.delete(COLLECTIONS[kind], b'{"gracePeriodSeconds":0}')
        for kind in ("Node", "PersistentVolume", "StorageClass", "ResourceSlice", "DeviceClass"):
            await self.client.delete(COLLECTIONS[kind])

    @contextlib.asynccontextmanager
    async def scheduler(
        self, config: dict[str, Any] | None = None, options: SchedulerOptions | None = None
    ) -> AsyncIterator[LiveScheduler]:
        """A scheduler at work, in this process but over its own connections."""
        async with (
            RestClient(load_kubeconfig([self.kubeconfig], environ={}), qps=-1) as client,
            LiveScheduler(client, _configuration(config, options), options, hostname="HOST") as live,
        ):
            self.live = live
            yield live


def _configuration(config: dict[str, Any] | None, options: SchedulerOptions | None) -> KubeSchedulerConfiguration:
    return config_from_dict(config, (options or SchedulerOptions()).features)


@pytest.fixture
async def world(tmp_path: Any) -> AsyncIterator[World]:
    if EXTERNAL:
        async with RestClient(load_kubeconfig([EXTERNAL], environ={}), qps=-1) as client:
            found = World(client, EXTERNAL, None, None)
            if json.loads((await client.get(COLLECTIONS["Node"])).body)["items"]:
                pytest.skip("the cluster has nodes; these tests want one without")
            yield found
            await found.clean()
        return
    faults = Faults()
    path = tmp_path / "kubeconfig"
    async with (
        ControlPlane(kubeconfig_path=path, faults=faults) as plane,
        RestClient(load_kubeconfig([str(path)], environ={}), qps=-1) as client,
    ):
        yield World(client, str(path), plane, faults)


@pytest.fixture
def kubectl(world: World, tmp_path: Any) -> Callable[..., Awaitable[str]]:
    """The real kubectl, where it is installed."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")

    async def call(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            "--kubeconfig",
            world.kubeconfig,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    return call
