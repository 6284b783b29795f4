"""Where a workload runs: the embedded control plane in this process, or any cluster with a kubeconfig.

Both take the same requests. Making many objects goes straight into the embedded API server, without HTTP, and over
many connections elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from mooring.api.core import Pod
from mooring.bench.perf.claims import ClaimController
from mooring.bench.perf.collect import PodBoard, WorkloadFailed
from mooring.client.credentials import StaticCredentials
from mooring.client.errors import AlreadyExists
from mooring.client.informer import Informer
from mooring.client.kinds import PODS as WATCHED_PODS
from mooring.client.kubeconfig import ClientConfig
from mooring.client.rest import RestClient
from mooring.controlplane.kinds import PODS, Kind
from mooring.controlplane.rest import Options
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.status import StatusError
from mooring.controlplane.store import DELETED, Event
from mooring.errors import ApiError
from mooring.sim.in_process import InProcessClient

SLICE_S = 0.005
"""How long objects are made before others in the event loop get a turn; the scheduler takes as much."""
CONNECTIONS = 32


class New(NamedTuple):
    """An object to be made."""

    kind: Kind
    namespace: str
    body: bytes


def collection_path(kind: Kind, namespace: str = "") -> str:
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    space = f"/namespaces/{quote(namespace)}" if namespace and kind.is_namespaced else ""
    return f"{root}{space}/{kind.plural}"


def object_path(kind: Kind, namespace: str, name: str, subresource: str = "") -> str:
    path = f"{collection_path(kind, namespace)}/{quote(name)}"
    return f"{path}/{subresource}" if subresource else path


class Target:
    """A cluster to run workloads on. Use as ``async with``."""

    description = ""
    counts_api_server = False
    """Whether the API server's work is in the CPU time of this process, too."""

    def __init__(self, board: PodBoard) -> None:
        self.board = board
        self.client: RestClient
        self.load_cpu_s = 0.0
        """CPU that making objects took, the API server's part of it included where it is in this process."""

    async def __aenter__(self) -> Target:
        raise NotImplementedError

    async def __aexit__(self, *_: object) -> None:
        raise NotImplementedError

    async def create_all(self, objects: Iterable[New]) -> None:
        raise NotImplementedError

    async def watch_pods(self, informer: Informer[Pod] | None) -> None:
        """Begin to tell the board about pods; ``informer`` is the scheduler's, where it is in this process."""
        raise NotImplementedError

    async def ensure(self, new: New) -> None:
        """Make an object unless it is there."""
        with contextlib.suppress(AlreadyExists):
            await self.client.create(collection_path(new.kind, new.namespace), new.body)


class EmbeddedTarget(Target):
    """A control plane that lives as long as one workload."""

    counts_api_server = True

    def __init__(self, board: PodBoard, *, over_http: bool = False) -> None:
        super().__init__(board)
        self._over_http = over_http
        self.plane = ControlPlane(use_tls=False, history=100_000, watch_limit=1_000_000)
        self._claims = ClaimController(self.plane.api)
        self.description = f"embedded control plane, {'HTTP over loopback' if over_http else 'direct calls'}"

    async def __aenter__(self) -> Target:
        if self._over_http:
            await self.plane.start()
            config = ClientConfig(self.plane.plain_url, StaticCredentials(f"Bearer {self.plane.token}"))
            self.client = RestClient(config, agent="mooring-bench", qps=-1)
        else:
            self.client = InProcessClient(self.plane, agent="mooring-bench")
        self._claims.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._claims.stop()
        await self.client.close()
        await self.plane.stop()

    async def watch_pods(self, informer: Informer[Pod] | None) -> None:
        self.plane.store.subscribe(PODS, self._tell)

    def _tell(self, event: Event) -> None:
        entry = event.entry
        if event.type == DELETED:
            self.board.pod_gone(entry.key)
        elif entry.fields and entry.fields.get("spec.nodeName"):
            self.board.pod_bound(entry.key)
        elif b'"PodScheduled"' in entry.raw:
            self.board.pod_attempted(entry.key)

    async def create_all(self, objects: Iterable[New]) -> None:
        api = self.plane.api
        started = time.thread_time()
        until = time.perf_counter() + SLICE_S
        try:
            for kind, namespace, body in objects:
                api.create(kind, namespace, api.decode(kind, body, Options()))
                if time.perf_counter() >= until:
                    self.load_cpu_s += time.thread_time() - started
                    await asyncio.sleep(0)
                    started = time.thread_time()
                    until = time.perf_counter() + SLICE_S
        except StatusError as error:
            raise WorkloadFailed(f"{error}") from None
        self.load_cpu_s += time.thread_time() - started


class ClusterTarget(Target):
    """A cluster that was there before; what workloads make stays unless its namespaces are deleted."""

    def __init__(self, board: PodBoard, config: ClientConfig) -> None:
        super().__init__(board)
        self._config = config
        self._informer: Informer[Pod] | None = None
        self._task: asyncio.Task[None] | None = None
        self.description = f"cluster at {config.server}"

    async def __aenter__(self) -> Target:
        self.client = RestClient(self._config, agent="mooring-bench", qps=-1, max_connections=CONNECTIONS)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.client.close()

    async def watch_pods(self, informer: Informer[Pod] | None) -> None:
        if informer is None:
            informer = self._informer = Informer(self.client, WATCHED_PODS)
            self._task = asyncio.create_task(informer.run(), name="pods of the benchmark")
        informer.add_handler(self._seen, lambda old, new: self._seen(new), self._gone)
        async with asyncio.timeout(60):
            await informer.wait_synced()

    def _seen(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self.board.pod_bound(pod.key)
        elif any(condition.type == "PodScheduled" for condition in pod.status.conditions):
            self.board.pod_attempted(pod.key)

    def _gone(self, pod: Pod) -> None:
        self.board.pod_gone(pod.key)

    async def create_all(self, objects: Iterable[New]) -> None:
        source = iter(objects)
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work(source)) for _ in range(CONNECTIONS)]
        del workers

    async def _work(self, source: Iterator[New]) -> None:
        for kind, namespace, body in source:
            await self.client.create(collection_path(kind, namespace), body)


async def list_objects(client: RestClient, kind: Kind, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    """All objects of a kind in a namespace, as plain values."""
    query = {"labelSelector": selector} if selector else None
    answer = await client.get(collection_path(kind, namespace), query)
    try:
        items: list[dict[str, Any]] = msgspec.json.decode(answer.body).get("items") or []
    except (msgspec.DecodeError, AttributeError) as error:
        raise ApiError(f"{kind.plural}: the answer is not a list: {error}") from None
    return items
