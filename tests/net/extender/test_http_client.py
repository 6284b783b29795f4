"""The blocking HTTP client: what it makes of answers, whole and broken, in Go's words; no time passes here."""

from __future__ import annotations

import gc
import gzip
import socket
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from scripted_server import Script, serving

from mooring.net.extender import http_client
from mooring.net.extender.http_client import (
    MAX_ANSWER_BYTES,
    NO_BODY,
    NO_HEADERS,
    ExtenderReply,
    HttpClient,
    NoAnswer,
    _Connection,
    _Stale,
    is_loopback,
)
from mooring.net.http1 import MAX_HEAD_BYTES

FAR = time.monotonic() + 1e9


class FakeSocket:
    """Returns the given data piece by piece; an exception is raised in its turn, and the end is the end."""

    def __init__(self, *pieces: bytes | Exception, on_send: Exception | None = None) -> None:
        self.sent = b""
        self._pieces = list(pieces)
        self._on_send = on_send

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def sendall(self, data: bytes) -> None:
        if self._on_send is not None:
            raise self._on_send
        self.sent += data

    def recv(self, count: int) -> bytes:
        piece = self._pieces.pop(0) if self._pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece


def exchange(*pieces: bytes | Exception, uses: int = 0, on_send: Exception | None = None) -> Any:
    connection = _Connection(("http", "host", 80), FakeSocket(*pieces, on_send=on_send))  # type: ignore[arg-type]
    connection.uses = uses
    return connection.exchange(b"request", FAR)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.mark.parametrize(
    ("pieces", "status", "body", "keeps"),
    [
        pytest.param([OK], 200, b"hello", True, id="in one piece"),
        pytest.param([OK[i : i + 1] for i in range(len(OK))], 200, b"hello", True, id="byte by byte"),
        pytest.param([b"HTTP/1.1 100 Continue\r\n\r\n", OK], 200, b"hello", True, id="after 100 Continue"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n", b"3\r\nllo\r\n0\r\n\r\n"],
            200,
            b"hello",
            True,
            id="in chunks",
        ),
        pytest.param([b"HTTP/1.1 200 OK\r\n\r\nhe", b"llo"], 200, b"hello", False, id="up to the end"),
        pytest.param([b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"], 200, b"", False, id="HTTP/1.0"),
        pytest.param([OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")], 200, b"hello", False, id="close"),
        pytest.param([OK + b"more"], 200, b"hello", False, id="something behind it"),
        pytest.param([OK[:-2], b"lo" + OK], 200, b"hello", False, id="another one behind it"),
        pytest.param([b"HTTP/1.1 204 No Content\r\n\r\n"], 204, b"", True, id="no content"),
        pytest.param(
            [b"HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nhel"], 500, b"hel", False, id="an error that is cut"
        ),
    ],
)
def test_answers(pieces: list[bytes], status: int, body: bytes, keeps: bool) -> None:
    answer = exchange(*pieces)
    assert (answer.status, bytes(answer.body), answer.keeps_alive) == (status, body, keeps)


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        pytest.param([TimeoutError()], NO_HEADERS, id="silence"),
        pytest.param([OK[:20], TimeoutError()], NO_HEADERS, id="silence in the headers"),
        pytest.param([OK[:-1], TimeoutError()], NO_BODY, id="silence in the body"),
        pytest.param([OK[:20]], "unexpected EOF", id="cut in the headers"),
        pytest.param([OK[:-1]], "unexpected EOF", id="cut in the body"),
        pytest.param([OK[:-1], ConnectionResetError(104, "x")], "unexpected EOF", id="reset in the body"),
        pytest.param([ConnectionResetError(104, "Oh No")], "read tcp: read: oh no", id="reset immediately"),
        pytest.param(
            [b"SSH-2.0-OpenSSH\r\n"],
            'net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0-OpenSSH"',
            id="another protocol",
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"],
            'net/http: HTTP/1.x transport connection broken: malformed HTTP response "HTTP/1.1 200 OK"',
            id="two lengths",
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nA: " + b"a" * MAX_HEAD_BYTES],
            f"net/http: server response headers exceeded {MAX_HEAD_BYTES} bytes; aborted",
            id="endless headers",
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_ANSWER_BYTES + 1)],
            "the answer is larger than 256 MiB",
            id="too long a body",
        ),
        pytest.param([OSError(5, "Input/output error")], "[Errno 5] Input/output error", id="another failure"),
    ],
)
def test_answers_that_are_none(pieces: list[bytes | Exception], said: str) -> None:
    with pytest.raises(NoAnswer) as caught:
        exchange(*pieces)
    assert str(caught.value) == said


@pytest.mark.parametrize("pieces", [[], [ConnectionResetError(104, "x")]], ids=["closed", "reset"])
def test_a_stale_connection_is_distinguished_from_a_failing_one(pieces: list[Any]) -> None:
    with pytest.raises(_Stale):
        exchange(*pieces, uses=1)


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        pytest.param(TimeoutError(), NO_HEADERS, id="no room in time"),
        pytest.param(OSError(113, "No route to host"), "write tcp: no route to host", id="no way"),
        pytest.param(BrokenPipeError(), 413, id="it refuses to read on, and says why"),
    ],
)
def test_requests_that_cannot_be_sent(problem: Exception, outcome: str | int) -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    if isinstance(outcome, int):
        assert exchange(answer, on_send=problem).status == outcome
    else:
        with pytest.raises(NoAnswer) as caught:
            exchange(answer, on_send=problem)
        assert str(caught.value) == outcome


def test_a_deadline_that_has_passed_sends_nothing() -> None:
    sock = FakeSocket(OK)
    with pytest.raises(NoAnswer, match="awaiting headers"):
        _Connection(("http", "host", 80), sock).exchange(b"request", 0.0)  # type: ignore[arg-type]
    assert sock.sent == b""


