"""The client that needs no socket: it answers as the one with a socket does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.api.errors import ApiError
from mooring.controlplane.server import ControlPlane
from mooring.net.errors import Conflict, NotFound
from mooring.net.rest import MERGE_PATCH, RestClient
from mooring.sim.backend import InProcessClient

NODES = "/api/v1/nodes"


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    plane = ControlPlane(use_tls=False)  # it does not listen
    yield plane
    await plane.stop()


@pytest.fixture
def client(plane: ControlPlane) -> RestClient:
    return InProcessClient(plane, agent="tester/1")


def node(name: str) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}).encode()


async def test_writes_are_read_back(client: RestClient) -> None:
    created = await client.create(NODES, node("a"))
    assert created.status == 201
    patched = await client.patch(f"{NODES}/a", b'{"metadata":{"labels":{"x":"y"}}}', content_type=MERGE_PATCH)
    assert json.loads(patched.body)["metadata"]["labels"] == {"x": "y"}
    assert json.loads((await client.get(f"{NODES}/a")).body)["metadata"]["labels"] == {"x": "y"}


async def test_refusals_are_the_clients_errors(client: RestClient) -> None:
    with pytest.raises(NotFound):
        await client.get(f"{NODES}/nobody")
    await client.create(NODES, node("a"))
    with pytest.raises(ApiError) as refused:
        await client.create(NODES, node("a"))
    assert refused.value.reason == "AlreadyExists"
    stale = json.loads(node("a")) | {"metadata": {"name": "a", "resourceVersion": "1"}}
    with pytest.raises(Conflict):
        await client.request("PUT", f"{NODES}/a", json.dumps(stale).encode(), content_type="application/json")


async def lines(client: RestClient, query: dict[str, str], count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async with client.stream(NODES, {"watch": "true", **query}, timeout_s=10) as stream:
        while len(found) < count:
            for line in (await stream.readany()).splitlines():
                event: dict[str, Any] = json.loads(line)
                found.append((event["type"], event["object"]["metadata"].get("name", "")))
    return found


async def test_a_watch_sends_the_present_state_and_what_follows(plane: ControlPlane, client: RestClient) -> None:
    await client.create(NODES, node("a"))
    rv = plane.store.rv
    await client.create(NODES, node("b"))
    assert await lines(client, {}, 2) == [("ADDED", "a"), ("ADDED", "b")]
    assert await lines(client, {"resourceVersion": str(rv)}, 1) == [("ADDED", "b")]
    assert plane.hub.count() == 0


async def test_a_watch_that_is_refused_is_an_error(client: RestClient) -> None:
    with pytest.raises(ApiError) as refused:
        await lines(client, {"labelSelector": "a in ("}, 1)
    assert refused.value.code == 400


async def test_a_stream_of_something_else_is_an_error(client: RestClient) -> None:
    with pytest.raises(ApiError, match="not a watch"):
        async with client.stream(NODES, timeout_s=1):
            raise AssertionError("there is nothing to read")


async def test_siblings_have_names_of_their_own(plane: ControlPlane, client: RestClient) -> None:
    sibling = client.sibling(agent="other/2")
    await sibling.create(NODES, node("a"))
    assert (client.agent, sibling.agent) == ("tester/1", "other/2")
