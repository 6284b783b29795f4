"""The pool for hot writes: keep-alive, back-pressure, and what is sent twice."""

from __future__ import annotations

import asyncio
import gc
import itertools
import socket
import ssl
from collections.abc import Callable

import pytest
from aiohttp import web

from mooring.net import http1_connection
from mooring.net import pool as pool_module
from mooring.net.connect import Broken, Connector, HeaderFields
from mooring.net.errors import ConnectionFailed, Fenced, RequestTimeout, Unreachable
from mooring.net.pool import ConnectionPool

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nRetry-After: 7\r\n\r\nok"
TLS = ssl.create_default_context()


class Peer(asyncio.Protocol):
    """A server that answers as a script says: one function for each request that arrives."""

    connections: int
    requests: list[bytes]

    def __init__(self, server: Server) -> None:
        self.server = server

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.server.peers.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.ends.append(exc)

    def data_received(self, data: bytes) -> None:
        self.server.requests.append(data)
        script = self.server.script
        (script.pop(0) if script else lambda transport: transport.write(OK))(self.transport)


class Server:
    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.requests: list[bytes] = []
        self.ends: list[Exception | None] = []
        self.script: list[Callable[[asyncio.Transport], object]] = []
        self.port = 0


@pytest.fixture
async def server():
    state = Server()
    listener = await asyncio.get_running_loop().create_server(lambda: Peer(state), "127.0.0.1", 0)
    state.port = listener.sockets[0].getsockname()[1]
    yield state
    for peer in state.peers:
        peer.transport.abort()
    listener.close()
    await listener.wait_closed()


@pytest.fixture
async def pool(server):
    made = ConnectionPool(Connector("127.0.0.1", server.port), max_connections=2, batch=1)
    yield made
    await made.close()


FIELDS = HeaderFields("h", [])


async def send(pool: ConnectionPool, method: str = "POST", body: bytes = b"", timeout_s: float = 60.0):
    return await pool.send(method, b"/x", FIELDS, body, timeout_s)


async def test_a_connection_is_used_again(server, pool):
    for _ in range(3):
        answer = await send(pool, body=b"{}")
        assert (answer.status, answer.body, answer.headers["retry-after"]) == (201, b"ok", "7")
    assert len(server.peers) == 1
    assert pool.in_flight == 0


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([OK[:10], OK[10:-1], OK[-1:]], id="in pieces"),
        pytest.param(
            [b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n", b"0\r\n\r\n"],
            id="chunked",
        ),
        pytest.param([b"HTTP/1.1 100 Continue\r\n\r\n" + OK], id="after an interim answer"),
    ],
)
async def test_answers_are_put_together(server, pool, pieces):
    async def trickle(transport):
        for piece in pieces:
            transport.write(piece)
            await asyncio.sleep(0.001)

    tasks = []
    server.script.append(lambda transport: tasks.append(asyncio.create_task(trickle(transport))))
    assert (await send(pool)).body == b"ok"
    await asyncio.gather(*tasks)
    assert (await send(pool)).body == b"ok"
    assert len(server.peers) == 1


async def test_the_server_may_ask_to_close(server, pool):
    server.script.append(lambda transport: transport.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))
    await send(pool)
    await send(pool)
    assert len(server.peers) == 2


async def test_a_connection_closed_while_idle_is_replaced(server, pool, eventually):
    await send(pool)
    server.peers[0].transport.close()
    await eventually(lambda: not any(connection.is_open for connection in pool._idle))
    assert (await send(pool)).status == 201
    assert len(server.peers) == 2


async def test_a_post_cut_off_after_it_was_written_is_not_sent_again(server, pool):
    await send(pool)
    server.script.append(lambda transport: transport.abort())
    with pytest.raises(ConnectionFailed):
        await send(pool)
    assert len(server.requests) == 2
    assert pool.in_flight == 0


async def test_a_get_on_a_stale_connection_is_sent_again(server, pool):
    await send(pool)
    server.script.append(lambda transport: transport.abort())
    assert (await send(pool, "GET")).status == 201
    assert len(server.requests) == 3


async def test_a_get_on_a_new_connection_is_not(server, pool):
    server.script.append(lambda transport: transport.abort())
    with pytest.raises(ConnectionFailed):
        await send(pool, "GET")
    assert len(server.requests) == 1


