"""Trace a plain pod through the live scheduler: every function entered between its watch event and its Binding.

    python tools/trace_pod.py [--list]

An API server in a process of its own gets one node and three pods, one after another. The last pod is traced, so that
everything is warm, from the first byte of its watch event until the request with its Binding is handed to the
transport. ``--list`` prints the functions in the order in which they are first entered; ``*`` marks its stations.

The stations are the functions that lead the pod on, without those that only help: the functions on the stack when it is
queued, when a node is searched for it, when it is assumed there, when its binding cycle begins, and when that is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import mooring
from mooring.controlplane.server import ControlPlane
from mooring.core.config.load import default_config
from mooring.live.live_scheduler import LiveScheduler
from mooring.net.credentials import bearer
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient

SOURCE = str(Path(mooring.__file__).parent) + "/"
NODE = {
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}},
}


MARKS = (
    "ActiveQueue.add",
    "Search.run",
    "ClusterState.assume",
    "Tasks.spawn",
    "ConnectionPool._enqueue",
    "Http1Connection.send",
)


def serve(pipe: Connection) -> None:
    async def run() -> None:
        async with ControlPlane(use_tls=False) as plane:
            pipe.send((plane.url, plane.token))
            await asyncio.to_thread(pipe.recv)

    asyncio.run(run())


def pod(name: str) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "64Mi"}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "app", "image": "app", "resources": {"requests": requests}}]},
    }


Function = tuple[str, str]  # file and name


class Trace:
    """The functions of mooring that are entered, in order, and the stacks at the marks."""

    def __init__(self) -> None:
        self.calls: list[Function] = []
        self.stations: set[Function] = set()

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        self.calls.append(_function(frame))
        if code.co_qualname.endswith(MARKS):
            outer: FrameType | None = frame
            while outer is not None:
                if outer.f_code.co_filename.startswith(SOURCE):
                    self.stations.add(_function(outer))
                outer = outer.f_back

    def of_pod(self) -> list[Function]:
        """The calls from the chunk of the watch that was read last before the pod was queued, to the sent request."""
        names = [name for _, name in self.calls]
        sent = next(at for at, name in enumerate(names) if name.endswith("DefaultBinder.bind"))
        end = next(at for at in range(sent, len(names)) if names[at].endswith("Connection.send"))
        queued = next(at for at, name in enumerate(names) if name == "EventHandlers._put_pod")
        begin = max(at for at in range(queued) if names[at].endswith("data_received"))
        return self.calls[begin : end + 1]


def _function(frame: FrameType) -> Function:
    return frame.f_code.co_filename.removeprefix(SOURCE), frame.f_code.co_qualname


async def trace(url: str, token: str) -> tuple[list[Function], set[Function]]:
    config = ClientConfig(url, bearer(token))
    writer = RestClient(config)
    await writer.create("/api/v1/nodes", json.dumps(NODE).encode())
    recorded = Trace()
    live = LiveScheduler(RestClient(config), default_config())
    async with live:
        for name in ("first", "second", "third"):
            with recorded.recording() if name == "third" else contextlib.nullcontext():
                before = live.scheduler.decisions
                await writer.create("/api/v1/namespaces/default/pods", json.dumps(pod(name)).encode())
                while live.scheduler.decisions == before or live.scheduler.in_flight:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
    await writer.close()
    return recorded.of_pod(), recorded.stations


def main() -> None:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    server.start()
    try:
        calls, marked = asyncio.run(trace(*ours.recv()))
    finally:
        ours.send(None)
        server.join()
    functions = dict.fromkeys(calls)
    if "--list" in sys.argv:
        for file, name in functions:
            print(f"{'* ' if (file, name) in marked else '  '}{file:44}{name}")
    for what, entered in (("functions", list(functions)), ("stations", [each for each in functions if each in marked])):
        print(f"{len(entered)} {what} in {len({file for file, _ in entered})} files")


if __name__ == "__main__":
    main()
