"""A machine that breaks connections in every way it can think of: each request is answered or fails by its deadline.

The pool and its connections are real. The network is paper: the machine decides when a connection opens, what its
server says, and what time it is.
"""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.net import http2
from mooring.net.connect import HeaderFields, HttpAnswer
from mooring.net.errors import ConnectionFailed
from mooring.net.http2 import encode_field, frame
from mooring.net.pool import ConnectionPool

FIELDS = HeaderFields("example.com", [("Accept", "application/json")])


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that never waits: its time is set by hand."""

    now = 1000.0

    def time(self) -> float:
        return self.now


class PaperTransport:
    """The network's end of a connection. ``abort`` is heard a turn later, as with a socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any) -> None:
        self._loop, self.protocol, self._is_closing = loop, protocol, False
        self.is_lost = False

    def write(self, data: bytes) -> None:
        assert data

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self.lose, None)

    def lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self._is_closing = self.is_lost = True
            self.protocol.connection_lost(error)

    def says(self, data: bytes) -> None:
        self._loop.call_soon(self._hear, data)

    def _hear(self, data: bytes) -> None:
        if not self._is_closing:
            self.protocol.data_received(data)

    def cut(self, error: Exception | None) -> None:
        self._loop.call_soon(self.lose, error)


class PaperConnector:
    """Connections that open, or do not, when the machine says so. Nothing bounds how long that takes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.where, self.tls, self.identity = "example.com:443", object(), object()
        self.knocks: list[asyncio.Future[str]] = []
        self.transports: list[PaperTransport] = []

    def context(self) -> Any:
        if self.identity is None:
            raise ConnectionFailed("no certificate can be read", was_sent=False)
        return self.identity

    async def connect(self, context: Any, speaking: Any) -> Any:
        knock: asyncio.Future[str] = self._loop.create_future()
        self.knocks.append(knock)
        connection = speaking(await knock)
        transport = PaperTransport(self._loop, connection)
        connection.connection_made(transport)
        self.transports.append(transport)
        try:
            await connection.begin()
        except ConnectionResetError as error:
            raise ConnectionFailed(str(error), was_sent=False) from None
        return connection


PAYLOADS = st.sampled_from(
    [
        b"",
        encode_field(":status", "201"),
        encode_field(":status", "409"),
        encode_field(":status", "409") + b"\xff\xff",  # fields that do not decode
        b"\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x07",
        b"\0\0\0\0\0\0\0\0",
        b"\x7f\xff\xff\xff",
    ]
)
KINDS = st.sampled_from([http2.DATA, http2.HEADERS, http2.RST_STREAM, http2.CONTINUATION, http2.WINDOW_UPDATE])
FLAGS = st.sampled_from([0, http2.END_STREAM, http2.END_HEADERS, http2.END_STREAM | http2.END_HEADERS])
FRAMES = st.builds(
    frame,
    st.integers(0, 10),
    st.sampled_from([0, 1, 4, 5, 8, 9, 12, 13, 0x24, 0xFF]),
    st.sampled_from([0, 1, 3, 5, 7, 9, 2**31 - 1]),
    PAYLOADS | st.binary(max_size=12),
)
LINES = st.sampled_from(
    [
        b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nno",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"what?\r\n\r\n",
        b"H",
    ]
)


class Requests(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.complaints: list[Any] = []
        self.loop.set_exception_handler(lambda loop, context: self.complaints.append(context))
        self.connector = PaperConnector(self.loop)
        self.pool = ConnectionPool(self.connector, max_connections=2, batch=2)  # type: ignore[arg-type]
        self.sent: list[tuple[float, asyncio.Task[HttpAnswer]]] = []

    def settle(self) -> None:
        async def turns() -> None:
            for _ in range(8):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def teardown(self) -> None:
        """Whatever the connections are doing, time ends every request."""
        try:
            for _ in range(3):  # a request that was surely not looked at is sent again, up to three times
                self.loop.now += 100.0
                self.settle()
            assert all(task.done() for _, task in self.sent), "a request that stays pending for ever"
            assert not self.pool._asked
            self.loop.run_until_complete(self.pool.close())
            self.settle()
        finally:
            for knock in self.connector.knocks:
                knock.cancel()
            for _, task in self.sent:
                if not task.done():
                    task.cancel()
                elif not task.cancelled():
                    task.exception()
            self.settle()
            self.loop.close()

    @initialize(protocol=st.sampled_from(["h2", "http/1.1", None]), requests=st.integers(1, 3))
    def begin(self, protocol: str | None, requests: int) -> None:
        """Mostly a connection is open, and requests are under way."""
        for _ in range(requests):
            self.send("POST", 3, 5.0, fences=False, opens=False)
        if protocol is not None:
            self._opens(self._knocks()[0], protocol, greets=True)

    # What callers do

    @rule(
        method=st.sampled_from(["GET", "POST", "PUT"]),
        size=st.sampled_from([0, 3, 70_000]),
        timeout_s=st.sampled_from([0.5, 5.0, 60.0]),
        fences=st.sampled_from([False, False, False, True]),
        opens=st.booleans(),
    )
    def send(self, method: str, size: int, timeout_s: float, fences: bool, opens: bool) -> None:
        asking = self.pool.send(method, b"/x", FIELDS, b"x" * size, timeout_s, lambda: fences)
        self.sent.append((self.loop.now + timeout_s, self.loop.create_task(asking)))
        self.settle()
        if opens and self._knocks():
            self._opens(self._knocks()[0], "h2", greets=True)

    @rule(data=st.data())
    @precondition(lambda self: self.sent)
    def cancel(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.sent))[1].cancel()
        self.settle()

    @rule(seconds=st.sampled_from([0.1, 0.6, 6.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.loop.now += seconds
        self.settle()

    @rule(can_be_read=st.booleans())
    def another_identity(self, can_be_read: bool) -> None:
        self.connector.identity = object() if can_be_read else None  # type: ignore[assignment]

    # What the network does

    def _knocks(self) -> list[asyncio.Future[str]]:
        return [knock for knock in self.connector.knocks if not knock.done()]

    @rule(protocol=st.sampled_from(["h2", "h2", "http/1.1"]), greets=st.booleans(), data=st.data())
    @precondition(lambda self: self._knocks())
    def a_connection_opens(self, protocol: str, greets: bool, data: st.DataObject) -> None:
        self._opens(data.draw(st.sampled_from(self._knocks())), protocol, greets)

    def _opens(self, knock: asyncio.Future[str], protocol: str, greets: bool) -> None:
        knock.set_result(protocol)
        self.settle()
        if protocol == "h2" and greets:
            self.connector.transports[-1].says(frame(http2.SETTINGS, 0, 0))
        self.settle()

    @rule(data=st.data())
    @precondition(lambda self: self._knocks())
    def a_connection_fails(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self._knocks())).set_exception(ConnectionFailed("refused", was_sent=False))
        self.settle()

    def _alive(self) -> list[PaperTransport]:
        return [transport for transport in self.connector.transports if not transport.is_lost]

    @rule(data=st.data())
    @precondition(lambda self: self._alive())
    def a_server_speaks(self, data: st.DataObject) -> None:
        transport = data.draw(st.sampled_from(self._alive()))
        for said in data.draw(st.lists(FRAMES | LINES | st.binary(max_size=9), min_size=1, max_size=4)):
            transport.says(said)
        self.settle()

    @rule(said=st.lists(st.tuples(KINDS, FLAGS, PAYLOADS), min_size=1, max_size=3), data=st.data())
    @precondition(lambda self: self._streams())
    def a_server_speaks_of_a_request(self, said: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
        transport, stream = data.draw(st.sampled_from(self._streams()))
        for kind, flags, payload in said:
            transport.says(frame(kind, flags, stream, payload))
        self.settle()

    def _streams(self) -> list[tuple[PaperTransport, int]]:
        return [(each, number) for each in self._alive() for number in getattr(each.protocol, "_streams", ())]

    @rule(is_reset=st.booleans(), data=st.data())
    @precondition(lambda self: self._alive())
    def a_connection_is_cut(self, is_reset: bool, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self._alive())).cut(ConnectionResetError() if is_reset else None)
        self.settle()

    # What must hold

    @invariant()
    def every_request_has_ended_by_its_deadline(self) -> None:
        late = [task for deadline, task in self.sent if deadline <= self.loop.now and not task.done()]
        assert not late, "a request outlived its deadline"

    @invariant()
    def nothing_failed_in_a_callback(self) -> None:
        assert not self.complaints, self.complaints


Requests.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
test_every_request_ends = Requests.TestCase
