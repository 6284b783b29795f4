"""The client's HTTP/1.1 connections.

``Http1Connection`` is for writes: it pipelines a few requests in one write, and takes more after all responses.
``ReadConnection`` is for reads: one GET at a time, whose response is streamed; a watch is one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol, cast

from mooring.net.connect import MAX_ANSWER_BYTES, Broken, Connector, HeaderFields, HttpAnswer, HttpRequest
from mooring.net.errors import ConnectionFailed
from mooring.net.http1 import BadMessage, Message, MessageReader

IDLE_S = 60.0
"""A connection that was idle for longer is not used again: API servers close idle connections after a few minutes."""


class Http1Connection(asyncio.Protocol):
    """A connection for writes. ``on_free`` is called when all responses have arrived, and when the connection is
    closed.

    The server answers in the order of the requests, so the first of ``under_way`` belongs to the next response.
    Therefore no request can be removed from the middle: a connection with an abandoned response is closed.
    """

    __slots__ = (
        "_failure",
        "_on_free",
        "_reader",
        "idle_since",
        "is_open",
        "is_used",
        "keep_alive",
        "transport",
        "under_way",
    )

    def __init__(self, on_free: Callable[[Http1Connection], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_open = False
        self.is_used = False
        self.keep_alive = True
        self.idle_since = 0.0
        self.under_way: deque[HttpRequest] = deque()
        self._on_free = on_free
        self._reader = MessageReader(reads_answers=True, max_body_bytes=MAX_ANSWER_BYTES)
        self._failure = ""

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
        except BadMessage as error:
            self._failure = f"not an HTTP answer: {error}"
            self.close()
        complete = self._reader.complete
        if complete:
            while complete:
                self._take(complete.popleft())
            if not self.under_way:
                self._on_free(self)

    def _take(self, message: Message) -> None:
        if not message.keeps_alive:
            self.keep_alive = False
        if not self.under_way:
            # A response without a request: the next one might be taken for that of another request.
            self.close()
            return
        answer = self.under_way.popleft().answer
        if not answer.done():
            answer.set_result(HttpAnswer(message.status, message.headers, bytes(message.body)))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._reader.close()
        why = self._failure or str(exc or "the server closed the connection")
        for request in self.under_way:
            # A server that announces that it closes carries out nothing after that response.
            request.fail(Broken(why, written=self.keep_alive, took_others=not self.keep_alive))
        self.under_way.clear()
        self._on_free(self)

    # What the pool calls

    async def begin(self) -> None:
        """Return immediately: the connection is usable."""

    @property
    def load(self) -> int:
        return len(self.under_way)

    @property
    def is_usable(self) -> bool:
        return self.is_open and self.transport is not None and not self.transport.is_closing()

    def send(self, requests: list[HttpRequest]) -> None:
        """Write requests, all in one write."""
        assert self.transport is not None
        for request in requests:
            request.on_reused = self.is_used
        self.is_used = True
        self.under_way.extend(requests)
        self.transport.write(b"".join([_encoded(each) for each in requests]))

    def give_up(self, late: list[HttpRequest]) -> None:
        """Abandon some responses. They may still arrive, so no other request may use this connection."""
        self.close()

    def cancel_abandoned(self) -> None:
        """Close the connection if no caller waits for a response any more."""
        if self.under_way and all(request.answer.done() for request in self.under_way):
            self.close()

    def close(self) -> None:
        self.is_open = False
        if self.transport is not None:
            # An abandoned connection has nothing worth flushing.
            self.transport.abort()


def _encoded(request: HttpRequest) -> bytes:
    body = request.body
    return b"%b %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (
        request.method.encode(),
        request.target,
        request.fields.http1,
        len(body),
        body,
    )


# --------------------------------------------------------------------------------------------------------------------
# Reads

UNREAD_BYTES = 1 << 20
"""Number of unread bytes from which the connection stops reading, so that the server has to wait."""
_ANY_SIZE = 1 << 62
_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Reading(Protocol):
    """A response whose body is still arriving; header names are in lower case."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> dict[str, str]: ...

    async def readany(self) -> bytes:
        """Return what has arrived since the last call, or wait for more; empty at the end. Raise ConnectionFailed if it
        was truncated.
        """
        ...


class _Cut(Exception):
    """The connection ended too early."""


