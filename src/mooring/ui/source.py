"""Where a record comes from: a file, which may still grow, or a scheduler in this process."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from mooring.api.meta import Object
from mooring.record.entries import Happened, Put
from mooring.record.reader import Record
from mooring.record.recorder import Immediately, Recorder
from mooring.record.writer import Item
from mooring.surface.scheduler import PluginReference

News = Iterable[tuple[float, Happened]]


class Source(Protocol):
    """A record that the page shows. All of it is called in the thread that it belongs to."""

    is_live: bool  # more may come
    plugins: tuple[PluginReference, ...]  # of the record's configuration that do not come with mooring

    def news(self) -> News:
        """What has happened since the last call."""

    def opener(self) -> Callable[[], Record]:
        """Opens the record as it is now, in any thread; whoever does closes it."""


class RecordFile:
    """A file. While its end is missing it is looked at again: another process may be writing it."""

    def __init__(self, path: str | Path, plugins: Iterable[PluginReference] = ()) -> None:
        self._path, self.plugins = path, tuple(plugins)
        self._record = Record.open(path, self.plugins)
        self.is_live = True  # until it has been read to its end
        self._read_to: float | None = None
        self._at_that_time = 0  # entries that were read of that moment

    def opener(self) -> Callable[[], Record]:
        return lambda: Record.open(self._path, self.plugins)

    def news(self) -> Iterator[tuple[float, Happened]]:
        if self._read_to is not None:
            self._look_again()
        is_complete = self._record.is_complete
        skip, since = self._at_that_time, self._read_to
        for time, entry in self._record.entries(since=since):
            if time == since and skip:
                skip -= 1
                continue
            self._at_that_time = self._at_that_time + 1 if time == self._read_to else 1
            self._read_to = time
            yield time, entry
        self.is_live = not is_complete
        if is_complete:
            self._record.close()

    def _look_again(self) -> None:
        if Path(self._path).stat().st_size > self._record.size:
            grown = Record.open(self._path, self.plugins)
            self._record.close()
            self._record = grown

    def close(self) -> None:
        self._record.close()


class Tape(Immediately):
    """Keeps a record in memory, and what was written since somebody last asked."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes)
        self.heard: list[tuple[float, Happened]] = []

    def take(self, times: list[float], items: list[Item]) -> None:
        for time, item in zip(times, items, strict=True):
            if isinstance(item, Object):
                self.heard.append((time, Put(item)))
            else:
                self.heard.append((time, item))  # type: ignore[arg-type]  # every entry is one of Happened
        super().take(times, items)


class TapeSource:
    """A record that grows in memory, written to ``tape`` by whoever watches the cluster."""

    def __init__(self, plugins: Iterable[PluginReference] = ()) -> None:
        self.tape = Tape()
        self.plugins = tuple(plugins)
        self.is_live = True

    def news(self) -> News:
        heard, self.tape.heard = self.tape.heard, []
        return heard

    def opener(self) -> Callable[[], Record]:
        self.tape.flush()
        written = self.tape.bytes.getvalue()
        return lambda: Record(io.BytesIO(written), "this cluster", self.plugins)


class LiveSource(TapeSource):
    """A scheduler in this process; give it ``recorder`` as an observer."""

    def __init__(self, source: str = "scheduler", plugins: Iterable[PluginReference] = ()) -> None:
        super().__init__(plugins)
        self.recorder = Recorder(self.tape, source=source)

    def news(self) -> News:
        self.recorder.hand_over()
        return super().news()

    def opener(self) -> Callable[[], Record]:
        self.recorder.hand_over()
        return super().opener()
