"""The file: a fixed head, then blocks. Each block says how long it is and proves that it is whole.

```
head    89 4D 52 45 43 0D 0A 1A    the magic, and the format as a 16-bit number
block   52 bytes about it          kind, sizes, times, attempts so far, checksums
        its payload                compressed by itself
```

There is no index at the end: the heads of the blocks are one, and reading them takes milliseconds. A file that was cut
off in the middle is read up to its last whole block.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import zstandard

from mooring.errors import InputError

FORMAT = 2  # 1: entries with their times one by one, pods whole; it is read, too
MAGIC = b"\x89MREC\r\n\x1a"
HEADER, KEYFRAME, ENTRIES, END = b"H", b"K", b"E", b"Z"
LEVEL = 1  # smaller and quicker than 3 on what schedulers do
MAX_BYTES = 1 << 30  # of one block, unpacked: more is a damaged head

_HEAD = struct.Struct("<8sH6x")
_BLOCK = struct.Struct("<4sc3xIIIqqQI")  # "MBLK", kind, entries, unpacked, stored, first µs, last µs, attempts, crc
_CHECK = struct.Struct("<I")
_MARK = b"MBLK"
BLOCK_HEAD = _BLOCK.size + _CHECK.size


@dataclass(frozen=True, slots=True)
class Block:
    """Where a block is and what its head says."""

    kind: bytes
    offset: int  # of the payload
    stored: int
    unpacked: int
    entries: int
    first_us: int
    last_us: int
    attempts: int  # before this block
    crc: int


def head() -> bytes:
    """How every file begins."""
    return _HEAD.pack(MAGIC, FORMAT)


def pack_block(kind: bytes, payload: bytes, entries: int, first_us: int, last_us: int, attempts: int) -> bytes:
    """A block, ready to be written."""
    # One context per block: the same payload gives the same bytes, whatever came before.
    stored = zstandard.ZstdCompressor(level=LEVEL).compress(payload)
    fields = (_MARK, kind, entries, len(payload), len(stored), first_us, last_us, attempts, zlib.crc32(stored))
    about = _BLOCK.pack(*fields)
    return about + _CHECK.pack(zlib.crc32(about)) + stored


def check_head(file: BinaryIO, name: str) -> int:
    """The format of a record; refuse a file that is none, or one of a newer format."""
    found = file.read(_HEAD.size)
    if len(found) < _HEAD.size or not found.startswith(MAGIC):
        raise InputError(f"{name}: not a mooring record; `mooring run --record FILE` and others write one")
    number: int = _HEAD.unpack(found)[1]
    if number > FORMAT:
        raise InputError(
            f"{name}: a record of format {number}, from a newer mooring; this one reads format {FORMAT}: update mooring"
        )
    return number


def scan(file: BinaryIO, size: int, offset: int = 0) -> Iterator[Block]:
    """The blocks that are whole, in order, to the first that is not; from the end of a known block on, if given."""
    offset = offset or _HEAD.size
    while offset + BLOCK_HEAD <= size:
        file.seek(offset)
        about = file.read(BLOCK_HEAD)
        if _CHECK.unpack(about[_BLOCK.size :])[0] != zlib.crc32(about[: _BLOCK.size]):
            return
        mark, kind, entries, unpacked, stored, first_us, last_us, attempts, crc = _BLOCK.unpack(about[: _BLOCK.size])
        offset += BLOCK_HEAD
        if mark != _MARK or offset + stored > size or unpacked > MAX_BYTES:
            return
        yield Block(kind, offset, stored, unpacked, entries, first_us, last_us, attempts, crc)
        offset += stored


def payload_of(file: BinaryIO, block: Block, name: str) -> bytes:
    """The content of a block, or InputError if it is damaged."""
    file.seek(block.offset)
    stored = file.read(block.stored)
    if zlib.crc32(stored) != block.crc:
        raise InputError(f"{name}: damaged at byte {block.offset}: the checksum of a block does not fit")
    try:
        if zstandard.frame_content_size(stored) != block.unpacked:  # it would be believed, however large
            raise InputError(f"{name}: damaged at byte {block.offset}: a block has another size than it says")
        return zstandard.ZstdDecompressor().decompress(stored)
    except zstandard.ZstdError as error:
        raise InputError(f"{name}: damaged at byte {block.offset}: {error}") from None
