"""HTTP/1.1 messages out of bytes, however the bytes are cut, and where reading them ends."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.net.http1 import (
    _STEP_BYTES,
    MAX_HEAD_BYTES,
    MAX_MEMBERS,
    BadEncoding,
    BadMessage,
    BodyTooLarge,
    HeadTooLarge,
    Message,
    MessageReader,
    can_inflate,
    inflate,
)

LIMIT = 100_000


def read(*pieces: bytes, answers: bool = False, most: int = 100) -> list[Message]:
    reader = MessageReader(reads_answers=answers, max_body_bytes=LIMIT, most=most)
    for piece in pieces:
        reader.feed(piece)
    reader.close()
    return list(reader.complete)


REQUESTS = {
    "a body of known length": b"POST /a?b HTTP/1.1\r\nContent-Length: 5\r\nX-Y: z\r\n\r\nhello",
    "chunks": b"POST /a?b HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-Y: z\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
    "chunks and a trailer": (
        b"POST /a?b HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-Y: z\r\n\r\n5\r\nhello\r\n0\r\nX-Y: late\r\n\r\n"
    ),
}


@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_the_same_wherever_it_is_cut(sent: bytes) -> None:
    for cut in range(1, len(sent)):
        (message,) = read(sent[:cut], sent[cut:])
        assert (message.method, message.target, message.version) == ("POST", b"/a?b", "1.1")
        assert bytes(message.body) == b"hello" and message.keeps_alive
        assert message.headers["x-y"] == "z", "a trailer replaces no header"


@given(data=st.data())
def test_messages_in_a_row_come_out_in_order_however_they_are_cut(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(list(REQUESTS.values())), min_size=1, max_size=4))
    stream = b"".join(chosen)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [bytes(message.body) for message in read(*pieces)] == [b"hello"] * len(chosen)


@pytest.mark.parametrize(
    ("sent", "keeps_alive"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", True, id="HTTP/1.1"),
        pytest.param(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", False, id="HTTP/1.1 with close"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", False, id="HTTP/1.0"),
        pytest.param(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True, id="HTTP/1.0 with keep-alive"),
    ],
)
def test_whether_a_connection_is_kept(sent: bytes, keeps_alive: bool) -> None:
    assert [message.keeps_alive for message in read(sent)] == [keeps_alive]


@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", id="a plain one"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", id="without a body"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx",
            201,
            b"x",
            id="after 100 Continue",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
            200,
            b"abc",
            id="in chunks",
        ),
    ],
)
def test_answers(sent: bytes, status: int, body: bytes) -> None:
    for pieces in ((sent,), tuple(bytes([byte]) for byte in sent)):
        (message,) = read(*pieces, answers=True)
        assert (message.status, bytes(message.body)) == (status, body)


def test_a_response_that_ends_with_its_connection_is_marked() -> None:
    reader = MessageReader(reads_answers=True, max_body_bytes=LIMIT)
    reader.feed(b"HTTP/1.1 200 OK\r\n\r\nsome")
    reader.feed(b"thing")
    assert not reader.complete and reader.arriving is not None
    assert reader.arriving.is_open_ended and not reader.arriving.keeps_alive
    assert bytes(reader.arriving.body) == b"something"


def test_what_is_left_of_a_body_is_known_once_the_head_is() -> None:
    reader = MessageReader(reads_answers=False, max_body_bytes=LIMIT)
    reader.feed(b"POST / HTTP/1.1\r\nContent-Length: 5")
    assert reader.arriving is not None and reader.arriving.left is None
    reader.feed(b"0\r\n\r\nhello")
    assert reader.arriving.left == 45
    reader.feed(b"x" * 44)
    assert reader.arriving.left == 1


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        pytest.param(b"nonsense\r\n\r\n", BadMessage, id="nonsense"),
        pytest.param(b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", BadMessage, id="an upgrade"),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            BadMessage,
            id="a length and chunks",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", BadMessage, id="no number of bytes"
        ),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 100001\r\n\r\n", BodyTooLarge, id="too long a body"),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n186A1\r\n" + b"x" * 100_001,
            BodyTooLarge,
            id="too large a chunk",
        ),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"a" * MAX_HEAD_BYTES, HeadTooLarge, id="an endless header"),
        pytest.param(b"GET /" + b"a" * MAX_HEAD_BYTES, HeadTooLarge, id="an endless path"),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"a" * MAX_HEAD_BYTES,
            HeadTooLarge,
            id="an endless trailer",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * (2 * MAX_HEAD_BYTES),
            HeadTooLarge,
            id="an endless extension of a chunk",
        ),
    ],
)
@pytest.mark.parametrize("size", [1 << 30, 1000], ids=["at once", "in pieces"])
def test_what_cannot_be_read_is_refused(sent: bytes, kind: type[BadMessage], size: int) -> None:
    with pytest.raises(BadMessage) as caught:
        read(*(sent[start : start + size] for start in range(0, len(sent), size)))
    assert type(caught.value) is kind and "\n" not in str(caught.value)


def test_many_headers_are_no_matter_as_long_as_they_are_small() -> None:
    (message,) = read(b"GET / HTTP/1.1\r\n" + b"".join(b"H%d: x\r\n" % i for i in range(1000)) + b"\r\n")
    assert len(message.headers) == 1000


def test_the_number_of_pipelined_messages_is_limited() -> None:
    assert len(read(b"GET / HTTP/1.1\r\n\r\n" * 3, most=3)) == 3
    with pytest.raises(BadMessage, match="more than 3 messages"):
        read(b"GET / HTTP/1.1\r\n\r\n" * 4, most=3)


@pytest.mark.parametrize("head", [b"Content-Length: 4", b"Transfer-Encoding: chunked"])
def test_the_owner_is_notified_of_every_byte_before_it_is_stored(head: bytes) -> None:
    heard: list[int] = []

    def grow(count: int) -> None:
        if sum(heard) + count > 3:
            raise MemoryError
        heard.append(count)

    reader = MessageReader(reads_answers=False, max_body_bytes=LIMIT, grow=grow)
    reader.feed(b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n")
    with pytest.raises(MemoryError):
        for _ in range(4):
            reader.feed(b"x" if head.startswith(b"Content") else b"1\r\nx\r\n")
    assert heard == [1, 1, 1] and reader.arriving is not None and len(reader.arriving.body) == 3


def random_bytes(size: int, choices: int) -> bytes:
    return bytes(random.Random(size).choices(range(choices), k=size))


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"hello", id="little"),
        pytest.param(bytes(_STEP_BYTES), id="exactly one step"),
        pytest.param(bytes(3 * _STEP_BYTES + 1), id="a little more than three steps"),
        pytest.param(random_bytes(2 * _STEP_BYTES, 256), id="noise"),
        pytest.param(random_bytes(2 * _STEP_BYTES, 3), id="half noise"),
    ],
)
def test_inflating(encoding: str, content: bytes) -> None:
    packed = zlib.compress(content) if encoding == "deflate" else gzip.compress(content)
    assert inflate(packed, encoding, len(content)) == content
    assert inflate(packed * 3, encoding, 3 * len(content)) == content * 3


@settings(max_examples=25)
@given(sizes=st.lists(st.integers(_STEP_BYTES - 300, _STEP_BYTES + 300), min_size=1, max_size=2), fill=st.binary())
def test_inflating_loses_nothing_at_the_edge_of_a_step(sizes: list[int], fill: bytes) -> None:
    contents = [(fill * (size // max(len(fill), 1)) + bytes(size))[:size] for size in sizes]
    assert inflate(b"".join(map(gzip.compress, contents)), "gzip", 1 << 20) == b"".join(contents)


@pytest.mark.parametrize(
    ("packed", "is_cut", "member"),
    [
        pytest.param(b"hello", False, 0, id="not compressed"),
        pytest.param(gzip.compress(b"hello")[:-1], True, 0, id="a cut end"),
        pytest.param(gzip.compress(b"hello") + b"hello", False, 1, id="something behind it"),
        pytest.param(gzip.compress(b"hello") + gzip.compress(b"x")[:5], True, 1, id="a second one that is cut"),
        pytest.param(gzip.compress(b"") * (MAX_MEMBERS + 1), False, MAX_MEMBERS, id="too many members"),
    ],
)
def test_what_cannot_be_inflated(packed: bytes, is_cut: bool, member: int) -> None:
    with pytest.raises(BadEncoding) as caught:
        inflate(packed, "gzip", 1000)
    assert (caught.value.is_cut, caught.value.member) == (is_cut, member)


def test_a_small_body_cannot_become_a_large_one() -> None:
    packed = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge, match="larger than 1,000,000 bytes"):
            inflate(packed, "gzip", 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("encoding", "can"), [("gzip", True), ("deflate", True), ("br", False), ("", False)])
def test_which_encodings_are_known(encoding: str, can: bool) -> None:
    assert can_inflate(encoding) is can
