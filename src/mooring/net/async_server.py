"""An HTTP/1.1 server in an event loop: for the embedded API server and the page, whose answers stream or wait.

One task serves one connection. It carries out requests one after the other, because clients may pipeline them. A
request is handled as soon as its headers have arrived, so that it can be rejected before its body. When the client
disconnects, the task is cancelled wherever it is: a watch ends immediately and not at its next event.

``server`` does the same with threads, for handlers that block.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, cast

from mooring.net.http1 import BadMessage, Message, MessageReader, can_inflate, inflate
from mooring.net.http_io import MAX_PIPELINED, Refused, head_of, refusal_of

log = logging.getLogger("mooring.net.server")

BACKLOG = 512
IDLE_S = 90.0  # between requests, and until the headers of one have arrived
BODY_S = 30.0
LINGER_S = 10.0
ACCEPTING_TURNS = 3
"""Turns of the loop that asyncio needs for a new connection: it is accepted, gets its transport, and its protocol."""


class AnswerStream(Protocol):
    """A response body that is streamed."""

    async def read(self) -> bytes:
        """Return the next part; empty at the end."""
        ...

    def close(self) -> None:
        """Release resources; called once when reading ends for any reason."""
        ...


@dataclass(slots=True)
class ServedAnswer:
    """Response of a handler. With ``is_last`` the connection is closed after it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes | AnswerStream
    is_last: bool = False


class ServedRequest:
    """A request whose headers have arrived; its body may still be on the way."""

    __slots__ = ("_connection", "message")

    def __init__(self, message: Message, connection: ServedConnection) -> None:
        self.message = message
        self._connection = connection

    async def read(self) -> bytes:
        """Return the whole body, uncompressed; raise Refused if it is too large, too slow, or does not match its
        headers.
        """
        await self._connection.wait_for_body(self.message)
        encoding = self.message.headers.get("content-encoding", "").strip().lower()
        if not can_inflate(encoding):
            return bytes(self.message.body)
        try:
            return bytes(inflate(self.message.body, encoding, self._connection.server.max_body_bytes))
        except BadMessage as error:
            raise refusal_of(error) from None

    def cut(self) -> None:
        """Close the connection that brought the request."""
        self._connection.abort()


class AsyncServer:
    """Listens, and passes every request to ``handle``. ``refuse`` makes the response to an invalid request."""

    def __init__(
        self,
        handle: Callable[[ServedRequest], Awaitable[ServedAnswer]],
        refuse: Callable[[Refused], ServedAnswer],
        *,
        max_body_bytes: int,
    ) -> None:
        self.handle = handle
        self.refuse = refuse
        self.max_body_bytes = max_body_bytes
        self.is_closing = False
        self.connections: set[ServedConnection] = set()
        self._listeners: list[asyncio.Server] = []

    async def listen(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """Listen and return the address; raise OSError if that fails."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: ServedConnection(self), host, port, ssl=tls, backlog=BACKLOG)
        self._listeners.append(listener)
        address = listener.sockets[-1].getsockname()
        return address[0], address[1]

    async def close(self, drain_s: float = 1.0) -> None:
        """Stop accepting, let responses in flight finish for ``drain_s``, and drop the remaining connections.

        They are dropped without a TLS close: waiting for a peer that is slow or gone would leave the socket open for
        longer than the loop lives.
        """
        self.is_closing = True
        await self._accept_no_more()
        for listener in self._listeners:
            listener.close()
        for connection in list(self.connections):
            if connection.is_waiting:
                connection.abort()
        if busy := [connection.task for connection in self.connections if not connection.is_waiting]:
            await asyncio.wait(busy, timeout=drain_s)
        left = list(self.connections)
        for connection in left:
            connection.abort()
            connection.task.cancel()
        await asyncio.gather(*(connection.task for connection in left), return_exceptions=True)
        await asyncio.sleep(0)  # sockets are closed in the loop's next turn

    async def _accept_no_more(self) -> None:
        """Let connections that are being accepted complete: closing the server would lose their sockets."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for listener in self._listeners:
                for listening in listener.sockets:
                    loop.remove_reader(listening)
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)


