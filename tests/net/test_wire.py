"""Our list and watch requests beside kube-scheduler's, parameter by parameter."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from mooring.api.core import Node, Pod
from mooring.net.credentials import bearer
from mooring.net.informer import PODS_FIELD_SELECTOR, Informer
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient, user_agent
from mooring.net.watch_events import typed_kind

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "wire" / "start_up.jsonl").read_text().splitlines()]
KINDS = {
    "pods": typed_kind("pods", "v1", Pod, field_selector=PODS_FIELD_SELECTOR),
    "nodes": typed_kind("nodes", "v1", Node),
}


def normal(uri: str) -> str:
    """Versions and random timeouts replaced; the rest must be equal to the letter."""
    uri = re.sub(r"timeout=\d+m\d+s", "timeout=T", uri)
    uri = re.sub(r"timeoutSeconds=\d+", "timeoutSeconds=N", uri)
    return re.sub(r"resourceVersion=[1-9]\d*", "resourceVersion=V", uri)


@pytest.mark.parametrize("plural", ["pods", "nodes"])
@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "paged"])
async def test_start_up(serve, fake_api, eventually, plural, streaming):
    fake_api.streaming = streaming
    seen: list[tuple[str, dict[str, str]]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append((request.raw_path, dict(request.headers)))
        return await fake_api.handle(request)

    fake_api.put("one")
    config = ClientConfig(server=await serve(handler), credentials=bearer("<token>"))
    async with RestClient(config, agent=user_agent("mooring", "scheduler")) as client:
        informer = Informer(client, KINDS[plural], rng=random.Random(3))
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        await eventually(lambda: fake_api.watchers)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    scenario = "start-up" if streaming else "start-up-without-streaming-lists"
    want = [row for row in RECORDED if row["scenario"] == scenario and urlsplit(row["uri"]).path.endswith(plural)]
    assert [normal(uri) for uri, _ in seen] == [normal(row["uri"]) for row in want]
    for (_, headers), row in zip(seen, want, strict=True):
        ours = {name for name in headers if name != "Host"}
        assert ours == set(row["headers"])
        assert headers["Accept"] == row["headers"]["Accept"]


async def test_a_cut_and_a_compaction(serve, fake_api, eventually):
    seen: list[str] = []
    asked: list[str] = []  # client-go does not look whether the server was restored before it resumes

    async def handler(request: web.Request) -> web.StreamResponse:
        (seen if "watch" in request.query else asked).append(request.raw_path)
        return await fake_api.handle(request)

    async def nap(_: float) -> None:
        await asyncio.sleep(0.001)

    fake_api.put("one")
    async with RestClient(ClientConfig(server=await serve(handler))) as client:
        informer = Informer(client, KINDS["nodes"], sleep=nap)
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        fake_api.cut()
        await eventually(lambda: len(seen) == 2 and fake_api.watchers)
        fake_api.version += 1
        fake_api.forget()
        fake_api.cut()
        await eventually(lambda: len(seen) == 4 and fake_api.watchers)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    want = [row["uri"] for row in RECORDED if row["scenario"] in ("watch-dropped", "watch-dropped-then-gone")]
    assert [normal(uri) for uri in seen[1:]] == [normal(uri) for uri in want]
    assert asked == ["/api/v1/nodes?limit=1"] * 2
