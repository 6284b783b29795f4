"""What is sent to an extender: a request's body in pieces, some of them kept compressed from earlier calls."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence


class Payload:
    """A request's body."""

    __slots__ = ("_deflated", "pieces")

    def __init__(self, pieces: Sequence[bytes], deflated: dict[bytes, bytes] | None = None) -> None:
        self.pieces = pieces
        self._deflated = {} if deflated is None else deflated

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def gzipped(self) -> bytes:
        """One gzip member. Each piece is a run of blocks of its own, so that those of unchanged nodes are reused."""
        parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
        crc = size = 0
        for piece in self.pieces:
            crc = zlib.crc32(piece, crc)
            size += len(piece)
            deflated = self._deflated.get(piece)
            parts.append(deflate(piece) if deflated is None else deflated)
        parts.append(b"\x03\x00")  # an empty last block
        parts.append(struct.pack("<II", crc, size & 0xFFFFFFFF))
        return b"".join(parts)


def deflate(piece: bytes) -> bytes:
    """Compress a piece to blocks that can stand anywhere in a stream."""
    compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
    return compressor.compress(piece) + compressor.flush(zlib.Z_FULL_FLUSH)
