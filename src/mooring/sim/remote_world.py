"""Scenarios on other control planes: real binaries started here, or a cluster that is there already."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.api.well_known import NOT_READY
from mooring.client.errors import NotFound
from mooring.client.kubeconfig import ClientConfig
from mooring.client.rest import RestClient
from mooring.controlplane.cluster.controllers.manager import ControllerManager
from mooring.controlplane.cluster.garbage import GarbageCollector
from mooring.controlplane.cluster.kubelet import FAKE_NODE, KUBELET, Kubelets
from mooring.controlplane.registry.catalog import NODES, PODS, STORED
from mooring.controlplane.registry.groups.coordination import LEASES
from mooring.controlplane.registry.groups.core import EVENTS
from mooring.errors import ApiError
from mooring.scheduler.assembly import Scheduler
from mooring.sim.backend import Backend, Object, Ref, kind_of
from mooring.sim.real_control_plane import RealControlPlane
from mooring.sim.remote_api import RemoteApi
from mooring.sim.runner import SYNC_TIMEOUT_S, Settings, World, feed_by_watching
from mooring.sim.scenario import Scenario

DEFAULT_NAME = "default-scheduler"
OUR_NAME = "mooring-scenario"
"""Under this name the scheduler works beside a cluster's own."""
ANSWER_WITHIN_S = 10.0
NODES_READY_WITHIN_S = 60.0


class RemoteBackend(Backend):
    """Writes to an API server that taints a new node until its kubelet has said that it is ready.

    A story goes on only when the scheduler sees that its nodes take pods. Otherwise its pods would go to whichever node
    is ready first.
    """

    def __init__(self, client: RestClient) -> None:
        super().__init__(client)
        self.scheduler: Scheduler | None = None
        self._new_nodes: list[str] = []

    async def create(self, manifest: Object) -> Object:
        created = await super().create(manifest)
        metadata = created["metadata"]
        if kind_of(manifest) is NODES and KUBELET not in (metadata.get("annotations") or {}):
            self._new_nodes.append(metadata["name"])
        return created

    async def settle(self) -> None:
        names, self._new_nodes = self._new_nodes, []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + NODES_READY_WITHIN_S
        while late := [name for name in names if not self._takes_pods(name)]:
            if loop.time() > deadline:
                raise ApiError(f"node/{late[0]} is not ready within {NODES_READY_WITHIN_S:g}s of its creation")
            await asyncio.sleep(0.05)

    def _takes_pods(self, name: str) -> bool:
        info = self.scheduler.cluster.table.nodes.get(name) if self.scheduler is not None else None
        if info is None or info.node is None:
            return False
        return not any(taint.key == NOT_READY for taint in info.node.spec.taints)


class RemoteWorld(World):
    """A world whose API server is another process."""

    def _backend(self, client: RestClient) -> RemoteBackend:
        return RemoteBackend(client)

    async def _feed(self, scheduler: Scheduler, client: RestClient) -> None:
        await feed_by_watching(self._stack, scheduler, client, self.narrator)
        assert isinstance(self.cluster.backend, RemoteBackend)
        self.cluster.backend.scheduler = scheduler


class KubernetesWorld(RemoteWorld):
    """Real etcd and kube-apiserver, with our own kubelets, controllers and scheduler around them."""

    def __init__(self, settings: Settings, scenario: Scenario | None, kubeconfig_path: Path) -> None:
        super().__init__(settings, scenario)
        self.plane = RealControlPlane(kubeconfig_path)

    async def _bring_up(self) -> RestClient:
        self._stack.push_async_callback(self.plane.stop)
        return await self._connect(await self.plane.start())

    async def _connect(self, config: ClientConfig) -> RestClient:
        client = RestClient(config, agent="mooring-scenario", qps=-1)
        self._stack.push_async_callback(client.close)
        mirror = RemoteApi(client, self.clock, [kind for kind in STORED if kind is not EVENTS])  # events own nothing
        self._stack.push_async_callback(mirror.stop)
        await mirror.start(SYNC_TIMEOUT_S)
        garbage = GarbageCollector(mirror)
        garbage.start()
        self._stack.callback(garbage.stop)
        task = asyncio.create_task(garbage.run(), name="garbage collector")
        self._stack.callback(task.cancel)
        loop = asyncio.get_running_loop()
        for part in (ControllerManager(mirror, loop), Kubelets(mirror, loop)):
            part.start()
            self._stack.callback(part.stop)
        return client


