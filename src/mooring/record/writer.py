"""Writes entries into a file: packs objects, gathers entries into blocks, begins anew at keyframes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from mooring.api.meta import Object
from mooring.record.blocks import END, ENTRIES, HEADER, KEYFRAME, head, pack_block
from mooring.record.entries import Attempt, Deleted, Entry, Header
from mooring.record.packing import Packer
from mooring.record.redaction import Redaction, keeping

BLOCK_ENTRIES = 4096

Item = Entry | Object  # an object stands for its Put
_append = msgspec.msgpack.Encoder().encode_into
_ARRAY = struct.Struct(">BI")  # how MessagePack begins an array of any length


class Sink(Protocol):
    """Where a record goes: a file, or anything else that takes bytes."""

    def write(self, data: bytes, /) -> object: ...


class Writer:
    """One file. Times are seconds since the epoch; they need not rise."""

    def __init__(self, sink: Sink, header: Header, *, redact: Redaction | None = None, attempts: int = 0) -> None:
        """``attempts`` were made before this file begins."""
        self._sink = sink
        self._redact = redact or (keeping() if header.is_redacted else dict)
        self._packer = Packer(self._redact)
        # The block that is being filled, encoded at once: what is kept as objects costs the garbage collector time.
        self._block = bytearray()
        self._count = 0
        self._first_us = self._last_us = round(header.started * 1e6)
        self._attempts = attempts
        self._attempts_before = attempts  # the block that is being filled
        self.size = 0
        self._put(head())
        self._put(pack_block(HEADER, msgspec.json.encode(header), 1, self._last_us, self._last_us, attempts))

    def write(self, times: Sequence[float], items: Sequence[Item]) -> None:
        """Take what happened, in order."""
        for time, item in zip(times, items, strict=True):
            entry: Entry | None
            if isinstance(item, Object):
                entry = self._packer.pack(item)
                if entry is None:
                    continue
            else:
                entry = item
                if isinstance(entry, Attempt):
                    self._attempts = entry.number
                elif isinstance(entry, Deleted):
                    self._packer.forget(entry.kind, entry.key)
            self._add(time, entry)
            if self._count >= BLOCK_ENTRIES:
                self._write_block(ENTRIES)

    def write_state(
        self, time: float, items: Sequence[Item], *, pause: Callable[[], None] | None = None, every: int = 64
    ) -> None:
        """Write the whole state as a keyframe; nothing after it refers to anything before it.

        ``pause`` is called after so many items, for a thread that lets others have a turn.
        """
        self.flush()
        self._packer = Packer(self._redact)
        for i, item in enumerate(items):
            entry = self._packer.pack(item) if isinstance(item, Object) else item
            if entry is not None:
                self._add(time, entry)
            if pause is not None and i % every == 0:
                pause()
        if not self._count:
            self._first_us = self._last_us = round(time * 1e6)
        self._write_block(KEYFRAME)

    def flush(self) -> None:
        """Write what has gathered as a block of its own."""
        if self._count:
            self._write_block(ENTRIES)

    def close(self, time: float | None = None) -> None:
        """Write what is left, and say that the record is complete: nothing more happened until that time."""
        self.flush()
        end = self._last_us if time is None else max(self._last_us, round(time * 1e6))
        self._put(pack_block(END, b"", 0, end, end, self._attempts))

    def _add(self, time: float, entry: Entry) -> None:
        now = round(time * 1e6)
        if not self._count:
            self._first_us = self._last_us = now
        _append((now - self._last_us, entry), self._block, -1)
        self._count += 1
        self._last_us = now

    def _write_block(self, kind: bytes) -> None:
        payload = _ARRAY.pack(0xDD, self._count) + self._block
        self._put(pack_block(kind, payload, self._count, self._first_us, self._last_us, self._attempts_before))
        self._block.clear()
        self._count = 0
        self._attempts_before = self._attempts

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self.size += len(data)
