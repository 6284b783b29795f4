"""The reflector and the informer over real HTTP, with a server that misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import socket
from urllib.parse import urlsplit

import msgspec
import pytest
from aiohttp import web

from mooring.api.clock import VirtualClock
from mooring.net import watch as watch_module
from mooring.net.informer import PODS_FIELD_SELECTOR, Informer, InformerSet
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.net.watch_events import typed_kind


class Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Thing(msgspec.Struct, rename="camel"):
    metadata: Meta
    size: int = 0


THINGS = typed_kind("things", "example.io/v1", Thing)


class Diary:
    """A handler that records its events, and fails if they are inconsistent."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.alive: dict[str, Thing] = {}

    def on_add(self, item: Thing) -> None:
        assert item.metadata.name not in self.alive, "added twice"
        self.alive[item.metadata.name] = item
        self.lines.append(f"+{item.metadata.name}:{item.size}")

    def on_update(self, old: Thing, new: Thing) -> None:
        assert self.alive[new.metadata.name] is old
        assert int(old.metadata.resource_version) < int(new.metadata.resource_version)
        self.alive[new.metadata.name] = new
        self.lines.append(f"~{new.metadata.name}:{old.size}>{new.size}")

    def on_delete(self, item: Thing) -> None:
        del self.alive[item.metadata.name]
        self.lines.append(f"-{item.metadata.name}")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Watched:
    def __init__(self, api, informer: Informer[Thing], diary: Diary, naps: list[float]) -> None:
        self.api, self.informer, self.diary, self.naps = api, informer, diary, naps

    def sizes(self) -> dict[str, int]:
        return {name: item.size for name, item in self.diary.alive.items()}

    def is_current(self) -> bool:
        return self.sizes() == {name: item.get("size", 0) for name, item in self.api.objects.items()}


@pytest.fixture
async def watching(serve, fake_api):
    """Start an informer on the fake server; pauses take no time but are remembered."""
    stack = contextlib.AsyncExitStack()

    async def start(url: str = "", **kwargs) -> Watched:
        url = url or await serve(fake_api.handle)
        client = await stack.enter_async_context(RestClient(ClientConfig(server=url), qps=-1))
        naps: list[float] = []

        async def nap(seconds: float) -> None:
            naps.append(seconds)
            await asyncio.sleep(0.001)

        informer = Informer(client, kwargs.pop("kind", THINGS), rng=random.Random(7), sleep=nap, **kwargs)
        diary = Diary()
        informer.add_handler(diary.on_add, diary.on_update, diary.on_delete)
        task = asyncio.create_task(informer.run())

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        stack.push_async_callback(end)
        return Watched(fake_api, informer, diary, naps)

    async with stack:
        yield start


async def test_a_streaming_list_and_what_follows(watching, fake_api, eventually):
    fake_api.put("a", size=1)
    fake_api.put("b", size=2)
    it = await watching()
    await it.informer.wait_synced()
    assert it.diary.lines == ["+a:1", "+b:2"]
    fake_api.put("a", size=3)
    fake_api.delete("b")
    fake_api.put("c", size=4)
    await eventually(it.is_current)
    assert it.diary.lines == ["+a:1", "+b:2", "~a:1>3", "-b", "+c:4"]
    query = fake_api.requests[0]
    seconds = int(query.pop("timeoutSeconds"))
    assert 300 <= seconds < 600
    assert query.pop("timeout") == f"{seconds // 60}m{seconds % 60}s"
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    assert len(fake_api.requests) == 1


async def test_pods_are_selected_by_phase_as_upstream_escapes_it(watching, serve, fake_api):
    raw = []

    async def handler(request: web.Request) -> web.StreamResponse:
        raw.append(request.raw_path)
        return await fake_api.handle(request)

    kind = typed_kind("pods", "v1", Thing, field_selector=PODS_FIELD_SELECTOR)
    it = await watching(await serve(handler), kind=kind)
    await it.informer.wait_synced()
    parts = urlsplit(raw[0])
    assert parts.path == "/api/v1/pods"
    pairs = [pair for pair in parts.query.split("&") if not pair.startswith("timeout")]
    assert pairs == [
        "allowWatchBookmarks=true",
        "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true",
        "watch=true",
    ]


