"""Writes through a proxy that knows CONNECT."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import ClassVar

import pytest

from mooring.api.errors import InputError
from mooring.net.connect import Connector, HeaderFields, Proxy
from mooring.net.errors import ConnectionFailed
from mooring.net.pool import ConnectionPool

FIELDS = HeaderFields("example.com", [])


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        pytest.param("http://p:3128", Proxy("p", 3128), id="host and port"),
        pytest.param("http://p", Proxy("p", 80), id="the usual port"),
        pytest.param("http://me:a%40b@p:1", Proxy("p", 1, "Basic bWU6YUBi"), id="a password"),
        pytest.param("https://p:3128", Proxy("p", 3128, is_tls=True), id="TLS within TLS"),
        pytest.param("https://p", Proxy("p", 443, is_tls=True), id="the usual port of TLS"),
    ],
)
def test_a_proxy_has_a_url(url, proxy):
    assert Proxy.of_url(url) == proxy


def test_a_proxy_that_we_cannot_use_is_refused():
    with pytest.raises(InputError, match="only http:// and https:// proxies"):
        Proxy.of_url("socks5://p:1")


def test_what_is_asked_of_a_proxy():
    assert Proxy("p", 1).request("::1", 6443) == b"CONNECT [::1]:6443 HTTP/1.1\r\nHost: [::1]:6443\r\n\r\n"
    asked = Proxy("p", 1, "Basic secret").request("api", 443)
    assert asked == b"CONNECT api:443 HTTP/1.1\r\nHost: api:443\r\nProxy-Authorization: Basic secret\r\n\r\n"
    assert "secret" not in repr(Proxy("p", 1, "Basic secret"))


class Tunnels:
    """A proxy; ``answer`` is what it says to CONNECT, in pieces."""

    def __init__(self) -> None:
        self.answer = [b"HTTP/1.1 200 Connection esta", b"blished\r\nVia: p\r\n\r\n"]
        self.opened = 0
        self.trusting: ssl.SSLContext | None = None  # what its clients trust, if it is not what they trust elsewhere
        self.at_work: set[asyncio.Task[None]] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.at_work.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            host, _, port = head.split(b" ")[1].decode().rpartition(":")
            self.opened += 1
            for piece in self.answer:
                writer.write(piece)
                await writer.drain()
            if self.answer and self.answer[0].startswith(b"HTTP/1.1 200"):
                far_reader, far_writer = await asyncio.open_connection(host, int(port))
                await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        writer.transport.abort()

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.transport.abort()


class Echo(asyncio.Protocol):
    peers: ClassVar[list[asyncio.Transport]] = []

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.peers.append(transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok" * data.count(b"POST "))


@pytest.fixture(params=[False, True], ids=["http", "https"])
async def tunnels(request, authority, server_certificate):
    made = Tunnels()
    context = authority.server_context(server_certificate) if request.param else None
    listener = await asyncio.start_server(made, "127.0.0.1", 0, ssl=context)
    made.proxy = Proxy("localhost", listener.sockets[0].getsockname()[1], is_tls=request.param)
    yield made
    await asyncio.gather(*made.at_work)
    listener.close()
    await listener.wait_closed()


@pytest.fixture
async def pool(tunnels, authority, server_certificate):
    context = authority.server_context(server_certificate)
    listener = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    connector = Connector(
        "127.0.0.1",
        port,
        tls=lambda: trusting,
        server_name="localhost",
        proxy=tunnels.proxy,
        proxy_tls=lambda: tunnels.trusting or trusting,
    )
    made = ConnectionPool(connector, max_connections=3)
    yield made
    await made.close()
    while Echo.peers:
        Echo.peers.pop().abort()
    listener.close()
    await listener.wait_closed()


async def post(pool: ConnectionPool):
    return await pool.send("POST", b"/x", FIELDS, b"{}", 60.0)


async def test_many_writes_need_few_tunnels(tunnels, pool):
    answers = await asyncio.gather(*(post(pool) for _ in range(100)))
    assert {answer.status for answer in answers} == {201}
    assert 1 <= tunnels.opened <= 3


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param([b"HTTP/1.1 407 Who are you\r\n\r\n"], "the proxy answered 407 Who are you", id="it refuses"),
        pytest.param(
            [b"HTTP/1.0 403 Filtered\r\nContent-Type: text/html\r\n\r\n<h1>No</h1>"],
            "the proxy answered 403 Filtered$",
            id="it refuses with a page",
        ),
        pytest.param([b"HTTP/1.1 200 OK\r\n\r\nhello"], "the proxy does not speak HTTP/1.1", id="it speaks first"),
        pytest.param([b"SSH-2.0-x\r\n\r\n"], "the proxy does not speak HTTP/1.1", id="it is no proxy"),
        pytest.param([b"HTTP/1.1 2"], "the proxy closed the connection", id="it hangs up in the middle"),
        pytest.param([], "the proxy closed the connection", id="it says nothing"),
    ],
)
async def test_what_does_not_get_past_the_proxy_was_not_sent(tunnels, pool, answer, text):
    tunnels.answer = answer
    with pytest.raises(ConnectionFailed, match=text) as caught:
        await post(pool)
    assert caught.value.was_sent is False
    assert f"through the proxy {tunnels.proxy}" in str(caught.value)


async def test_a_proxy_that_is_back_is_used_again(tunnels, pool):
    working, tunnels.answer = tunnels.answer, []
    with pytest.raises(ConnectionFailed):
        await post(pool)
    tunnels.answer = working
    assert (await post(pool)).status == 201


@pytest.mark.parametrize("tunnels", [True], indirect=True)
async def test_a_proxy_that_is_not_trusted_gets_nothing(tunnels, pool):
    tunnels.trusting = ssl.create_default_context()
    with pytest.raises(ConnectionFailed, match="the proxy's certificate is not trusted: ") as caught:
        await post(pool)
    assert not caught.value.was_sent and tunnels.opened == 0


async def test_a_proxy_without_tls_is_reported_in_one_line(authority):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    proxy = Proxy("127.0.0.1", port, is_tls=True)
    connector = Connector("api", 443, tls=lambda: trusting, proxy=proxy, proxy_tls=lambda: trusting)
    pool = ConnectionPool(connector)
    with pytest.raises(ConnectionFailed, match=f"through the proxy 127.0.0.1:{port}: the proxy: .*SSL"):
        await post(pool)
    await pool.close()
    listener.close()
    await listener.wait_closed()
