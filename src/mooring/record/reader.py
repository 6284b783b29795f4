"""Reads records: events from any time on, and any moment."""

from __future__ import annotations

import io
import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgspec

from mooring.api.errors import InputError, ParseError, UsageError, warn
from mooring.api.memory import without_collecting
from mooring.api.meta import Object
from mooring.api.times import format_duration, parse_seconds, parse_time
from mooring.core.framework.registry import Registry
from mooring.core.session import PluginReference, registry_with
from mooring.record.entries import Attempt, Deleted, Gap, Happened, Header, Put, Told
from mooring.record.files import END, ENTRIES, HEADER, KEYFRAME, SMALL_BYTES, Block, check_head, payload_of, scan
from mooring.record.moment import Moment
from mooring.record.packing import RECORDED, PackedPod, PackedPut, PackedSpec, Unpacker
from mooring.record.scheduler_state import ALL

Stored = PackedPut | PackedSpec | PackedPod | Told
_decoder = msgspec.msgpack.Decoder(tuple[list[int], list[Stored]])
_decoder_1 = msgspec.msgpack.Decoder(list[tuple[int, Stored]])  # of format 1
_raw_lists = msgspec.msgpack.Decoder(tuple[msgspec.Raw, msgspec.Raw])


def _most_entries(payload: bytes, format: int) -> int:
    """Return the length of a block's longer list, to check it before millions of objects are created."""
    lists = (payload,) if format == 1 else map(bytes, _raw_lists.decode(payload))
    lengths = {0xDC: 2, 0xDD: 4}  # bytes of the length after the first byte of an array
    return max(int.from_bytes(each[1 : 1 + lengths[each[0]]]) if each[0] in lengths else 0 for each in lists)


@dataclass(slots=True)
class _BlockPlace:
    """Position of a reader: the next block, and the state by then."""

    block: int
    yields_state: bool
    is_first: bool = True  # the keyframe at which reading begins
    has_gap: bool = False
    unpacker: Unpacker = field(default_factory=Unpacker)


