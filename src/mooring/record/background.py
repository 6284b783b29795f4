"""A live scheduler's record: compressed and written by a thread, so that no decision waits for the disk.

Two threads share the work, and a queue of closures is all that passes between them:

| the scheduler's thread | the record's thread |
|---|---|
| packs entries, ``BATCH`` at a time: what they hold is still in the processor's caches | compresses blocks |
| decides when a keyframe or a new file is due | opens, writes, rotates and closes files |
| owns the packer and the open block | owns the file |

Compressing and writing release the interpreter's lock, so the second column costs a decision next to nothing.

When the thread or the disk is too slow, entries are dropped and counted. The record then says how many are missing
(``Gap``), and continues with the whole state (a keyframe): a reader never sees a state that did not exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time as clocks
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import msgspec

from mooring.api.errors import MooringError
from mooring.live.logs import get_logger
from mooring.record import entries
from mooring.record.entries import Redaction
from mooring.record.files import RotatedFiles, WholeWrites
from mooring.record.recorder import Recorder
from mooring.record.writer import Item, RecordWriter

log = get_logger("mooring.record")

BATCH = 256  # entries packed together: half a millisecond of work
KEYFRAME_EVERY = 40_000  # minimum number of entries: replaying this many takes about half a second
MAX_PENDING = 200_000  # entries that wait for the thread
LOOK_S = 1.0  # check interval
FLUSH_S = 5.0  # maximum time of an entry before it is on disk
RETRY_S = 10.0  # after a disk error
CLOSE_S = 10.0  # time for the thread to write the rest
PART, PART_S = 64, 0.005  # of a keyframe: this many objects at a time, then a pause for other work

_Work = Callable[[], None]


class _OpenFile:
    """A file of the record, which the thread opens and writes. After an error nothing more is written to it."""

    def __init__(self) -> None:
        self.is_broken = False
        self.has_state = False  # later entries are useless without it
        self._sink: WholeWrites | None = None

    def open(self, files: RotatedFiles) -> None:
        with self._noticing():
            self._sink = files.begin()

    def write(self, data: bytes) -> None:
        if self._sink is not None:
            with self._noticing():
                self._sink.write(data)

    def close(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.is_broken = True
            with contextlib.suppress(OSError):
                if self._sink is not None and not self.has_state:
                    self._sink.empty()  # otherwise it would displace a good file at rotation
                self.close()
            raise


class InBackground:
    """Writes files in its own thread; all methods are called in the scheduler's thread."""

    def __init__(self, files: RotatedFiles, redact: Redaction | None = None, *, max_pending: int = MAX_PENDING) -> None:
        self._files = files
        self._redact = redact
        self._max_pending = max_pending
        # Work is carried out in order: a file is opened before its blocks are written, and closed after the last of
        # them. None ends the thread.
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._pending = 0  # entries in that queue; changed by both threads under the lock
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self._header: entries.Header | None = None
        self._file = _OpenFile()
        self._writer: RecordWriter | None = None
        self._flushed_at = self._opened_at = clocks.monotonic()
        self._state: Iterator[None] | None = None  # a keyframe that is being packed, part by part
        self._behind: list[tuple[list[float], list[Item]]] = []  # entries that arrived since
        self._num_behind = 0
        self._retry_at: float | None = None  # set and cleared by the thread alone after a disk error

    @property
    def is_full(self) -> bool:
        """Report whether entries are to be dropped: too many wait, or they cannot be written."""
        retry_at = self._retry_at  # read once: the thread may clear it at any time
        is_refused = retry_at is not None and clocks.monotonic() < retry_at
        return is_refused or self._pending + self._num_behind >= self._max_pending

    @property
    def wants_state(self) -> bool:
        """Report whether a new file is due, which begins with the whole state."""
        return self._writer is not None and self._state is None and self._is_new_file_due()

    def _is_new_file_due(self) -> bool:
        assert self._writer is not None
        age_s = clocks.monotonic() - self._opened_at
        is_old = self._writer.size >= self._files.max_bytes_each or age_s >= self._files.max_age_each_s
        return is_old or self._file.is_broken

    def begin(self, header: entries.Header) -> None:
        """Open the first file, or raise UsageError."""
        self._header = header
        self._file.open(self._files)
        self._file.has_state = True  # it begins before anything has happened
        self._begin_writer(header.started)
        self._thread.start()

    def take(self, times: list[float], items: list[Item]) -> None:
        """Take ownership of these lists."""
        if self._state is None:
            self._write(times, items)
            return
        self._behind.append((times, items))
        self._num_behind += len(items)
        self._pack_more_state()

    def take_state(self, time: float, items: list[Item]) -> None:
        """Start a keyframe of the whole state. It is packed part by part; later entries are written after it."""
        self._finish_state()
        assert self._writer is not None, "begin first"
        self._update_header(items)
        if self._is_new_file_due():
            self._end_file(time)
            self._begin_file(time)
        self._state = self._writer.state_in_parts(time, items, PART)
        self._pack_more_state()

    def go_on(self) -> float:
        """Do due work, and return after how many seconds to check again."""
        if self._state is not None:
            self._pack_more_state()
        elif self._writer is not None and clocks.monotonic() - self._flushed_at >= FLUSH_S:
            self._flushed_at = clocks.monotonic()
            self._writer.flush()
        return LOOK_S if self._state is None else PART_S

    def close(self, time: float) -> None:
        """Write the rest, and wait for the thread."""
        if not self._thread.is_alive():  # not started, or the first file failed
            return
        self._finish_state()
        self._end_file(time)
        self._work.put(None)
        self._thread.join(CLOSE_S)  # a daemon: a hanging disk does not keep the process from exiting
        if self._thread.is_alive():
            waited = f"it was not written within {CLOSE_S:g}s"
            log.error(waited, "The record could not be finished", path=self._files.path, entries=self._pending)

    def _pack_more_state(self) -> None:
        """Pack a part of the keyframe; after the last one, the entries that arrived since."""
        assert self._state is not None
        # The generator yields None after each part, so None means that more is to come.
        if next(self._state, self) is None:
            return
        self._state, file = None, self._file
        self._send(0, lambda: self._recover(file))
        behind, self._behind, self._num_behind = self._behind, [], 0
        for times, items in behind:
            self._write(times, items)

    def _finish_state(self) -> None:
        while self._state is not None:
            self._pack_more_state()

    def _write(self, times: Sequence[float], items: Sequence[Item]) -> None:
        assert self._writer is not None, "begin first"
        self._update_header(items)
        self._writer.write(times, items)

    def _update_header(self, items: Sequence[Item]) -> None:
        """Update the header of the next file with the current configuration."""
        if entries.Configured in map(type, items):
            assert self._header is not None
            *_, last = (item for item in items if isinstance(item, entries.Configured))
            self._header = msgspec.structs.replace(
                self._header,
                configuration=last.configuration,
                extenders=last.extenders,
                annotations=last.annotations,
            )

    def _begin_file(self, time: float) -> None:
        file = self._file = _OpenFile()
        self._send(0, lambda: file.open(self._files))
        self._begin_writer(time)

    def _begin_writer(self, time: float) -> None:
        assert self._header is not None
        header = msgspec.structs.replace(self._header, started=time)
        attempts = 0 if self._writer is None else self._writer.attempts
        self._writer = RecordWriter(self._file, header, redact=self._redact, attempts=attempts, later=self._send)
        self._opened_at = clocks.monotonic()

    def _end_file(self, time: float) -> None:
        if self._writer is not None:
            self._writer.close(time)
            self._send(0, self._file.close)

    def _send(self, number: int, work: _Work) -> None:
        """Queue work that covers about this many entries for the thread."""
        with self._lock:
            self._pending += number

        def done() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._pending -= number

        self._work.put(done)

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            self._do(work)

    def _do(self, work: _Work) -> None:
        try:
            work()
        except (OSError, MooringError) as error:
            self._fail(getattr(error, "strerror", None) or str(error), "The record cannot be written")
        except Exception as error:  # a bug in mooring: it is reported, and the scheduler continues
            self._fail(error, "Unexpected error in the record")

    def _fail(self, error: str | Exception, text: str) -> None:
        """Drop entries for a while; then a new file begins."""
        if self._retry_at is None:
            log.error(error, f"{text}; entries are dropped", path=self._files.path)
        self._retry_at = clocks.monotonic() + RETRY_S

    def _recover(self, file: _OpenFile) -> None:
        """Note that the file contains the whole state."""
        file.has_state = not file.is_broken
        if file.has_state and self._retry_at is not None:
            log.info("The record is written again", path=self._files.path)
            self._retry_at = None


@contextlib.asynccontextmanager
async def running(recorder: Recorder) -> AsyncIterator[Recorder]:
    """Do due work every second, even without entries, and close the recorder in the end."""

    async def go_on() -> None:
        pause_s = 0.0
        while True:
            await asyncio.sleep(pause_s)
            pause_s = recorder.go_on()

    task = asyncio.create_task(go_on(), name="record")
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(recorder.close)


def record_live(
    path: str, *, max_bytes: int, max_age_s: float, source: str = "scheduler", keeps_annotations: bool = False
) -> Recorder:
    """Return a recorder for a long-running scheduler."""
    output = InBackground(RotatedFiles(path, max_bytes=max_bytes, max_age_s=max_age_s))
    return Recorder(
        output, source=source, is_redacted=not keeps_annotations, keyframe_every=KEYFRAME_EVERY, batch=BATCH
    )
