"""What requests may hold in memory: only what has arrived, and not more together than the limit."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import tracemalloc
from collections.abc import Callable

import pytest

from mooring.net.extender.http_client import _AnswerReader
from mooring.net.http1 import MAX_HEAD_BYTES
from mooring.net.http_io import HEAD_BUFFER_BYTES, MAX_PIPELINED, Bounds, Refused, RequestReader, body_of
from mooring.net.server import BodyMemory

MIB = 1 << 20
BOUNDS = Bounds(max_body_bytes=256 * MIB, read_timeout_s=30, idle_timeout_s=30)


def allocated_bytes(work: Callable[[], object]) -> int:
    """The peak of memory that Python had reserved during a call."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def read_all(sent: bytes) -> None:
    """Read a request that is cut off after these bytes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = RequestReader(ours, BOUNDS, BodyMemory(512 * MIB).share())
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        assert reader.next() is None
        reader.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"POST /filter HTTP/1.1\r\nContent-Length: 250000000\r\n\r\nx", id="a length and one byte"),
        pytest.param(
            b"POST /filter HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nEE6B280\r\nx", id="a chunk's size and one byte"
        ),
        pytest.param(
            b"POST /filter HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"2\r\nxx\r\n" * 10_000,
            id="many small chunks",
        ),
    ],
)
def test_a_header_reserves_no_memory(sent: bytes) -> None:
    assert allocated_bytes(lambda: read_all(sent)) < HEAD_BUFFER_BYTES + 5 * len(sent) + 50_000


def test_an_answers_header_reserves_no_memory() -> None:
    def read() -> None:
        exchange = _AnswerReader()
        exchange.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 250000000\r\n\r\nx")
        exchange.feed(b"y" * 10)
        exchange.close()

    assert allocated_bytes(read) < 100_000


def test_a_small_compressed_body_reserves_no_more_than_is_left() -> None:
    body = gzip.compress(bytes(64 * MIB))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        share = BodyMemory(MIB).share()
        reader = RequestReader(ours, BOUNDS, share)
        head = b"POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        theirs.sendall(head % len(body) + body)
        request = reader.next()
        assert request is not None and share.held_bytes == len(body)

        def inflate() -> None:
            with pytest.raises(Refused) as refused:
                body_of(request, BOUNDS.max_body_bytes, share)
            assert refused.value.status == 503

        assert allocated_bytes(inflate) < 4 * MIB
        reader.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: " + b"a" * 8 * MAX_HEAD_BYTES,
            431,
            id="endless trailers",
        ),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n" * (MAX_PIPELINED + 1), 400, id="requests without end before an answer"),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + b"A: b\r\n" * 100_000,
            431,
            id="a great many trailers",
        ),
    ],
)
def test_what_no_body_limit_counts_ends_all_the_same(sent: bytes, status: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = RequestReader(ours, BOUNDS, BodyMemory(MIB).share())
        sender = threading.Thread(target=_send, args=(theirs, sent))
        sender.start()
        with pytest.raises(Refused) as refused:
            reader.next()
        assert refused.value.status == status
        reader.close()
        ours.close()
        sender.join()


def _send(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # the reader may stop before the end
        sock.sendall(data)


def test_a_body_counts_until_its_request_is_over() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        memory = BodyMemory(100)
        share = memory.share()
        reader = RequestReader(ours, BOUNDS, share)
        theirs.sendall(b"POST / HTTP/1.1\r\nContent-Length: 60\r\n\r\n" + b"x" * 60)
        theirs.sendall(b"POST / HTTP/1.1\r\nContent-Length: 40\r\n\r\n" + b"y" * 40)
        theirs.shutdown(socket.SHUT_WR)
        for _ in range(2):
            assert reader.next() is not None
            assert 40 <= memory.held_bytes <= 100
        assert reader.next() is None
        assert memory.held_bytes == 0
        reader.close()


def test_a_connection_that_ends_frees_what_it_held() -> None:
    memory = BodyMemory(100)
    share = memory.share()
    share.take(70)
    share.keep(30)
    assert memory.held_bytes == 30
    share.close()
    assert memory.held_bytes == 0


def test_without_room_a_request_is_refused() -> None:
    memory = BodyMemory(100)
    memory.share().take(80)  # its request is being answered: it keeps its place
    late = memory.share()
    late.arriving_since = 1.0
    late.take(20)
    with pytest.raises(Refused, match="hold 100 bytes") as refused:
        late.take(1)
    assert refused.value.status == 503
    assert memory.held_bytes == 100


def test_the_request_that_has_been_arriving_the_longest_gives_way() -> None:
    memory = BodyMemory(100)
    cut: list[str] = []

    def arriving(name: str, since: float, count: int) -> None:
        def end() -> None:
            cut.append(name)
            threading.Thread(target=share.close).start()

        share = memory.share(end)
        share.arriving_since = since
        share.take(count)

    arriving("second", 2.0, 30)
    arriving("first", 1.0, 30)
    arriving("third", 3.0, 30)
    new = memory.share()
    new.arriving_since = 4.0
    new.take(60)
    assert cut == ["first", "second"]
    assert memory.held_bytes == 90


def test_a_connection_that_was_cut_does_not_wait_for_room() -> None:
    share = BodyMemory(100).share()
    share.is_cut = True
    with pytest.raises(ConnectionAbortedError):
        share.take(101)
