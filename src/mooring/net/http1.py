"""HTTP/1.1 messages: one reader for requests and responses, bounded in every part.

httptools (llhttp) parses messages, and rejects those that two readers could interpret differently. Headers, trailers
and bodies have limits. Memory grows with the bytes that arrive; no header can reserve any. The module does no I/O: its
owner feeds it bytes.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

import httptools

MAX_HEAD_BYTES = 64 << 10
MAX_MEMBERS = 16  # of a compressed body: each costs a copy of what follows
_STEP_BYTES = 256 << 10  # of inflating

Grow = Callable[[int], None]
"""Called with the number of bytes by which a body is about to grow; may raise to reject them."""


class BadMessage(Exception):
    """The bytes are not a readable HTTP/1.1 message."""


class HeadTooLarge(BadMessage):
    """The headers or trailers are larger than MAX_HEAD_BYTES."""

    def __init__(self) -> None:
        super().__init__(f"the headers are larger than {MAX_HEAD_BYTES:,} bytes")


class BodyTooLarge(BadMessage):
    """The body is larger than the limit, before or after decompression."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is larger than {limit:,} bytes")


class BadEncoding(BadMessage):
    """The body does not match its Content-Encoding."""

    def __init__(self, text: str, *, is_cut: bool = False, member: int = 0) -> None:
        super().__init__(text)
        self.is_cut = is_cut  # it ends too early
        self.member = member  # number of complete compressed members


class Message:
    """A request (method, target) or a response (status), while it arrives and when it is complete."""

    __slots__ = (
        "_left",
        "_quiet",
        "body",
        "has_head",
        "headers",
        "keeps_alive",
        "method",
        "status",
        "target",
        "version",
    )

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}  # by lower-case name
        self.body = bytearray()
        self.target = b""
        self.method = ""
        self.status = 0
        self.version = ""
        self.keeps_alive = False
        self.has_head = False
        self._left: int | None = None  # bytes of the body that bypass the parser; None: all go through it
        self._quiet = 0  # bytes received since the body last grew: headers, chunk sizes, trailers

    @property
    def left(self) -> int | None:
        """Number of bytes of the body still to come; None if unknown."""
        return self._left

    @property
    def is_open_ended(self) -> bool:
        """Whether the end of the connection ends the response."""
        return "content-length" not in self.headers and "transfer-encoding" not in self.headers


class MessageReader:
    """Reads consecutive messages from the bytes it is fed; ``complete`` holds the finished ones."""

    def __init__(
        self, *, reads_answers: bool, max_body_bytes: int, grow: Grow | None = None, most: int = 1 << 30
    ) -> None:
        self.arriving: Message | None = None
        self._message = Message()  # arriving, or the last that arrived
        self.complete: deque[Message] = deque()
        self._type: Any = httptools.HttpResponseParser if reads_answers else httptools.HttpRequestParser
        self._reads_answers = reads_answers
        self._max_body_bytes = max_body_bytes
        self._grow = grow
        self._most = most
        self._parser: Any = self._type(self)

    def close(self) -> None:
        """Release the parser, which refers back to its reader, so that no memory waits for the garbage collector."""
        self._parser = None

    def feed(self, data: bytes | memoryview) -> None:
        """Parse bytes. Raise BadMessage, or whatever ``grow`` raises, for unacceptable ones."""
        message = self.arriving
        if message is not None and message._left is not None:
            part = data[: message._left]
            self._add(message, part)
            message._left -= len(part)
            if message._left:
                return
            self.on_message_complete()
            self._parser = self._type(self)
            data = data[len(part) :]
            if not len(data):
                return
            message = None
        size_before = len(message.body) if message is not None else 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise BadMessage("an Upgrade is not supported") from None
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            raise BadMessage(str(error).replace("`", "").lower()) from None
        message = self.arriving
        if message is not None:
            self._check_arriving(message, len(data), size_before)

    def _check_arriving(self, message: Message, count: int, size_before: int) -> None:
        message._quiet = message._quiet + count if len(message.body) == size_before else 0
        if message._quiet > MAX_HEAD_BYTES:
            raise HeadTooLarge
        if message.has_head:
            length = message.headers.get("content-length")
            if length is not None and "transfer-encoding" not in message.headers:
                message._left = int(length) - len(message.body)

    def _add(self, message: Message, data: bytes | memoryview) -> None:
        if len(message.body) + len(data) > self._max_body_bytes:
            raise BodyTooLarge(self._max_body_bytes)
        if self._grow is not None:
            self._grow(len(data))
        message.body += data

    # Callbacks of httptools. Every response to a write of the scheduler passes through here: each line counts.

    def on_message_begin(self) -> None:
        self.arriving = self._message = Message()

    def on_url(self, url: bytes) -> None:
        self._message.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        message = self._message
        if not message.has_head:  # trailers are dropped
            message.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        message, parser = self._message, self._parser
        message.has_head = True
        message.keeps_alive = parser.should_keep_alive()
        if self._reads_answers:
            message.status = parser.get_status_code()
        else:
            message.method = parser.get_method().decode("ascii")
            message.version = parser.get_http_version()
        length = message.headers.get("content-length")
        if length is not None and int(length) > self._max_body_bytes:
            raise BodyTooLarge(self._max_body_bytes)

    def on_body(self, data: bytes) -> None:
        self._add(self._message, data)

    def on_message_complete(self) -> None:
        self.arriving = None
        if self._reads_answers and self._message.status < 200:
            return  # 100 Continue and other interim responses
        if len(self.complete) >= self._most:
            raise BadMessage(f"more than {self._most} messages in one read")
        self.complete.append(self._message)


_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def can_inflate(encoding: str) -> bool:
    """Report whether :func:`inflate` supports this Content-Encoding."""
    return encoding in _WINDOWS


def inflate(data: bytes | bytearray, encoding: str, limit: int, grow: Grow | None = None) -> bytearray:
    """Uncompress a body of one member or a few, step by step, so that a small body cannot fill memory."""
    found = bytearray()
    window = _WINDOWS[encoding]
    inflater, member, is_begun, is_full = zlib.decompressobj(window), 0, False, False
    for start in range(0, len(data), _STEP_BYTES):
        rest = bytes(memoryview(data)[start : start + _STEP_BYTES])
        while rest or is_full:  # after a full step more output may be pending
            is_begun = True
            try:
                part = inflater.decompress(rest, _STEP_BYTES)
            except zlib.error:
                raise BadEncoding("the body is not what its Content-Encoding says", member=member) from None
            if len(found) + len(part) > limit:
                raise BodyTooLarge(limit)
            if grow is not None:
                grow(len(part))
            found += part
            is_full = len(part) == _STEP_BYTES
            rest = inflater.unconsumed_tail
            if inflater.eof:
                rest = inflater.unused_data
                inflater, member, is_begun, is_full = zlib.decompressobj(window), member + 1, False, False
                if member >= MAX_MEMBERS and rest:
                    raise BadEncoding(f"the body has more than {MAX_MEMBERS} compressed members", member=member)
    if is_begun:
        raise BadEncoding("the body is not what its Content-Encoding says", is_cut=True, member=member)
    return found
