"""Connections for the hot writes: bind, status patch, events. Small bodies, many of them, one answer each.

A general HTTP client spends more on a small POST than the scheduler spends on deciding where the pod goes. This pool
does only what those writes need: HTTP/1.1 with keep-alive, a bounded number of connections, and a deadline for each
request.

```
send ──▶ the queue, first come first served ──▶ a connection that has nothing under way: one write for a few requests
```

When more requests wait than connections can be had, they share connections and writes, ``batch`` of them at most:
writing and reading cost more per call than per request. The server answers those of one connection one after the other,
so a slow answer delays only requests that would have waited anyway. A connection is given no more before all its
answers are there.

A request is sent a second time only if that is safe: when nothing of it was written, when the server said that it would
close the connection before its turn came, or when it is a read. A POST whose connection died after it was written may
have been carried out. Its caller is told so: ``ConnectionFailed.was_sent``.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

from mooring.client.errors import ConnectionFailed, Fenced, RequestTimeout, Unreachable
from mooring.http1 import BadMessage, Message, MessageReader

MAX_ANSWER_BYTES = 64 << 20
IDLE_S = 60.0
"""A connection that was idle for longer is not used again: API servers close idle connections after a few minutes."""
BATCH = 4
"""How many requests a connection is given at once: those behind the first wait for its answer."""


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


class _Request:
    """What is to be sent, until when, and the future of its answer."""

    __slots__ = ("answer", "data", "deadline", "is_fenced", "on_reused")

    def __init__(
        self, data: bytes, deadline: float, is_fenced: Callable[[], bool], answer: asyncio.Future[Answer]
    ) -> None:
        self.data = data
        self.deadline = deadline
        self.is_fenced = is_fenced
        self.answer = answer
        self.on_reused = False  # whether its connection had carried others before

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class _Connection(asyncio.Protocol):
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

    def __init__(self, on_free: Callable[[_Connection], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_open = False
        self.is_used = False
        self.keep_alive = True
        self.idle_since = 0.0
        self.under_way: deque[_Request] = deque()
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
            # An answer without a request: the next answer might be taken for that of another request.
            self.close()
            return
        answer = self.under_way.popleft().answer
        if not answer.done():
            answer.set_result(Answer(message.status, message.headers, bytes(message.body)))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._reader.close()
        why = self._failure or str(exc or "the server closed the connection")
        for request in self.under_way:
            # A server that announced that it closes carries out nothing that comes after that answer.
            request.fail(_Broken(why, written=self.keep_alive))
        self.under_way.clear()
        self._on_free(self)

    # What the pool calls

    @property
    def is_usable(self) -> bool:
        return self.is_open and self.transport is not None and not self.transport.is_closing()

    def send(self, requests: list[_Request]) -> None:
        """Write requests, all at once."""
        assert self.transport is not None
        for request in requests:
            request.on_reused = self.is_used
        self.is_used = True
        self.under_way.extend(requests)
        self.transport.write(requests[0].data if len(requests) == 1 else b"".join([each.data for each in requests]))

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
        batch: int = BATCH,
        connect_timeout_s: float = 30.0,
    ) -> None:
        self._host = host
        self._port = port
        self._where = f"{host}:{port}"
        self._tls = tls
        self._server_name = server_name or host
        self._max_connections = max_connections
        self._batch = batch
        self._connect_timeout_s = connect_timeout_s
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._opening: set[asyncio.Task[_Connection]] = set()
        self._queue: deque[_Request] = deque()
        self._is_dispatching = False  # the queue is looked at before this turn of the event loop ends
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = float("inf")
        self._context: ssl.SSLContext | None = None
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        """How many requests are on the wire."""
        return sum(len(connection.under_way) for connection in self._open)

    @property
    def waiting(self) -> int:
        """How many requests wait for a connection."""
        return sum(not request.answer.done() for request in self._queue)

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
        data = head + body
        for _ in range(3):
            if self._is_closed:
                raise ConnectionFailed(f"{method} to {self._where}: the client is closed", was_sent=False)
            request = _Request(data, deadline, is_fenced, loop.create_future())
            self._enqueue(loop, request)
            try:
                return await request.answer
            except _Broken as broken:
                is_safe = not broken.written or (request.on_reused and method in ("GET", "HEAD"))
                if not is_safe:
                    raise ConnectionFailed(f"{method} to {self._where}: {broken}", was_sent=broken.written) from None
            except asyncio.CancelledError:
                self._close_forsaken()
                raise
        why = "connections break before they can be used"
        raise ConnectionFailed(f"{method} to {self._where}: {why}", was_sent=False)

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for connection in list(self._open):
            connection.close()
        self._open.clear()
        self._idle.clear()
        for request in self._queue:
            request.fail(_Broken("the client is closed", written=False))
        self._queue.clear()
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        # One turn of the loop lets the transports run their connection_lost.
        await asyncio.sleep(0)

    # The queue

    def _enqueue(self, loop: asyncio.AbstractEventLoop, request: _Request) -> None:
        self._queue.append(request)
        if not self._is_dispatching:
            self._is_dispatching = True
            loop.call_soon(self._dispatch, loop)
        if request.deadline < self._alarm_at:
            self._set_alarm(loop, request.deadline)

    def _dispatch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give what waits to connections that have nothing under way, and open more where there are too few."""
        self._is_dispatching = False
        queue = self._queue
        lanes = len(self._idle) + self._max_connections - len(self._open)
        size = min(self._batch, -(-len(queue) // max(1, lanes)))
        while queue:
            try:
                connection = self._take_idle(loop.time())
            except ConnectionFailed as error:  # no certificate can be read
                self._fail_all(error)
                return
            if connection is None:
                wanted = -(-len(queue) // size) - len(self._opening)
                room = self._max_connections - len(self._open) - len(self._opening)
                for _ in range(min(wanted, room)):
                    self._open_one(loop)
                return
            requests = self._next(queue, size)
            if requests:
                connection.send(requests)
            else:
                self._idle.append(connection)

    def _next(self, queue: deque[_Request], size: int) -> list[_Request]:
        """Take the next few requests that somebody still waits for."""
        requests: list[_Request] = []
        while queue and len(requests) < size:
            request = queue.popleft()
            if request.answer.done():
                continue
            if request.is_fenced():
                request.fail(Fenced())
            else:
                requests.append(request)
        return requests

    def _fail_all(self, error: BaseException) -> None:
        while self._queue:
            self._queue.popleft().fail(error)

    # Deadlines: one timer for all requests, which is seldom set anew

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = loop.call_at(when, self._ring, loop), when

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail requests whose time is over, and set the alarm to the next deadline."""
        self._alarm, self._alarm_at = None, float("inf")
        now = loop.time()
        for connection in list(self._open):
            if any(request.deadline <= now for request in connection.under_way):
                for request in connection.under_way:
                    if request.deadline <= now:
                        request.fail(RequestTimeout(f"no answer from {self._where} in time", was_sent=True))
                connection.close()  # the answer may still come, so nobody else may use this connection
        for request in self._queue:
            if request.deadline <= now:
                text = f"no connection to {self._where} became free in time"
                request.fail(RequestTimeout(text, was_sent=False))
        ahead = [request.deadline for request in self._queue if not request.answer.done()]
        ahead += [request.deadline for each in self._open for request in each.under_way if not request.answer.done()]
        if ahead:
            self._set_alarm(loop, min(ahead))

    def _close_forsaken(self) -> None:
        """Close connections whose answers nobody waits for any more."""
        for connection in list(self._open):
            if connection.under_way and all(request.answer.done() for request in connection.under_way):
                connection.close()

    # Connections

    def _freed(self, connection: _Connection) -> None:
        """A connection has nothing under way any more, or is no more."""
        loop = asyncio.get_running_loop()
        if connection.keep_alive and connection.is_open and not self._is_closed:
            connection.idle_since = loop.time()
            self._idle.append(connection)
        else:
            self._open.discard(connection)
            connection.close()
        if self._queue and not self._is_dispatching:
            self._is_dispatching = True
            loop.call_soon(self._dispatch, loop)

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
            if connection.is_usable and now - connection.idle_since < IDLE_S:
                return connection
            self._open.discard(connection)
            connection.close()
        return None

    def _open_one(self, loop: asyncio.AbstractEventLoop) -> None:
        task = loop.create_task(self._opened(loop), name=f"connect to {self._where}")
        self._opening.add(task)
        task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[_Connection]) -> None:
        """Use a new connection for what waits. If there is none at all, what waits is told why."""
        self._opening.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._open.add(task.result())
            self._freed(task.result())
        elif not self._open:
            self._fail_all(error)

    async def _opened(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        where, context = self._where, self._context
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                transport, connection = await loop.create_connection(
                    lambda: _Connection(self._freed), self._host, self._port
                )
                if context is not None:
                    await self._secure(loop, transport, connection, context)
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
        return connection

    async def _secure(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        connection: _Connection,
        context: ssl.SSLContext,
    ) -> None:
        """Speak TLS from now on. A step of its own: asyncio forgets a socket that is given up between the two."""
        try:
            secured = await loop.start_tls(transport, connection, context, server_hostname=self._server_name)
        except BaseException:
            transport.abort()
            raise
        if secured is None:
            raise ConnectionResetError("the server closed the connection")
        connection.connection_made(secured)
