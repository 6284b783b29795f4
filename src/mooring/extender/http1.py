"""HTTP/1.1 as a server speaks it on one blocking connection: requests in, answers out, all of it bounded.

httptools (llhttp) decides what a request is, and turns away whatever two
readers could understand differently. A body whose length is known does not
pass through it. Memory grows with the bytes that arrive; no header can reserve any.
"""

from __future__ import annotations

import socket
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httptools

if TYPE_CHECKING:
    from mooring.extender.body_memory import Share

MAX_HEAD_BYTES = 64 << 10
MAX_PIPELINED = 16  # requests that may arrive before the first of them is answered
BUFFER_BYTES = 128 << 10  # 5,000 node names at once
JOIN_BELOW = 256 << 10
MAX_MEMBERS = 16  # of a compressed body: each costs a copy of what follows


class Refused(Exception):
    """A request that is answered with a status and a text instead of being carried out."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much and how long a client may keep a connection busy before its request is there."""

    max_body_bytes: int
    read_timeout_s: float
    idle_timeout_s: float


@dataclass(slots=True)
class Request:
    method: str
    path: str
    headers: dict[bytes, bytes]  # by lower-case name
    body: bytes | bytearray
    keeps_alive: bool
    is_old: bool  # HTTP/1.0: a connection that is kept must be said to be


@dataclass(slots=True)
class Answer:
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    afterwards: Callable[[], None] | None = None  # what can be done when the client has its answer: logs


@dataclass(slots=True)
class _Message:
    """A request while it arrives."""

    url: bytes = b""
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    head_size: int = 0
    has_head: bool = False
    is_continued: bool = False
    left: int | None = None  # bytes of the body that go past the parser; None: all go through it


class Reader:
    """Reads one request after the other; several may arrive at once."""

    def __init__(self, sock: socket.socket, bounds: Bounds, share: Share) -> None:
        self._sock = sock
        self._bounds = bounds
        self._share = share
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._complete: deque[Request] = deque()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._message: _Message | None = None

    def close(self) -> None:
        """Let go of the parser, which holds on to its reader: nobody should wait for the garbage collector."""
        self._parser = None
        self._buffer.release()

    def next(self) -> Request | None:
        """The next request; None when nobody is there any more, or has been quiet for too long.

        The request before it is over: its bytes count no more.
        """
        arriving = len(self._message.body) if self._message is not None else 0
        self._share.keep(arriving + sum(len(request.body) for request in self._complete))
        deadline = 0.0
        while not self._complete:
            if self._message is not None and not deadline:
                self._share.arriving_since = time.monotonic()
                deadline = self._share.arriving_since + self._bounds.read_timeout_s
            left_s = deadline - time.monotonic() if deadline else self._bounds.idle_timeout_s
            try:
                if left_s <= 0:
                    raise TimeoutError
                self._sock.settimeout(left_s)
                if not self._receive():
                    return None
            except TimeoutError:
                if not deadline:
                    return None
                text = f"the request did not arrive within {self._bounds.read_timeout_s:g} s"
                raise Refused(408, text) from None
        self._share.arriving_since = None
        return self._complete.popleft()

    def _receive(self) -> int:
        """Take what there is; 0: the other side has closed the connection."""
        message = self._message
        left = message.left if message is not None else None
        count = self._sock.recv_into(self._buffer if left is None else self._buffer[:left])
        if not count:
            return 0
        if message is None or left is None:
            self._feed(self._buffer[:count])
            return count
        self._share.take(count)
        message.body += self._buffer[:count]
        message.left = left - count
        if not message.left:
            self.on_message_complete()
            self._parser = httptools.HttpRequestParser(self)
        return count

    def _feed(self, data: memoryview) -> None:
        size_before = len(self._message.body) if self._message is not None else 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise Refused(400, "an Upgrade is asked for; HTTP/1.1 without one would be right") from None
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ if isinstance(error.__context__, (Refused, OSError)) else error from None
        except httptools.HttpParserError as error:
            raise Refused(400, f"not HTTP/1.1: {str(error).replace('`', '').lower()}") from None
        message = self._message
        if message is None:
            return
        # Headers, or what follows the last chunk: endless either way unless somebody counts.
        message.head_size = message.head_size + len(data) if len(message.body) == size_before else 0
        if message.head_size > MAX_HEAD_BYTES:
            raise Refused(431, f"the headers are larger than {MAX_HEAD_BYTES:,} bytes")
        if not message.has_head:
            return
        if not message.is_continued and message.headers.get(b"expect", b"").lower() == b"100-continue":
            message.is_continued = True
            self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        length = message.headers.get(b"content-length")
        if length is not None:
            message.left = int(length) - len(message.body)

    # httptools calls these

    def on_message_begin(self) -> None:
        self._message = _Message()

    def on_url(self, url: bytes) -> None:
        assert self._message is not None
        self._message.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._message is not None
        if not self._message.has_head:  # not what follows the last chunk
            self._message.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        assert self._message is not None
        self._message.has_head = True
        length = self._message.headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._bounds.max_body_bytes:
            raise self._too_large()

    def on_body(self, data: bytes) -> None:
        message = self._message
        assert message is not None
        if len(message.body) + len(data) > self._bounds.max_body_bytes:
            raise self._too_large()
        self._share.take(len(data))
        message.body += data

    def on_message_complete(self) -> None:
        message = self._message
        assert message is not None
        self._message = None
        if len(self._complete) >= MAX_PIPELINED:
            raise Refused(503, f"{MAX_PIPELINED} requests came before an answer; this one is too many")
        parser = self._parser
        url = message.url.decode("latin-1")
        self._complete.append(
            Request(
                parser.get_method().decode("ascii"),
                url.partition("?")[0] if url.startswith("/") else _path(url),
                message.headers,
                message.body,
                parser.should_keep_alive(),
                parser.get_http_version() != "1.1",
            )
        )

    def _too_large(self) -> Refused:
        return Refused(413, f"the body is larger than {self._bounds.max_body_bytes:,} bytes")