class ServedConnection(asyncio.Protocol):
    """A client. The loop calls the protocol's methods, and ``task`` reads the collected bytes.

    Of the requests that were read, the first in ``_reader.complete`` is the one that is being carried out, or the one
    in ``_reader.arriving`` if its body is not there yet. It is taken out when its answer is sent.
    """

    def __init__(self, server: AsyncServer) -> None:
        self.server = server
        self.task: asyncio.Task[None]
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._reader = MessageReader(reads_answers=False, max_body_bytes=server.max_body_bytes)
        self._failure: BadMessage | None = None  # why reading has ended
        self._is_paused = False
        self._news: asyncio.Future[None] | None = None  # resolved when more bytes arrive; the task waits for it
        self._room: asyncio.Future[None] | None = None  # resolved when the client has taken bytes; None: no need
        self._waits_since: float | None = self._loop.time()  # start of the wait for a request; None: there is one
        self._timer: asyncio.TimerHandle | None = None

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass of asyncio's
        self.server.connections.add(self)
        self.task = self._loop.create_task(self._serve())
        self._timer = self._loop.call_later(IDLE_S, self._look)

    def data_received(self, data: bytes) -> None:
        if self._failure is None:
            try:
                self._reader.feed(data)
            except BadMessage as error:
                self._failure = error
        if len(self._reader.complete) >= MAX_PIPELINED and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        self._reader.close()
        self.task.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Close a connection that is idle for too long. One timer serves all of its requests."""
        since, now = self._waits_since, self._loop.time()
        if since is not None and now - since >= IDLE_S:
            self._transport.close()
        else:
            self._timer = self._loop.call_at((now if since is None else since) + IDLE_S, self._look)

    # What others call

    @property
    def is_waiting(self) -> bool:
        return self._waits_since is not None

    def abort(self) -> None:
        self._transport.abort()

    async def wait_for_body(self, message: Message) -> None:
        if self._is_whole(message):
            return
        if message.headers.get("expect", "").lower() == "100-continue" and not message.body:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(BODY_S):
                while not self._is_whole(message):
                    if self._failure is not None:
                        raise refusal_of(self._failure)
                    await self._wait()
        except TimeoutError:
            raise Refused(408, f"the request body did not arrive within {BODY_S:.0f}s") from None

    # The task

    async def _serve(self) -> None:
        try:
            keeps_alive = True
            while keeps_alive and (message := await self._next()) is not None:
                keeps_alive = await self._carry_out(message)
            if keeps_alive and self._failure is not None:  # there was no request to answer
                answer = self.server.refuse(refusal_of(self._failure))
                await self._send(answer, None, closes=True)
            if self._failure is not None or self._reader.arriving is not None:
                await self._linger()
        except (asyncio.CancelledError, ConnectionError):
            pass  # the client disconnected, or the server is closing
        finally:
            self._transport.close()

    async def _next(self) -> Message | None:
        """Return the next request; None at the end of the readable input."""
        reader = self._reader
        while not self.server.is_closing:
            if reader.complete:
                return reader.complete[0]
            if reader.arriving is not None and reader.arriving.has_head:
                return reader.arriving
            if self._failure is not None:
                return None
            await self._wait()
        return None

    async def _wait(self) -> None:
        self._news = self._loop.create_future()
        await self._news

    def _is_whole(self, message: Message) -> bool:
        return bool(self._reader.complete) and self._reader.complete[0] is message

    async def _carry_out(self, message: Message) -> bool:
        """Answer a request, and report whether the connection can be used for another."""
        self._waits_since = None
        reader = self._reader
        try:
            answer = await self.server.handle(ServedRequest(message, self))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("a request failed: %s %s", message.method, message.target[:200])
            answer = self.server.refuse(Refused(500, "the server failed; its log says why"))
        is_read = self._is_whole(message)
        if is_read:
            reader.complete.popleft()
            if self._is_paused and len(reader.complete) < MAX_PIPELINED:
                self._is_paused = False
                self._transport.resume_reading()
        can_go_on = self._failure is None or bool(reader.complete)  # not after an unknown Upgrade
        keeps_alive = is_read and can_go_on and message.keeps_alive and not answer.is_last
        keeps_alive = keeps_alive and not self.server.is_closing
        await self._send(answer, message, closes=not keeps_alive)
        self._waits_since = self._loop.time()
        return keeps_alive

    async def _send(self, answer: ServedAnswer, message: Message | None, *, closes: bool) -> None:
        if not isinstance(answer.body, bytes):
            assert message is not None
            await self._send_stream(answer, answer.body, message, closes=closes)
            return
        length = ("Content-Length", str(len(answer.body)))
        head = head_of(answer.status, [*answer.headers, length], message, closes=closes)
        is_head = message is not None and message.method == "HEAD"
        self._transport.write(head if is_head else head + answer.body)
        await self._drain()

    async def _send_stream(self, answer: ServedAnswer, parts: AnswerStream, message: Message, *, closes: bool) -> None:
        # HTTP/1.0 knows no chunks: there the end of the connection is the end of the answer.
        is_chunked, has_body = message.version != "1.0", message.method != "HEAD"
        framing: Iterable[tuple[str, str]] = [("Transfer-Encoding", "chunked")] if is_chunked else []
        try:
            head = head_of(answer.status, [*answer.headers, *framing], message, closes=closes or not is_chunked)
            self._transport.write(head)
            while has_body and (part := await parts.read()):
                self._transport.write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
                await self._drain()
            if not is_chunked:
                self._transport.close()
            elif has_body:
                self._transport.write(b"0\r\n\r\n")
        finally:
            parts.close()

    async def _drain(self) -> None:
        """Wait while the client is slow to read the response."""
        if self._transport.is_closing():
            raise ConnectionResetError("the client disconnected")
        if self._room is not None:
            await self._room

    async def _linger(self) -> None:
        """Keep reading for a while: closing while the client sends would make its kernel drop the response."""
        self._failure = self._failure or BadMessage("not read")
        with contextlib.suppress(OSError):
            if self._transport.can_write_eof():
                self._transport.write_eof()
        await asyncio.sleep(LINGER_S)  # cancelled when the client closes