# ---- over sockets --------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Script]:
    with serving(Script()) as script:
        yield script


@pytest.fixture
def client() -> Iterator[HttpClient]:
    made = HttpClient(60)
    yield made
    made.close()


def test_what_is_sent(server: Script, client: HttpClient) -> None:
    server.say("/a?b=c", {"raw": "x"})
    assert client.post(f"http://127.0.0.1:{server.port}/a?b=c", b'{"x":1}') == ExtenderReply(200, b"x")
    (asked,) = server.asked
    assert (asked.path, asked.body) == ("/a?b=c", {"x": 1})
    assert {name: asked.headers[name] for name in ("Content-Type", "Accept-Encoding", "Content-Length")} == {
        "Content-Type": "application/json",
        "Accept-Encoding": "gzip",
        "Content-Length": "7",
    }
    assert asked.headers["User-Agent"].startswith("mooring/") and "Authorization" not in asked.headers


@pytest.mark.parametrize(
    ("status", "method", "body"),
    [
        pytest.param(301, "GET", b"", id="301 loses the body, as in Go"),
        pytest.param(303, "GET", b"", id="303 asks for a GET"),
        pytest.param(307, "POST", {}, id="307 keeps everything"),
        pytest.param(308, "POST", {}, id="308 keeps everything"),
    ],
)
def test_redirects(server: Script, client: HttpClient, status: int, method: str, body: object) -> None:
    server.say("/", {"status": status, "raw": "", "headers": {"Location": "/there"}})
    server.say("/there", {"raw": "found"})
    assert client.post(f"http://127.0.0.1:{server.port}/", b"{}").body == b"found"
    assert server.asked[1].body == body
    assert ("Content-Type" in server.asked[1].headers) is (method == "POST")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        pytest.param("ftp://a/b", 'Post "ftp://a/b": unsupported protocol scheme "ftp"', id="another scheme"),
        pytest.param("", 'Post "": unsupported protocol scheme ""', id="no URL"),
        pytest.param("http:///x", 'Post "http:///x": http: no Host in request URL', id="no host"),
        pytest.param("http://a:PORT", 'Post "http://a:PORT": invalid port ":PORT" after host', id="no port"),
        pytest.param(
            "http://nowhere.invalid",
            'Post "http://nowhere.invalid": dial tcp: lookup nowhere.invalid: no such host',
            id="no such host",
        ),
    ],
)
def test_urls_that_lead_nowhere(client: HttpClient, url: str, said: str) -> None:
    with pytest.raises(NoAnswer) as caught:
        client.post(url, b"{}")
    assert str(caught.value) == said


def test_nothing_listens_at_the_address(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NoAnswer) as caught:
        client.post(f"http://127.0.0.1:{port}/x", b"{}")
    assert str(caught.value) == (
        f'Post "http://127.0.0.1:{port}/x": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )


@pytest.mark.parametrize("may_repeat", [True, False])
def test_only_what_may_be_repeated_is_sent_again_on_a_new_connection(
    server: Script, client: HttpClient, may_repeat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Connection, "is_usable", lambda self: True)  # it looks as if it were open
    url = f"http://127.0.0.1:{server.port}/"
    server.say("/", {"raw": "one"}, {"hang_up": True}, {"raw": "three"})
    assert client.post(url, b"{}").body == b"one"
    if may_repeat:
        assert client.post(url, b"{}").body == b"three"
    else:
        with pytest.raises(NoAnswer, match="EOF"):
            client.post(url, b"{}", may_repeat=False)


def test_idle_connections_do_not_grow_old(server: Script, client: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    server.say("/", {"raw": "x"})
    url = f"http://127.0.0.1:{server.port}/"
    for _ in range(2):
        client.post(url, b"{}")
    real = time.monotonic
    monkeypatch.setattr(http_client.time, "monotonic", lambda: real() + 1000)
    client.post(url, b"{}")
    connections = [asked.connection for asked in server.asked]
    assert connections[0] == connections[1] != connections[2]


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        pytest.param(gzip.compress(b"hello"), "", id="as it says"),
        pytest.param(gzip.compress(b"hel") + gzip.compress(b"lo"), "", id="in two members"),
        pytest.param(b"hello", "gzip: invalid header", id="not at all"),
        pytest.param(gzip.compress(b"hello")[:-6], "unexpected EOF", id="and cut"),
        pytest.param(gzip.compress(b"hello") + b"junk", "gzip: invalid checksum", id="and more"),
    ],
)
def test_compressed_answers(server: Script, client: HttpClient, packed: bytes, said: str) -> None:
    server.say("/", {"raw": packed, "headers": {"Content-Encoding": "gzip"}})
    url = f"http://127.0.0.1:{server.port}/"
    if not said:
        assert client.post(url, b"{}").body == b"hello"
    else:
        with pytest.raises(NoAnswer) as caught:
            client.post(url, b"{}")
        assert str(caught.value) == said


def test_what_an_answer_took_is_free_when_it_is_read(
    server: Script, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []

    class Reader(http_client._AnswerReader):
        def __init__(self) -> None:
            super().__init__()
            made.append(weakref.ref(self))

    monkeypatch.setattr(http_client, "_AnswerReader", Reader)
    server.say("/", {"raw": "x"})
    gc.disable()
    try:
        assert client.post(f"http://127.0.0.1:{server.port}/", b"{}").body == b"x"
        assert [ref() for ref in made] == [None], "no circle that only the garbage collector would find"
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("host", "is_so"),
    [("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("10.0.0.1", False), ("a.b", False)],
)
def test_which_hosts_are_this_machine(host: str, is_so: bool) -> None:
    assert is_loopback(host) is is_so