class ReadConnection(asyncio.Protocol):
    """A connection for reads: responses to GETs, one after the other.

    The loop calls ``data_received`` and one task reads. ``_news`` is the future on which that task waits; each wait has
    its own, so the newest one has to be resolved.
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.idle_since = 0.0
        self._reader = MessageReader(reads_answers=True, max_body_bytes=_ANY_SIZE)
        self._message: Message | None = None  # the response, once its head has arrived
        self._is_whole = False
        self._is_paused = False
        self._failure = ""
        self._news: asyncio.Future[None] | None = None

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass of asyncio's
        keep_alive(transport)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if self._is_whole:
            self._fail("an unexpected answer arrived")
            self.close()
            return
        try:
            reader.feed(data)
        except BadMessage as error:
            self._fail(f"not an HTTP answer: {error}")
            self.close()
            return
        message = self._message
        if reader.complete:
            self._message, self._is_whole = reader.complete.popleft(), True
        elif message is None and reader.arriving is not None and reader.arriving.has_head:
            message = self._message = reader.arriving
        if message is not None and len(message.body) > UNREAD_BYTES and not self._is_paused:
            assert self.transport is not None
            self._is_paused = True
            self.transport.pause_reading()
        self._tell()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.close()
        message = self._message
        if exc is None and message is not None and message.is_open_ended:
            self._is_whole = True
        self._fail(str(exc or "the server closed the connection"))

    def _fail(self, why: str) -> None:
        self._failure = self._failure or why
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _wait(self) -> None:
        if self._failure:
            raise _Cut(self._failure)
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    # Methods for the reader

    async def begin(self) -> None:
        """Return immediately: the connection is usable."""

    @property
    def is_usable(self) -> bool:
        return not self._failure and self.transport is not None and not self.transport.is_closing()

    @property
    def may_be_kept(self) -> bool:
        """Report whether it can carry another request: its response was read to the end."""
        message, reader = self._message, self._reader
        if message is None or message.body or not self._is_whole or not message.keeps_alive:
            return False
        return reader.arriving is None and not reader.complete and self.is_usable

    async def ask(self, target: str, fields: HeaderFields) -> None:
        """Send a GET and wait for the head of the response."""
        assert self.transport is not None
        self._message, self._is_whole = None, False
        self.transport.write(b"GET %b HTTP/1.1\r\n%b\r\n" % (target.encode(), fields.http1))
        while self._message is None:
            await self._wait()

    @property
    def status(self) -> int:
        assert self._message is not None
        return self._message.status

    @property
    def headers(self) -> dict[str, str]:
        assert self._message is not None
        return self._message.headers

    async def readany(self) -> bytes:
        message = self._message
        assert message is not None
        while not message.body:
            if self._is_whole:
                return b""
            try:
                await self._wait()
            except _Cut as cut:
                raise ConnectionFailed(f"the connection broke: {cut}", was_sent=True) from None
        part = bytes(message.body)
        message.body.clear()
        if self._is_paused and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()
        return part

    def close(self) -> None:
        """Close immediately: a graceful close would wait for a server that may have stopped answering."""
        if self.transport is not None:
            self.transport.abort()


class ReadConnections:
    """As many connections as there are concurrent reads; those read to their end are reused."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._idle: list[ReadConnection] = []
        self._busy: set[ReadConnection] = set()
        self._context: object = None

    @contextlib.asynccontextmanager
    async def get(self, target: str, fields: HeaderFields) -> AsyncIterator[Reading]:
        """Send a GET and return the response before its body has arrived."""
        connection = await self._asked(target, fields)
        try:
            yield connection
        finally:
            self._busy.discard(connection)
            if connection.may_be_kept:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle.append(connection)
            else:
                connection.close()

    async def _asked(self, target: str, fields: HeaderFields) -> ReadConnection:
        while True:
            connection, is_reused = await self._take()
            self._busy.add(connection)
            try:
                await connection.ask(target, fields)
                return connection
            except _Cut as cut:
                self._busy.discard(connection)
                if is_reused:  # closed by the server; a read may be repeated
                    continue
                raise ConnectionFailed(
                    f"GET {self._connector.where}: the connection broke: {cut}", was_sent=True
                ) from None
            except BaseException:
                self._busy.discard(connection)
                connection.close()
                raise

    async def _take(self) -> tuple[ReadConnection, bool]:
        context = self._connector.context()
        if context is not self._context:  # opened with another identity
            self._close_idle()
            self._context = context
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and now - connection.idle_since < IDLE_S:
                return connection, True
            connection.close()
        return await self._connector.connect(context, lambda _: ReadConnection()), False

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def close(self) -> None:
        """Close all connections; reads under way fail."""
        self._close_idle()
        for connection in self._busy:
            connection.close()
        await asyncio.sleep(0)  # one turn of the loop lets the transports run their connection_lost


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the kernel find a dead peer within a minute, which looks like a watch without events."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE:
            option = getattr(socket, name, None)
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