@pytest.mark.parametrize("code", [400, 405, 406, 422])
async def test_a_server_without_streaming_lists_gets_pages_and_a_watch(watching, fake_api, eventually, code):
    for number in range(7):
        fake_api.put(f"t{number}", size=number)

    async def refuse(_: web.Request) -> web.Response:
        return fake_api.status(code, "Invalid")

    fake_api.faults.append(refuse)
    it = await watching(page_size=3)
    await it.informer.wait_synced()
    assert it.is_current()
    await eventually(lambda: fake_api.watchers)
    fake_api.put("late", size=9)
    await eventually(it.is_current)
    lists = [query for query in fake_api.requests if not query.get("watch")]
    assert lists == [
        {"limit": "3", "resourceVersion": "0"},
        {"limit": "3", "continue": "3"},
        {"limit": "3", "continue": "6"},
    ]
    assert fake_api.watches()[-1]["resourceVersion"] == "7"
    assert "sendInitialEvents" not in fake_api.watches()[-1]
    assert it.naps == []


@pytest.mark.parametrize("is_told_in_the_stream", [False, True], ids=["as a status", "in the stream"])
async def test_a_server_that_fails_to_stream_a_list_gets_pages_and_is_asked_again(
    watching, fake_api, eventually, is_told_in_the_stream
):
    """As kube-apiserver with an etcd before 3.4.25, which says so only after it has begun to answer."""
    fake_api.put("a", size=1)

    async def fail(request: web.Request) -> web.StreamResponse:
        if not is_told_in_the_stream:
            return fake_api.status(500, "InternalError")
        response = web.StreamResponse()
        await response.prepare(request)
        status = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "RequestWatchProgress"}
        await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        return response

    fake_api.faults.append(fail)
    it = await watching()
    await it.informer.wait_synced()
    assert it.sizes() == {"a": 1}
    assert fake_api.requests[1] == {"limit": "500", "resourceVersion": "0"}
    assert it.naps == []
    await eventually(lambda: fake_api.watchers)
    fake_api.forget()
    fake_api.version += 5
    fake_api.compacted = fake_api.version
    fake_api.cut()
    await eventually(lambda: fake_api.watches()[-1].get("sendInitialEvents"))


async def test_a_page_that_expired_is_followed_by_one_big_list(watching, fake_api):
    fake_api.streaming = False
    for number in range(4):
        fake_api.put(f"t{number}")

    async def nothing(_: web.Request) -> None:
        return None

    async def expire(_: web.Request) -> web.Response:
        return fake_api.status(410, "Expired")

    fake_api.faults.extend([nothing, nothing, expire])
    it = await watching(page_size=3)
    await it.informer.wait_synced()
    assert it.is_current()
    assert fake_api.requests[3] == {"resourceVersion": "0"}


async def test_a_new_leader_does_not_wait_for_pages_that_expire(watching, fake_api):
    """It lists once more, consistently, before it decides; one big list does as well."""
    for number in range(4):
        fake_api.put(f"t{number}")
    it = await watching(page_size=3)
    await it.informer.wait_synced()

    async def nothing(_: web.Request) -> None:
        return None

    async def expire(_: web.Request) -> web.Response:
        return fake_api.status(410, "Expired")

    fake_api.faults.extend([nothing, expire])
    objects, version = await it.informer.reflector.list_now()
    assert (len(objects), version) == (4, "4")
    assert fake_api.requests[-3:] == [{"limit": "3"}, {"limit": "3", "continue": "3"}, {}]


