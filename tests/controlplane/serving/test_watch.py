"""Watches over HTTP: what is sent, from where on, and when it ends."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.controlplane.storage.watches import Hub, Match

from ..conftest import Http, connected, make_node, make_pod, until


class Stream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self.response.content.readline(), 10)
        assert line, "the watch ended"
        event: dict[str, Any] = json.loads(line)
        return event

    async def short(self) -> tuple[str, str]:
        event = await self.next()
        return event["type"], event["object"]["metadata"].get("name", "")

    async def rest(self) -> bytes:
        return await asyncio.wait_for(self.response.content.read(), 10)


@asynccontextmanager
async def watch(http: Http, query: str, path: str = "/api/v1/pods") -> AsyncIterator[Stream]:
    async with http.session.get(f"{http.base}{path}?watch=true&{query}") as response:
        assert response.status == 200, await response.text()
        yield Stream(response)


def label(plane: ControlPlane, name: str, **labels: str) -> None:
    plane.api.modify(PODS, "default", name, lambda pod: pod["metadata"].update(labels=labels))


async def test_without_a_version_the_present_state_comes_first(plane: ControlPlane, http: Http) -> None:
    plane.api.create(PODS, "default", make_pod("a"))
    async with watch(http, "") as stream:
        assert await stream.short() == ("ADDED", "a")
        plane.api.create(PODS, "default", make_pod("b"))
        assert await stream.short() == ("ADDED", "b")
        label(plane, "a", x="y")
        assert await stream.short() == ("MODIFIED", "a")
        plane.api.delete(PODS, "default", "a")
        event = await stream.next()
        assert event["type"] == "DELETED"
        assert int(event["object"]["metadata"]["resourceVersion"]) == plane.store.rv


async def test_resuming_sends_exactly_what_was_missed(plane: ControlPlane, http: Http) -> None:
    plane.api.create(PODS, "default", make_pod("a"))
    since = plane.store.rv
    plane.api.create(PODS, "default", make_pod("b"))
    plane.api.create(NODES, "", make_node())
    plane.api.delete(PODS, "default", "a")
    async with watch(http, f"resourceVersion={since}") as stream:
        assert [await stream.short(), await stream.short()] == [("ADDED", "b"), ("DELETED", "a")]


async def test_initial_events_end_with_a_marked_bookmark(plane: ControlPlane, http: Http) -> None:
    plane.api.create(PODS, "default", make_pod("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with watch(http, query) as stream:
        assert await stream.short() == ("ADDED", "a")
        end = await stream.next()
        assert end["type"] == "BOOKMARK" and end["object"]["kind"] == "Pod"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert end["object"]["metadata"]["resourceVersion"] == str(plane.store.rv)


async def test_a_timed_watch_ends_with_a_bookmark(plane: ControlPlane, http: Http) -> None:
    async with watch(http, "timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=1") as stream:
        plane.api.create(NODES, "", make_node())
        event = await stream.next()
        assert event["type"] == "BOOKMARK" and event["object"]["metadata"]["resourceVersion"] == str(plane.store.rv)
        assert await stream.rest() == b""


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("sendInitialEvents=true", 422, id="initial events need resourceVersionMatch"),
        pytest.param("resourceVersionMatch=NotOlderThan", 422, id="resourceVersionMatch needs initial events"),
        pytest.param("resourceVersion=99999", 504, id="a version from the future"),
        pytest.param(
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999",
            504,
            id="initial events not older than the future",
        ),
        pytest.param("resourceVersion=x", 422, id="not a version"),
        pytest.param("timeoutSeconds=x", 400, id="not a timeout"),
    ],
)
async def test_watch_refusals(http: Http, query: str, code: int) -> None:
    got, status = await http("GET", f"/api/v1/pods?watch=1&{query}")
    assert (got, status["kind"]) == (code, "Status")


async def test_a_version_that_is_forgotten_is_gone() -> None:
    async with connected(history=3) as (plane, http):
        for i in range(6):
            plane.api.create(PODS, "default", make_pod(f"p{i}"))
        code, status = await http("GET", "/api/v1/pods?watch=1&resourceVersion=2")
        assert (code, status["reason"], status["code"]) == (410, "Expired", 410)
        code, status = await http("GET", "/api/v1/pods?resourceVersion=8&resourceVersionMatch=Exact")
        assert (code, status["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "enter", "leave"),
    [
        pytest.param("labelSelector=team%3Dred", {"team": "red"}, {"team": "blue"}, id="by label"),
        pytest.param("labelSelector=team", {"team": "red"}, {}, id="by label key"),
    ],
)
async def test_entering_a_selection_is_added_and_leaving_it_is_deleted(
    plane: ControlPlane, http: Http, query: str, enter: dict[str, str], leave: dict[str, str]
) -> None:
    plane.api.create(PODS, "default", make_pod("a"))
    async with watch(http, query) as stream:
        label(plane, "a", **enter)
        assert await stream.short() == ("ADDED", "a")
        label(plane, "a", **enter, more="x")
        assert await stream.short() == ("MODIFIED", "a")
        label(plane, "a", **leave)
        event = await stream.next()
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["labels"]["team"] == "red"
        assert event["object"]["metadata"]["resourceVersion"] == str(plane.store.rv)


async def test_the_schedulers_pod_watch_drops_finished_pods(plane: ControlPlane, http: Http) -> None:
    plane.api.create(PODS, "default", make_pod("a"))
    query = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
    async with watch(http, query) as stream:
        assert await stream.short() == ("ADDED", "a")
        plane.api.modify(PODS, "default", "a", lambda p: p["status"].update(phase="Failed"), subresource="status")
        assert await stream.short() == ("DELETED", "a")


async def test_a_named_watch_and_a_namespaced_watch_see_only_theirs(plane: ControlPlane, http: Http) -> None:
    async with (
        watch(http, "", "/api/v1/namespaces/kube-system/pods") as there,
        watch(http, "fieldSelector=metadata.name%3Db", "/api/v1/namespaces/default/pods") as named,
    ):
        plane.api.create(PODS, "default", make_pod("a"))
        plane.api.create(PODS, "kube-system", make_pod("s"))
        plane.api.create(PODS, "default", make_pod("b"))
        assert await there.short() == ("ADDED", "s")
        assert await named.short() == ("ADDED", "b")


async def test_events_watched_through_the_other_group_have_its_shape(plane: ControlPlane, http: Http) -> None:
    async with watch(http, "", "/apis/events.k8s.io/v1/events") as stream:
        event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "a"}, "message": "hi"}
        await http("POST", "/api/v1/namespaces/default/events", event)
        got = (await stream.next())["object"]
        assert (got["apiVersion"], got["note"], got["regarding"]["name"]) == ("events.k8s.io/v1", "hi", "a")


async def test_table_watches_send_columns_once(plane: ControlPlane, http: Http) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    async with http.session.get(f"{http.base}/api/v1/pods?watch=1", headers=accept) as response:
        stream = Stream(response)
        plane.api.create(PODS, "default", make_pod("a"))
        plane.api.create(PODS, "default", make_pod("b"))
        first, second = await stream.next(), await stream.next()
    assert first["object"]["kind"] == "Table"
    assert [c["name"] for c in first["object"]["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:4] == ["b", "0/1", "Pending", "0"]


async def test_a_slow_watcher_is_closed_and_others_continue() -> None:
    plane = ControlPlane(use_tls=False)
    hub = Hub(plane.store)
    cut = []
    slow = hub.open(PODS, Match(), limit=3)
    slow.on_overrun = lambda: cut.append("slow")
    fast = hub.open(PODS, Match(), limit=3)
    for i in range(8):
        plane.api.create(PODS, "default", make_pod(f"p{i}"))
        assert b"ADDED" in await fast.take(1)
    assert slow.is_closed and cut == ["slow"]
    assert await slow.take(0) == b""
    assert not fast.is_closed


async def test_a_client_that_stops_reading_is_disconnected_and_the_server_continues() -> None:
    async with connected(watch_limit=20) as (plane, http):
        host, port = plane.url.removeprefix("http://").split(":")
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.setblocking(False)
        await asyncio.get_running_loop().sock_connect(stuck, (host, int(port)))
        request = f"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {plane.token}\r\n\r\n"
        await asyncio.get_running_loop().sock_sendall(stuck, request.encode())
        await until(lambda: plane.hub.count() == 1)
        big = {"filler": "x" * 200_000}
        for i in range(400):
            pod = make_pod(f"p{i}")
            pod["metadata"]["annotations"] = big
            plane.api.create(PODS, "default", pod)
            await asyncio.sleep(0)
            if plane.hub.count() == 0:
                break
        await until(lambda: plane.hub.count() == 0)
        stuck.close()
        assert (await http("GET", "/api/v1/namespaces/default/pods/p0"))[0] == 200


async def test_watchers_share_the_bytes_of_an_event(plane: ControlPlane) -> None:
    one, two = (plane.hub.open(PODS, Match(), since=plane.store.rv) for _ in range(2))
    plane.api.create(PODS, "default", make_pod("a"))
    assert one._lines[0] is two._lines[0]


async def test_a_client_that_goes_away_is_forgotten(plane: ControlPlane, http: Http) -> None:
    async with watch(http, ""):
        assert plane.hub.count() == 1
    await until(lambda: plane.hub.count() == 0)


async def test_stopping_ends_watches() -> None:
    async with connected() as (plane, http), watch(http, "") as stream:
        await plane.stop()
        assert await stream.rest() == b""


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        pytest.param(FaultRule("error", method="POST", path="/pods$", code=500), 500, id="an error"),
        pytest.param(FaultRule("throttle", method="POST", path="/pods$"), 429, id="too many requests"),
        pytest.param(FaultRule("gone", method="POST", path="/pods$"), 410, id="gone"),
        pytest.param(FaultRule("delay", method="POST", path="/pods$"), 201, id="a delay of nothing"),
    ],
)
async def test_injected_faults_hit_once(rule: FaultRule, code: int) -> None:
    async with connected(faults=Faults([rule])) as (_, http):
        assert (await http("POST", "/api/v1/namespaces/default/pods", make_pod("a")))[0] == code
        assert (await http("POST", "/api/v1/namespaces/default/pods", make_pod("b")))[0] == 201


async def test_injected_drop_cuts_the_connection() -> None:
    async with connected(faults=Faults([FaultRule("drop", path="/nodes")])) as (_, http):
        with pytest.raises(aiohttp.ClientConnectionError):
            await http("POST", "/api/v1/nodes", make_node())
        assert (await http("GET", "/api/v1/nodes"))[1]["items"] == []


@pytest.mark.parametrize(
    ("action", "want"),
    [
        pytest.param("duplicate", [("ADDED", "a"), ("ADDED", "a")], id="duplicated events"),
        pytest.param("gone", [("ERROR", "")], id="an error event with 410"),
    ],
)
async def test_injected_watch_faults(action: str, want: list[tuple[str, str]]) -> None:
    faults = Faults([FaultRule(action, path="pods", on_watch=True)])
    async with connected(faults=faults) as (plane, http), watch(http, "") as stream:
        plane.api.create(PODS, "default", make_pod("a"))
        assert [await stream.short() for _ in want] == want
