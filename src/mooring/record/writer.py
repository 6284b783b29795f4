"""Writes entries to a file: packs objects, collects entries into blocks, and writes keyframes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from operator import not_
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.record.entries import Attempt, Configured, Deleted, Entry, Header, Redaction, keeping
from mooring.record.files import END, ENTRIES, HEADER, KEYFRAME, head, pack_block
from mooring.record.packing import Packer

BLOCK_ENTRIES = 4096

Item = Entry | Object  # an object stands for its Put
_encode = msgspec.msgpack.Encoder().encode
_PLAIN = frozenset(Entry.__subclasses__()) - {Deleted, Configured}  # entries that a packer does not need to see
_PAIR = b"\x92"  # MessagePack's array of two
_ARRAY = struct.Struct(">BI")  # and of any length


class Sink(Protocol):
    """Output of a record: a file, or any other sink of bytes."""

    def write(self, data: bytes, /) -> object: ...


class RecordWriter:
    """One file. Times are seconds since the epoch; they need not increase."""

    def __init__(
        self,
        sink: Sink,
        header: Header,
        *,
        redact: Redaction | None = None,
        attempts: int = 0,
        later: Callable[[int, Callable[[], None]], None] | None = None,
    ) -> None:
        """``attempts`` is the number of attempts before this file.

        ``later`` receives slow work outside of Python, compressing and writing, with its number of entries, and carries
        it out in order. Without it, the work is done immediately.
        """
        self._sink = sink
        self._later = later
        self._packer = Packer(redact or (keeping(header.annotations) if header.is_redacted else dict))
        self._kept = header.annotations if redact is None and header.is_redacted else None  # None: kept by no plugin
        # The current block. Objects would cost the garbage collector time.
        self._block = bytearray()
        self._times: list[float] = []
        self._first_us = self._last_us = round(header.started * 1e6)
        self.attempts = attempts
        self._attempts_before = attempts  # the block that is being filled
        self.size = 0
        self._put(0, head)
        self._put_block(HEADER, msgspec.json.encode(header), 1, self._last_us, self._last_us, attempts)

    def write(self, times: Sequence[float], items: Sequence[Item]) -> None:
        """Write entries in order. Few long lists cost less than many short ones."""
        found: list[Entry] = list(items)  # type: ignore[arg-type]  # objects are replaced below
        packer, when = self._packer, list(times)
        pack, pack_pod = packer.pack, packer.pack_pod
        others: list[tuple[int, list[Entry]]] = []  # objects that are not written as one entry, and their positions
        # Most items are entries that are written unchanged: they are skipped without a line of Python for each.
        is_plain = map(_PLAIN.__contains__, map(type, items))
        for place in compress(range(len(items)), map(not_, is_plain)):
            item = items[place]
            kind = type(item)
            if kind is Pod:
                packed = pack_pod(item)  # type: ignore[arg-type]
            elif kind is Deleted:
                packer.forget(item.kind, item.key)  # type: ignore[union-attr]
                continue
            elif kind is Configured:
                self._keep_annotations_of(item)  # type: ignore[arg-type]
                continue
            else:
                packed = pack(item)  # type: ignore[arg-type]  # entries are plain, but for the one above
            if isinstance(packed, list):
                others.append((place, packed))
            else:
                found[place] = packed
        for place, entries in reversed(others):
            found[place : place + 1] = entries
            when[place : place + 1] = when[place : place + 1] * len(entries)
        self._times += when
        self.attempts = next((item.number for item in reversed(items) if type(item) is Attempt), self.attempts)
        self._add(found)
        if len(self._times) >= BLOCK_ENTRIES:
            self._write_block(ENTRIES)

    def write_state(self, time: float, items: Sequence[Item]) -> None:
        """Write the whole state as a keyframe; nothing after it refers to anything before it.

        That also holds for specs: their numbers stay, but each is written again before the first pod that has it.
        """
        for _ in self.state_in_parts(time, items, len(items) or 1):
            pass

    def state_in_parts(self, time: float, items: Sequence[Item], every: int) -> Iterator[None]:
        """Write it with a pause after this many items. Nothing else may be written until it ends."""
        self.flush()
        for item in items[:1]:
            if isinstance(item, Configured):
                self._keep_annotations_of(item)
        pack, pack_pod = self._packer.pack, self._packer.pack_pod
        self._packer.begin_keyframe()
        for start in range(0, len(items), every):
            found: list[Entry] = []
            for item in items[start : start + every]:
                if isinstance(item, Entry):
                    found.append(item)
                    continue
                packed = pack_pod(item) if type(item) is Pod else pack(item)
                if isinstance(packed, list):
                    found += packed
                else:
                    found.append(packed)
            self._times += [time] * len(found)
            self._add(found)
            yield
        self._packer.end_keyframe()
        self._first_us = self._last_us = _microseconds([time]).item()
        self._write_block(KEYFRAME)

    def _keep_annotations_of(self, entry: Configured) -> None:
        """Keep the annotations that the new plugins read."""
        if self._kept is not None and self._kept != entry.annotations:
            self._kept = entry.annotations
            self._packer.redact_by(keeping(self._kept))

    def flush(self) -> None:
        """Write the collected entries as a separate block."""
        if self._times:
            self._write_block(ENTRIES)

    def close(self, time: float | None = None) -> None:
        """Write the rest, and mark the record as complete up to that time."""
        self.flush()
        end = self._last_us if time is None else max(self._last_us, round(time * 1e6))
        self._put_block(END, b"", 0, end, end, self.attempts)

    def _add(self, found: Sequence[Entry]) -> None:
        """Add entries to the block; their times are already in it."""
        if found:
            encoded = _encode(found)
            # A block is one MessagePack array, whose length is known when it is full. So the array's header (1, 3 or 5
            # bytes) is removed, and only its elements are added.
            self._block += memoryview(encoded)[1 if len(found) < 16 else 3 if len(found) < 1 << 16 else 5 :]

    def _write_block(self, kind: bytes) -> None:
        count = len(self._times)
        moments = _microseconds(self._times)
        if count:
            self._first_us, self._last_us = moments[0].item(), moments[-1].item()
        passed = _encode(np.diff(moments, prepend=moments[:1]).tolist())
        payload = b"".join((_PAIR, passed, _ARRAY.pack(0xDD, count), self._block))
        self._put_block(kind, payload, count, self._first_us, self._last_us, self._attempts_before)
        self._block.clear()
        self._times.clear()
        self._attempts_before = self.attempts

    def _put_block(self, kind: bytes, payload: bytes, entries: int, first_us: int, last_us: int, attempts: int) -> None:
        self._put(entries, lambda: pack_block(kind, payload, entries, first_us, last_us, attempts))

    def _put(self, entries: int, pack: Callable[[], bytes]) -> None:
        def put() -> None:
            data = pack()
            self._sink.write(data)
            self.size += len(data)

        if self._later is None:
            put()
        else:
            self._later(entries, put)


def _microseconds(times: Sequence[float]) -> NDArray[np.int64]:
    return np.rint(np.array(times, np.float64) * 1e6).astype(np.int64)