async def test_an_old_server_that_ignores_the_question_is_noticed(watching, fake_api, eventually):
    fake_api.put("a", size=1)

    async def plain(request: web.Request) -> web.StreamResponse:
        # An old server streams what it has and continues; its bookmark has no annotation.
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}\n')
        await response.write(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n')
        return response

    fake_api.faults.append(plain)
    it = await watching()
    await it.informer.wait_synced()
    assert it.sizes() == {"a": 1}
    assert fake_api.requests[1] == {"limit": "500", "resourceVersion": "0"}


async def test_a_silent_streaming_list_is_given_up(watching, fake_api, monkeypatch):
    monkeypatch.setattr(watch_module, "INITIAL_SILENCE_S", 0.02)
    release = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await release.wait()
        return response

    fake_api.put("a", size=1)
    fake_api.faults.append(silent)
    it = await watching()
    await it.informer.wait_synced()
    release.set()
    assert it.sizes() == {"a": 1}


async def test_a_broken_watch_resumes_immediately_from_the_last_version(watching, fake_api, eventually):
    fake_api.put("a", size=1)
    it = await watching()
    await it.informer.wait_synced()
    fake_api.put("a", size=2)
    await eventually(it.is_current)
    fake_api.cut()
    fake_api.put("b", size=5)
    await eventually(it.is_current)
    assert fake_api.watches()[1]["resourceVersion"] == "2"
    assert it.naps == []
    assert it.diary.lines == ["+a:1", "~a:1>2", "+b:5"]


async def test_a_watch_that_cannot_be_resumed_says_why_until_it_is_open_again(watching, fake_api, eventually):
    it = await watching()
    await it.informer.wait_synced()
    reflector = it.informer.reflector
    is_back = asyncio.Event()

    async def broken(_: web.Request) -> web.Response | None:
        if is_back.is_set():
            return None
        fake_api.faults.append(broken)
        return fake_api.status(500, "InternalError")

    fake_api.faults.append(broken)
    fake_api.cut()
    await eventually(lambda: "trying again" in reflector.trouble)
    is_back.set()
    await eventually(lambda: not reflector.trouble)
    fake_api.put("a", size=1)
    await eventually(it.is_current)


async def test_bookmarks_count_as_progress(watching, fake_api, eventually):
    it = await watching()
    await it.informer.wait_synced()
    fake_api.version = 77
    fake_api.bookmark()
    await eventually(lambda: it.informer.reflector.last_version == "77")
    fake_api.compacted = 50
    fake_api.cut()
    await eventually(lambda: len(fake_api.watches()) == 2)
    assert fake_api.watches()[1]["resourceVersion"] == "77"


async def test_a_cut_in_the_middle_of_an_object_loses_nothing(watching, fake_api, eventually):
    fake_api.put("a", size=1)
    it = await watching()
    await it.informer.wait_synced()
    watchers, fake_api.watchers = fake_api.watchers, []
    fake_api.put("b", size=2)
    watchers[0].put_nowait(b'{"type":"ADDED","object":{"metadata":{"name":"b","name')
    watchers[0].put_nowait(None)
    await eventually(it.is_current)
    assert it.diary.lines == ["+a:1", "+b:2"]


@pytest.mark.parametrize("how", ["as an answer", "as an event"])
async def test_410_relists_and_reports_what_was_missed(watching, fake_api, eventually, how):
    for name in ("same", "changed", "gone", "reborn"):
        fake_api.put(name, size=1)
    it = await watching()
    await it.informer.wait_synced()
    watchers, fake_api.watchers = fake_api.watchers, []
    fake_api.put("changed", size=2)
    fake_api.delete("gone")
    fake_api.delete("reborn")
    fake_api.put("reborn", size=3, uid="another")
    fake_api.put("new", size=4)
    fake_api.forget()
    if how == "as an event":
        watchers[0].put_nowait(
            b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","message":"too old","code":410}}\n'
        )
    watchers[0].put_nowait(None)
    await eventually(it.is_current)
    assert sorted(it.diary.lines[4:]) == sorted(["~changed:1>2", "+new:4", "-reborn", "+reborn:3", "-gone"])
    assert it.diary.lines.index("-reborn") < it.diary.lines.index("+reborn:3")
    again = fake_api.watches()[-1]
    assert again["sendInitialEvents"] == "true"
    assert again["resourceVersion"] == "4"
    assert it.naps == [], "the list is requested immediately"


async def test_a_server_that_answers_410_again_and_again_gets_longer_pauses(watching, fake_api, eventually):
    async def gone(_: web.Request) -> web.Response:
        return fake_api.status(410, "Expired")

    fake_api.put("a", size=1)
    fake_api.faults.extend([gone] * 5)
    it = await watching(clock=VirtualClock())
    await it.informer.wait_synced()
    assert [round(nap, 1) for nap in it.naps] == [pytest.approx(1.2 * 2**n, abs=0.4 * 2**n) for n in range(4)]


async def test_a_410_long_after_the_last_one_relists_immediately(watching, fake_api, eventually):
    clock = VirtualClock()
    fake_api.put("a", size=1)
    it = await watching(clock=clock)
    await it.informer.wait_synced()
    for size in (2, 3):
        watchers, fake_api.watchers = fake_api.watchers, []
        fake_api.put("a", size=size)
        fake_api.forget()
        clock.advance(31)
        watchers[0].put_nowait(None)
        await eventually(it.is_current)
        await eventually(lambda: fake_api.watchers)
    assert it.naps == []


async def test_a_restarted_server_is_found_soon(watching, serve, fake_api, eventually, caplog):
    """It is away for a while, and then has lost its history: no pause grows, and no handler gets an event twice."""
    caplog.set_level(logging.INFO, "mooring.net.watch")
    port = free_port()
    await serve(fake_api.handle, port=port)
    fake_api.put("a", size=1)
    it = await watching(f"http://127.0.0.1:{port}", clock=VirtualClock())
    await it.informer.wait_synced()
    fake_api.cut()
    await serve.stop()
    await eventually(lambda: len(it.naps) >= 12)
    fake_api.put("a", size=2)
    fake_api.forget()
    await serve(fake_api.handle, port=port)
    await eventually(it.is_current)
    assert max(it.naps) <= 1.6
    assert sum("cannot connect" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming lists", "pages"])
async def test_a_version_that_the_server_cannot_read_is_dropped(watching, fake_api, eventually, streaming):
    """A bookmark brought it. Asked for it again and again, the server would answer 400 for ever."""
    fake_api.streaming = streaming
    fake_api.put("a")
    it = await watching()
    await it.informer.wait_synced()
    await eventually(lambda: fake_api.watchers)
    fake_api.send({"type": "BOOKMARK", "object": {"kind": "Thing", "metadata": {"resourceVersion": "zzz"}}})
    await eventually(lambda: it.informer.reflector.last_version == "zzz")
    fake_api.cut()
    fake_api.put("b")
    await eventually(it.is_current)
    assert it.informer.reflector.last_version.isdecimal()


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming lists", "pages"])
@pytest.mark.parametrize("code", [400, 404, 410, 422, 500, 503])
async def test_a_version_is_dropped_however_the_server_refuses_it(watching, fake_api, eventually, streaming, code):
    fake_api.streaming = streaming
    fake_api.put("a")
    it = await watching()
    await it.informer.wait_synced()
    await eventually(lambda: fake_api.watchers)

    async def refuse(request: web.Request) -> web.Response | None:
        fake_api.faults.append(refuse)
        return fake_api.status(code, "Refused") if request.query.get("resourceVersion") == "zzz" else None

    fake_api.faults.append(refuse)
    fake_api.send({"type": "BOOKMARK", "object": {"kind": "Thing", "metadata": {"resourceVersion": "zzz"}}})
    await eventually(lambda: it.informer.reflector.last_version == "zzz")
    fake_api.cut()
    fake_api.put("b")
    await eventually(it.is_current)
    assert it.informer.reflector.last_version.isdecimal()


@pytest.mark.parametrize("code", [400, 402, 405, 409, 414, 415, 422, 431, 451])
async def test_a_refusal_that_would_be_given_for_ever_makes_a_new_list(watching, fake_api, eventually, code):
    """Whatever the server has against the version that it is asked for: the next list has none."""
    fake_api.put("a", size=1)
    it = await watching()
    await it.informer.wait_synced()

    async def refuse(request: web.Request) -> web.Response | None:
        fake_api.faults.append(refuse)
        return fake_api.status(code, "Refused") if request.query.get("resourceVersion") else None

    fake_api.faults.append(refuse)
    watchers, fake_api.watchers = fake_api.watchers, []
    fake_api.put("a", size=2)
    watchers[0].put_nowait(None)
    await eventually(it.is_current)


@pytest.mark.parametrize("code", [401, 403, 408, 425, 429])
async def test_a_refusal_that_may_pass_does_not_cost_a_consistent_list(watching, fake_api, eventually, code):
    fake_api.put("a", size=1)
    it = await watching()
    await it.informer.wait_synced()

    async def refuse(_: web.Request) -> web.Response:
        return fake_api.status(code, "NotNow")

    async def nothing(_: web.Request) -> None:
        return None

    fake_api.faults.extend([nothing, refuse])  # the look for a restore, and the watch
    fake_api.cut()
    await eventually(lambda: len(fake_api.watches()) >= 3)
    assert [query["resourceVersion"] for query in fake_api.watches()[1:]] == ["1"] * len(fake_api.watches()[1:])


async def test_a_core_kind_is_never_taken_for_one_that_is_not_served(watching, serve, fake_api, eventually):
    """A proxy that knows no backend answers 404. Nodes and pods are there all the same."""
    fake_api.put("a", size=1)

    async def unknown(_: web.Request) -> web.Response:
        return web.Response(status=404, text="default backend")

    it = await watching(kind=typed_kind("nodes", "v1", Thing))
    await it.informer.wait_synced()
    fake_api.faults.extend([unknown] * 4)
    fake_api.cut()
    await eventually(lambda: not fake_api.faults)
    fake_api.put("a", size=2)
    await eventually(it.is_current)
    assert it.informer.is_served
    assert it.diary.lines == ["+a:1", "~a:1>2"], "nothing was taken for deleted"
    assert max(it.naps) < 30


@pytest.mark.parametrize("how", ["500", "an ERROR event", "nonsense", "closed"])
async def test_watches_that_end_immediately_cause_a_new_list(watching, fake_api, eventually, how):
    """Whatever is wrong with what follows this version, a list does not depend on it."""
    fake_api.put("a", size=1)
    it = await watching()
    await it.informer.wait_synced()

    async def end_at_once(request: web.Request) -> web.StreamResponse | None:
        fake_api.faults.append(end_at_once)
        if request.query.get("watch") is None or request.query.get("sendInitialEvents"):
            return None
        if how == "500":
            return fake_api.status(500, "InternalError")
        response = web.StreamResponse()
        await response.prepare(request)
        if how == "an ERROR event":
            await response.write(b'{"type":"ERROR","object":{"code":500,"message":"x"}}\n')
        elif how == "nonsense":
            await response.write(b"what?\n")
        return response

    fake_api.faults.append(end_at_once)
    watchers, fake_api.watchers = fake_api.watchers, []
    fake_api.put("a", size=2)
    watchers[0].put_nowait(None)
    await eventually(it.is_current)
    assert it.naps, "and not without pauses"


async def test_a_streaming_list_that_makes_no_sense_is_followed_by_pages(watching, fake_api):
    fake_api.put("a", size=1)

    async def nonsense(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"<html>\n")
        return response

    fake_api.faults.append(nonsense)
    it = await watching()
    await it.informer.wait_synced()
    assert (it.sizes(), it.naps) == ({"a": 1}, [])


async def test_it_is_known_for_how_long_nothing_has_got_through(watching, fake_api, eventually):
    clock = VirtualClock()
    it = await watching(clock=clock)
    await it.informer.wait_synced()
    informers = InformerSet(None)
    informers._informers["things"] = it.informer
    reflector = it.informer.reflector
    assert reflector.failing_s == 0.0
    is_back = asyncio.Event()

    async def broken(_: web.Request) -> web.Response | None:
        if is_back.is_set():
            return None
        fake_api.faults.append(broken)
        return fake_api.status(503, "Unavailable")

    fake_api.faults.append(broken)
    fake_api.cut()
    await eventually(lambda: reflector.trouble)
    clock.advance(59.0)
    await eventually(lambda: len(it.naps) > 5)
    assert reflector.failing_s == 59.0 and informers.failing(60.0) is None
    clock.advance(2.0)
    assert informers.failing(60.0).startswith("things.example.io: nothing has got through for 61s: ")
    is_back.set()
    await eventually(lambda: not reflector.trouble)
    clock.advance(2.0)  # the stream stays open, although nothing happens
    assert reflector.failing_s == 0.0 and informers.failing(60.0) is None


async def test_a_version_that_cannot_be_served_is_dropped(watching, fake_api, eventually):
    fake_api.put("a")
    it = await watching()
    await it.informer.wait_synced()
    fake_api.forget()
    fake_api.compacted += 10

    async def too_large(_: web.Request) -> web.Response:
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        body = {"kind": "Status", "code": 504, "reason": "Timeout", "details": {"causes": [cause]}}
        return web.json_response(body, status=504)

    async def nothing(_: web.Request) -> None:
        return None

    fake_api.faults.extend([nothing, nothing, too_large])  # the newest version, the watch, the list
    fake_api.cut()
    await eventually(lambda: len(fake_api.watches()) == 4)
    assert [query.get("resourceVersion") for query in fake_api.watches()] == [None, "1", "1", None]


@pytest.mark.parametrize("is_late", [False, True], ids=["asked for afterwards", "under way meanwhile"])
async def test_no_list_is_older_than_one_merged_beside_the_watch(watching, fake_api, eventually, monkeypatch, is_late):
    """The watch is behind when a new leader lists what there is. A cache that is behind, too, must not undo that."""
    fake_api.put("a")
    it = await watching()
    await it.informer.wait_synced()
    reflector = it.informer.reflector

    async def deaf(lines):
        pass

    async def list_beside():
        await it.informer.merge(*await reflector.list_now())

    monkeypatch.setattr(reflector, "_take", deaf)
    fake_api.put("b")
    if is_late:
        with pytest.raises(Exception, match="the list is of version 1, and there was one of 2"):
            await list_beside()
            reflector._listed_at("1")
    else:
        await list_beside()
    monkeypatch.undo()
    fake_api.forget()
    fake_api.cut()
    await eventually(lambda: len(fake_api.watches()) == 3)
    assert [query.get("resourceVersion") for query in fake_api.watches()] == [None, "1", None if is_late else "2"]


async def test_duplicates_and_late_arrivals_are_ignored(watching, fake_api, eventually):
    first = fake_api.put("a", size=1)
    it = await watching()
    await it.informer.wait_synced()
    second = fake_api.put("a", size=2)
    fake_api.send({"type": "MODIFIED", "object": second})
    fake_api.send({"type": "MODIFIED", "object": first})
    fake_api.send({"type": "ADDED", "object": first})
    stale = fake_api.put("b", size=1)
    fake_api.delete("b")
    fake_api.send({"type": "MODIFIED", "object": stale})
    fake_api.send({"type": "DELETED", "object": stale})
    old_delete = {**first, "metadata": {**first["metadata"], "resourceVersion": "1"}}
    fake_api.send({"type": "DELETED", "object": old_delete})
    fake_api.put("end")
    await eventually(it.is_current)
    assert it.diary.lines == ["+a:1", "~a:1>2", "+b:1", "-b", "+end:0"]


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "paged"])
async def test_an_object_of_any_depth_is_read(watching, fake_api, eventually, streaming):
    """A user can nest a claim's opaque parameters thousands of levels deep; that must not cost others their claims."""
    fake_api.streaming = streaming
    fake_api.put("before", size=1)
    fake_api.put("deep", size=2, opaque="DEEP")
    fake_api.put("after", size=3)
    it = await watching()
    await it.informer.wait_synced()
    assert it.sizes() == {"before": 1, "deep": 2, "after": 3}
    await eventually(lambda: fake_api.watchers)
    fake_api.put("deeper", size=4, opaque="DEEP")
    await eventually(lambda: it.sizes().get("deeper") == 4)


