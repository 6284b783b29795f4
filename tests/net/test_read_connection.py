"""Reads over our own connections, against a server that sends what the test says, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mooring.net.connect import Connector, HeaderFields
from mooring.net.errors import ConnectionFailed
from mooring.net.http1_connection import UNREAD_BYTES, ReadConnections

FIELDS = HeaderFields("server", [("Accept", "application/json")])
OK = b"HTTP/1.1 200 OK\r\n"


class Server:
    """Answers each request with the next script; a script is pieces of bytes, and None closes the connection."""

    def __init__(self) -> None:
        self.scripts: list[list[bytes | None]] = []
        self.connections = 0
        self.asked: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                self.asked.append(await reader.readuntil(b"\r\n\r\n"))
                for piece in self.scripts.pop(0):
                    if piece is None:
                        writer.close()
                        return
                    writer.write(piece)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    made.listener = await asyncio.start_server(made, "127.0.0.1", 0)
    made.reads = ReadConnections(Connector("127.0.0.1", made.listener.sockets[0].getsockname()[1]))
    yield made
    await made.reads.close()
    for writer in made.writers:
        writer.close()
    made.listener.close()
    await made.listener.wait_closed()


async def read(server: Server) -> tuple[int, bytes]:
    async with server.reads.get("/pods?limit=1", FIELDS) as reading:
        body = b""
        while part := await reading.readany():
            body += part
        return reading.status, body


BODIES = {
    "a length": ([OK + b"Content-Length: 4\r\n\r\n", b"ab", b"cd"], b"abcd"),
    "no body": ([OK + b"Content-Length: 0\r\n\r\n"], b""),
    "chunks": ([OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", b"2\r\ncd\r\n0\r\n\r\n"], b"abcd"),
    "until the end": ([OK + b"\r\nab", b"cd", None], b"abcd"),
    "an interim answer first": ([b"HTTP/1.1 103 Early\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n", b"ab"], b"ab"),
}


@pytest.mark.parametrize(("script", "body"), BODIES.values(), ids=BODIES)
async def test_a_body_is_read_to_its_end_in_every_form(server: Server, script: list[bytes | None], body: bytes) -> None:
    server.scripts = [script]
    assert await read(server) == (200, body)
    assert server.asked == [b"GET /pods?limit=1 HTTP/1.1\r\nHost: server\r\nAccept: application/json\r\n\r\n"]


CUTS = {
    "in the head": [b"HTTP/1.1 200", None],
    "in a length": [OK + b"Content-Length: 4\r\n\r\nab", None],
    "in chunks": [OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", None],
    "by nonsense": [b"SSH-2.0-what\r\n\r\n"],
    "by nonsense in chunks": [OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nno size\r\n"],
}


@pytest.mark.parametrize("script", CUTS.values(), ids=CUTS)
async def test_an_answer_that_is_cut_off_is_a_failed_connection(server: Server, script: list[bytes | None]) -> None:
    server.scripts = [script]
    with pytest.raises(ConnectionFailed) as failure:
        await read(server)
    assert failure.value.was_sent
    assert server.connections == 1


async def test_a_connection_is_used_again_when_its_answer_was_read(server: Server) -> None:
    whole = [OK + b"Content-Length: 2\r\n\r\nok"]
    server.scripts = [whole, whole, [OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"], whole]
    for _ in range(3):
        assert await read(server) == (200, b"ok")
    assert server.connections == 1
    assert await read(server) == (200, b"ok")  # the server had asked to close
    assert server.connections == 2


async def test_an_unread_response_closes_its_connection(server: Server) -> None:
    server.scripts = [[OK + b"Content-Length: 4\r\n\r\nab"], [OK + b"Content-Length: 2\r\n\r\nok"]]
    async with server.reads.get("/pods", FIELDS) as reading:
        assert await reading.readany() == b"ab"
    assert await read(server) == (200, b"ok")
    assert server.connections == 2


async def test_a_kept_connection_that_the_server_has_closed_is_replaced(server: Server) -> None:
    whole: list[bytes | None] = [OK + b"Content-Length: 2\r\n\r\nok"]
    server.scripts = [whole, [None], whole]  # the second is closed when it is asked again
    assert [await read(server), await read(server)] == [(200, b"ok")] * 2
    assert server.connections == 2


async def test_an_answer_without_a_question_is_not_taken_for_that_of_the_next(server: Server) -> None:
    whole = OK + b"Content-Length: 2\r\n\r\n"
    server.scripts = [[whole + b"ok" + whole + b"no"], [whole + b"ok"]]
    assert [await read(server), await read(server)] == [(200, b"ok")] * 2
    assert server.connections == 2


async def test_a_server_that_sends_faster_than_we_read_waits(server: Server, eventually) -> None:
    size = 64 * UNREAD_BYTES
    server.scripts = [[OK + b"Content-Length: %d\r\n\r\n" % size, *[bytes(UNREAD_BYTES)] * 64]]
    async with server.reads.get("/pods", FIELDS) as reading:
        held = reading._message.body
        await eventually(lambda: len(held) > UNREAD_BYTES)
        for _ in range(100):  # nothing is read, and no more comes in
            await asyncio.sleep(0)
        assert len(held) < 4 * UNREAD_BYTES
        read_bytes = 0
        while part := await reading.readany():
            read_bytes += len(part)
    assert read_bytes == size
