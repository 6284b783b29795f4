"""A network that is cut without a word while pods are being bound: no reset, no end, just silence.

A proxy between the scheduler and the embedded API server stops passing bytes on, in both directions, on every
connection that is open then. New connections work. The kernel acknowledges what is sent, as behind a load balancer.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from mooring.controlplane.server import ControlPlane
from mooring.core.config.load import default_config
from mooring.live.live_scheduler import LiveScheduler
from mooring.net import watch
from mooring.net.credentials import StaticCredentials
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient

PODS = "/api/v1/namespaces/default/pods"
MANY = 12


class Proxy:
    """Passes bytes on, until ``hole`` is set for a connection: from then on they are taken and dropped."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.holes: list[asyncio.Event] = []
        self.digs_at = b""  # what has to pass for all connections to be cut
        self.swallowed = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += (writer, to_writer)
        hole = asyncio.Event()
        self.holes.append(hole)
        pumps = (self._pump(reader, to_writer, hole), self._pump(to_reader, writer, hole))
        self._tasks.update(map(asyncio.create_task, pumps))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hole: asyncio.Event) -> None:
        try:
            while data := await reader.read(1 << 16):
                if self.digs_at and self.digs_at in data:
                    self.digs_at = b""
                    for each in self.holes:
                        each.set()
                if hole.is_set():
                    self.swallowed += len(data)
                else:
                    writer.write(data)
        except OSError:
            pass
        if not hole.is_set():
            writer.close()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)


async def test_every_pod_is_bound_once_and_none_stays_assumed(monkeypatch):
    monkeypatch.setattr(watch, "SILENCE_S", 1.0)
    async with ControlPlane(use_tls=False) as plane:
        proxy = Proxy(int(plane.url.rpartition(":")[2]))
        listener = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        credentials = StaticCredentials(f"Bearer {plane.token}")
        async with (
            RestClient(ClientConfig(plane.url, credentials=credentials), qps=-1) as direct,
            RestClient(ClientConfig(url, credentials=credentials), qps=-1, timeout_s=2.0) as client,
        ):
            amounts = {"cpu": "100", "memory": "80Gi", "pods": "110"}
            node = {"metadata": {"name": "a"}, "status": {"allocatable": amounts}}
            await direct.create("/api/v1/nodes", json.dumps(node).encode())
            async with LiveScheduler(client, default_config(), hostname="h") as live:
                proxy.digs_at = b"/binding"
                for number in range(MANY):
                    spec = {"containers": [{"name": "c", "image": "x"}]}
                    body = json.dumps({"metadata": {"name": f"p{number}"}, "spec": spec}).encode()
                    await direct.create(PODS, body)

                async def all_bound() -> bool:
                    pods = json.loads((await direct.get(PODS)).body)["items"]
                    return all(pod["spec"].get("nodeName") for pod in pods)

                async with asyncio.timeout(120.0):
                    while not await all_bound() or live.scheduler.in_flight:  # noqa: ASYNC110 - time makes it true
                        await asyncio.sleep(0.02)
                    while sum(map(live.scheduler.cluster.is_assumed, _uids(live))):  # noqa: ASYNC110 - the watch does
                        await asyncio.sleep(0.02)
            assert proxy.swallowed, "nothing was cut"
            events = json.loads((await direct.get("/apis/events.k8s.io/v1/namespaces/default/events")).body)["items"]
            scheduled = Counter(each["regarding"]["name"] for each in events if each["reason"] == "Scheduled")
            assert set(scheduled.values()) <= {1}
        await proxy.stop()
        listener.close()
        await listener.wait_closed()


def _uids(live: LiveScheduler) -> list[str]:
    return [pod.uid for pod in live.scheduler.cluster.pods()]