async def test_nulls_are_read_as_nothing(watching, fake_api):
    fake_api.put("a", size=None)
    it = await watching()
    await it.informer.wait_synced()
    assert it.sizes() == {"a": 0}


async def test_an_object_that_cannot_be_read_is_left_out(watching, fake_api, eventually, caplog):
    fake_api.put("good", size=1)
    fake_api.put("bad", size="huge")
    it = await watching()
    await it.informer.wait_synced()
    fake_api.put("good", size="worse")
    fake_api.put("other", size=3)
    await eventually(lambda: "other" in it.diary.alive)
    assert it.sizes() == {"good": 1, "other": 3}
    assert sum("cannot be read" in record.message for record in caplog.records) == 2


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"<html>proxy error</html>\n", id="not json"),
        pytest.param(b'{"type":"SURPRISE","object":{}}\n', id="an unknown type"),
        pytest.param(b'{"type":"BOOKMARK","object":{}}\n', id="a bookmark without metadata"),
        pytest.param(b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"x"}}\n', id="an error event"),
    ],
)
async def test_a_garbled_stream_is_resumed_after_a_pause(watching, fake_api, eventually, line):
    it = await watching()
    await it.informer.wait_synced()
    fake_api.put("a", size=1)
    await eventually(it.is_current)
    fake_api.send(line)
    await eventually(lambda: len(fake_api.watches()) >= 2)
    fake_api.put("b", size=2)
    await eventually(it.is_current)
    assert fake_api.watches()[1]["resourceVersion"] == "1"


