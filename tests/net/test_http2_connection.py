"""One connection for many requests: what is written, what comes of what comes back, what is safe to send again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.net import http2, http2_connection
from mooring.net import pool as pool_module
from mooring.net.connect import Broken, Connector, HeaderFields, HttpAnswer, HttpRequest
from mooring.net.errors import ConnectionFailed, Fenced, RequestTimeout
from mooring.net.http2 import decode_fields, encode_field, frame
from mooring.net.http2_connection import Http2Connection
from mooring.net.pool import ConnectionPool

FIELDS = HeaderFields("example.com", [("Accept", "application/json"), ("Authorization", "Bearer secret")])


class Server:
    """What a server makes of the bytes that it gets: whole frames, and the body of each stream."""

    def __init__(self) -> None:
        self.data = b""
        self.frames: list[tuple[int, int, int, bytes]] = []
        self.writes = 0
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.writes += 1
        self.data += data
        if self.data.startswith(http2.PREFACE):
            self.data = self.data.removeprefix(http2.PREFACE)
        while len(self.data) >= 9:
            high, low, kind, flags, stream = http2.HEAD.unpack_from(self.data)
            end = 9 + (high << 8 | low)
            if len(self.data) < end:
                return
            self.frames.append((kind, flags, stream, self.data[9:end]))
            self.data = self.data[end:]

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def of(self, kind: int) -> list[tuple[int, int, bytes]]:
        return [(stream, flags, payload) for each, flags, stream, payload in self.frames if each == kind]

    def bodies(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for stream, _, payload in self.of(http2.DATA):
            found[stream] = found.get(stream, b"") + payload
        return found


class Stage:
    """A connection whose other end is a page of paper."""

    def __init__(self) -> None:
        self.server, self.freed = Server(), 0
        self.connection = Http2Connection(self._free)
        self.connection.connection_made(self.server)
        self.hear(frame(http2.SETTINGS, 0, 0))

    def _free(self, connection: Http2Connection) -> None:
        self.freed += 1

    def hear(self, *frames: bytes) -> None:
        self.connection.data_received(b"".join(frames))

    def send(
        self, *bodies: bytes, method: str = "POST", is_fenced: Callable[[], bool] = lambda: False
    ) -> list[asyncio.Future[HttpAnswer]]:
        loop = asyncio.get_running_loop()
        requests = [HttpRequest(method, b"/x", FIELDS, body, 0.0, is_fenced, loop.create_future()) for body in bodies]
        self.connection.send(requests)
        return [request.answer for request in requests]


def answer(stream: int, body: bytes = b"ok", status: str = "201", *more: tuple[str, str]) -> bytes:
    block = b"".join(encode_field(*field) for field in ((":status", status), *more))
    return frame(http2.HEADERS, http2.END_HEADERS, stream, block) + frame(http2.DATA, http2.END_STREAM, stream, body)


async def test_requests_of_one_moment_are_one_write():
    stage = Stage()
    before = stage.server.writes
    first, second, third = stage.send(b"one", b"two", b"")
    assert stage.server.writes == before + 1
    assert stage.server.bodies() == {1: b"one", 3: b"two"}
    stream, flags, block = stage.server.of(http2.HEADERS)[0]
    assert (stream, flags) == (1, http2.END_HEADERS)
    assert dict(decode_fields(block)) == {
        ":method": "POST",
        ":scheme": "https",
        ":path": "/x",
        ":authority": "example.com",
        "accept": "application/json",
        "authorization": "Bearer secret",
        "content-length": "3",
    }
    assert stage.server.of(http2.HEADERS)[2][1] == http2.END_HEADERS | http2.END_STREAM
    stage.hear(answer(5, b"c"), answer(1, b"a"), answer(3, b"b"))
    assert [each.result().body for each in (first, second, third)] == [b"a", b"b", b"c"]
    assert (first.result().status, stage.connection.load) == (201, 0)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_answers_may_come_in_any_pieces(size):
    stage = Stage()
    sent = stage.send(b"1", b"2")
    fields = b"".join(encode_field(*each) for each in ((":status", "422"), ("retry-after", "7"), ("x", "y" * 50)))
    data = b"".join(
        (
            frame(http2.HEADERS, http2.END_HEADERS, 1, encode_field(":status", "100")),
            frame(http2.HEADERS, http2.PADDED, 1, b"\x02" + fields[:9] + b"\0\0"),
            frame(http2.CONTINUATION, 0, 1, fields[9:20]),
            frame(http2.CONTINUATION, http2.END_HEADERS, 1, fields[20:]),
            frame(http2.DATA, http2.PADDED, 1, b"\x01oo\0"),
            answer(3),
            frame(http2.DATA, 0, 1, b"ps"),
            frame(http2.PING, 0, 0, b"12345678"),
            frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, encode_field("x-trailer", "t")),
        )
    )
    for start in range(0, len(data), size):
        stage.hear(data[start : start + size])
    assert sent[0].result() == HttpAnswer(422, {":status": "422", "retry-after": "7", "x": "y" * 50}, b"oops")
    assert sent[1].result() == HttpAnswer(201, {}, b"ok")
    assert stage.server.of(http2.PING) == [(0, http2.ACK, b"12345678")]


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(lambda status: encode_field(":status", status), id="a name by its number"),
        pytest.param(lambda status: b"\x0e" + http2.string(status.encode()), id="a name by the last of its numbers"),
        pytest.param(
            lambda status: b"\0" + http2.string(b":status") + http2.string(status.encode()), id="a name in full"
        ),
        pytest.param(lambda status: b"\x20" + encode_field(":status", status), id="behind the size of a table"),
    ],
)
async def test_each_answer_has_its_own_status(field):
    stage = Stage()
    statuses = [200, 409, 500, 201, 409]
    sent = stage.send(*[b"x"] * len(statuses))
    for number, status in zip(range(1, 99, 2), statuses, strict=False):
        stage.hear(frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, number, field(str(status))))
    assert [each.result().status for each in sent] == statuses


@pytest.mark.parametrize("first", [b"\x08", b"\x0e", b"\x1e", b"\x4e"], ids=["08", "0e, as Go says it", "1e", "4e"])
async def test_a_status_is_decoded_once_for_all_answers_that_say_it_alike(first, monkeypatch):
    decoded = []
    monkeypatch.setattr(http2, "decode_fields", lambda block: decoded.append(block) or decode_fields(block))
    stage = Stage()
    sent = stage.send(b"x", b"x", b"x")
    for number in (1, 3, 5):
        block = first + b"\x82\x10\x03" + encode_field("audit-id", f"{number}")  # 201, packed
        stage.hear(frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, number, block))
    assert [each.result().status for each in sent] == [201, 201, 201]
    assert len(decoded) == 1


async def test_a_body_waits_for_room():
    stage = Stage()
    stage.hear(http2.settings([(http2.INITIAL_WINDOW_SIZE, 10)]))
    body = b"x" * 70_000
    (sent,) = stage.send(body)
    assert len(stage.server.bodies()[1]) == 10
    stage.hear(http2.window_update(1, 100_000))
    assert len(stage.server.bodies()[1]) == http2.WINDOW
    assert stage.connection.room == 0, "nothing more before the server has read on"
    stage.hear(http2.window_update(0, 100_000))
    assert stage.server.bodies()[1] == body
    assert stage.server.of(http2.DATA)[-1][1] == http2.END_STREAM
    assert stage.connection.room > 0 and stage.freed > 0
    stage.hear(answer(1))
    assert sent.result().status == 201


async def test_long_fields_continue_in_the_next_frame():
    stage = Stage()
    fields = HeaderFields("example.com", [("x", "y" * 40_000)])
    request = HttpRequest("PUT", b"/x", fields, b"b", 0.0, lambda: False, asyncio.get_running_loop().create_future())
    stage.connection.send([request])
    blocks = [(kind, flags, payload) for kind, flags, stream, payload in stage.server.frames if stream == 1]
    assert [kind for kind, _, _ in blocks] == [http2.HEADERS, http2.CONTINUATION, http2.CONTINUATION, http2.DATA]
    assert [flags & http2.END_HEADERS for _, flags, _ in blocks[:3]] == [0, 0, http2.END_HEADERS]
    assert dict(decode_fields(b"".join(payload for _, _, payload in blocks[:3])))["x"] == "y" * 40_000


async def test_the_server_says_how_many_it_takes():
    stage = Stage()
    stage.hear(http2.settings([(http2.MAX_CONCURRENT_STREAMS, 3)]))
    stage.send(b"1", b"2")
    assert stage.connection.room == 1
    stage.hear(answer(1))
    assert stage.connection.room == 2


async def test_what_a_leaving_server_has_not_looked_at_was_not_sent():
    stage = Stage()
    first, second = stage.send(b"1", b"2")
    stage.hear(frame(http2.GOAWAY, 0, 0, (1).to_bytes(4) + bytes(4)))
    assert not stage.connection.is_usable
    assert second.exception().written is False
    assert not first.done()
    stage.hear(answer(1))
    assert first.result().status == 201


@pytest.mark.parametrize(("why", "is_written"), [(http2.REFUSED_STREAM, False), (2, True)])
async def test_a_refused_request_was_not_carried_out_and_a_broken_one_may_have_been(why, is_written):
    stage = Stage()
    (sent,) = stage.send(b"1")
    stage.hear(http2.reset(1, why))
    assert isinstance(sent.exception(), Broken) and sent.exception().written is is_written


async def test_a_cut_leaves_every_outcome_open():
    stage = Stage()
    sent = stage.send(b"1", b"2")
    stage.connection.connection_lost(None)
    assert [each.exception().written for each in sent] == [True, True]


async def test_an_answer_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(http2_connection, "MAX_ANSWER_BYTES", 10)
    stage = Stage()
    (sent,) = stage.send(b"1")
    stage.hear(answer(1, b"x" * 11))
    assert "larger" in str(sent.exception())
    assert [stream for stream, _, _ in stage.server.of(http2.RST_STREAM)] == [1]


async def test_an_abandoned_response_is_cancelled_and_ignored():
    stage = Stage()
    first, second = stage.send(b"1", b"2")
    first.cancel()
    stage.connection.cancel_abandoned()
    assert [stream for stream, _, _ in stage.server.of(http2.RST_STREAM)] == [1]
    stage.hear(answer(1), answer(3))
    assert second.result().status == 201 and not stage.server.is_aborted


@pytest.mark.parametrize("speaks", [True, False])
async def test_a_silent_server_is_given_up_one_that_is_slow_is_not(speaks):
    stage = Stage()
    late = HttpRequest("POST", b"/x", FIELDS, b"", 0.0, lambda: False, asyncio.get_running_loop().create_future())
    stage.connection.send([late])
    if speaks:
        stage.hear(frame(http2.PING, http2.ACK, 0, bytes(8)))
    late.answer.cancel()
    stage.connection.give_up([late])
    assert stage.server.is_aborted is not speaks


@pytest.mark.parametrize(
    "nonsense",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="HTTP/1.1"),
        pytest.param(frame(http2.PUSH_PROMISE, 0, 1, bytes(8)), id="a push"),
        pytest.param(frame(http2.HEADERS, http2.END_HEADERS, 1, encode_field("x", "y")), id="no status"),
        pytest.param(frame(http2.HEADERS, http2.END_HEADERS, 1, b""), id="no fields"),
        pytest.param(frame(http2.DATA, http2.END_STREAM, 1, b"x"), id="a body without fields"),
        pytest.param(frame(http2.HEADERS, 0, 1, b"\x88") + frame(http2.PING, 0, 0, bytes(8)), id="interrupted"),
        pytest.param(frame(http2.CONTINUATION, 0, 1, b"\x88"), id="a continuation without a beginning"),
        pytest.param(frame(http2.SETTINGS, 0, 0, b"123"), id="half a setting"),
        pytest.param(frame(http2.GOAWAY, 0, 0, b"1"), id="half a farewell"),
        pytest.param(
            frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, encode_field(":status", "503") + b"\xff"),
            id="a refusal whose fields do not decode",
        ),
        pytest.param(
            frame(http2.SETTINGS, 0, 0, http2.MAX_FRAME_SIZE.to_bytes(2, "big") + (1 << 24).to_bytes(4, "big")),
            id="frames longer than a length can say",
        ),
        pytest.param(
            frame(http2.SETTINGS, 0, 0, http2.MAX_FRAME_SIZE.to_bytes(2, "big") + (100).to_bytes(4, "big")),
            id="frames below the minimum size",
        ),
    ],
)
async def test_nonsense_breaks_the_connection_and_fails_its_requests(nonsense):
    stage = Stage()
    (answer,) = stage.send(b"1")
    stage.hear(nonsense)
    assert stage.server.is_aborted
    assert not answer.done()
    stage.connection.connection_lost(None)
    assert "not an HTTP/2 answer" in str(answer.exception())


FRAMES = st.builds(
    frame,
    st.integers(0, 10),
    st.sampled_from([0, 1, 4, 5, 8, 9, 12, 13, 0xFF]),
    st.integers(0, 5),
    st.one_of(st.binary(max_size=40), st.just(encode_field(":status", "200")), st.just(encode_field(":status", "409"))),
)


@given(st.lists(st.one_of(FRAMES, st.binary(max_size=20)), max_size=8))
def test_every_request_ends_whatever_a_server_says(said):
    """A request is answered, or it fails with its connection: none is left pending for ever."""

    async def play() -> None:
        stage = Stage()
        answers = stage.send(b"1", b"2", b"3")
        for data in said:
            if not stage.server.is_aborted:
                stage.hear(data)
        stage.connection.connection_lost(None)
        assert all(answer.done() for answer in answers)
        for answer in answers:
            answer.exception()

    asyncio.run(play())


# ---- in the pool, over real TLS --------------------------------------------------------------------------------------


class Peer(asyncio.Protocol):
    """A server that speaks what was agreed on, and answers each request with its body.

    With ``takes`` it bids farewell after so many requests, and passes over those that come after them.
    """

    def __init__(self, state: SimpleNamespace) -> None:
        self.state, self.data, self.server, self.taken = state, b"", Server(), 0

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.state.peers.append(self)
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() == "h2":
            self.state.greet(transport)

    def data_received(self, data: bytes) -> None:
        if self.transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            self.transport.write(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok" * data.count(b"POST "))
            return
        self.server.write(data)
        if not self.state.is_silent:
            bodies = self.server.bodies()
            self.state.at_once = max(self.state.at_once, len(bodies))
            for stream, body in bodies.items():
                self.taken += 1
                if self.taken == self.state.takes:
                    self.transport.write(frame(http2.GOAWAY, 0, 0, stream.to_bytes(4) + bytes(4)))
                if not self.state.takes or self.taken <= self.state.takes:
                    self.state.bodies.append(body)
                    self.transport.write(answer(stream, body))
            self.server.frames.clear()


@pytest.fixture
async def served(authority, server_certificate):
    state = SimpleNamespace(peers=[], is_silent=False, takes=0, at_once=0, bodies=[])
    state.greet = lambda transport: transport.write(http2.settings([(http2.MAX_CONCURRENT_STREAMS, 2)]))
    context = authority.server_context(server_certificate)
    state.trusting = ssl.create_default_context(cadata=authority.pem.decode())
    state.trusting.set_alpn_protocols(["h2", "http/1.1"])
    listener = await asyncio.get_running_loop().create_server(lambda: Peer(state), "127.0.0.1", 0, ssl=context)
    state.context, port = context, listener.sockets[0].getsockname()[1]
    state.connector = Connector("127.0.0.1", port, tls=lambda: state.trusting, server_name="localhost")
    state.pool = ConnectionPool(state.connector)
    yield state
    await state.pool.close()
    for peer in state.peers:
        peer.transport.abort()
    listener.close()
    await listener.wait_closed()


async def post(pool: ConnectionPool, body: bytes, timeout_s: float = 60.0, is_fenced=lambda: False) -> HttpAnswer:
    return await pool.send("POST", b"/x", FIELDS, body, timeout_s, is_fenced)


async def test_a_server_that_speaks_it_needs_one_connection(served):
    served.context.set_alpn_protocols(["h2", "http/1.1"])
    bodies = [b"%d" % number for number in range(20)]
    answers = await asyncio.gather(*(post(served.pool, body) for body in bodies))
    assert [each.body for each in answers] == bodies
    assert len(served.peers) == 1 and served.pool.in_flight == 0


async def test_a_server_without_a_limit_gets_the_default_number(served):
    served.context.set_alpn_protocols(["http/1.1"])
    answers = await asyncio.gather(*(post(served.pool, b"x") for _ in range(20)))
    assert {each.body for each in answers} == {b"ok"}
    assert len(served.peers) > 1


async def test_another_identity_gets_another_connection(served):
    served.context.set_alpn_protocols(["h2"])
    await post(served.pool, b"one")
    again = ssl.create_default_context()
    again.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(served.trusting.get_ca_certs(binary_form=True)[0]))
    again.set_alpn_protocols(["h2"])
    served.trusting = again
    await post(served.pool, b"two")
    assert len(served.peers) == 2


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(http2.window_update(1, 100), id="of the request"),
        pytest.param(http2.settings([(http2.INITIAL_WINDOW_SIZE, 100)]), id="of every request"),
    ],
)
async def test_who_is_fenced_while_a_body_waits_for_room_does_not_finish_it(more):
    stage, fenced = Stage(), []
    stage.hear(http2.settings([(http2.INITIAL_WINDOW_SIZE, 10)]))
    (sent,) = stage.send(b"x" * 30, is_fenced=lambda: bool(fenced))
    fenced.append(True)
    stage.hear(more)
    assert isinstance(sent.exception(), Fenced)
    assert stage.server.bodies() == {1: b"x" * 10}
    assert stage.server.of(http2.RST_STREAM) == [(1, 0, http2.CANCEL.to_bytes(4))]
    assert stage.connection.load == 0 and not stage.server.is_aborted


async def test_who_is_fenced_writes_nothing(served):
    served.context.set_alpn_protocols(["h2"])
    await post(served.pool, b"one")
    with pytest.raises(Fenced):
        await post(served.pool, b"two", is_fenced=lambda: True)
    assert (await post(served.pool, b"three")).body == b"three"
    assert len(served.peers) == 1


async def test_a_server_that_falls_silent_is_left(served):
    served.context.set_alpn_protocols(["h2"])
    await post(served.pool, b"one")
    served.is_silent = True
    with pytest.raises(RequestTimeout) as caught:
        await post(served.pool, b"two", timeout_s=0.02)
    assert caught.value.was_sent
    served.is_silent = False
    assert (await post(served.pool, b"three")).body == b"three"
    assert len(served.peers) == 2


async def test_a_silent_connection_gets_no_more_requests(served, eventually, monkeypatch):
    """What was sent waits for its deadline; what comes later does not wait behind it."""
    served.context.set_alpn_protocols(["h2"])
    await post(served.pool, b"one")
    served.is_silent = True
    stuck = asyncio.create_task(post(served.pool, b"stuck"))
    await eventually(lambda: served.peers[0].server.bodies())
    served.is_silent = False
    monkeypatch.setattr(pool_module, "QUIET_S", 0.0)
    assert (await post(served.pool, b"two")).body == b"two"
    assert len(served.peers) == 2 and not stuck.done()
    served.peers[0].transport.write(answer(3, b"stuck"))
    assert (await stuck).body == b"stuck", "should the answer come after all, it counts"


async def test_a_post_that_was_cut_off_is_not_sent_again(served, eventually):
    served.context.set_alpn_protocols(["h2"])
    await post(served.pool, b"one")
    served.is_silent = True
    sending = asyncio.create_task(post(served.pool, b"two"))
    await eventually(lambda: served.peers[0].server.bodies())
    served.peers[0].transport.abort()
    with pytest.raises(ConnectionFailed) as caught:
        await sending
    assert caught.value.was_sent and len(served.peers) == 1


async def test_a_connection_that_the_server_ends_is_replaced_while_its_answers_are_waited_for(served, eventually):
    served.context.set_alpn_protocols(["h2"])
    await post(served.pool, b"one")
    served.is_silent = True
    slow = asyncio.create_task(post(served.pool, b"slow"))
    await eventually(lambda: served.peers[0].server.bodies())
    served.peers[0].transport.write(frame(http2.GOAWAY, 0, 0, (3).to_bytes(4) + bytes(4)))
    await eventually(lambda: served.pool._shared is None)
    served.is_silent = False
    assert (await post(served.pool, b"two")).body == b"two"
    assert len(served.peers) == 2 and not slow.done()
    served.peers[0].transport.write(answer(3, b"at last"))
    assert (await slow).body == b"at last"
    assert served.pool.in_flight == 0


@pytest.mark.parametrize("streams", [100, 4])
async def test_a_server_that_takes_few_requests_per_connection_gets_all_of_them_once(served, streams):
    served.context.set_alpn_protocols(["h2"])
    served.greet = lambda transport: transport.write(http2.settings([(http2.MAX_CONCURRENT_STREAMS, streams)]))
    served.takes = 3
    bodies = [b"%d" % number for number in range(40)]
    answers = await asyncio.gather(*(post(served.pool, body) for body in bodies))
    assert [each.body for each in answers] == bodies
    assert sorted(served.bodies) == sorted(bodies)


async def test_a_server_that_takes_nothing_is_not_asked_for_ever(served):
    served.context.set_alpn_protocols(["h2"])
    farewell = http2.settings([]) + frame(http2.GOAWAY, 0, 0, bytes(8))
    served.greet = lambda transport: transport.write(farewell)
    with pytest.raises(ConnectionFailed) as caught:
        await post(served.pool, b"one")
    assert not caught.value.was_sent


async def test_nothing_is_sent_before_the_servers_settings(served, eventually):
    served.context.set_alpn_protocols(["h2"])
    greet, served.greet = served.greet, lambda transport: None
    sending = [asyncio.create_task(post(served.pool, b"%d" % number)) for number in range(20)]
    await eventually(lambda: served.peers and served.peers[0].server.writes)
    greet(served.peers[0].transport)
    await asyncio.gather(*sending)
    assert (len(served.bodies), served.at_once, len(served.peers)) == (20, 2, 1)


async def test_a_server_that_says_nothing_is_no_connection(served):
    served.context.set_alpn_protocols(["h2"])
    served.greet = lambda transport: transport.close()
    with pytest.raises(ConnectionFailed) as caught:
        await post(served.pool, b"one")
    assert not caught.value.was_sent
    served.greet = lambda transport: None
    served.connector._connect_timeout_s = 0.02
    with pytest.raises(RequestTimeout) as caught:
        await post(served.pool, b"two")
    assert not caught.value.was_sent and served.pool.in_flight == 0
