"""Sources of records: a file, which may still grow, or a scheduler in this process.

A long record has parts. A new part begins with the whole state, so that older parts can be dropped: the page goes back
to the beginning of the part before the newest one.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from mooring.api.meta import Object
from mooring.core.session import PluginReference
from mooring.record.entries import Attempt, Configured, Happened, Header, Put
from mooring.record.files import BACKUPS
from mooring.record.moment import Moment
from mooring.record.reader import Record
from mooring.record.recorder import Recorder
from mooring.record.writer import Item, RecordWriter

MAX_PART_BYTES = 32 << 20  # of a record in memory
MAX_PART_ENTRIES = 500_000
PARTS = 2  # that are kept in memory


@dataclass(frozen=True, slots=True)
class NewPart:
    """Marks a new part: the whole state follows, and then events."""


News = Iterable[tuple[float, Happened | NewPart]]
Opener = Callable[[], Record]


class Source(Protocol):
    """A record that the page shows."""

    is_live: bool  # more events may follow
    plugins: tuple[PluginReference, ...]  # of the record's configuration, from outside of mooring
    belongs_to_loop: bool  # whether ``news`` and ``opener`` must be called in the writer's loop; else in any thread

    def news(self) -> News:
        """Return the events since the last call."""

    def opener(self, attempt: int = 0) -> Opener:
        """Return a function that opens the part with this attempt (0: the newest part), in any thread; the caller
        closes it.
        """

    def close(self) -> None:
        """Close files; called where ``news`` is."""


class RecordFile:
    """A file. While its end is missing it is checked again: another process may be writing it.

    A long-running scheduler renames a full file and begins a new one (see ``RotatedFiles``). So a part is identified by
    its inode, which a rename does not change: after the end of a part, another inode of our name is the next one.
    """

    belongs_to_loop = False

    def __init__(self, path: str | Path, plugins: Iterable[PluginReference] = (), *, is_endless: bool = False) -> None:
        """``is_endless``: its writer lives as long as this process."""
        self._path, self.plugins, self._is_endless = os.fspath(path), tuple(plugins), is_endless
        self._record = Record.open(path, self.plugins, follows=True)
        self.is_live = True  # until it has been read to its end
        self._parts = [(self._record.attempts_before, self._inode())]

    def opener(self, attempt: int = 0) -> Opener:
        found = [inode for before, inode in self._parts if not attempt or before < attempt]
        wanted = (found or [self._parts[0][1]])[-1]
        return lambda: self._open(wanted)

    def news(self) -> Iterator[tuple[float, Happened | NewPart]]:
        yield from self._record.news()
        while self._record.is_complete:
            if self._inode() == self._parts[-1][1]:
                self.is_live = self._is_endless
                if not self.is_live:
                    self._record.close()
                return
            self._record.close()
            self._record = Record.open(self._path, self.plugins, follows=True)
            self._parts = [*self._parts, (self._record.attempts_before, self._inode())][-PARTS:]
            yield self._record.first_time, NewPart()
            yield from self._record.news()

    def close(self) -> None:
        self._record.close()

    def _inode(self) -> int:
        return os.stat(self._path).st_ino

    def _open(self, inode: int) -> Record:
        """Open the file with this inode, possibly under another name."""
        for name in (self._path, *(f"{self._path}.{number}" for number in range(1, BACKUPS + 1))):
            if os.path.exists(name) and os.stat(name).st_ino == inode:
                return Record.open(name, self.plugins, follows=True)
        return Record.open(self._path, self.plugins, follows=True)


class RecordBytes:
    """A finished record in memory."""

    belongs_to_loop = False

    def __init__(self, written: bytes, plugins: Iterable[PluginReference] = ()) -> None:
        self._written, self.plugins = written, tuple(plugins)
        self.is_live = True  # until it has been read

    def news(self) -> Iterator[tuple[float, Happened | NewPart]]:
        yield from self.opener()().entries()
        self.is_live = False

    def opener(self, attempt: int = 0) -> Opener:
        return lambda: Record(io.BytesIO(self._written), "the record", self.plugins)

    def close(self) -> None:
        pass


class Tape:
    """A recorder's output: the newest parts of a record in memory, and what was written since the last request."""

    is_full = wants_state = False

    def __init__(self, max_bytes: int = MAX_PART_BYTES, max_entries: int = MAX_PART_ENTRIES) -> None:
        self._max_bytes, self._max_entries = max_bytes, max_entries
        self._header: Header | None = None
        self._writer: RecordWriter | None = None
        self._entries = 0  # of this part
        self._attempts = 0
        self._parts: list[tuple[int, io.BytesIO]] = []  # number of earlier attempts, and the part
        self.heard: list[tuple[float, Happened | NewPart]] = []

    def begin(self, header: Header) -> None:
        self._header = header

    def take(self, times: list[float], items: list[Item]) -> None:
        assert self._writer is not None and self._header is not None, "the state comes first"
        for item in items:
            if isinstance(item, Attempt):
                self._attempts = item.number
            elif isinstance(item, Configured):
                self._header = msgspec.structs.replace(self._header, configuration=item.configuration)
        self._collect(times, items)
        self._writer.write(times, items)
        self._entries += len(items)

    def take_state(self, time: float, items: list[Item]) -> None:
        assert self._header is not None, "begin first"
        if self._writer is None or self._writer.size >= self._max_bytes or self._entries >= self._max_entries:
            self._begin_part(time)
            self._collect([time] * len(items), items)
        assert self._writer is not None
        self._writer.write_state(time, items)

    def go_on(self) -> float:
        """Nothing is ever deferred."""
        return math.inf

    def close(self, time: float) -> None:
        self.flush()

    def flush(self) -> None:
        """Make everything taken so far readable."""
        if self._writer is not None:
            self._writer.flush()

    def part(self, attempt: int) -> bytes:
        """Return the part with this attempt; 0: the newest one."""
        found = [part for before, part in self._parts if not attempt or before < attempt]
        return (found or [self._parts[0][1]])[-1].getvalue()

    def _begin_part(self, time: float) -> None:
        assert self._header is not None
        if self._writer is not None:
            self._writer.close(time)
            self.heard.append((time, NewPart()))
        header = msgspec.structs.replace(self._header, started=time)
        part = io.BytesIO()
        self._writer, self._entries = RecordWriter(part, header, attempts=self._attempts), 0
        self._parts = [*self._parts, (self._attempts, part)][-PARTS:]

    def _collect(self, times: Iterable[float], items: Iterable[Item]) -> None:
        for time, item in zip(times, items, strict=True):
            # every entry is one of Happened
            self.heard.append((time, Put(item) if isinstance(item, Object) else item))  # type: ignore[arg-type]


