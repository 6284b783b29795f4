"""What is sent to an extender, plain and compressed."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.net.extender.wire import Payload, deflate


@given(st.lists(st.binary(max_size=300)), st.sets(st.integers(0, 9)))
def test_pieces_compressed_one_by_one_are_one_valid_stream(pieces: list[bytes], known: set[int]) -> None:
    kept = {piece: deflate(piece) for i, piece in enumerate(pieces) if i in known}
    payload = Payload(pieces, kept)
    assert bytes(payload) == b"".join(pieces) and len(payload) == len(bytes(payload))
    packed = payload.gzipped()
    assert gzip.decompress(packed) == b"".join(pieces)
    inflater = zlib.decompressobj(31)
    inflater.decompress(packed)
    assert inflater.eof and not inflater.unused_data, "one member, and nothing behind it"


def test_a_compressed_piece_is_reused() -> None:
    piece = b"a" * 1000
    marked = deflate(b"b" * 1000)
    with pytest.raises(gzip.BadGzipFile):  # its checksum is that of the piece, so a wrong form would be noticed
        gzip.decompress(Payload([piece], {piece: marked}).gzipped())


def test_nothing_is_a_valid_stream_too() -> None:
    assert gzip.decompress(Payload(()).gzipped()) == b""