async def test_a_kind_that_is_not_served_is_skipped_with_one_line(watching, fake_api, eventually, caplog):
    caplog.set_level(logging.DEBUG, "mooring.net.watch")

    async def unknown(_: web.Request) -> web.Response:
        return web.Response(status=404, text="404 page not found")

    fake_api.faults.extend([unknown] * 3)
    fake_api.put("a", size=1)
    it = await watching()
    await it.informer.wait_synced()
    assert not it.informer.is_served
    assert it.naps[0] == watch_module.NOT_SERVED_RECHECK_S
    await eventually(it.is_current)
    assert it.informer.is_served
    assert [record.message for record in caplog.records if "not served" in record.message] == [
        "things.example.io: not served by this API server, skipped"
    ]


async def test_an_older_version_will_do_where_the_first_is_not_served(serve, fake_api):
    asked = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if "/v1/" in request.path:
            return web.Response(status=404, text="404 page not found")
        return await fake_api.handle(request)

    fake_api.put("a", size=1)
    rules = typed_kind("devicetaintrules", "resource.k8s.io/v1", Thing, older=("resource.k8s.io/v1beta2",))
    async with RestClient(ClientConfig(server=await serve(handler))) as client:
        informers = InformerSet(client)
        informer = informers.add(rules)
        informers.start()
        await informers.wait_for_sync()
        assert informers.not_served() == []
        assert [obj.metadata.name for obj in informer] == ["a"]
        assert asked[0] == "/apis/resource.k8s.io/v1/devicetaintrules"
        assert set(asked[1:]) == {"/apis/resource.k8s.io/v1beta2/devicetaintrules"}
        await informers.stop()


