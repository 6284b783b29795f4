"""The server's HTTP over plain sockets: what well-behaved clients send, and what others do."""

from __future__ import annotations

import gc
import gzip
import json
import socket
import threading
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scripted_server import make_certificate

from mooring.extender.body_memory import BodyMemory
from mooring.extender.connections import Connection, Connections
from mooring.extender.handlers import serve_object
from mooring.extender.http_io import Bounds, RequestReader, Response
from mooring.extender.sdk import Extender, Pod
from mooring.extender.server import ExtenderServer, Limits
from mooring.extender.tls import server_context
from mooring.extender.traffic import args_body, make_node, make_pod
from mooring.http1 import MAX_HEAD_BYTES, Message

BODY = args_body(make_pod("a"), [make_node(i) for i in range(4)], by_name=True)


class Names(Extender):
    released = threading.Event()
    entered = threading.Semaphore(0)

    def filter(self, pod: Pod, nodes: list[str]) -> list[str]:
        return nodes

    def prioritize(self, pod: Pod, nodes: list[str]) -> dict[str, int]:
        self.entered.release()
        self.released.wait(10)
        return {}


class Client:
    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.file = self.sock.makefile("rb")

    def send(self, *pieces: bytes) -> Client:
        for piece in pieces:
            self.sock.sendall(piece)
        return self

    def answer(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        line = self.file.readline()
        if not line:
            raise EOFError
        headers = {}
        while (header := self.file.readline().strip()) != b"":
            name, _, value = header.decode().partition(":")
            headers[name.lower()] = value.strip()
        return int(line.split()[1]), headers, self.file.read(int(headers.get("content-length", 0)) if has_body else 0)

    def is_closed(self) -> bool:
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.file.close()
        self.sock.close()


@contextmanager
def running(**limits: Any) -> Iterator[tuple[ExtenderServer, int]]:
    server = ExtenderServer(serve_object(Names, "test"), limits=Limits(**limits))
    try:
        yield server, server.start()
    finally:
        server.close()


@pytest.fixture
def client() -> Iterator[Client]:
    with running(max_body_bytes=100_000) as (_, port):
        made = Client(port)
        yield made
        made.close()


def request(body: bytes = BODY, *headers: str, path: str = "/filter", version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: x", "Content-Type: application/json", *headers]
    if not any(header.lower().startswith(("transfer-encoding", "content-length")) for header in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


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


def test_requests_that_come_at_once_are_answered_in_order(client: Client) -> None:
    client.send(request() + b"GET /healthz HTTP/1.1\r\n\r\n" + request(b"{}") + request()[:200])
    assert [client.answer()[0] for _ in range(3)] == [200, 200, 400]
    assert client.send(request()[200:]).answer()[0] == 200


def test_one_who_asks_whether_to_go_on_is_told_so(client: Client) -> None:
    head, _, body = request(BODY, "Expect: 100-continue").partition(b"\r\n\r\n")
    client.send(head + b"\r\n\r\n")
    assert client.answer()[0] == 100
    assert client.send(body).answer()[0] == 200
    head = request(b"", "Expect: 100-continue", "Content-Length: 200000")
    assert client.send(head).answer()[0] == 413, "nobody is told to send what will not be read"


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


def test_pages_beside_the_verbs(client: Client) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert client.send(f"GET {path} HTTP/1.1\r\n\r\n".encode()).answer()[::2] == (200, b"ok")
    status, headers, _ = client.send(b"HEAD /healthz HTTP/1.1\r\n\r\n").answer(has_body=False)
    assert (status, headers["content-length"]) == (200, "2")
    status, _, body = client.send(request(path="/healthz")).answer()
    assert status == 405 and b"GET would be right" in body


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
        pytest.param(BODY, "br", 415, id="an encoding nobody knows"),
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


def test_a_connection_that_nobody_uses_is_closed_without_a_word() -> None:
    with running(idle_timeout_s=0.05) as (_, port):
        client = Client(port)
        assert client.is_closed()
        client.close()


def test_one_who_waits_the_longest_makes_room_for_another() -> None:
    with running(connections=3) as (_, port):
        slow = Client(port).send(request()[:20])
        others = [Client(port) for _ in range(2)]
        for other in others:
            assert other.send(request()).answer()[0] == 200
        newest = Client(port)
        assert newest.send(request()).answer()[0] == 200
        assert slow.is_closed(), "half a request keeps nobody out"
        assert others[1].send(request()).answer()[0] == 200
        for client in (slow, *others, newest):
            client.close()


def test_those_whose_requests_are_carried_out_are_not_put_out() -> None:
    with running(connections=1) as (server, port):
        busy = Client(port).send(request(path="/prioritize"))
        assert Names.entered.acquire(timeout=10)
        late = Client(port)
        status, _, body = late.answer()
        assert (status, json.loads(body)["Error"]) == (503, "1 connections are in use; this one is too many")
        Names.released.set()
        try:
            assert busy.answer()[0] == 200
        finally:
            Names.released.clear()
            busy.close()
            late.close()
        assert not server.is_busy


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


def test_a_client_that_hangs_up_is_no_matter() -> None:
    with running() as (_, port):
        for part in (b"", request()[:20], request()[:-5], request()):
            client = Client(port).send(part)
            client.close()
        client = Client(port)
        assert client.send(request()).answer()[0] == 200
        client.close()


def test_closing_ends_connections() -> None:
    with running() as (server, port):
        client = Client(port)
        assert client.send(request()).answer()[0] == 200
        server.close()
        assert client.is_closed()
        client.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)


def test_a_request_that_is_being_carried_out_is_answered_before_the_end() -> None:
    with running() as (server, port):
        busy, idle = Client(port).send(request(path="/prioritize")), Client(port)
        assert idle.send(request()).answer()[0] == 200
        assert Names.entered.acquire(timeout=10)
        closing = threading.Thread(target=server.close, args=(10.0,))
        closing.start()
        assert idle.is_closed(), "nobody waits for those who only wait"
        Names.released.set()
        try:
            status, headers, _ = busy.answer()
            assert (status, headers["connection"]) == (200, "close")
            closing.join(10)
            assert not closing.is_alive()
        finally:
            Names.released.clear()
            busy.close()
            idle.close()


def test_a_port_that_is_taken_and_a_host_that_is_not_here() -> None:
    with running() as (_, port):
        for host, number in (("127.0.0.1", port), ("host.invalid", 0)):
            with pytest.raises(OSError):
                ExtenderServer(serve_object(Names, "test")).start(host, number)


def test_localhost_is_all_of_it() -> None:
    server = ExtenderServer(serve_object(Names, "test"))
    port = server.start("localhost")
    try:
        client = Client(port)
        assert client.send(request()).answer()[0] == 200
        client.close()
    finally:
        server.close()


def test_plain_text_where_tls_is_spoken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate = make_certificate("127.0.0.1")
    (tmp_path / "cert").write_bytes(certificate.certificate)
    (tmp_path / "key").write_bytes(certificate.key)
    server = ExtenderServer(serve_object(Names, "test"))
    port = server.start(tls=server_context(str(tmp_path / "cert"), str(tmp_path / "key")))
    try:
        client = Client(port).send(request())
        assert client.is_closed()
        client.close()
        assert [record.values for record in caplog.records] == [{"err": "http request"}]  # type: ignore[attr-defined]
    finally:
        server.close()


def test_a_connection_stays_open_until_its_late_answer_is_given() -> None:
    may_answer = threading.Event()

    def handle(request: Message, connection: Connection) -> None:
        def late() -> None:
            may_answer.wait(10)
            connection.answer_late(Response(b"late"), request)

        threading.Thread(target=late).start()

    connections = Connections(handle, lambda refused: Response(b""), Bounds(1000, 10, 10), BodyMemory(1000), most=5)
    client = Client(connections.listen("127.0.0.1", 0)).send(b"GET / HTTP/1.1\r\n\r\n")
    try:
        client.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.sock.recv(1)
        client.sock.settimeout(10)
        may_answer.set()
        status, headers, body = client.answer()
        assert (status, headers["connection"], body) == (200, "close", b"late")
        assert client.is_closed()
    finally:
        client.close()
        connections.close()
