"""Record files: readable by their owner only, and for a long-running scheduler, bounded and rotated."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import zstandard

from mooring.api.errors import InputError, MooringError, UsageError

# --------------------------------------------------------------------------------------------------------------------
# The file: a fixed head, then blocks. Each block says how long it is and proves that it is whole.
#
# ```
# head    89 4D 52 45 43 0D 0A 1A    the magic, and the format as a 16-bit number
# block   52 bytes about it          kind, sizes, times, attempts so far, checksums
#         its payload                compressed by itself
# ```
#
# There is no index at the end: the heads of the blocks are one, and reading them takes milliseconds. A file that was
# cut off in the middle is read up to its last whole block.

FORMAT = 2  # 1: individual times, whole pods; still readable
MAGIC = b"\x89MREC\r\n\x1a"
HEADER, KEYFRAME, ENTRIES, END = b"H", b"K", b"E", b"Z"
LEVEL = 1  # smaller and faster than 3 on scheduler data
MAX_BYTES = 1 << 30  # of one block, unpacked: more indicates a damaged header
SMALL_BYTES = 4 << 20  # limit of any block, unpacked; larger ones: this multiple of the stored size
MAX_RATIO = 500
SMALL_ENTRIES = 1 << 16  # entries of any block; larger ones: at most one per stored byte

_HEAD = struct.Struct("<8sH6x")
_BLOCK = struct.Struct("<4sc3xIIIqqQI")  # "MBLK", kind, entries, unpacked, stored, first µs, last µs, attempts, crc
_CHECK = struct.Struct("<I")
_PADDING = struct.Struct("<II")
_SKIPPED = 0x184D2A50  # RFC 8878, 3.1.2
_MARK = b"MBLK"
BLOCK_HEAD = _BLOCK.size + _CHECK.size


@dataclass(frozen=True, slots=True)
class Block:
    """Position and header of a block."""

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
    """Return the first bytes of every file."""
    return _HEAD.pack(MAGIC, FORMAT)


def pack_block(kind: bytes, payload: bytes, entries: int, first_us: int, last_us: int, attempts: int) -> bytes:
    """Return an encoded block."""
    # One context per block: the same payload gives the same bytes, whatever came before.
    stored = zstandard.ZstdCompressor(level=LEVEL).compress(payload)
    if (missing := (len(payload) - SMALL_BYTES) // MAX_RATIO + 1 - len(stored)) > 0:
        stored += _PADDING.pack(_SKIPPED, missing) + bytes(missing)  # a frame that readers skip
    fields = (_MARK, kind, entries, len(payload), len(stored), first_us, last_us, attempts, zlib.crc32(stored))
    about = _BLOCK.pack(*fields)
    return about + _CHECK.pack(zlib.crc32(about)) + stored


def check_head(file: BinaryIO, name: str) -> int:
    """Return the format of a record; reject other files, and newer formats."""
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
    """Yield intact blocks in order, up to the first damaged one; from the end of a known block on, if given."""
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
    """Return the content of a block; raise InputError if it is damaged, or unpacks to far too much."""
    if block.unpacked > SMALL_BYTES + MAX_RATIO * block.stored or block.entries > SMALL_ENTRIES + block.stored:
        size = f"{block.stored:,} bytes say that they unpack to {block.unpacked:,}, {block.entries:,} entries"
        raise InputError(f"{name}: damaged at byte {block.offset}: {size}; no record has such a block")
    file.seek(block.offset)
    stored = file.read(block.stored)
    if zlib.crc32(stored) != block.crc:
        raise InputError(f"{name}: damaged at byte {block.offset}: the checksum of a block does not fit")
    try:
        if zstandard.frame_content_size(stored) != block.unpacked:  # it would be trusted otherwise
            raise InputError(f"{name}: damaged at byte {block.offset}: the size of a block differs from its header")
        return zstandard.ZstdDecompressor().decompress(stored)
    except zstandard.ZstdError as error:
        raise InputError(f"{name}: damaged at byte {block.offset}: {error}") from None


BACKUPS = 3


def create(path: str | os.PathLike[str], inputs: Iterable[str] = ()) -> io.FileIO:
    """Create a file readable by its owner only: it names pods of every namespace. An existing record is replaced.

    The exception are ``inputs``, from which the record is made.
    """
    try:
        _keep_others(path, inputs)
        file = io.FileIO(os.fspath(path), "w", opener=lambda name, flags: os.open(name, flags, 0o600))
        os.fchmod(file.fileno(), 0o600)  # also if it existed before
        return file
    except OSError as error:
        raise UsageError(f"{os.fspath(path)}: {error.strerror or error}") from None


def _keep_others(path: str | os.PathLike[str], inputs: Iterable[str] = ()) -> None:
    """Refuse to replace a file other than a record (such as a story given twice), and records that are read."""
    if os.path.isfile(path):  # neither a device nor missing
        if any(os.path.exists(each) and os.path.samefile(path, each) for each in inputs):
            raise UsageError(f"{os.fspath(path)}: is the input, so it is not overwritten; give another name")
        with open(path, "rb") as file:
            begins = file.read(len(MAGIC))
        if begins and begins != MAGIC:
            raise UsageError(
                f"{os.fspath(path)}: exists and is not a record, so it is not overwritten; give another name"
            )


class WholeWrites:
    """A file as a sink: each write is complete, or the file is unchanged."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._size = 0

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)
                self._file.seek(self._size)
            raise MooringError(f"{os.fspath(self._file.name)}: {error.strerror or error}") from None
        self._size += len(data)

    def empty(self) -> None:
        """Remove everything that was written."""
        self._file.truncate(0)

    def close(self) -> None:
        self._file.close()


