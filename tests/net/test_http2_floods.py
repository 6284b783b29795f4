"""A server that floods its client: the connection ends before that costs much, and every request with it."""

from __future__ import annotations

import struct

import pytest

from mooring.net import http2, http2_connection
from mooring.net.connect import Broken
from mooring.net.http2 import encode_field, frame
from tests.net.test_http2_connection import Stage, answer

CREATED = encode_field(":status", "201")
BEGUN = frame(http2.HEADERS, 0, 1, CREATED)


def setting(*values: tuple[int, int]) -> bytes:
    return http2.settings(values)


FLOODS = {
    "empty CONTINUATION": (BEGUN, frame(http2.CONTINUATION, 0, 1)),
    "CONTINUATION of a byte": (BEGUN, frame(http2.CONTINUATION, 0, 1, b"x")),
    "CONTINUATION of a frame": (BEGUN, frame(http2.CONTINUATION, 0, 1, bytes(http2.FRAME_BYTES))),
    "CONTINUATION for no request": (frame(http2.HEADERS, 0, 7), frame(http2.CONTINUATION, 0, 7, b"x")),
    "PING": (b"", frame(http2.PING, 0, 0, b"12345678")),
    "SETTINGS": (b"", setting()),
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_ends_the_connection(flood):
    first, again = FLOODS[flood]
    stage = Stage()
    (future,) = stage.send(b"body")
    stage.connection.pause_writing()  # the server does not read
    stage.hear(first)
    for _ in range(20):
        stage.hear(again * 1_000)
        if stage.server.is_aborted:
            break
    assert stage.server.is_aborted
    stage.connection.connection_lost(None)
    with pytest.raises(Broken, match="not an HTTP/2 answer"):
        future.result()


async def test_a_server_that_reads_may_ask_as_often_as_it_likes():
    stage = Stage()
    (future,) = stage.send(b"body")
    for _ in range(15):
        stage.hear(frame(http2.PING, 0, 0, b"12345678") * 1_000)
    stage.hear(answer(1))
    assert future.result().status == 201
    assert len(stage.server.of(http2.PING)) == 15_000


async def test_what_the_server_does_not_read_is_not_added_to():
    stage = Stage()
    stage.connection.pause_writing()
    assert stage.connection.room == 0
    freed = stage.freed
    stage.connection.resume_writing()
    assert stage.connection.room > 0
    assert stage.freed == freed + 1  # the pool sends what has waited


BROKEN = {
    "a window opened by nothing": frame(http2.WINDOW_UPDATE, 0, 0, bytes(4)),
    "a stream's window opened by nothing": frame(http2.WINDOW_UPDATE, 0, 1, bytes(4)),
    "more window than there is": frame(http2.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
    "more window of a stream than there is": frame(http2.WINDOW_UPDATE, 0, 1, b"\x7f\xff\xff\xff"),
    "more initial window than there is": setting((http2.INITIAL_WINDOW_SIZE, 1 << 31)),
    "a PING of another length": frame(http2.PING, 0, 0, bytes(http2.FRAME_BYTES)),
    "a frame longer than we take": frame(http2.DATA, 0, 1, bytes(http2.FRAME_BYTES + 1)),
    "a status of many digits": frame(http2.HEADERS, http2.END_HEADERS, 1, encode_field(":status", "9" * 5_000)),
    "a status of one digit": frame(http2.HEADERS, http2.END_HEADERS, 1, encode_field(":status", "7")),
    "padding that is longer than its frame": frame(http2.DATA, http2.PADDED, 1, b"\xff"),
    "a frame of fields that is all padding": frame(http2.HEADERS, http2.PADDED | http2.END_HEADERS, 1, b"\x05abc"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_breaks_the_rules_ends_the_connection(what):
    stage = Stage()
    (future,) = stage.send(bytes(100_000))  # more than the server's window, so that the rest waits
    stage.hear(BROKEN[what] * 2)  # a window has exactly the largest size once
    assert stage.server.is_aborted
    stage.connection.connection_lost(None)
    assert isinstance(future.exception(), Broken)


async def test_a_window_that_opens_by_bytes_costs_no_copy_of_the_rest():
    stage = Stage()
    body = bytes(range(256)) * 1_000
    stage.send(body)
    request = stage.connection.under_way[0]
    stage.hear(frame(http2.WINDOW_UPDATE, 0, 0, struct.pack(">L", 1 << 20)))
    for _ in range(10):
        stage.hear(frame(http2.WINDOW_UPDATE, 0, 1, b"\0\0\0\x01"))
    assert isinstance(request.unsent, memoryview)
    assert request.unsent.obj is body
    stage.hear(frame(http2.WINDOW_UPDATE, 0, 1, struct.pack(">L", 1 << 20)))
    assert stage.server.bodies() == {1: body}


async def test_a_window_that_a_frame_sets_often_is_set_once(monkeypatch):
    stage = Stage()
    stage.send(*(bytes(100_000) for _ in range(20)))
    walks: list[int] = []
    usual = http2_connection.Http2Connection._send_rest

    def counted(self, number, request, out):
        walks.append(number)
        usual(self, number, request, out)

    monkeypatch.setattr(http2_connection.Http2Connection, "_send_rest", counted)
    stage.hear(setting(*((http2.INITIAL_WINDOW_SIZE, 70_000 + each % 2) for each in range(2_000))))
    assert len(walks) == 20


async def test_statuses_with_long_fields_are_not_kept():
    stage = Stage()
    for number in range(1, 21, 2):
        stage.send(b"x")
        long = b"\0" + http2.string(b":status") + http2.string(b"201") + encode_field("x", f"{number}" * 5_000)
        stage.hear(frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, number, long[: http2.FRAME_BYTES]))
    assert sum(map(len, stage.connection._statuses)) < 1_000


async def test_answers_under_way_hold_a_bounded_number_of_bytes(monkeypatch):
    monkeypatch.setattr(http2_connection, "_STEP_BYTES", 100_000)
    monkeypatch.setattr(http2_connection, "_MOST_HELD_BYTES", 200_000)
    stage = Stage()
    futures = stage.send(*(b"x" for _ in range(50)))
    part = bytes(http2.FRAME_BYTES)
    for number in range(1, 101, 2):
        stage.hear(frame(http2.HEADERS, http2.END_HEADERS, number, CREATED), frame(http2.DATA, 0, number, part))
        if stage.server.is_aborted:
            break
    held = sum(len(each.got) for each in stage.connection.under_way)
    assert held <= 200_000 + 100_000 + len(part)
    stage.connection.connection_lost(None)
    assert all(isinstance(each.exception(), Broken) for each in futures)


async def test_goaway_in_the_middle_of_fields_ends_all_requests():
    stage = Stage()
    first, second = stage.send(b"1", b"2")
    stage.hear(BEGUN, frame(http2.GOAWAY, 0, 0, struct.pack(">LL", 1, 0)))
    assert stage.server.is_aborted
    stage.connection.connection_lost(None)
    assert {type(each.exception()) for each in (first, second)} == {Broken}
