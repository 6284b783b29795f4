"""Worlds on another API server: real ``etcd`` and ``kube-apiserver`` started here, or an existing cluster.

:class:`RealControlPlane` starts the binaries, :class:`RemoteApi` connects our kubelets and controllers to any server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.clock import Clock
from mooring.api.errors import ApiError, MooringError, UsageError
from mooring.api.times import format_time
from mooring.api.well_known import NOT_READY
from mooring.controlplane.cluster.garbage import GarbageCollector
from mooring.controlplane.cluster.kubelet import FAKE_NODE, KUBELET, Kubelets
from mooring.controlplane.cluster.manager import ControllerManager
from mooring.controlplane.registry.catalog import NODES, PODS, STORED
from mooring.controlplane.registry.groups.core import EVENTS
from mooring.controlplane.registry.groups.nodes import LEASES
from mooring.controlplane.registry.validation import generated_name
from mooring.controlplane.serving.access import write_kubeconfig, write_private
from mooring.controlplane.storage.store import Store, StoredEntry, key_of
from mooring.controlplane.types import status
from mooring.controlplane.types.kind import Kind, Object
from mooring.live.scheduler import Scheduler
from mooring.net.errors import NotFound
from mooring.net.kubeconfig import ClientConfig, load_kubeconfig
from mooring.net.rest import JSON, RestClient
from mooring.net.watch import Reflector
from mooring.net.watch_events import ResourceKind
from mooring.sim.backend import Backend, Ref, kind_of
from mooring.sim.scenario import NO_STORY, Scenario
from mooring.sim.worlds import SYNC_TIMEOUT_S, PlaySettings, World, feed_by_watching

log = logging.getLogger(__name__)

READY_TIMEOUT_S = 60.0
NEEDED = ("etcd", "kube-apiserver")


def find_binaries() -> dict[str, str]:
    """Find the binaries in KUBEBUILDER_ASSETS, or on PATH."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    found = {name: shutil.which(name, path=assets) or shutil.which(name) for name in NEEDED}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        where = f"neither in KUBEBUILDER_ASSETS ({assets}) nor on PATH" if assets else "not on PATH"
        raise UsageError(f"--control-plane kubernetes: {' and '.join(missing)} {where}; the embedded one needs neither")
    return {name: path for name, path in found.items() if path is not None}


