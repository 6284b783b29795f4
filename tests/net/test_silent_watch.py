"""A watch of which nothing is heard: something between us and the API server hangs."""

from __future__ import annotations

import asyncio
import contextlib
import json

from mooring.net.connect import HttpAnswer
from mooring.net.kinds import PODS
from mooring.net.watch import SILENCE_S, Reflector
from mooring.sim.virtual_time import run_virtual


def event(type_: str, version: int, **annotations: str) -> bytes:
    meta = {"name": "web", "namespace": "default", "uid": "1", "resourceVersion": str(version)}
    return json.dumps({"type": type_, "object": {"metadata": meta | {"annotations": annotations}}}).encode() + b"\n"


END = event("BOOKMARK", 7, **{"k8s.io/initial-events-end": "true"})


class Streams:
    """A client whose streams send what they were given, each after so many seconds, and then say nothing."""

    def __init__(self, *streams: list[tuple[float, bytes]]) -> None:
        self._streams = iter(streams)
        self.opened: list[tuple[float, str]] = []

    async def get(self, path: str, query: dict[str, str], *, limited: bool) -> HttpAnswer:
        return HttpAnswer(200, {}, b'{"metadata": {"resourceVersion": "9"}, "items": []}')

    @contextlib.asynccontextmanager
    async def stream(self, path: str, query: dict[str, str], *, timeout_s: float):
        self.opened.append((asyncio.get_running_loop().time(), query.get("resourceVersion", "")))
        self._pieces = iter(next(self._streams, []))
        yield self

    async def readany(self) -> bytes:
        wait_s, piece = next(self._pieces, (None, b""))
        if wait_s is None:
            await asyncio.Event().wait()
        await asyncio.sleep(wait_s)
        return piece


class Sink:
    def __init__(self) -> None:
        self.versions: list[str] = []

    async def replace(self, objects, resource_version) -> None:
        self.versions.append(resource_version)

    async def apply(self, events) -> None:
        self.versions += [item.metadata.resource_version for _, item in events]


async def watched_for(seconds: float, client: Streams) -> Sink:
    sink = Sink()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await Reflector(client, PODS, sink).run()  # type: ignore[arg-type]
    return sink


def test_it_is_resumed_where_it_was():
    client = Streams([(0, END)], [(1, event("ADDED", 8))])
    sink = run_virtual(watched_for(3 * SILENCE_S, client))
    (begun, _), (resumed, version), *_ = client.opened
    assert SILENCE_S <= resumed - begun <= 2 * SILENCE_S and version == "7"
    assert sink.versions == ["7", "8"]


def test_bookmarks_are_enough_to_leave_it_alone():
    client = Streams([(0, END), *[(SILENCE_S - 15, event("BOOKMARK", 7))] * 10])
    run_virtual(watched_for(10 * (SILENCE_S - 15), client))
    assert len(client.opened) == 1