class TapeSource:
    """A growing record in memory, written to ``tape`` by the watcher of the cluster."""

    belongs_to_loop = True

    def __init__(self, plugins: Iterable[PluginReference] = (), tape: Tape | None = None) -> None:
        self.tape = tape or Tape()
        self.plugins = tuple(plugins)
        self.is_live = True

    def news(self) -> News:
        heard, self.tape.heard = self.tape.heard, []
        return heard

    def opener(self, attempt: int = 0) -> Opener:
        self.tape.flush()
        written = self.tape.part(attempt)
        return lambda: Record(io.BytesIO(written), "this cluster", self.plugins)

    def close(self) -> None:
        pass


class LiveSource(TapeSource):
    """A scheduler in this process; give it ``recorder`` as an observer."""

    def __init__(
        self, source: str = "scheduler", plugins: Iterable[PluginReference] = (), tape: Tape | None = None
    ) -> None:
        super().__init__(plugins, tape)
        self.recorder = Recorder(self.tape, source=source)

    def news(self) -> News:
        self.recorder.hand_over()
        return super().news()

    def opener(self, attempt: int = 0) -> Opener:
        self.recorder.hand_over()
        return super().opener(attempt)


# --------------------------------------------------------------------------------------------------------------------
# Moments of a record that lie near each other: a step to the next decision does not begin at a keyframe.
#
# The first question opens the record at a keyframe, or some attempts before the one that is asked for if the keyframe
# is far, and remembers what happened from there on. Neighbours are forks of the moments that were kept on the way.

