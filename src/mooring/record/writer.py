"""Writes entries into a file: packs objects, gathers entries into blocks, begins anew at keyframes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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


class Sink(Protocol):
    """Where a record goes: a file, or anything else that takes bytes."""

    def write(self, data: bytes, /) -> object: ...


@dataclass(slots=True)
class State:
    """Everything that is known at one moment: what a keyframe holds."""

    items: list[Item] = field(default_factory=list)


class Writer:
    """One file. Times are seconds since the epoch; those of one call of ``write`` after another never need to rise."""

    def __init__(self, sink: Sink, header: Header, *, redact: Redaction | None = None, attempts: int = 0) -> None:
        """``attempts`` were made before this file begins."""
        self._sink = sink
        self._redact = redact or (keeping() if header.is_redacted else dict)
        self._packer = Packer(self._redact)
        self._block: list[tuple[int, Entry]] = []
        self._first_us = self._last_us = round(header.started * 1e6)
        self._attempts = attempts
        self._attempts_before = attempts  # the block that is being filled
        self.size = 0
        self._put(head())
        self._put(pack_block(HEADER, msgspec.json.encode(header), 1, self._last_us, self._last_us, attempts))

    def write(self, timed: Iterable[tuple[float, Item | State]]) -> None:
        """Take what happened, in order."""
        add, pack, limit = self._add, self._packer.pack, BLOCK_ENTRIES
        for time, item in timed:
            entry: Entry | None
            if isinstance(item, Object):
                entry = pack(item)
                if entry is None:
                    continue
            elif isinstance(item, State):
                self._keyframe(time, item.items)
                pack = self._packer.pack
                continue
            else:
                entry = item
                if isinstance(entry, Attempt):
                    self._attempts = entry.number
                elif isinstance(entry, Deleted):
                    self._packer.forget(entry.kind, entry.key)
            add(round(time * 1e6), entry)
            if len(self._block) >= limit:
                self.flush()

    def flush(self) -> None:
        """Write what has gathered as a block of its own."""
        if self._block:
            self._write_block(ENTRIES)

    def close(self) -> None:
        """Write what is left, and say that the record is complete."""
        self.flush()
        self._put(pack_block(END, b"", 0, self._last_us, self._last_us, self._attempts))

    def _keyframe(self, time: float, items: Sequence[Item]) -> None:
        """Write the whole state; nothing after it refers to anything before it."""
        self.flush()
        self._packer = Packer(self._redact)
        now = round(time * 1e6)
        for item in items:
            entry = self._packer.pack(item) if isinstance(item, Object) else item
            if entry is not None:
                self._add(now, entry)
        if not self._block:
            self._first_us = self._last_us = now
        self._write_block(KEYFRAME)

    def _add(self, now: int, entry: Entry) -> None:
        if not self._block:
            self._first_us = self._last_us = now
        self._block.append((now - self._last_us, entry))
        self._last_us = now

    def _write_block(self, kind: bytes) -> None:
        payload = _encode(self._block)
        block = pack_block(kind, payload, len(self._block), self._first_us, self._last_us, self._attempts_before)
        self._put(block)
        self._block.clear()
        self._attempts_before = self._attempts

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self.size += len(data)
