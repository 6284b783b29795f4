"""Requests read from a socket and responses written to one: what well-behaved clients send, and what others do."""

from __future__ import annotations

import gc
import gzip
import json
import socket
import weakref
import zlib
from collections.abc import Iterator

import pytest
from raw_client import BODY, Client, request, running

from mooring.net.http1 import MAX_HEAD_BYTES
from mooring.net.http_io import Bounds, RequestReader
from mooring.net.server import BodyMemory


@pytest.fixture
def client() -> Iterator[Client]:
    with running(max_body_bytes=100_000) as (_, port):
        made = Client(port)
        yield made
        made.close()


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([request()], id="in one piece"),
        pytest.param([request()[:10], request()[10:70], request()[70:300], request()[300:]], id="in several pieces"),
        pytest.param([bytes([byte]) for byte in request()], id="byte by byte"),
        pytest.param([request(chunked(BODY, 100), "Transfer-Encoding: chunked")], id="in chunks"),
        pytest.param([request(path="http://x/filter?a=b")], id="as proxies are asked"),
        pytest.param([request(gzip.compress(BODY), "Content-Encoding: gzip")], id="compressed"),
        pytest.param(
            [request(gzip.compress(BODY[:50]) + gzip.compress(BODY[50:]), "Content-Encoding: gzip")],
            id="compressed in two members",
        ),
        pytest.param([request(zlib.compress(BODY), "Content-Encoding: deflate")], id="deflated"),
        pytest.param([b"\r\n", request()], id="after an empty line"),
        pytest.param(
            [request(BODY.replace(b'"Nodes":null', b'"Nodes":null' + b" " * 90_000))], id="larger than a read"
        ),
    ],
)
def test_a_request_is_read_however_it_comes_and_the_connection_is_kept(client: Client, sent: list[bytes]) -> None:
    for _ in range(2):
        status, headers, body = client.send(*sent).answer()
        assert status == 200, body
        assert len(json.loads(body)["NodeNames"]) == 4
        assert headers["content-type"] == "application/json" and headers["accept-encoding"] == "gzip"
        assert "connection" not in headers and headers["date"].endswith("GMT")


def test_pipelined_requests_are_answered_in_order(client: Client) -> None:
    client.send(request() + b"GET /healthz HTTP/1.1\r\n\r\n" + request(b"{}") + request()[:200])
    assert [client.answer()[0] for _ in range(3)] == [200, 200, 400]
    assert client.send(request()[200:]).answer()[0] == 200


def test_expect_100_continue_is_answered(client: Client) -> None:
    head, _, body = request(BODY, "Expect: 100-continue").partition(b"\r\n\r\n")
    client.send(head + b"\r\n\r\n")
    assert client.answer()[0] == 100
    assert client.send(body).answer()[0] == 200
    head = request(b"", "Expect: 100-continue", "Content-Length: 200000")
    assert client.send(head).answer()[0] == 413, "the client is not asked for a body that will not be read"


def test_old_clients_and_those_that_want_to_part() -> None:
    with running() as (_, port):
        for version, header, kept in (
            ("1.0", "A: b", None),
            ("1.0", "Connection: keep-alive", "keep-alive"),
            ("1.1", "Connection: close", "close"),
        ):
            client = Client(port)
            status, headers, _ = client.send(request(BODY, header, version=version)).answer()
            assert status == 200
            if kept == "keep-alive":
                assert headers["connection"] == "keep-alive"
                assert client.send(request(BODY, version=version)).answer()[0] == 200
            assert headers.get("connection", "close") == (kept or "close")
            client.close()