BEFORE = 64  # attempts before the first one that is asked for, if its keyframe is farther away than can be remembered
AHEAD = 1_000  # attempts that are replayed rather than opened
EVERY = 128  # attempts between two moments that are kept
MOST = 8_192  # attempts that are remembered
PODS_PER_ATTEMPT = 40  # playing an attempt takes as long as opening a record with this many pods


class Moments:
    """Returns moments of attempts of one record, and keeps some open. Not for concurrent use."""

    def __init__(self, opener: Callable[[], Record]) -> None:
        self._opener = opener
        self._record: Record | None = None
        self._rest: Iterator[tuple[float, Happened]] = iter(())
        self._front: Moment | None = None  # the moment after everything remembered
        self._past: list[tuple[float, Happened]] = []
        self._places: dict[int, int] = {}  # number of an attempt -> its position
        self._kept: dict[int, Moment] = {}  # just before these attempts
        self._ahead = AHEAD

    def close(self) -> None:
        if self._record is not None:
            self._record.close()

    def has(self, number: int) -> bool:
        """Report whether this attempt is near the others, and in the record as it was when opened."""
        if self._record is None or number > self._record.num_attempts:
            return False
        last = next(reversed(self._places), 0)
        return number in self._places or last < number <= last + self._ahead

    def at(self, number: int) -> Moment:
        """Return the moment just before this attempt: a fork that includes the attempt."""
        if not self.has(number):
            self._open(number)
        while number not in self._places:
            self._play_next(number)
        base = max(each for each in self._kept if each <= number)
        moment = self._kept[base].fork()
        place = self._places[number]
        for time, entry in self._past[self._places[base] : place]:
            moment.apply(time, entry)
        moment.time, entry = self._past[place]
        assert isinstance(entry, Attempt)
        moment.attempt = entry
        if moment.unreserved and self._record is not None:  # volumes or devices are reserved, which forks lack
            return self._record.attempt(number)
        return moment

    def at_end(self) -> Moment:
        """The moment after everything that the record has so far, without an attempt."""
        with self._opener() as record:
            number, end = record.num_attempts, record.last_time
            if number <= record.attempts_before:
                return record.moment(end)
        if self._record is not None and self._record.num_attempts != number:
            self._open(number)  # the record has grown
        self.at(number)
        assert self._front is not None
        for following in self._rest:
            self._past.append(following)
            self._front.apply(*following)
        moment = self._front.fork()
        moment.time, moment.attempt = end, None
        return moment

    def _open(self, number: int) -> None:
        self.close()
        self._record = self._opener()
        first = self._record.first_attempt(number)
        if number - first >= MOST:
            first = number - BEFORE
        self._front, self._rest = self._record.from_attempt(first)
        self._ahead = max(AHEAD, len(self._front.pods) // PODS_PER_ATTEMPT)
        self._past, self._places, self._kept = [], {}, {}

    def _play_next(self, number: int) -> None:
        """Apply the next event."""
        assert self._front is not None and self._record is not None
        following = next(self._rest, None)
        if following is None:
            self._record.attempt(number)  # raises for an unknown attempt
            return
        time, entry = following
        if isinstance(entry, Attempt):
            if len(self._places) % EVERY == 0:
                self._kept[entry.number] = self._front.fork()
            self._places[entry.number] = len(self._past)
        self._past.append(following)
        self._front.apply(time, entry)
        if len(self._places) > MOST:
            self._forget()

    def _forget(self) -> None:
        """Drop the older half."""
        begin = sorted(self._kept)[len(self._kept) // 2]
        cut = self._places[begin]
        self._past = self._past[cut:]
        self._places = {each: place - cut for each, place in self._places.items() if each >= begin}
        self._kept = {each: moment for each, moment in self._kept.items() if each >= begin}