class RotatedFiles:
    """``FILE``, ``FILE.1`` (newer) … ``FILE.3`` (oldest), bounded by total size and by age."""

    def __init__(self, path: str, *, max_bytes: int, max_age_s: float) -> None:
        self.path = path
        self.max_bytes_each = max_bytes // (BACKUPS + 1)
        self.max_age_each_s = max_age_s / (BACKUPS + 1)
        self._max_age_s = max_age_s
        if self.max_bytes_each < 1 << 20:
            raise UsageError(f"--record-max-size: {max_bytes >> 20} MiB; a record needs at least {BACKUPS + 1} MiB")
        if max_age_s <= 0:
            raise UsageError(f"--record-max-age: {max_age_s:g}s; it should be longer than 0s, such as 72h")

    def begin(self) -> WholeWrites:
        """Begin a new file. The previous one is rotated; files that are too old are deleted."""
        for name in (self.path, *(f"{self.path}.{number}" for number in range(1, BACKUPS + 1))):
            with contextlib.suppress(OSError):  # the rename reports errors
                _keep_others(name)
        if os.path.exists(self.path) and os.path.getsize(self.path):
            self._rotate()
        for number in range(1, BACKUPS + 1):
            with contextlib.suppress(OSError):
                if os.path.getmtime(f"{self.path}.{number}") < time.time() - self._max_age_s:
                    os.remove(f"{self.path}.{number}")
        return WholeWrites(create(self.path))

    def _rotate(self) -> None:
        try:
            for number in range(BACKUPS - 1, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
            os.replace(self.path, f"{self.path}.1")
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror or error}") from None


BEGINS = b"\x89MREC"


def file_and_time(name: str) -> tuple[str, str]:
    """Split a name into the file and the time after its ``@``; an existing file with an ``@`` is taken as it is."""
    file, at, time = name.rpartition("@")
    return (file, time) if at and not os.path.exists(name) else (name, "")


def names_a_record(name: str) -> bool:
    """Report whether the file begins like a record, or has a record's name: opening it then reports errors."""
    file = file_and_time(name)[0]
    if file.endswith(".mrec"):
        return True
    if not os.path.isfile(file):  # reading from a pipe would consume it
        return False
    try:
        with open(file, "rb") as opened:
            return opened.read(len(BEGINS)) == BEGINS
    except OSError:
        return False