class RealControlPlane:
    """Starts both, on loopback and with a random token, and ends them without leaving anything behind."""

    def __init__(self, kubeconfig_path: Path) -> None:
        self._binaries = find_binaries()
        self._kubeconfig_path = kubeconfig_path
        self._folder = Path(tempfile.mkdtemp(prefix="mooring-kubernetes-"))
        self._processes: list[tuple[str, asyncio.subprocess.Process]] = []
        self.url = ""

    async def start(self) -> ClientConfig:
        """Start both; return the client configuration once the server is ready."""
        folder, token = self._folder, secrets.token_urlsafe(24)
        etcd, peer, port = free_port(), free_port(), free_port()
        write_private(folder / "tokens.csv", f'{token},mooring-admin,mooring-admin,"system:masters"\n')
        write_private(folder / "accounts.key", _private_key())
        await self._spawn("etcd", etcd_arguments(folder, etcd, peer))
        await self._spawn("kube-apiserver", apiserver_arguments(folder, etcd, port))
        self.url = f"https://127.0.0.1:{port}"
        certificate = folder / "certificates" / "apiserver.crt"
        await self._until(certificate.exists)
        write_kubeconfig(self._kubeconfig_path, self.url, token, certificate.read_bytes())
        config = load_kubeconfig([str(self._kubeconfig_path)])
        await self._until_ready(config)
        return config

    async def _spawn(self, name: str, arguments: list[str]) -> None:
        with (self._folder / f"{name}.log").open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                self._binaries[name], *arguments, stdout=output, stderr=output, stdin=asyncio.subprocess.DEVNULL
            )
        self._processes.append((name, process))

    async def _until_ready(self, config: ClientConfig) -> None:
        async with RestClient(config) as client:
            deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
            while True:
                self._check_alive()
                try:
                    await client.get("/readyz", timeout_s=5.0)
                    return
                except ApiError as error:
                    if asyncio.get_running_loop().time() > deadline:
                        raise MooringError(f"kube-apiserver is not ready after {READY_TIMEOUT_S:g}s: {error}") from None
                await asyncio.sleep(0.2)

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not holds():
            self._check_alive()
            if asyncio.get_running_loop().time() > deadline:
                raise MooringError(f"kube-apiserver did not start within {READY_TIMEOUT_S:g}s")
            await asyncio.sleep(0.1)

    def _check_alive(self) -> None:
        for name, process in self._processes:
            if process.returncode is not None:
                raise MooringError(f"{name} ended with code {process.returncode}: {self._last_line(name)}")

    def _last_line(self, name: str) -> str:
        lines = (self._folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    async def stop(self) -> None:
        for _, process in reversed(self._processes):
            if process.returncode is None:
                process.terminate()
                try:
                    async with asyncio.timeout(10):
                        await process.wait()
                except TimeoutError:
                    process.kill()
                    await process.wait()
        self._processes = []
        shutil.rmtree(self._folder, ignore_errors=True)


def etcd_arguments(folder: Path, port: int, peer: int) -> list[str]:
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{port}",
        f"--advertise-client-urls=http://127.0.0.1:{port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]


def apiserver_arguments(folder: Path, etcd: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://mooring.invalid",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        # Since 1.37 an address of this machine alone cannot be the endpoint of the service "kubernetes".
        "--endpoint-reconciler-type=none",
        # No controller here makes service accounts, and pods need none.
        "--disable-admission-plugins=ServiceAccount",
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem.decode()


class _WatchedMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Held(msgspec.Struct):
    """An object as received, and the part of its metadata that a reflector reads."""

    metadata: _WatchedMeta
    obj: Object


class _Sink:
    """Stores what a watch delivers."""

    def __init__(self, mirror: RemoteApi, kind: Kind) -> None:
        self._mirror, self._kind = mirror, kind
        self.is_synced = asyncio.Event()

    async def replace(self, objects: Sequence[_Held], resource_version: str = "") -> None:
        keep = {key_of(held.metadata.namespace, held.metadata.name) for held in objects}
        for held in objects:
            self._mirror.put(self._kind, held.obj)
        for entry in list(self._mirror.store.iterate(self._kind)):
            if entry.key not in keep:
                self._mirror.remove(self._kind, entry.key)
        self.is_synced.set()

    async def apply(self, events: Sequence[tuple[str, _Held]]) -> None:
        for type_, held in events:
            if type_ == "DELETED":
                self._mirror.remove(self._kind, key_of(held.metadata.namespace, held.metadata.name), held.metadata.uid)
            else:
                self._mirror.put(self._kind, held.obj)


class RemoteApi:
    """A :class:`mooring.controlplane.cluster.base.ClusterApi` on another server: for kubelets and controllers.

    They read a local copy, a store like the embedded one's that watches keep up to date. A write is sent in the
    background, and its response is put into the copy immediately. Until then the controller does not process the same
    key again (it waits for :meth:`carry_out`), so that it never creates an object twice.
    """

    def __init__(self, client: RestClient, clock: Clock, kinds: Iterable[Kind]) -> None:
        self.store = Store()
        self.clock = clock
        self._client = client
        self._rng = random.Random()
        self._kinds = tuple(dict.fromkeys(kinds))
        self._versions: dict[tuple[Kind, str], str] = {}
        self._writes: set[asyncio.Task[None]] = set()
        self._sent: list[asyncio.Task[None]] | None = None  # by the current work
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, timeout_s: float) -> None:
        """Watch every kind, and wait until the copy is complete."""
        sinks = []
        for kind in self._kinds:
            sink = _Sink(self, kind)
            sinks.append(sink)
            reflector = Reflector(self._client, _watched(kind), sink)
            self._tasks.append(asyncio.create_task(reflector.run(), name=f"mirror {kind.resource}"))
        try:
            async with asyncio.timeout(timeout_s):
                for sink in sinks:
                    await sink.is_synced.wait()
        except TimeoutError:
            missing = [
                kind.resource for kind, sink in zip(self._kinds, sinks, strict=True) if not sink.is_synced.is_set()
            ]
            raise ApiError(f"could not list {', '.join(missing)} within {timeout_s:g}s") from None

    async def stop(self) -> None:
        tasks = [*self._tasks, *self._writes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def timestamp(self) -> str:
        return format_time(self.clock.now())

    def carry_out(self, work: Callable[[], None]) -> asyncio.Future[None] | None:
        sent = self._sent = []
        work()
        self._sent = None
        return self._started(_all(sent)) if sent else None

    # The copy

    def put(self, kind: Kind, obj: Object) -> None:
        """Store a version, unless a newer one is known."""
        metadata = obj["metadata"]
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        version = str(metadata.get("resourceVersion", ""))
        known = self.store.entry(kind, key)
        if known is not None and known.uid == metadata.get("uid") and not _is_newer(version, self._versions[kind, key]):
            return
        self._versions[kind, key] = version
        obj = {**obj, "kind": kind.kind, "apiVersion": kind.api_version, "metadata": dict(metadata)}
        if known is None:
            self.store.create(kind, obj)
        else:
            self.store.update(kind, known, obj)

    def remove(self, kind: Kind, key: str, uid: str = "") -> None:
        known = self.store.entry(kind, key)
        if known is not None and uid in ("", known.uid):
            self._versions.pop((kind, key), None)
            self.store.delete(kind, known)

    # The verbs

    def _known(self, kind: Kind, namespace: str, name: str) -> StoredEntry:
        entry = self.store.get(kind, namespace, name)
        if entry is None:
            raise status.not_found(kind.plural, kind.group, name)
        return entry

    def create(self, kind: Kind, namespace: str, obj: Object) -> StoredEntry:
        metadata: Object = {**obj["metadata"]}
        if kind.is_namespaced:
            metadata["namespace"] = namespace
        if not metadata.get("name"):
            metadata["name"] = generated_name(metadata.pop("generateName", ""), self._rng)
        made = {**obj, "metadata": metadata}
        self._send("POST", Ref(kind, "", namespace).collection, made, kind)
        shown = {**made, "metadata": {"uid": "", "creationTimestamp": self.timestamp(), **metadata}}
        return StoredEntry(kind, key_of(metadata.get("namespace", ""), metadata["name"]), 0, shown)

    def modify(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Object], object], *, subresource: str = ""
    ) -> StoredEntry:
        entry = self._known(kind, namespace, name)
        new = entry.object()
        change(new)
        if new == entry.object():
            return entry
        new["metadata"]["resourceVersion"] = self._versions[kind, entry.key]
        path = Ref(kind, name, namespace).path
        self._send("PUT", f"{path}/{subresource}" if subresource else path, new, kind)
        return StoredEntry(kind, entry.key, entry.rv, {**new, "metadata": {**new["metadata"]}})

    def delete(
        self, kind: Kind, namespace: str, name: str, delete_options: Mapping[str, Any] | None = None
    ) -> tuple[StoredEntry, bool]:
        entry = self._known(kind, namespace, name)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", **(delete_options or {})}
        self._send("DELETE", Ref(kind, name, namespace).path, options, kind, entry)
        return entry, False

    def _send(self, method: str, path: str, obj: Object, kind: Kind, deleted: StoredEntry | None = None) -> None:
        task = self._started(self._request(method, path, msgspec.json.encode(obj), kind, deleted))
        if self._sent is not None:
            self._sent.append(task)

    def _started(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return task

    async def _request(self, method: str, path: str, body: bytes, kind: Kind, deleted: StoredEntry | None) -> None:
        try:
            answer = await self._client.request(method, path, body, content_type=JSON)
        except ApiError as error:
            if error.code == 404 and deleted is not None:
                self.remove(kind, deleted.key, deleted.uid)
            log.debug("%s %s: %s", method, path, error)
            return
        obj: Object = msgspec.json.decode(answer.body)
        if obj.get("kind") == kind.kind:
            if deleted is None or obj["metadata"].get("deletionTimestamp"):
                self.put(kind, obj)
        elif deleted is not None:
            self.remove(kind, deleted.key, deleted.uid)


def _is_newer(version: str, known: str) -> bool:
    if version.isdecimal() and known.isdecimal():
        return int(version) > int(known)
    return version != known


def _watched(kind: Kind) -> ResourceKind[_Held]:
    def decode(data: bytes | msgspec.Raw) -> _Held:
        obj: Object = msgspec.json.decode(data)
        return _Held(msgspec.convert(obj["metadata"], _WatchedMeta), obj)

    return ResourceKind(kind.plural, kind.api_version, decode)


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


DEFAULT_NAME = "default-scheduler"
OUR_NAME = "mooring-scenario"
"""Name of the scheduler beside a cluster's own."""
ANSWER_WITHIN_S = 10.0
NODES_READY_WITHIN_S = 60.0


class RemoteBackend(Backend):
    """Writes to an API server that taints a new node until its kubelet reports that it is ready.

    A story continues only when the scheduler sees its nodes as schedulable. Otherwise its pods would all be placed on
    the node that is ready first.
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

    def __init__(self, settings: PlaySettings, scenario: Scenario | None, kubeconfig_path: Path) -> None:
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
        self.kubelets = Kubelets(mirror, loop)
        for part in (ControllerManager(mirror, loop), self.kubelets):
            part.start()
            self._stack.callback(part.stop)
        return client


class _GuestBackend(RemoteBackend):
    """Writes a scenario's objects, marked as ours, and deletes them again."""

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
    """An existing cluster, with its own controllers and perhaps its own scheduler.

    Our scheduler has another name, so that it handles no other pods. Fake kubelets serve only the nodes that the story
    creates. The story's objects are deleted in the end.
    """

    def __init__(self, settings: PlaySettings, scenario: Scenario | None, config: ClientConfig) -> None:
        super().__init__(settings, _under_our_name(scenario or NO_STORY))
        self._config = config

    async def _bring_up(self) -> RestClient:
        client = RestClient(self._config, agent="mooring-scenario", qps=-1)
        self._stack.push_async_callback(client.close)
        await client.get("/version", timeout_s=ANSWER_WITHIN_S)  # a wrong address is reported immediately, in one line
        mirror = RemoteApi(client, self.clock, (NODES, PODS, LEASES))
        self._stack.push_async_callback(mirror.stop)
        await mirror.start(SYNC_TIMEOUT_S)
        self.kubelets = Kubelets(mirror, asyncio.get_running_loop(), only_marked=True)
        self.kubelets.start()
        self._stack.callback(self.kubelets.stop)
        return client

    def _backend(self, client: RestClient) -> RemoteBackend:
        backend = _GuestBackend(client)
        self._stack.push_async_callback(backend.clean_up)
        return backend


def _under_our_name(scenario: Scenario) -> Scenario:
    """Return the story with profiles of our name instead of the cluster's own scheduler."""
    config: dict[str, Any] = dict(scenario.config or {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})  # fmt: skip
    profiles = [dict(profile) for profile in config.get("profiles") or [{}]]
    for profile in profiles:
        if profile.get("schedulerName", DEFAULT_NAME) == DEFAULT_NAME:
            profile["schedulerName"] = OUR_NAME
    return replace(scenario, config={**config, "profiles": profiles})


def as_guest(manifest: Object) -> Object:
    """Return the manifest with our scheduler's name if it has none, and with our mark on its nodes."""
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