async def test_a_set_names_the_kinds_that_are_not_served(serve, fake_api, eventually):
    """An older server has no resource.k8s.io/v1; what depends on it can say so."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if "resource.k8s.io" in request.path:
            return web.Response(status=404, text="404 page not found")
        return await fake_api.handle(request)

    claims = typed_kind("resourceclaims", "resource.k8s.io/v1", Thing)
    async with RestClient(ClientConfig(server=await serve(handler))) as client:
        informers = InformerSet(client)
        for kind in (THINGS, claims):
            informers.add(kind)
        assert informers.not_served() == []
        informers.start()
        await informers.wait_for_sync()
        assert informers.not_served() == ["resourceclaims.resource.k8s.io"]
        await informers.stop()


async def test_an_unexpected_error_does_not_end_the_watch(watching, fake_api, eventually, caplog, monkeypatch):
    fake_api.put("a", size=1)
    it = await watching()
    await it.informer.wait_synced()
    apply, failures = it.informer.apply, [ZeroDivisionError("a mistake")]

    async def broken(events) -> None:
        if failures:
            raise failures.pop()
        await apply(events)

    monkeypatch.setattr(it.informer, "apply", broken)
    fake_api.put("a", size=2)
    await eventually(it.is_current)
    assert "things.example.io: unexpected error, listing again" in caplog.text
    assert "ZeroDivisionError: a mistake" in caplog.text


async def test_forbidden_is_tried_again_and_named(watching, fake_api, caplog):
    async def refuse(_: web.Request) -> web.Response:
        return fake_api.status(403, "Forbidden", "no")

    fake_api.faults.extend([refuse] * 2)
    it = await watching()
    await it.informer.wait_synced()
    assert len(it.naps) == 2
    assert "may not watch things.example.io" in caplog.text


async def test_a_set_says_when_rights_alone_keep_its_first_lists_away(serve, fake_api, eventually, caplog):
    may = False

    async def handle(request: web.Request) -> web.StreamResponse:
        return await fake_api.handle(request) if may else fake_api.status(403, "Forbidden", "no")

    async def nap(seconds: float) -> None:
        await asyncio.sleep(0)

    async with RestClient(ClientConfig(server=await serve(handle)), qps=-1) as client:
        informers = InformerSet(client, sleep=nap, complains_at=logging.INFO)
        informers.add(THINGS)
        assert informers.refused() == ""  # no request was made yet
        informers.start()
        await eventually(informers.refused)
        assert "may not watch things.example.io" in informers.refused()
        may = True
        assert await informers.wait_for_sync()
        assert informers.refused() == ""
        await informers.stop()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_server_that_is_down_for_a_while(watching, serve, fake_api, eventually):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    fake_api.put("a", size=1)
    it = await watching(url)
    await eventually(lambda: len(it.naps) >= 2)
    assert not it.informer.has_synced
    await serve(fake_api.handle, port=port)
    await it.informer.wait_synced()
    before = len(it.naps)
    fake_api.cut()
    await serve.stop()
    fake_api.put("a", size=2)
    await eventually(lambda: len(it.naps) >= before + 2)
    await serve(fake_api.handle, port=port)
    await eventually(it.is_current)
    assert it.diary.lines == ["+a:1", "~a:1>2"]


async def test_a_server_too_slow_to_begin_is_asked_again(serve, fake_api):
    release = asyncio.Event()

    async def hang(_: web.Request) -> None:
        await release.wait()

    fake_api.put("a", size=1)
    fake_api.faults.append(hang)
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    async with RestClient(ClientConfig(server=await serve(fake_api.handle)), timeout_s=0.2) as client:
        informer = Informer(client, THINGS, sleep=nap)
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        release.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len(naps) >= 1
    assert len(informer) == 1


async def test_very_large_objects_and_tiny_chunks(watching, serve, fake_api, eventually):
    blob = "x" * 3_000_000
    fake_api.put("big", size=1, blob=blob)
    it = await watching()
    await it.informer.wait_synced()
    assert it.sizes() == {"big": 1}
    watchers, fake_api.watchers = fake_api.watchers, []
    item = fake_api.put("small", size=2)
    data = msgspec.json.encode({"type": "ADDED", "object": item}) + b"\n"
    for at in range(0, len(data), 7):
        watchers[0].put_nowait(data[at : at + 7])
    await eventually(it.is_current)
    watchers[0].put_nowait(None)


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "paged"])
@pytest.mark.parametrize("seed", range(4))
async def test_chaos_ends_in_the_truth(watching, fake_api, eventually, caplog, seed, streaming):
    """Changes, cuts, half objects, duplicates, compactions, refusals at random: nothing is lost or told twice."""
    rng = random.Random(seed)
    fake_api.streaming = streaming
    it = await watching(page_size=3)
    await it.informer.wait_synced()

    async def refuse(_: web.Request) -> web.Response:
        return fake_api.status(rng.choice([500, 503, 429, 410, 403]), "Injected")

    def half_an_object() -> None:
        watchers, fake_api.watchers = fake_api.watchers, []
        item = fake_api.put(rng.choice("abcdef"), size=rng.randrange(100))
        data = msgspec.json.encode({"type": "MODIFIED", "object": item}) + b"\n"
        for watcher in watchers:
            watcher.put_nowait(data[: rng.randrange(len(data))])
            watcher.put_nowait(None)

    def again() -> None:
        if fake_api.history:
            _, type_, item = rng.choice(fake_api.history)
            fake_api.send({"type": type_, "object": item})

    def remove() -> None:
        if fake_api.objects:
            fake_api.delete(rng.choice(sorted(fake_api.objects)))

    def forget() -> None:
        fake_api.forget()
        fake_api.cut()

    steps = [lambda: fake_api.put(rng.choice("abcdef"), size=rng.randrange(100))] * 8 + [remove] * 3
    steps += [again, again, fake_api.bookmark, fake_api.cut, half_an_object, forget]
    steps += [lambda: fake_api.faults.append(refuse)]
    for _ in range(250):
        rng.choice(steps)()
        if rng.random() < 0.4:
            await asyncio.sleep(0.001)
    fake_api.faults.clear()
    fake_api.put("end", size=1)
    await eventually(it.is_current)
    assert "a handler failed" not in caplog.text


async def test_a_set_waits_for_all(serve, fake_api, eventually):
    fake_api.put("a")
    other = type(fake_api)()
    gate = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/others"):
            await gate.wait()
            return await other.handle(request)
        return await fake_api.handle(request)

    async with RestClient(ClientConfig(server=await serve(handler)), qps=-1) as client:
        informers = InformerSet(client)
        things = informers.add(THINGS)
        informers.add(typed_kind("others", "v1", Thing))
        assert informers.add(THINGS) is things
        informers.start()
        await things.wait_synced()
        assert not await informers.wait_for_sync(0.01)
        assert informers.missing() == ["others"]
        gate.set()
        assert await informers.wait_for_sync()
        assert informers.has_synced
        assert len(informers["things.example.io"]) == 1
        await informers.stop()
        other.cut()
