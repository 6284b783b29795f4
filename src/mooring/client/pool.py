"""Connections for the hot writes: bind, status patch, events. Small bodies, many of them, one answer each.

A general HTTP client spends more on a small POST than the scheduler spends on deciding where the pod goes. This pool
does only what those writes need: HTTP/1.1 with keep-alive, one request at a time per connection, a bounded number of
connections (further callers wait their turn, first come first served), and a deadline for each request.

A request is sent a second time only if that is safe: when nothing of it was written, or when it is a read. A POST whose
connection died after it was written may have been carried out. Its caller is told so: ``ConnectionFailed.was_sent``.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from mooring.client.errors import ConnectionFailed, Fenced, RequestTimeout, Unreachable
from mooring.http1 import BadMessage, Message, MessageReader

MAX_ANSWER_BYTES = 64 << 20
IDLE_S = 60.0
"""A connection that was idle for longer is not used again: API servers close idle connections after a few minutes."""


class Answer(NamedTuple):
    """An HTTP answer: headers have lower-case names."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Broken(Exception):
    """The connection died; ``written`` says whether the server may have seen the request."""

    def __init__(self, why: str, *, written: bool) -> None:
        super().__init__(why)
        self.written = written


class _Connection(asyncio.Protocol):
    __slots__ = (
        "_answer",
        "_failure",
        "_loop",
        "_reader",
        "idle_since",
        "is_open",
        "keep_alive",
        "transport",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.transport: asyncio.Transport | None = None
        self.is_open = False
        self.keep_alive = True
        self.idle_since = 0.0
        self._reader = MessageReader(reads_answers=True, max_body_bytes=MAX_ANSWER_BYTES)
        self._answer: asyncio.Future[Answer] | None = None
        self._failure: str | None = None

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
        while complete:
            self._take(complete.popleft())

    def _take(self, message: Message) -> None:
        if not message.keeps_alive:
            self.keep_alive = False
        answer, self._answer = self._answer, None
        if answer is None:
            # An answer without a request: the next answer might be taken for that of another request.
            self.close()
        elif not answer.done():
            answer.set_result(Answer(message.status, message.headers, bytes(message.body)))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._reader.close()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(_Broken(self._failure or str(exc or "the server closed the connection"), written=True))

    # What the pool calls

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        answer: asyncio.Future[Answer] = self._loop.create_future()
        if not self.is_open or self.transport is None or self.transport.is_closing():
            answer.set_exception(_Broken("the connection was closed while idle", written=False))
            return answer
        self._answer = answer
        self.transport.write(request)
        return answer

    def close(self) -> None:
        self.is_open = False
        if self.transport is not None:
            # A connection given up has nothing worth flushing.
            self.transport.abort()


class ConnectionPool:
    """At most ``max_connections`` connections to one server, kept open between requests."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        server_name: str = "",
        max_connections: int = 32,
        connect_timeout_s: float = 30.0,
    ) -> None:
        self._host = host
        self._port = port
        self._where = f"{host}:{port}"
        self._tls = tls
        self._server_name = server_name or host
        self._max_connections = max_connections
        self._connect_timeout_s = connect_timeout_s
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._busy = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._context: ssl.SSLContext | None = None
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        """How many requests are on the wire."""
        return self._busy

    @property
    def waiting(self) -> int:
        """How many callers wait for a connection."""
        return len(self._waiters)

    async def send(
        self,
        method: str,
        head: bytes,
        body: bytes,
        timeout_s: float,
        is_fenced: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """Send one request and wait for its answer; ``head`` ends with the empty line.

        ``is_fenced`` is asked when a connection is there, right before the request is written.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        if self._busy >= self._max_connections or self._waiters:
            await self._turn(loop, deadline)
        else:
            self._busy += 1
        try:
            return await self._send(loop, method, head + body, deadline, is_fenced)
        finally:
            self._busy -= 1
            self._wake()

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._is_closed = True
        for connection in list(self._open):
            connection.close()
        self._open.clear()
        self._idle.clear()
        # One turn of the loop lets the transports run their connection_lost.
        await asyncio.sleep(0)

    async def _turn(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout_at(deadline):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                # Our turn came just as we gave up: hand it on.
                self._busy -= 1
                self._wake()
            else:
                waiter.cancel()
            if isinstance(error, TimeoutError):
                raise RequestTimeout(f"no connection to {self._where} became free in time", was_sent=False) from None
            raise

    def _wake(self) -> None:
        while self._waiters and self._busy < self._max_connections:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._busy += 1
                waiter.set_result(None)

    async def _send(
        self,
        loop: asyncio.AbstractEventLoop,
        method: str,
        request: bytes,
        deadline: float,
        is_fenced: Callable[[], bool],
    ) -> Answer:
        for _ in range(3):
            connection = self._take_idle(loop.time())
            reused = connection is not None
            if connection is None:
                connection = await self._connect(loop, deadline)
            if is_fenced():
                self._put_back(loop, connection)
                raise Fenced
            try:
                return await self._exchange(loop, connection, request, deadline)
            except _Broken as broken:
                is_safe = not broken.written or (reused and method in ("GET", "HEAD"))
                if not is_safe:
                    raise ConnectionFailed(f"{method} to {self._where}: {broken}", was_sent=broken.written) from None
        why = "connections break before they can be used"
        raise ConnectionFailed(f"{method} to {self._where}: {why}", was_sent=False)

    async def _exchange(
        self, loop: asyncio.AbstractEventLoop, connection: _Connection, request: bytes, deadline: float
    ) -> Answer:
        answer = connection.send(request)
        timer = loop.call_at(deadline, _expire, answer, self._where)
        try:
            result = await answer
        except _Broken:
            self._open.discard(connection)
            raise
        except BaseException:
            # Cancelled or too late: the answer may still come, so this connection cannot be used again.
            self._open.discard(connection)
            connection.close()
            raise
        finally:
            timer.cancel()
        self._put_back(loop, connection)
        return result

    def _put_back(self, loop: asyncio.AbstractEventLoop, connection: _Connection) -> None:
        """Keep a connection that can be used again."""
        if connection.keep_alive and connection.is_open and not self._is_closed:
            connection.idle_since = loop.time()
            self._idle.append(connection)
        else:
            self._open.discard(connection)
            connection.close()

    def _take_idle(self, now: float) -> _Connection | None:
        context = self._tls() if self._tls is not None else None
        if context is not self._context:
            # The identity changed: what was opened with the old one is not used again.
            self._context = context
            for connection in self._idle:
                self._open.discard(connection)
                connection.close()
            self._idle.clear()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.idle_since < IDLE_S:
                return connection
            self._open.discard(connection)
            connection.close()
        return None

    async def _connect(self, loop: asyncio.AbstractEventLoop, deadline: float) -> _Connection:
        where = self._where
        tls: dict[str, Any] = {}
        if self._context is not None:
            tls = {"ssl": self._context, "server_hostname": self._server_name}
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + self._connect_timeout_s)):
                _, connection = await loop.create_connection(lambda: _Connection(loop), self._host, self._port, **tls)
        except TimeoutError:
            raise RequestTimeout(f"cannot connect to {where}: no answer in time", was_sent=False) from None
        except ssl.SSLCertVerificationError as error:
            raise ConnectionFailed(
                f"{where}: the server's certificate is not trusted: {error.verify_message}", was_sent=False
            ) from None
        except ssl.SSLError as error:
            raise ConnectionFailed(f"cannot connect to {where}: {error.strerror or error}", was_sent=False) from None
        except OSError as error:
            raise Unreachable(f"cannot connect to {where}: {error.strerror or error}") from None
        self._open.add(connection)
        return connection


def _expire(answer: asyncio.Future[Answer], where: str) -> None:
    if not answer.done():
        answer.set_exception(RequestTimeout(f"no answer from {where} in time", was_sent=True))