class _GuestBackend(RemoteBackend):
    """Writes what a scenario wants, marked as ours, and takes it away again."""

    def __init__(self, client: RestClient) -> None:
        super().__init__(client)
        self._created: list[Ref] = []

    async def create(self, manifest: Object) -> Object:
        created = await super().create(as_guest(manifest))
        self._created.append(Ref.of(created))
        return created

    async def apply(self, manifest: Object) -> Object:
        if await self.get(Ref.of(manifest)) is None:
            return await self.create(manifest)
        return await super().apply(as_guest(manifest))

    async def clean_up(self) -> None:
        for ref in reversed(self._created):
            with contextlib.suppress(ApiError, NotFound):
                await self.delete(ref, grace_period_s=0)


class ExistingWorld(RemoteWorld):
    """A cluster that is there already, with its own controllers and perhaps its own scheduler.

    Our scheduler works under another name, so that it touches no other pods. Fake kubelets play the nodes that the
    story creates, and only these. What the story created is deleted in the end.
    """

    def __init__(self, settings: Settings, scenario: Scenario | None, config: ClientConfig) -> None:
        super().__init__(settings, scenario)
        self._config = config

    async def _bring_up(self) -> RestClient:
        client = RestClient(self._config, agent="mooring-scenario", qps=-1)
        self._stack.push_async_callback(client.close)
        await client.get("/version", timeout_s=ANSWER_WITHIN_S)  # a wrong address is told at once, in one line
        mirror = RemoteApi(client, self.clock, (NODES, PODS, LEASES))
        self._stack.push_async_callback(mirror.stop)
        await mirror.start(SYNC_TIMEOUT_S)
        kubelets = Kubelets(mirror, asyncio.get_running_loop(), only_marked=True)
        kubelets.start()
        self._stack.callback(kubelets.stop)
        return client

    def _backend(self, client: RestClient) -> RemoteBackend:
        backend = _GuestBackend(client)
        self._stack.push_async_callback(backend.clean_up)
        return backend

    def _config_of(self, scenario: Scenario | None) -> Mapping[str, Any] | None:
        config: dict[str, Any] = dict((scenario.config if scenario is not None else None) or {
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})  # fmt: skip
        profiles = [dict(profile) for profile in config.get("profiles") or [{}]]
        for profile in profiles:
            if profile.get("schedulerName", DEFAULT_NAME) == DEFAULT_NAME:
                profile["schedulerName"] = OUR_NAME
        return {**config, "profiles": profiles}


def as_guest(manifest: Object) -> Object:
    """The manifest with our scheduler's name where it says none, and with our mark on its nodes."""
    kind = kind_of(manifest)
    if kind.plural == "nodes":
        metadata = manifest.get("metadata") or {}
        return {**manifest, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), FAKE_NODE: "true"}}}
    if kind.plural == "pods":
        return {**manifest, "spec": _ours(manifest.get("spec") or {})}
    template = (manifest.get("spec") or {}).get("template")
    if isinstance(template, Mapping) and "spec" in template:
        spec = {**manifest["spec"], "template": {**template, "spec": _ours(template["spec"])}}
        return {**manifest, "spec": spec}
    return manifest


def _ours(spec: Mapping[str, Any]) -> Object:
    name = spec.get("schedulerName", DEFAULT_NAME)
    return {**spec, "schedulerName": OUR_NAME if name == DEFAULT_NAME else name}
