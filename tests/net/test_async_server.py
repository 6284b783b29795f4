"""The server in an event loop: what clients may send, and what ends."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from mooring.net import async_server
from mooring.net.async_server import AsyncServer, ServedAnswer, ServedRequest
from mooring.net.http_io import Refused

TEXT = [("Content-Type", "text/plain")]
GET = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"


class Lines:
    """A stream that gives what a test puts into it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.is_closed = False

    async def read(self) -> bytes:
        return await self.queue.get()

    def close(self) -> None:
        self.is_closed = True


class Site:
    """Answers with what it was asked; a few paths are special."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.asked: list[bytes] = []
        self.cancelled: list[bytes] = []
        self.gate = asyncio.Event()
        self.server = AsyncServer(self.handle, self.refuse, max_body_bytes=1000)
        self.port = 0

    async def handle(self, request: ServedRequest) -> ServedAnswer:
        message = request.message
        self.asked.append(message.target)
        match message.target:
            case b"/stream":
                return ServedAnswer(200, TEXT, self.lines)
            case b"/slow":
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    self.cancelled.append(message.target)
                    raise
            case b"/bug":
                raise RuntimeError("a bug")
            case b"/cut":
                request.cut()
                raise ConnectionResetError("dropped on purpose")
            case b"/unread":
                return ServedAnswer(401, TEXT, b"who are you", is_last=True)
            case b"/large":
                return ServedAnswer(200, TEXT, b"x" * (8 << 20))
        try:
            body = await request.read()
        except Refused as refused:
            return self.refuse(refused)
        return ServedAnswer(200, TEXT, message.method.encode() + b" " + message.target + b" " + body)

    def refuse(self, refused: Refused) -> ServedAnswer:
        return ServedAnswer(refused.status, TEXT, str(refused).encode(), is_last=True)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    _, made.port = await made.server.listen("127.0.0.1", 0)
    yield made
    await made.server.close(0.0)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        length = int(headers.get("Content-Length", 0))
        return int(head[0].split(" ")[1]), headers, await asyncio.wait_for(self.reader.readexactly(length), 30)

    async def rest(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), 30)

    async def chunk(self) -> bytes:
        size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), 30), 16)
        return (await self.reader.readexactly(size + 2))[:-2]


@pytest.fixture
async def connect(site: Site) -> AsyncIterator[Callable[..., object]]:
    made: list[Client] = []

    async def connected(data: bytes = b"") -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", site.port))
        made.append(client)
        client.writer.write(data)
        return client

    yield connected
    for client in made:
        client.writer.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_pipelined_requests_are_answered_in_order(site: Site, connect) -> None:
    post = b"POST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
    client = await connect(GET % b"/a" + post + GET % b"/c" * 40)
    assert [(await client.answer())[2] for _ in range(3)] == [b"GET /a ", b"POST /b abc", b"GET /c "]
    for _ in range(39):
        assert (await client.answer())[0] == 200
    client.writer.write(GET % b"/d")
    assert (await client.answer())[2] == b"GET /d "


@pytest.mark.parametrize(
    ("raw", "status", "body"),
    [
        pytest.param(b"HEAD /a HTTP/1.1\r\n\r\n", 200, b"", id="HEAD has no body"),
        pytest.param(
            b"POST /a HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
            % (len(gzip.compress(b"{}")), gzip.compress(b"{}")),
            200,
            b"POST /a {}",
            id="a compressed body",
        ),
        pytest.param(
            b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            200,
            b"POST /a ab",
            id="a body in chunks",
        ),
        pytest.param(
            b"POST /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n",
            200,
            b"POST /a ",
            id="an Upgrade is answered as if it had not asked for it",
        ),
    ],
)
async def test_what_clients_send(connect, raw: bytes, status: int, body: bytes) -> None:
    client = await connect(raw.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nConnection: close\r\n", 1))
    head, _, got = (await client.rest()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Connection: close" in head
    assert got == body


@pytest.mark.parametrize(
    ("raw", "status", "text"),
    [
        pytest.param(b"SSH-2.0-what\r\n\r\n", 400, "not HTTP/1.1", id="no HTTP"),
        pytest.param(b"GET /" + b"a" * 700_000 + b" HTTP/1.1\r\n\r\n", 431, "headers", id="an endless path"),
        pytest.param(b"POST /a HTTP/1.1\r\nContent-Length: 5000\r\n\r\nab", 413, "1,000 bytes", id="too large a body"),
        pytest.param(
            b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"a" * 2000,
            413,
            "1,000 bytes",
            id="too large a body in chunks",
        ),
        pytest.param(
            b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n", 400, "not HTTP/1.1", id="bad chunks"
        ),
    ],
)
async def test_what_is_refused(connect, raw: bytes, status: int, text: str) -> None:
    client = await connect(raw)
    code, headers, body = await client.answer()
    assert (code, headers["Connection"]) == (status, "close")
    assert text in body.decode()
    assert await client.rest() == b""


async def test_what_came_before_nonsense_is_answered(site: Site, connect) -> None:
    client = await connect(GET % b"/a" + GET % b"/b" + b"nonsense\r\n\r\n")
    assert (await client.answer())[2] == b"GET /a "
    code, headers, body = await client.answer()
    assert (code, headers["Connection"], body) == (200, "close", b"GET /b ")
    assert await client.rest() == b""


async def test_a_request_is_refused_before_its_body_has_come(site: Site, connect) -> None:
    client = await connect(b"POST /unread HTTP/1.1\r\nContent-Length: 900\r\n\r\nab")
    assert (await client.answer())[0::2] == (401, b"who are you")
    client.writer.write(b"c" * 898)  # is not taken for another request
    assert await client.rest() == b""
    assert site.asked == [b"/unread"]


async def test_expect_100_continue_is_answered(connect) -> None:
    client = await connect(b"PUT /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert (await client.answer())[0] == 100
    client.writer.write(b"ab")
    assert (await client.answer())[2] == b"PUT /a ab"


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(connect, monkeypatch) -> None:
    monkeypatch.setattr(async_server, "BODY_S", 0.05)
    client = await connect(b"PUT /a HTTP/1.1\r\nContent-Length: 2\r\n\r\na")
    assert (await client.answer())[0] == 408


async def test_a_stream_is_sent_as_it_comes_and_the_connection_used_again(site: Site, connect) -> None:
    client = await connect(GET % b"/stream")
    _, headers, _ = await client.answer()
    assert headers["Transfer-Encoding"] == "chunked"
    for part in (b"one\n", b"two\n", b""):
        site.lines.queue.put_nowait(part)
        assert await client.chunk() == part
    assert site.lines.is_closed
    client.writer.write(GET % b"/a")
    assert (await client.answer())[2] == b"GET /a "


async def test_a_stream_for_http_1_0_ends_with_its_connection(site: Site, connect) -> None:
    client = await connect(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    site.lines.queue.put_nowait(b"one\n")
    site.lines.queue.put_nowait(b"")
    head, _, body = (await client.rest()).partition(b"\r\n\r\n")
    assert body == b"one\n"
    assert b"chunked" not in head


async def test_whatever_is_done_for_a_client_ends_when_it_goes(site: Site, connect) -> None:
    streaming, slow = await connect(GET % b"/stream"), await connect(GET % b"/slow")
    await until(lambda: len(site.asked) == 2)
    streaming.writer.close()
    slow.writer.close()
    await until(lambda: site.lines.is_closed and site.cancelled == [b"/slow"] and not site.server.connections)


async def test_a_slow_client_does_not_fill_the_memory(site: Site, connect) -> None:
    client = await connect(GET % b"/large" * 20)
    await asyncio.sleep(0.2)
    assert 1 <= len(site.asked) <= 3  # the next answer is made when the client has taken most of the last
    for _ in range(20):
        assert len((await client.answer())[2]) == 8 << 20


async def test_a_bug_is_answered_and_logged(connect, caplog) -> None:
    client = await connect(GET % b"/bug")
    with caplog.at_level(logging.ERROR):
        assert (await client.answer())[0] == 500
    assert "RuntimeError: a bug" in caplog.text


async def test_a_handler_can_cut_the_connection(connect) -> None:
    client = await connect(GET % b"/cut")
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await client.answer()


async def test_an_idle_connection_is_closed(connect, monkeypatch) -> None:
    monkeypatch.setattr(async_server, "IDLE_S", 0.1)
    client = await connect(GET % b"/a")
    assert (await client.answer())[0] == 200
    assert await client.rest() == b""


async def test_a_server_that_ends_lets_answers_finish(site: Site, connect) -> None:
    busy, idle = await connect(GET % b"/slow"), await connect(GET % b"/a")
    assert (await idle.answer())[0] == 200
    closing = asyncio.create_task(site.server.close(30.0))
    await until(lambda: site.server.is_closing)
    site.gate.set()
    _, headers, body = await busy.answer()
    assert (headers["Connection"], body) == ("close", b"GET /slow ")
    await closing
    assert not site.server.connections
    with pytest.raises(ConnectionError):
        await connect()


async def test_a_server_that_ends_cancels_what_does_not_end(site: Site, connect) -> None:
    await connect(GET % b"/slow")
    await until(lambda: site.asked)
    await site.server.close(0.01)
    assert site.cancelled == [b"/slow"]


def test_headers_may_come_twice() -> None:
    """A Warning for each thing to warn of."""
    head = async_server.head_of(200, [("Warning", "a"), ("Warning", "é")], None, closes=True)
    assert head.count(b"Warning: ") == 2
