"""The server over real HTTP and TLS: every verb, and every way in which things go wrong."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from scripted_server import make_certificate

from mooring.net.extender.conformance import args_body, make_node, make_pod, preemption_body
from mooring.net.extender.http_client import server_context
from mooring.net.extender.sdk import Binding, Extender, Filtered, Node, Pod, Victims, refuse
from mooring.net.extender.server import ExtenderServer, Limits, serve_object, timeout_for

NODES = [make_node(i) for i in range(4)]
NAMES = [node["metadata"]["name"] for node in NODES]


@asynccontextmanager
async def running(source: Any, **options: Any) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    limits = options.pop("limits", None)
    prefix = options.pop("prefix", "")
    tls = options.pop("tls", None)
    server = ExtenderServer(serve_object(source, "test"), prefix=prefix, limits=limits)
    port = server.start(tls=tls)
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(300)) as session:
            yield session, f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        server.close()


async def post(session: aiohttp.ClientSession, url: str, body: bytes, **headers: str) -> tuple[int, Any]:
    headers.setdefault("Content-Type", "application/json")
    async with session.post(url, data=body, headers=headers) as answer:
        return answer.status, await answer.json()


def await_connections() -> None:
    """Wait for abandoned calls: they report their end, which must happen while the test still reads it."""
    for thread in threading.enumerate():
        if thread.name == "extender":
            thread.join()


def request(*, by_name: bool = False) -> bytes:
    return args_body(make_pod("a"), NODES, by_name=by_name)


class Ssd(Extender):
    def filter(self, pod: Pod, node: Node) -> Any:
        if node.labels["disk"] != "ssd":
            return refuse("no ssd", for_good=node.name == NAMES[0])
        return None

    def prioritize(self, pod: Pod, node: Node) -> int:
        return len(node.labels["disk"])

    def preempt(self, pod: Pod, victims: dict[str, Victims]) -> Any:
        return {node: found for node, found in victims.items() if node != NAMES[0]}

    def bind(self, binding: Binding) -> None:
        if binding.node != NAMES[1]:
            raise PermissionError(f"not on {binding.node}")


async def test_filter_keeps_whole_nodes_as_they_came_and_gives_reasons() -> None:
    async with running(Ssd) as (session, url):
        status, answer = await post(session, f"{url}/filter", request())
    assert status == 200
    assert answer == {
        "Nodes": {"metadata": {}, "items": [NODES[1], NODES[3]]},
        "NodeNames": None,
        "FailedNodes": {NAMES[2]: "no ssd"},
        "FailedAndUnresolvableNodes": {NAMES[0]: "no ssd"},
        "Error": "",
    }


async def test_prioritize_preempt_and_bind() -> None:
    async with running(Ssd) as (session, url):
        assert await post(session, f"{url}/prioritize", request()) == (200, [{"Host": n, "Score": 3} for n in NAMES])
        for by_uid in (False, True):
            body = preemption_body(make_pod("urgent"), NAMES[:2], by_uid=by_uid)
            status, answer = await post(session, f"{url}/preempt", body)
            assert status == 200
            assert list(answer["NodeNameToMetaVictims"]) == [NAMES[1]]
            assert len(answer["NodeNameToMetaVictims"][NAMES[1]]["Pods"]) == 1
        binding = {"PodName": "a", "PodNamespace": "d", "PodUID": "u", "Node": NAMES[1]}
        assert await post(session, f"{url}/bind", json.dumps(binding).encode()) == (200, {"Error": ""})
        binding["Node"] = "elsewhere"
        answer = await post(session, f"{url}/bind", json.dumps(binding).encode())
        assert answer == (200, {"Error": "bind raised PermissionError: not on elsewhere"})


async def test_names_only() -> None:
    class Names(Extender):
        def filter(self, pod: Pod, nodes: list[str]) -> Filtered:
            return Filtered(nodes[1:], {nodes[0]: "the first"})

    async with running(Names) as (session, url):
        _, by_name = await post(session, f"{url}/filter", request(by_name=True))
        _, whole = await post(session, f"{url}/filter", request())
    assert by_name["NodeNames"] == NAMES[1:] and by_name["Nodes"] is None
    assert whole["Nodes"]["items"] == NODES[1:] and whole["NodeNames"] is None
    assert by_name["FailedNodes"] == whole["FailedNodes"] == {NAMES[0]: "the first"}
    assert serve_object(Names, "test").settings.node_cache_capable


class Blocked(Extender):
    released = threading.Event()

    def filter(self, pod: Pod, nodes: list[Node]) -> list[Node]:
        self.released.wait(60)
        return nodes

    def prioritize(self, pod: Pod, nodes: list[Node]) -> dict[str, int]:
        return {}


class Raises(Extender):
    def filter(self, pod: Pod, node: Node) -> None:
        raise ValueError("on\ntwo lines")

    def prioritize(self, pod: Pod, node: Node) -> int:
        raise KeyError("gone")


class Nonsense(Extender):
    def filter(self, pod: Pod, node: Node) -> Any:
        return 3.14

    def prioritize(self, pod: Pod, node: Node) -> Any:
        return 3.14


class Stranger(Extender):
    def filter(self, pod: Pod, nodes: list[Node]) -> Any:
        return ["not offered"]


@pytest.mark.parametrize(
    ("source", "verb", "status", "said"),
    [
        pytest.param(Raises, "filter", 200, "filter raised ValueError: on two lines", id="a filter that raises"),
        pytest.param(Raises, "prioritize", 500, "prioritize raised KeyError: 'gone'", id="a scorer that raises"),
        pytest.param(
            Nonsense,
            "filter",
            200,
            "filter returned 3.14 for node-00000; expected True, False, a reason or refuse(…)",
            id="a filter that returns nonsense",
        ),
        pytest.param(
            Nonsense,
            "prioritize",
            500,
            "prioritize gives 'node-00000' 3.14; expected a whole number from 0 to 10",
            id="a scorer that returns nonsense",
        ),
        pytest.param(
            Stranger, "filter", 200, "filter keeps 'not offered', a node that was not offered", id="an unknown node"
        ),
    ],
)
async def test_a_handler_that_fails(source: type, verb: str, status: int, said: str) -> None:
    async with running(source) as (session, url):
        got, answer = await post(session, f"{url}/{verb}", request())
        assert (got, answer["Error"]) == (status, said)
        if verb == "filter":
            assert answer["Nodes"] is answer["NodeNames"] is None
        async with session.get(f"{url}/healthz") as health:
            assert await health.text() == "ok"


async def test_handlers_that_hang_cost_their_own_requests_and_show_in_health() -> None:
    limits = Limits(handler_timeout_s=0.05, threads=2)
    async with running(Blocked, limits=limits) as (session, url):

        async def page(path: str) -> tuple[int, str]:
            async with session.get(url + path) as answer:
                return answer.status, await answer.text()

        try:
            assert await page("/healthz") == (200, "ok")
            for hung, health in (
                (1, (200, "ok: 1 calls")),
                (2, (503, "unhealthy: 2 calls")),
                (3, (503, "unhealthy: 3")),
            ):
                status, answer = await post(session, f"{url}/filter", request())
                assert (status, answer["Error"]) == (200, "filter did not finish within 0.05 s")
                for path in ("/healthz", "/livez", "/readyz"):
                    status, text = await page(path)
                    assert status == health[0] and text.startswith(health[1])
                assert f"mooring_extender_hung_calls {hung}\n" in (await page("/metrics"))[1]
        finally:
            Blocked.released.set()
    await asyncio.to_thread(await_connections)
    Blocked.released.clear()


async def test_hanging_calls_up_to_the_limit_block_no_others() -> None:
    """The handlers hang for longer than the test; the one that does not is answered."""
    released, entered = threading.Event(), threading.Semaphore(0)

    class Hangs(Extender):
        def filter(self, pod: Pod, nodes: list[str]) -> list[str]:
            entered.release()
            released.wait(60)
            return nodes

        def prioritize(self, pod: Pod, nodes: list[str]) -> dict[str, int]:
            return {}

    server = ExtenderServer(serve_object(Hangs, "test"), limits=Limits(handler_timeout_s=60, threads=16))
    port = server.start()
    workers = server._workers
    assert workers is not None
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(300)) as session:
            url = f"http://127.0.0.1:{port}"
            hung = [asyncio.create_task(post(session, f"{url}/filter", request(by_name=True))) for _ in range(16)]
            for _ in hung:
                assert await asyncio.to_thread(entered.acquire, timeout=60)
            workers.give_up_late(time.monotonic() + 60)
            answers = await asyncio.gather(*hung)
            assert {answer["Error"] for _, answer in answers} == {"filter did not finish within 60 s"}
            assert await post(session, f"{url}/prioritize", request(by_name=True)) == (200, [])
    finally:
        released.set()
        server.close()
        await asyncio.to_thread(await_connections)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        pytest.param(b"", 400, "the body is empty", id="an empty body"),
        pytest.param(b"{not json", 400, "the body is not JSON", id="not JSON"),
        pytest.param(request()[:-9], 400, "the body is not JSON", id="a cut body"),
        pytest.param(b"[]", 400, "not ExtenderArgs: Expected object, got array", id="another type"),
        pytest.param(b"{}", 400, "not ExtenderArgs: Object missing required field Pod", id="no pod"),
        pytest.param(b'{"Pod":null,"Nodes":{"items":[]}}', 400, "Pod", id="a pod that is null"),
        pytest.param(b'{"Pod":{}}', 400, "expected Nodes or NodeNames", id="no nodes"),
        pytest.param(
            b'{"Pod":{},"NodeNames":["a"]}', 200, "set nodeCacheCapable: false", id="names where nodes are read"
        ),
        pytest.param(b'{"Pod":{},"Nodes":{"items":[{}]}}', 400, "Nodes.items[0]: has no metadata.name", id="no name"),
        pytest.param(b'{"Pod":{},"Nodes":{"items":[7]}}', 400, "Nodes.items[0]", id="a number as a node"),
        pytest.param(b"[" * 100_000, 400, "", id="far too deep"),
        pytest.param(b"x" * 300_000, 413, "larger than 200,000 bytes", id="too large"),
        pytest.param(bytes(range(256)), 400, "the body is not JSON", id="bytes that are no text"),
    ],
)
async def test_bad_requests_get_an_error_and_the_server_continues(body: bytes, status: int, said: str) -> None:
    async with running(Ssd, limits=Limits(max_body_bytes=200_000)) as (session, url):
        got, answer = await post(session, f"{url}/filter", body)
        assert got == status
        assert said in answer["Error"] and "\n" not in answer["Error"]
        assert (await post(session, f"{url}/filter", request()))[0] == 200


async def test_another_content_type_is_refused() -> None:
    async with running(Ssd) as (session, url):
        got = await post(session, f"{url}/filter", request(), **{"Content-Type": "text/plain"})
        assert got[0] == 415
        assert got[1]["Error"] == "Content-Type is text/plain; expected application/json"
        assert (await post(session, f"{url}/filter", request(), **{"Content-Type": "application/json; charset=utf-8"}))[
            0
        ] == 200


async def test_compressed_bodies_are_read_and_announced() -> None:
    async with running(Ssd) as (session, url):
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        async with session.post(f"{url}/filter", data=gzip.compress(request()), headers=headers) as answer:
            assert answer.status == 200
            assert answer.headers["Accept-Encoding"] == "gzip"
        got = await post(session, f"{url}/filter", b"not gzip", **{"Content-Encoding": "gzip"})
        assert got[0] == 400 and got[1]["Error"]


async def test_unknown_paths_and_methods() -> None:
    async with running(Ssd, prefix="/ext/") as (session, url):
        assert (await post(session, f"{url}/ext/filter", request()))[0] == 200
        status, answer = await post(session, f"{url}/filter", request())
        assert (status, answer["Error"]) == (404, "POST /filter: not found")
        async with session.get(f"{url}/ext/filter") as got:
            assert got.status == 405
            assert "a scheduler sends POST" in (await got.json())["Error"]


async def test_metrics_count_calls_and_nodes() -> None:
    async with running(Ssd) as (session, url):
        await post(session, f"{url}/filter", request())
        await post(session, f"{url}/filter", b"")
        async with session.get(f"{url}/metrics") as answer:
            text = await answer.text()
    assert 'mooring_extender_requests_total{code="200",verb="filter"} 1\n' in text
    assert 'mooring_extender_requests_total{code="400",verb="filter"} 1\n' in text
    assert 'mooring_extender_nodes_total{result="kept",verb="filter"} 2\n' in text
    assert 'mooring_extender_info{name="Ssd"} 1\n' in text


async def test_tls_with_client_certificates(tmp_path: Path) -> None:
    server, client = make_certificate("127.0.0.1"), make_certificate("scheduler")
    for name, data in (("cert", server.certificate), ("key", server.key), ("ca", client.certificate)):
        (tmp_path / name).write_bytes(data)
    tls = server_context(str(tmp_path / "cert"), str(tmp_path / "key"), str(tmp_path / "ca"))
    context = client.context(__import__("ssl").Purpose.SERVER_AUTH)
    context.load_verify_locations(cadata=server.certificate.decode())
    async with running(Ssd, tls=tls) as (session, url):
        async with session.post(f"{url}/filter", json=json.loads(request()), ssl=context) as answer:
            assert answer.status == 200
        bare = __import__("ssl").create_default_context(cadata=server.certificate.decode())
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{url}/filter", data=b"{}", ssl=bare)


@pytest.mark.parametrize(("text", "seconds"), [("", 4.5), ("2s", 1.8), ("1m", 54.0)])
def test_a_handler_may_take_a_little_less_than_its_scheduler_waits(text: str, seconds: float) -> None:
    assert timeout_for(text) == pytest.approx(seconds)
