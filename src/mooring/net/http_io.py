"""Requests and responses of servers, read from and written to a blocking connection, with limits."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from mooring.net.http1 import (
    BadEncoding,
    BadMessage,
    BodyTooLarge,
    HeadTooLarge,
    Message,
    MessageReader,
    can_inflate,
    inflate,
)

if TYPE_CHECKING:
    from mooring.net.server import Share

MAX_PIPELINED = 16  # requests that may arrive before the first of them is answered
HEAD_BUFFER_BYTES = 16 << 10  # buffer of an idle connection: headers and a small body
BUFFER_BYTES = 128 << 10  # buffer once a larger body arrives, such as 5,000 node names
JOIN_BELOW = 256 << 10  # a response up to this size is sent in one piece


class Refused(Exception):
    """A request that is answered with an error status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on the size and duration of a request."""

    max_body_bytes: int
    read_timeout_s: float
    idle_timeout_s: float


@dataclass(frozen=True, slots=True)
class Request:
    """A request for servers with more than one path."""

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name."""
    body: bytes = b""

    @classmethod
    def of(cls, message: Message, body: bytes | bytearray) -> Request:
        query = parse_qs(message.target.decode("latin-1").partition("?")[2], keep_blank_values=True)
        return cls(message.method, unquote(path_of(message)), query, message.headers, bytes(body))

    def asked(self, name: str, default: str = "") -> str:
        """Return a query parameter, the first one if it is repeated."""
        return self.query.get(name, (default,))[0]


@dataclass(slots=True)
class Response:
    """A response to a client."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    """Further headers."""
    afterwards: Callable[[], None] | None = None  # called once the client has its response: logs


class RequestReader:
    """Reads consecutive requests from a socket; several may arrive together."""

    def __init__(self, sock: socket.socket, bounds: Bounds, share: Share) -> None:
        self._sock = sock
        self._bounds = bounds
        self._share = share
        self._buffer = memoryview(bytearray(HEAD_BUFFER_BYTES))
        self._continued: Message | None = None
        self._messages = MessageReader(
            reads_answers=False, max_body_bytes=bounds.max_body_bytes, grow=share.take, most=MAX_PIPELINED
        )

    def close(self) -> None:
        """Release the connection's buffers."""
        self._messages.close()
        self._buffer.release()

    def next(self) -> Message | None:
        """Return the next request; None when the client disconnected or was idle for too long.

        The previous request is done: its bytes no longer count.
        """
        messages, share = self._messages, self._share
        arriving = len(messages.arriving.body) if messages.arriving is not None else 0
        share.keep(arriving + sum(len(request.body) for request in messages.complete))
        deadline = 0.0
        while not messages.complete:
            if messages.arriving is not None and not deadline:
                share.arriving_since = time.monotonic()
                deadline = share.arriving_since + self._bounds.read_timeout_s
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
        share.arriving_since = None
        return messages.complete.popleft()

    def _receive(self) -> int:
        """Receive available bytes; 0 when the other side has closed the connection."""
        message = self._messages.arriving
        left = message.left if message is not None else None
        if message is not None and len(message.body) >= HEAD_BUFFER_BYTES // 2 and len(self._buffer) < BUFFER_BYTES:
            self._buffer = memoryview(bytearray(BUFFER_BYTES))
        count = self._sock.recv_into(self._buffer if left is None else self._buffer[:left])
        if not count:
            return 0
        try:
            self._messages.feed(self._buffer[:count])
        except BadMessage as error:
            raise refusal_of(error) from None
        message = self._messages.arriving
        if message is not None and message.has_head and message is not self._continued:
            self._continued = message
            if message.headers.get("expect", "").lower() == "100-continue":
                self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return count


def refusal_of(error: BadMessage) -> Refused:
    """Return the response to an unreadable request."""
    if isinstance(error, BodyTooLarge):
        return Refused(413, str(error))
    if isinstance(error, HeadTooLarge):
        return Refused(431, str(error))
    return Refused(400, str(error) if isinstance(error, BadEncoding) else f"not HTTP/1.1: {error}")


def path_of(request: Message) -> str:
    """Return the requested path, also of an absolute URL, as proxies get it."""
    target = request.target.decode("latin-1")
    if target.startswith("/"):
        return target.partition("?")[0]
    try:
        return urlsplit(target).path
    except ValueError:
        return target


def body_of(request: Message, limit: int, share: Share) -> bytes | bytearray:
    """Return the request's body, uncompressed, within a limit, and counted against the share."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return request.body
    if not can_inflate(encoding):
        raise Refused(415, f"Content-Encoding is {encoding}; expected gzip")
    try:
        return inflate(request.body, encoding, limit, share.take)
    except BadMessage as error:
        raise refusal_of(error) from None


_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def send(sock: socket.socket, response: Response, request: Message | None, *, closes: bool) -> None:
    """Write a response to a request, or to unreadable input."""
    fields = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        ("Accept-Encoding", "gzip"),  # accepts compressed requests (RFC 7694)
        *response.headers.items(),
    ]
    start = head_of(response.status, fields, request, closes=closes)
    body = b"" if request is not None and request.method == "HEAD" else response.body
    if len(body) < JOIN_BELOW:
        sock.sendall(start + body)
    else:
        sock.sendall(start)
        sock.sendall(body)


def head_of(status: int, fields: Iterable[tuple[str, str]], request: Message | None, *, closes: bool) -> bytes:
    """Return the head of a response to a request, or to unreadable input."""
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, '')}", f"Date: {_date(int(time.time()))}"]
    lines += [f"{name}: {value}" for name, value in fields]
    if closes:
        lines.append("Connection: close")
    elif request is not None and request.version != "1.1":
        lines.append("Connection: keep-alive")  # for HTTP/1.0, which would close it
    return "\r\n".join([*lines, "", ""]).encode()


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    # Not by strftime, whose names depend on the locale, nor by the email package, which takes a mebibyte.
    when = time.gmtime(second)
    day, month = _DAYS[when.tm_wday], _MONTHS[when.tm_mon - 1]
    return f"{day}, {when.tm_mday:02} {month} {when.tm_year} {when.tm_hour:02}:{when.tm_min:02}:{when.tm_sec:02} GMT"


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
