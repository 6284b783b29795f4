"""Where a workload runs: the embedded control plane in this process, or any cluster with a kubeconfig.

Both take the same requests. Objects are created directly in the embedded API server, without HTTP; elsewhere, over many
connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator

from mooring.api.core import Pod
from mooring.api.errors import ApiError
from mooring.bench.perf.collect import PodBoard, WorkloadFailed
from mooring.bench.perf.templates import ClaimController, New, collection_path, leave_as_found, many
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.verbs import Options
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.storage.store import DELETED, Event
from mooring.controlplane.types.status import StatusError
from mooring.net.credentials import StaticCredentials
from mooring.net.errors import AlreadyExists, Forbidden
from mooring.net.informer import Informer
from mooring.net.kinds import PODS as WATCHED_PODS
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.sim.backend import InProcessClient

SLICE_S = 0.005
"""How long objects are created before other tasks of the event loop run; the scheduler's time slice is the same."""
CONNECTIONS = 32
LIST_S = 60.0
"""A cluster whose pods cannot be listed within this time cannot be benchmarked."""
CLASS_PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


class Target:
    """A cluster to run workloads on. Use as ``async with``."""

    description = ""
    counts_api_server = False
    """Whether the API server's work is included in the CPU time of this process."""

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
        """Begin to report pods to the board; ``informer`` is the scheduler's, if it is in this process."""
        raise NotImplementedError

    async def create(self, new: New) -> None:
        """Create one object through the API."""
        await self.client.create(collection_path(new.kind, new.namespace), new.body)

    async def ensure(self, new: New) -> None:
        """Create an object unless it exists."""
        with contextlib.suppress(AlreadyExists):
            await self.create(new)


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
    """An existing cluster that is left as it was: what a workload creates is deleted at its end."""

    def __init__(self, board: PodBoard, config: ClientConfig) -> None:
        super().__init__(board)
        self._config = config
        self._informer: Informer[Pod] | None = None
        self._task: asyncio.Task[None] | None = None
        self._made: list[New] = []
        self.description = f"cluster at {config.server}"

    async def __aenter__(self) -> Target:
        self.client = RestClient(self._config, agent="mooring-bench", qps=-1, max_connections=CONNECTIONS)
        try:
            await self.client.get("/version")  # informers retry while a server is down; a benchmark should fail
        except BaseException:
            await self.client.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await leave_as_found(self.client, self._made, CONNECTIONS)
        finally:
            await self.client.close()

    async def watch_pods(self, informer: Informer[Pod] | None) -> None:
        if informer is None:
            informer = self._informer = Informer(self.client, WATCHED_PODS)
            self._task = asyncio.create_task(informer.run(), name="pods of the benchmark")
        informer.add_handler(self._seen, lambda old, new: self._seen(new), self._gone)
        try:
            async with asyncio.timeout(LIST_S):
                await informer.wait_synced()
        except TimeoutError:
            why = informer.reflector.trouble or "nothing came"
            raise ApiError(f"listing the cluster's pods has failed for {LIST_S:.0f} s: {why}") from None

    def _seen(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self.board.pod_bound(pod.key)
        elif any(condition.type == "PodScheduled" for condition in pod.status.conditions):
            self.board.pod_attempted(pod.key)

    def _gone(self, pod: Pod) -> None:
        self.board.pod_gone(pod.key)

    async def create_all(self, objects: Iterable[New]) -> None:
        async def make(source: Iterator[New]) -> None:
            for new in source:
                await self.create(new)

        await many(make, iter(objects), CONNECTIONS)

    async def create(self, new: New) -> None:
        for pause_s in CLASS_PAUSES_S:
            try:
                await self._create_once(new)
            except Forbidden as error:
                # Admission sees a new PriorityClass a little later than its creator.
                if "no PriorityClass" not in str(error):
                    raise
                await asyncio.sleep(pause_s)
            else:
                return
        await self._create_once(new)

    async def _create_once(self, new: New) -> None:
        await super().create(new)
        self._made.append(new)