def _path(url: str) -> str:
    """Of a whole URL, as proxies get them."""
    try:
        return urlsplit(url).path
    except ValueError:
        return url


def inflated(request: Request, limit: int, share: Share) -> bytes | bytearray:
    """A request's body as its Content-Encoding says, up to a limit, and counted like what has arrived."""
    encoding = request.headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
    if encoding in ("", "identity"):
        return request.body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Refused(415, f"Content-Encoding is {encoding}; gzip would be right")
    found = bytearray()
    for part in _inflate(request.body, 15 if encoding == "deflate" else 31):
        if len(found) + len(part) > limit:
            raise Refused(413, f"the body is larger than {limit:,} bytes")
        share.take(len(part))
        found += part
    return found


def _inflate(data: bytes | bytearray, window: int) -> Iterator[bytes]:
    """What is in one compressed member or a few, in parts of bounded size."""
    inflater, members, is_begun = zlib.decompressobj(window), 0, False
    for start in range(0, len(data), BUFFER_BYTES):
        rest = bytes(memoryview(data)[start : start + BUFFER_BYTES])
        while rest:
            is_begun = True
            try:
                yield inflater.decompress(rest, JOIN_BELOW)
            except zlib.error:
                raise _not_as_encoded() from None
            rest = inflater.unconsumed_tail
            if inflater.eof:
                rest = inflater.unused_data
                inflater, members, is_begun = zlib.decompressobj(window), members + 1, False
                if members >= MAX_MEMBERS and rest:
                    raise Refused(400, f"the body has more than {MAX_MEMBERS} compressed members; one would be right")
    if is_begun:
        raise _not_as_encoded()


def _not_as_encoded() -> Refused:
    return Refused(400, "the body is not what its Content-Encoding says")


_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def send(sock: socket.socket, answer: Answer, request: Request | None, *, closes: bool) -> None:
    """Write an answer to a request, or to what was none."""
    head = (
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        # In an answer this says that later requests may come compressed (RFC 7694).
        f"Accept-Encoding: gzip\r\nDate: {_date(int(time.time()))}\r\n"
    )
    if closes:
        head += "Connection: close\r\n"
    elif request is not None and request.is_old:
        head += "Connection: keep-alive\r\n"
    start = (head + "\r\n").encode("latin-1")
    body = b"" if request is not None and request.method == "HEAD" else answer.body
    if len(body) < JOIN_BELOW:
        sock.sendall(start + body)
    else:
        sock.sendall(start)
        sock.sendall(body)


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