class Record:
    """A record opened for reading; also a context manager."""

    def __init__(self, file: BinaryIO, name: str = "record", plugins: Iterable[PluginReference] = ()) -> None:
        """``plugins`` are those of the recorded configuration from outside of mooring."""
        if isinstance(file, str | Path):
            raise UsageError(f"Record({str(file)!r}): expected an open file; a path is opened by Record.open(path)")
        self.name = name
        self._path = os.path.abspath(name)  # the working directory may change
        self._file = file
        self._plugins = tuple(plugins)
        size = os.fstat(file.fileno()).st_size if isinstance(file, io.BufferedReader) else file.seek(0, os.SEEK_END)
        file.seek(0)
        self._format = check_head(file, name)
        self._blocks = list(scan(file, size))
        self.header = self._read_header()
        self._followed = _BlockPlace(1, yields_state=True)

    @classmethod
    def open(cls, path: str | Path, plugins: Iterable[PluginReference] = (), *, follows: bool = False) -> Self:
        """Open a file; raise a one-line InputError for an invalid one.

        A truncated one is read as far as possible; with a warning, unless the caller ``follows`` the writer.
        """
        try:
            file = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from None
        try:
            record = cls(file, str(path), plugins)
            if not record.is_complete and not follows:
                warn([f"{path}: the record was cut off, or is still being written; it is read as far as it goes"])
        except BaseException:
            file.close()
            raise
        return record

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    # ---- the whole record -----------------------------------------------------------------------------------------

    @property
    def first_time(self) -> float:
        """Time of the beginning, in seconds since the epoch."""
        return self.header.started

    @property
    def last_time(self) -> float:
        """Time of the last event."""
        return self._blocks[-1].last_us / 1e6

    @property
    def num_attempts(self) -> int:
        """Number of the last attempt."""
        last = self._blocks[-1]
        if last.kind in (END, HEADER):
            return last.attempts
        numbers = (entry.number for _, entry in self._stored(last) if isinstance(entry, Attempt))
        return max(numbers, default=last.attempts)

    @property
    def is_complete(self) -> bool:
        """Whether its end is present; otherwise it was truncated, or is still being written."""
        return self._blocks[-1].kind == END

    @property
    def attempts_before(self) -> int:
        """Number of attempts before the beginning of the record."""
        return self._blocks[1].attempts if len(self._blocks) > 1 else 0

    @property
    def size(self) -> int:
        """Number of readable bytes."""
        return self._blocks[-1].offset + self._blocks[-1].stored

    # ---- events -----------------------------------------------------------------------------------------------------

    def entries(self, since: float | None = None, until: float | None = None) -> Iterator[tuple[float, Happened]]:
        """Yield events in order, each with its time.

        At the beginning of the record, its initial state comes first. With ``since``, earlier events are left out.
        """
        start = 1 if since is None else self._keyframe_before(lambda block: block.first_us / 1e6 <= since)
        for time, entry in self._read(start, yields_state=since is None):
            if until is not None and time > until:
                return
            if since is None or time >= since:
                yield time, entry

    def news(self) -> Iterator[tuple[float, Happened]]:
        """Yield events written since the last call: at first everything, with the initial state.

        For a record that another process is writing. Blocks are only appended, and an incomplete one fails its checksum
        or exceeds the file: it is read at the next call.
        """
        self._blocks += scan(self._file, self._file.seek(0, os.SEEK_END), self.size)
        return self._read_on(self._followed)

    def attempts(self) -> Iterator[tuple[float, Attempt]]:
        """Yield only attempts, which is faster, because no objects are decoded."""
        for block in self._blocks:
            if block.kind == ENTRIES:
                for time, entry in self._stored(block):
                    if isinstance(entry, Attempt):
                        yield time, entry

    # ---- single moments -------------------------------------------------------------------------------------------

    def moment(self, time: float) -> Moment:
        """Return the cluster and the queue at that time."""
        if not self.first_time <= time <= self.last_time:
            length = format_duration(round(self.last_time - self.first_time, 3))
            raise InputError(f"{self.name}: nothing is recorded at that time; it goes from 0s to {length}")
        found = Moment(self.header, self._registry, to_reserve=(), record=self._path)
        start = self._keyframe_before(lambda block: block.first_us / 1e6 <= time)
        with without_collecting():
            found.apply_all(takewhile(lambda each: each[0] <= time, self._read(start, yields_state=True)))
        found.time = time
        return found

    def beginning(self) -> Moment:
        """Return the cluster and the queue before the first event: ``entries(since=first_time)`` follows."""
        found = Moment(self.header, self._registry, to_reserve=(), record=self._path)
        if len(self._blocks) > 1 and self._blocks[1].kind == KEYFRAME:
            found.apply_all(self._unpacked(self._blocks[1], Unpacker()))
        found.time = self.first_time
        return found

    def attempt(self, number: int) -> Moment:
        """Return the cluster and the queue as attempt ``number`` saw them."""
        return self.from_attempt(number)[0]

    def first_attempt(self, number: int) -> int:
        """The first attempt after the keyframe from which attempt ``number`` is opened."""
        latest = self._keyframe_before(lambda block: block.attempts < number)
        return min(number, 1 + (self._blocks[latest].attempts if latest < len(self._blocks) else 0))

    def from_attempt(self, number: int) -> tuple[Moment, Iterator[tuple[float, Happened]]]:
        """Return the moment of an attempt, and the events from there on, beginning with the attempt."""
        first = self.attempts_before + 1
        latest = self._keyframe_before(lambda block: block.attempts < number)
        starts = [i for i, block in enumerate(self._blocks) if block.kind == KEYFRAME and i <= latest]
        for start in reversed(starts if first <= number else ()):
            found, rest = self._play_to(number, start, ())
            if rest is None:
                break
            missing = set(found.unreserved.values())
            if 0 in missing and start != starts[0]:
                # The volumes or devices of a pod in its binding cycle were reserved before this keyframe. A keyframe
                # does not contain reservations, which live in plugins: begin one keyframe earlier, and repeat that
                # attempt.
                continue
            if missing:
                found, rest = self._play_to(number, start, missing)
                assert rest is not None, "it came a moment ago"
            found.to_reserve = ALL
            return found, rest
        there_are = f"they are {first} to {self.num_attempts}" if self.num_attempts >= first else "it has none"
        raise InputError(f"{self.name}: there is no attempt {number}; {there_are}")

    def _play_to(
        self, number: int, start: int, to_reserve: Container[int]
    ) -> tuple[Moment, Iterator[tuple[float, Happened]] | None]:
        """Replay from a keyframe to an attempt; also return the attempt and what follows it."""
        found = Moment(self.header, self._registry, to_reserve, record=self._path)
        happened = self._read(start, yields_state=True)
        with without_collecting():
            is_open = found.apply_all(happened, number)
        if not is_open:
            return found, None
        assert found.attempt is not None
        return found, chain([(found.time, found.attempt)], happened)

    @cached_property
    def _registry(self) -> Registry:
        return registry_with(self._plugins)[0]

    # ---- blocks --------------------------------------------------------------------------------------------------

    def _read_header(self) -> Header:
        if not self._blocks or self._blocks[0].kind != HEADER:
            raise InputError(f"{self.name}: cut off before its first entry")
        try:
            return msgspec.json.decode(payload_of(self._file, self._blocks[0], self.name), type=Header)
        except msgspec.DecodeError as error:
            raise InputError(f"{self.name}: damaged: its header: {error}") from None

    def _keyframe_before(self, is_early: Any) -> int:
        """Return the position of the last keyframe that is early enough."""
        found = 1
        for i, block in enumerate(self._blocks):
            if block.kind == KEYFRAME:
                if i > 1 and not is_early(block):
                    break
                found = i
        return found

    def _decoded(self, block: Block) -> Iterable[tuple[int, Stored]]:
        """Yield the entries of a block, each with the microseconds since the previous one."""
        payload = payload_of(self._file, block, self.name)
        try:
            if len(payload) > SMALL_BYTES and _most_entries(payload, self._format) > block.entries:
                raise InputError(f"{self.name}: damaged at byte {block.offset}: it has more entries than it says")
            if self._format == 1:
                return _decoder_1.decode(payload)
            passed, found = _decoder.decode(payload)
        except msgspec.DecodeError as error:
            raise InputError(f"{self.name}: damaged at byte {block.offset}: {error}") from None
        if len(passed) != len(found):
            raise InputError(f"{self.name}: damaged at byte {block.offset}: {len(passed)} times, {len(found)} entries")
        return zip(passed, found, strict=True)

    def _stored(self, block: Block) -> Iterator[tuple[float, Stored]]:
        now = block.first_us
        for passed, entry in self._decoded(block):
            now += passed
            yield now / 1e6, entry

    def _read(self, start: int, *, yields_state: bool) -> Iterator[tuple[float, Happened]]:
        """Entries from a keyframe on."""
        return self._read_on(_BlockPlace(start, yields_state))

    def _read_on(self, place: _BlockPlace) -> Iterator[tuple[float, Happened]]:
        """Yield entries from a position on. Later keyframes only matter after a gap."""
        while place.block < len(self._blocks):
            block = self._blocks[place.block]
            is_first, place.is_first = place.is_first, False
            place.block += 1
            if block.kind == KEYFRAME and not is_first:
                if place.has_gap:
                    before, place.unpacker = place.unpacker.known, Unpacker()
                    yield from _hidden_by_gap(before, list(self._unpacked(block, place.unpacker)))
                    place.has_gap = False
                else:
                    self._learn_specs(block, place.unpacker)
                continue
            if block.kind not in (KEYFRAME, ENTRIES):
                continue
            shows = block.kind == ENTRIES or place.yields_state
            for time, entry in self._unpacked(block, place.unpacker):
                place.has_gap |= isinstance(entry, Gap)
                if shows:
                    yield time, entry

    def _unpacked(self, block: Block, unpacker: Unpacker) -> Iterator[tuple[float, Happened]]:
        now = block.first_us
        for passed, entry in self._decoded(block):
            now += passed
            try:
                if isinstance(entry, (PackedPod, PackedPut)):
                    obj = unpacker.unpack(entry)
                    if obj is not None:
                        yield now / 1e6, Put(obj)
                    continue
                if isinstance(entry, PackedSpec):
                    unpacker.learn(entry)
                    continue
                if isinstance(entry, Deleted):
                    if entry.kind not in RECORDED:
                        continue
                    unpacker.forget(entry.kind, entry.key)
            except InputError as error:
                raise InputError(f"{self.name}: {error}") from None
            yield now / 1e6, entry

    def _learn_specs(self, block: Block, unpacker: Unpacker) -> None:
        """Read only the specs of a keyframe whose objects are known."""
        unpacker.begin_keyframe()
        for _, entry in self._decoded(block) if self._format > 1 else ():
            if isinstance(entry, PackedSpec):
                unpacker.learn(entry)


def _hidden_by_gap(
    before: dict[tuple[str, str], Object], state: list[tuple[float, Happened]]
) -> Iterator[tuple[float, Happened]]:
    """Yield what a gap has hidden: deleted objects, and then the state after it."""
    there = {(type(entry.object).__name__, entry.object.key) for _, entry in state if isinstance(entry, Put)}
    time = state[0][0] if state else 0.0
    for (kind, key), obj in before.items():
        if (kind, key) not in there:
            yield time, Deleted(kind, key, obj.metadata.uid)
    yield from state


# --------------------------------------------------------------------------------------------------------------------
# Moments named after an ``@``: ``run.mrec@90s``.


def record_time(text: str, record: Record) -> float:
    """Parse a timestamp, or a time from the record's beginning."""
    try:
        return record.first_time + parse_seconds(text.removeprefix("+"))
    except ParseError:
        pass
    try:
        return parse_time(text)
    except ParseError:
        raise UsageError(
            f"{text!r} is not a time; write 90s, from the beginning of the record, or 2026-01-31T12:00:00Z"
        ) from None