async def test_back_pressure_and_order(server, pool, eventually):
    held: list[asyncio.Transport] = []
    server.script.extend([held.append, held.append])
    first = [asyncio.create_task(send(pool)) for _ in range(2)]
    await eventually(lambda: len(held) == 2)
    done: list[int] = []

    async def later(number: int) -> None:
        await send(pool)
        done.append(number)

    rest = [asyncio.create_task(later(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert (pool.in_flight, pool.waiting) == (2, 5)
    held[0].write(OK)
    await asyncio.gather(first[0], *rest)
    assert done == [0, 1, 2, 3, 4]
    assert len(server.peers) == 2
    held[1].write(OK)
    await first[1]
    assert (pool.in_flight, pool.waiting) == (0, 0)


async def test_waiting_for_a_connection_counts_against_the_timeout(server, pool, eventually):
    held: list[asyncio.Transport] = []
    server.script.extend([held.append, held.append])
    first = [asyncio.create_task(send(pool)) for _ in range(2)]
    await eventually(lambda: len(held) == 2)
    with pytest.raises(RequestTimeout):
        await send(pool, timeout_s=0.01)
    for transport in held:
        transport.write(OK)
    await asyncio.gather(*first)
    assert (pool.in_flight, pool.waiting) == (0, 0)


async def test_a_late_answer_does_not_reach_the_next_request(server, pool, eventually):
    await send(pool)  # The connection is open: the next request is written immediately, however slow this machine is.
    held: list[asyncio.Transport] = []
    server.script.append(held.append)
    with pytest.raises(RequestTimeout):
        await send(pool, timeout_s=0.02)
    await eventually(lambda: held)
    held[0].write(OK.replace(b"ok", b"no"))
    assert (await send(pool)).body == b"ok"
    assert len(server.peers) == 2


async def test_a_cancelled_request_frees_its_place(server, pool, eventually):
    held: list[asyncio.Transport] = []
    server.script.extend([held.append] * 2)
    tasks = [asyncio.create_task(send(pool)) for _ in range(3)]
    await eventually(lambda: len(held) == 2)
    tasks[0].cancel()
    tasks[1].cancel()
    assert (await tasks[2]).status == 201
    results = await asyncio.gather(*tasks[:2], return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    assert pool.in_flight == 0


async def test_nonsense_is_a_broken_connection(server, pool):
    server.script.append(lambda transport: transport.write(b"220 smtp.example ESMTP\r\n"))
    with pytest.raises(ConnectionFailed, match="not an HTTP answer"):
        await send(pool)


async def test_an_answer_without_end_is_cut(server, pool, monkeypatch):
    monkeypatch.setattr(http1_connection, "MAX_ANSWER_BYTES", 10)
    server.script.append(
        lambda transport: transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + b"x" * 11)
    )
    with pytest.raises(ConnectionFailed):
        await send(pool)


Script = Callable[[asyncio.Transport], object]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        pytest.param(lambda peer: peer.abort(), ConnectionFailed, id="the connection is reset"),
        pytest.param(lambda peer: peer.close(), ConnectionFailed, id="the connection is closed"),
        pytest.param(lambda peer: (peer.write(OK[:20]), peer.close()), ConnectionFailed, id="half an answer comes"),
        pytest.param(lambda peer: peer.write(b"220 smtp\r\n"), ConnectionFailed, id="the answer is not HTTP"),
        pytest.param(lambda peer: None, RequestTimeout, id="no answer comes in time"),
    ],
)
async def test_a_request_that_was_written_was_sent(server, pool, eventually, script: Script, error):
    await send(pool)  # The connection is open: the next request is written immediately, however slow this machine is.
    server.script.append(script)
    with pytest.raises(ConnectionFailed) as caught:
        await send(pool, timeout_s=0.05 if error is RequestTimeout else 60)
    assert (type(caught.value), caught.value.was_sent) == (error, True)
    await eventually(lambda: len(server.requests) == 2)


async def test_a_request_that_waited_in_vain_for_a_connection_was_not_sent(server, pool, eventually):
    held: list[asyncio.Transport] = []
    server.script.extend([held.append, held.append])
    first = [asyncio.create_task(send(pool)) for _ in range(2)]
    await eventually(lambda: len(held) == 2)
    with pytest.raises(RequestTimeout, match="became free") as caught:
        await send(pool, timeout_s=0.01)
    assert caught.value.was_sent is False
    for transport in held:
        transport.write(OK)
    await asyncio.gather(*first)


async def test_a_request_without_a_connection_was_not_sent():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        pool = ConnectionPool(Connector("127.0.0.1", free.getsockname()[1]))
        with pytest.raises(Unreachable, match="cannot connect") as caught:
            await send(pool)
    assert caught.value.was_sent is False


@pytest.mark.parametrize(
    ("script", "error", "text"),
    [
        pytest.param(lambda peer: None, RequestTimeout, "no answer in time", id="the handshake never ends"),
        pytest.param(lambda peer: peer.abort(), Unreachable, "cannot connect", id="the handshake is cut"),
        pytest.param(lambda peer: peer.write(OK), ConnectionFailed, "cannot connect", id="the server has no TLS"),
    ],
)
async def test_a_request_that_no_handshake_came_before_was_not_sent(server, script: Script, error, text):
    server.script.append(script)
    patience_s = 0.05 if error is RequestTimeout else 60
    pool = ConnectionPool(Connector("127.0.0.1", server.port, tls=lambda: TLS, connect_timeout_s=patience_s))
    with pytest.raises(ConnectionFailed, match=text) as caught:
        await send(pool, timeout_s=60)
    assert (type(caught.value), caught.value.was_sent) == (error, False)


async def test_a_pool_that_is_closed_leaves_no_socket_open_that_was_being_connected(
    serve, authority, server_certificate
):
    """At whatever moment of the handshake. asyncio alone waits for a farewell of the server."""

    async def handler(_: web.Request) -> web.Response:
        return web.Response()

    url = await serve(handler, tls=authority.server_context(server_certificate))
    trusting = ssl.create_default_context(cadata=authority.pem.decode())

    async def closes_after(turns: int) -> bool:
        pool = ConnectionPool(
            Connector("127.0.0.1", int(url.rpartition(":")[2]), tls=lambda: trusting, server_name="localhost")
        )
        sending = asyncio.create_task(send(pool))
        for _ in range(turns):
            await asyncio.sleep(0)
        await pool.close()
        return not isinstance((await asyncio.gather(sending, return_exceptions=True))[0], ConnectionFailed)

    for _ in range(20):  # which turn meets which moment differs
        for turns in itertools.count():
            if await asyncio.to_thread(lambda turns=turns: asyncio.run(closes_after(turns))):
                break
    gc.collect()  # an unclosed socket warns, and a warning is an error


async def test_a_request_whose_connections_all_break_before_they_are_used_was_not_sent(server, pool, monkeypatch):
    def closed(connection, requests):
        for request in requests:
            request.fail(Broken("closed while idle", written=False))
        connection.close()

    monkeypatch.setattr(pool_module.Http1Connection, "send", closed)
    with pytest.raises(ConnectionFailed, match="before they can be used") as caught:
        await send(pool)
    assert caught.value.was_sent is False


async def test_who_is_fenced_while_waiting_for_a_connection_writes_nothing(server, pool, eventually):
    held: list[asyncio.Transport] = []
    server.script = [held.append, held.append]
    first = [asyncio.create_task(send(pool)) for _ in range(2)]
    await eventually(lambda: len(held) == 2)
    is_fenced = False
    late = asyncio.create_task(pool.send("POST", b"/x", FIELDS, b"", 60.0, lambda: is_fenced))
    await eventually(lambda: pool.waiting == 1)
    is_fenced = True
    for transport in held:
        transport.write(OK)
    with pytest.raises(Fenced, match="not sent: the lease is lost"):
        await late
    await asyncio.gather(*first)
    assert len(server.requests) == 2
    await send(pool)  # nothing is wrong with the connection
    assert len(server.peers) == 2


@pytest.fixture
async def batches(server):
    made = ConnectionPool(Connector("127.0.0.1", server.port), max_connections=1, batch=3)
    yield made
    await made.close()


async def send_many(pool: ConnectionPool, count: int) -> list[object]:
    return await asyncio.gather(*(send(pool, body=b"%d" % n) for n in range(count)), return_exceptions=True)


def answering(*bodies: bytes, then: Callable[[asyncio.Transport], object] = lambda peer: None) -> Callable[..., object]:
    def answer(peer: asyncio.Transport) -> None:
        for body in bodies:
            peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        then(peer)

    return answer


async def test_requests_of_one_turn_share_a_write_and_get_their_own_answers(server, batches):
    await send(batches)
    server.script = [answering(b"first", b"second", b"third")]
    answers = await send_many(batches, 3)
    assert [answer.body for answer in answers] == [b"first", b"second", b"third"]
    assert len(server.requests) == 2
    assert [server.requests[1].count(b"\r\n\r\n%d" % n) for n in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("count", "bodies"),
    [
        pytest.param(2, [(b"a",), (b"b",)], id="as long as there are connections, each has its own"),
        pytest.param(4, [(b"a", b"b"), (b"c", b"d")], id="more of them share connections evenly"),
    ],
)
async def test_requests_share_connections_only_if_there_are_too_few(server, count, bodies):
    pool = ConnectionPool(Connector("127.0.0.1", server.port), max_connections=2, batch=3)
    server.script = [answering(*each) for each in bodies]
    answers = await send_many(pool, count)
    assert sorted(answer.body for answer in answers) == sorted(body for each in bodies for body in each)
    assert len(server.peers) == 2
    await pool.close()


async def test_requests_behind_a_truncated_response_may_have_been_carried_out(server, batches):
    await send(batches)
    server.script = [answering(b"first", then=lambda peer: peer.abort())]
    first, *others = await send_many(batches, 3)
    assert first.body == b"first"
    assert [(type(error), error.was_sent) for error in others] == [(ConnectionFailed, True)] * 2


async def test_requests_behind_a_closing_response_are_sent_again(server, batches):
    await send(batches)

    def farewell(peer: asyncio.Transport) -> None:
        peer.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        peer.close()

    server.script = [farewell, answering(b"second", b"third")]
    answers = await send_many(batches, 3)
    assert [answer.body for answer in answers] == [b"ok", b"second", b"third"]


async def test_a_server_that_bids_farewell_after_each_answer_gets_all_requests(server, batches):
    def farewell(peer: asyncio.Transport) -> None:
        peer.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        peer.close()

    server.script = [farewell] * 20
    answers = await send_many(batches, 20)
    assert [answer.body for answer in answers] == [b"ok"] * 20


async def test_a_cancelled_request_leaves_its_neighbours_alone(server, batches, eventually):
    await send(batches)
    held: list[asyncio.Transport] = []
    server.script = [held.append]
    tasks = [asyncio.create_task(send(batches)) for _ in range(3)]
    await eventually(lambda: held)
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    answering(b"first", b"second", b"third")(held[0])
    assert [(await task).body for task in tasks[1:]] == [b"second", b"third"]
    assert (await send(batches)).body == b"ok"
    assert len(server.peers) == 1


async def test_who_is_fenced_is_left_out_of_a_batch(server, batches):
    await send(batches)
    server.script = [answering(b"first", b"third")]
    fences = [False, True, False]
    sent = [batches.send("POST", b"/x", FIELDS, b"", 60.0, lambda fence=fence: fence) for fence in fences]
    first, second, third = await asyncio.gather(*sent, return_exceptions=True)
    assert (first.body, type(second), third.body) == (b"first", Fenced, b"third")


async def test_closing_fails_what_is_in_flight(server, pool, eventually):
    server.script.append(lambda transport: None)
    task = asyncio.create_task(send(pool))
    await eventually(lambda: server.requests)
    await pool.close()
    with pytest.raises(ConnectionFailed):
        await task


async def test_requests_on_several_connections_fail_in_the_order_in_which_these_were_opened(server, eventually):
    """Two runs in virtual time fail the same requests in the same order."""
    pool = ConnectionPool(Connector("127.0.0.1", server.port), max_connections=12, batch=1)
    server.script += [lambda transport: None] * 12
    failed: list[bytes] = []

    async def note(body: bytes) -> None:
        with pytest.raises(ConnectionFailed):
            await send(pool, body=body)
        failed.append(body)

    bodies = [b"%d" % number for number in range(12)]
    tasks = []
    for number, body in enumerate(bodies):
        tasks.append(asyncio.create_task(note(body)))
        await eventually(lambda sent=number + 1: len(server.requests) == sent)
    await pool.close()
    await asyncio.gather(*tasks)
    assert failed == bodies


def test_it_works_on_uvloop():
    """uvloop's transports are no subclass of asyncio's; nothing here may care."""
    uvloop = pytest.importorskip("uvloop")

    async def run() -> tuple[int, int]:
        state = Server()
        listener = await asyncio.get_running_loop().create_server(lambda: Peer(state), "127.0.0.1", 0)
        pool = ConnectionPool(Connector("127.0.0.1", listener.sockets[0].getsockname()[1]))
        for _ in range(3):
            status = (await send(pool, body=b"{}")).status
        await pool.close()
        listener.close()
        await listener.wait_closed()
        return status, len(state.peers)

    assert uvloop.run(run()) == (201, 1)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no limit for unacknowledged bytes")
async def test_what_has_not_arrived_in_time_does_not_arrive_later(server):
    """A leader's write that the network holds back would otherwise reach the server when another one leads."""
    pool = ConnectionPool(Connector("127.0.0.1", server.port, arrives_within_s=0.1), max_connections=1)
    await send(pool)
    transport = server.peers[0].transport
    transport.pause_reading()  # as if the network were cut: nothing is acknowledged once the buffers are full
    body = b"x" * (32 << 20)
    with pytest.raises(ConnectionFailed) as caught:
        await send(pool, body=body, timeout_s=600.0)
    assert caught.value.was_sent and not isinstance(caught.value, RequestTimeout)
    transport.resume_reading()
    await pool.close()
    assert sum(map(len, server.requests)) < len(body)


@pytest.mark.parametrize(
    ("arrives_within_s", "end"),
    [
        pytest.param(None, type(None), id="what is on its way still arrives"),
        pytest.param(5.0, ConnectionResetError, id="what is on its way is forgotten"),
    ],
)
async def test_a_connection_that_is_closed(server, eventually, arrives_within_s, end):
    pool = ConnectionPool(Connector("127.0.0.1", server.port, arrives_within_s=arrives_within_s))
    await send(pool)
    await pool.close()
    await eventually(lambda: server.ends)
    assert type(server.ends[0]) is end
