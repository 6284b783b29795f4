"""Writes entries into a file: packs objects, gathers entries into blocks, begins anew at keyframes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import sub
from typing import Protocol

import msgspec

from mooring.api.meta import Object
from mooring.record.blocks import END, ENTRIES, HEADER, KEYFRAME, head, pack_block
from mooring.record.entries import Attempt, Deleted, Entry, Header
from mooring.record.packing import Packer
from mooring.record.redaction import Redaction, keeping

BLOCK_ENTRIES = 4096

Item = Entry | Object  # an object stands for its Put
_encode = msgspec.msgpack.Encoder().encode
_ARRAY = struct.Struct(">BI")  # how MessagePack begins an array of any length


class Sink(Protocol):
    """Where a record goes: a file, or anything else that takes bytes."""

    def write(self, data: bytes, /) -> object: ...


class Writer:
    """One file. Times are seconds since the epoch; they need not rise."""

    def __init__(self, sink: Sink, header: Header, *, redact: Redaction | None = None, attempts: int = 0) -> None:
        """``attempts`` were made before this file begins."""
        self._sink = sink
        self._packer = Packer(redact or (keeping(header.annotations) if header.is_redacted else dict))
        # The block that is being filled. What is kept as objects would cost the garbage collector time.
        self._block = bytearray()
        self._count = 0
        self._first_us = self._last_us = round(header.started * 1e6)
        self.attempts = attempts
        self._attempts_before = attempts  # the block that is being filled
        self.size = 0
        self._put(head())
        self._put(pack_block(HEADER, msgspec.json.encode(header), 1, self._last_us, self._last_us, attempts))

    def write(self, times: Sequence[float], items: Sequence[Item]) -> None:
        """Take what happened, in order. Few long lists cost less than many short ones."""
        pack = self._packer.pack
        when: list[float] = []
        found: list[Entry] = []
        for time, item in zip(times, items, strict=True):
            entry: Entry | None
            if isinstance(item, Object):
                entry = pack(item)
                if entry is None:
                    continue
            else:
                entry = item
                if isinstance(entry, Attempt):
                    self.attempts = entry.number
                elif isinstance(entry, Deleted):
                    self._packer.forget(entry.kind, entry.key)
            when.append(time)
            found.append(entry)
        self._add(when, found)
        if self._count >= BLOCK_ENTRIES:
            self._write_block(ENTRIES)

    def write_state(
        self, time: float, items: Sequence[Item], *, pause: Callable[[], None] | None = None, every: int = 64
    ) -> None:
        """Write the whole state as a keyframe; nothing after it refers to anything before it.

        ``pause`` is called after so many items, for a thread that lets others have a turn.
        """
        self.flush()
        self._packer.forget_all()
        pack = self._packer.pack
        for start in range(0, len(items), every):
            packed = [pack(item) if isinstance(item, Object) else item for item in items[start : start + every]]
            found = [entry for entry in packed if entry is not None]
            self._add([time] * len(found), found)
            if pause is not None:
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
        self._put(pack_block(END, b"", 0, end, end, self.attempts))

    def _add(self, times: Sequence[float], found: Sequence[Entry]) -> None:
        """Put entries into the block, each with the time since the one before."""
        if not found:
            return
        moments = [round(time * 1e6) for time in times]
        if not self._count:
            self._first_us = self._last_us = moments[0]
        passed = map(sub, moments, [self._last_us, *moments])
        encoded = _encode([*zip(passed, found, strict=False)])
        # The block is one array: the beginning of this one goes.
        self._block += memoryview(encoded)[1 if len(found) < 16 else 3 if len(found) < 1 << 16 else 5 :]
        self._count += len(found)
        self._last_us = moments[-1]

    def _write_block(self, kind: bytes) -> None:
        payload = _ARRAY.pack(0xDD, self._count) + self._block
        self._put(pack_block(kind, payload, self._count, self._first_us, self._last_us, self._attempts_before))
        self._block.clear()
        self._count = 0
        self._attempts_before = self.attempts

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self.size += len(data)