def test_pages_besides_the_verbs(client: Client) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert client.send(f"GET {path} HTTP/1.1\r\n\r\n".encode()).answer()[::2] == (200, b"ok")
    status, headers, _ = client.send(b"HEAD /healthz HTTP/1.1\r\n\r\n").answer(has_body=False)
    assert (status, headers["content-length"]) == (200, "2")
    status, _, body = client.send(request(path="/healthz")).answer()
    assert status == 405 and b"expected GET" in body


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        pytest.param(b"nonsense\r\n\r\n", 400, "not HTTP/1.1: invalid method", id="nonsense"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", 400, "not HTTP/1.1", id="TLS where there is none"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "not HTTP/1.1", id="HTTP/2"),
        pytest.param(
            request(BODY, "Content-Length: 3", "Content-Length: 4"), 400, "duplicate content-length", id="two lengths"
        ),
        pytest.param(
            request(b"0\r\n\r\n", "Transfer-Encoding: chunked", "Content-Length: 3"),
            400,
            "not HTTP/1.1",
            id="a length and chunks",
        ),
        pytest.param(request(b"zz\r\n", "Transfer-Encoding: chunked"), 400, "not HTTP/1.1", id="a chunk of nonsense"),
        pytest.param(request(BODY, "Content-Length: -1"), 400, "not HTTP/1.1", id="a negative length"),
        pytest.param(request(BODY, "Upgrade: h2c", "Connection: Upgrade"), 400, "an Upgrade", id="an upgrade"),
        pytest.param(request(b"", "Content-Length: 100001"), 413, "larger than 100,000 bytes", id="too long a body"),
        pytest.param(
            request(chunked(b"x" * 150_000, 9000), "Transfer-Encoding: chunked"), 413, "larger", id="too many chunks"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nA: " + b"a" * (MAX_HEAD_BYTES + 200_000),
            431,
            "headers are larger",
            id="endless headers",
        ),
    ],
)
def test_what_is_no_request_is_answered_and_the_connection_closed(
    client: Client, sent: bytes, status: int, said: str
) -> None:
    got, headers, body = client.send(sent).answer()
    assert (got, headers["connection"]) == (status, "close")
    assert said in json.loads(body)["Error"] and b"\n" not in body
    assert client.is_closed()


def test_refusals_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with running(max_body_bytes=1000) as (_, port):
        for sent in (b"nonsense\r\n\r\n", request(b"", "Content-Length: 1001"), request(path="/nowhere")):
            client = Client(port).send(sent)
            assert client.answer()[0] >= 400
            client.close()
        client = Client(port).send(b"GET /metrics HTTP/1.1\r\n\r\n")
        text = client.answer()[2].decode()
        client.close()
    for code in (400, 404, 413):
        assert f'mooring_extender_requests_total{{code="{code}",verb=""}} 1\n' in text
    assert [record.values["code"] for record in caplog.records] == [400, 413, 404]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        pytest.param(gzip.compress(b" " * 5_000_000), "gzip", 413, id="a small body that becomes a large one"),
        pytest.param(gzip.compress(BODY)[:-4], "gzip", 400, id="a cut end"),
        pytest.param(BODY, "gzip", 400, id="not compressed at all"),
        pytest.param(BODY, "br", 415, id="an unknown encoding"),
    ],
)
def test_bodies_that_cannot_be_unpacked_cost_no_connection(
    client: Client, body: bytes, encoding: str, status: int
) -> None:
    assert client.send(request(body, f"Content-Encoding: {encoding}")).answer()[0] == status
    assert client.send(request()).answer()[0] == 200


def test_a_request_that_never_ends_is_given_up() -> None:
    with running(read_timeout_s=0.05) as (_, port):
        for part in (request()[:20], request()[:-5]):
            client = Client(port)
            status, _, body = client.send(part).answer()
            assert (status, json.loads(body)["Error"]) == (408, "the request did not arrive within 0.05 s")
            assert client.is_closed()
            client.close()


def test_what_a_connection_took_is_free_when_it_ends() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = RequestReader(ours, Bounds(1000, 10, 10), BodyMemory(1000).share())
        theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert reader.next() is not None
        reader.close()
        left = weakref.ref(reader)
        gc.disable()
        try:
            del reader
            assert left() is None, "no circle that only the garbage collector would find"
        finally:
            gc.enable()
