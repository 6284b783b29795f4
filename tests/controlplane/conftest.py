"""A running control plane and small builders."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from mooring.controlplane.server import ControlPlane


class Http:
    """A client that keeps the status code beside the body."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session, self.base = session, base

    async def __call__(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **headers: str
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if data is not None and len(data) > 1_000_000:
            data = io.BytesIO(data)  # type: ignore[assignment]
        sent = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.session.request(method, self.base + path, data=data, headers=sent) as response:
            text = await response.read()
            found = json.loads(text) if response.content_type == "application/json" and text else text.decode()
            return response.status, found


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with ControlPlane(use_tls=False) as running:
        yield running


@pytest.fixture
async def http(plane: ControlPlane) -> AsyncIterator[Http]:
    headers = {"Authorization": f"Bearer {plane.token}"}
    async with aiohttp.ClientSession(headers=headers, auto_decompress=True) as session:
        yield Http(session, plane.url)


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[ControlPlane, Http]]:
    """A control plane with options of one's own, and a client."""
    async with ControlPlane(use_tls=False, **options) as running:
        headers = {"Authorization": f"Bearer {running.token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            yield running, Http(session, running.url)


def make_pod(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "app:1"}], **spec},
    }


def make_node(name: str = "node-1", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


async def until(condition: Callable[[], bool], tries: int = 60_000) -> None:
    """Wait for something that other tasks bring about, a bounded number of turns."""
    for _ in range(tries):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("what was waited for did not happen")
