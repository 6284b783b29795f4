"""A connection of HTTP/1.1: a few requests in one write, their answers one after the other, and then the next few."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from mooring.net import wire
from mooring.net.http1 import BadMessage, Message, MessageReader
from mooring.net.wire import Broken, HttpAnswer, HttpRequest


class Http1Connection(asyncio.Protocol):
    """``on_free`` is told when all answers are there, and when the connection is no more."""

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
        self._reader = MessageReader(reads_answers=True, max_body_bytes=wire.MAX_ANSWER_BYTES)
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
            answer.set_result(HttpAnswer(message.status, message.headers, bytes(message.body)))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._reader.close()
        why = self._failure or str(exc or "the server closed the connection")
        for request in self.under_way:
            # A server that announced that it closes carries out nothing that comes after that answer.
            request.fail(Broken(why, written=self.keep_alive, took_others=not self.keep_alive))
        self.under_way.clear()
        self._on_free(self)

    # What the pool calls

    async def begin(self) -> None:
        """It can be used at once."""

    @property
    def load(self) -> int:
        return len(self.under_way)

    @property
    def is_usable(self) -> bool:
        return self.is_open and self.transport is not None and not self.transport.is_closing()

    def send(self, requests: list[HttpRequest]) -> None:
        """Write requests, all at once."""
        assert self.transport is not None
        for request in requests:
            request.on_reused = self.is_used
        self.is_used = True
        self.under_way.extend(requests)
        self.transport.write(b"".join([_encoded(each) for each in requests]))

    def give_up(self, late: list[HttpRequest]) -> None:
        """Stop waiting for some answers. They may still come, so nobody else may use this connection."""
        self.close()

    def leave_forsaken(self) -> None:
        """End, if nobody waits for an answer any more."""
        if self.under_way and all(request.answer.done() for request in self.under_way):
            self.close()

    def close(self) -> None:
        self.is_open = False
        if self.transport is not None:
            # A connection given up has nothing worth flushing.
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
