"""A live scheduler's record: packed, compressed and written by a thread, so that no decision waits for it.

When the thread or the disk is too slow, entries are left out and counted. The record then says how many are missing,
and goes on with the whole state.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time as clocks
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from mooring.errors import MooringError
from mooring.observe.logs import get_logger
from mooring.record import entries
from mooring.record.files import RotatedFiles, WholeWrites
from mooring.record.recorder import Recorder
from mooring.record.redaction import Redaction
from mooring.record.writer import Item, Writer

log = get_logger("mooring.record")

BATCH = 256  # entries that the thread takes at once: a few milliseconds of work
MAX_PENDING = 200_000  # entries that wait for the thread
HAND_OVER_S = 1.0  # how long an entry may wait before the thread gets it
FLUSH_S = 5.0  # and how long before it is on the disk
RETRY_S = 10.0  # after the disk has refused something
CLOSE_S = 10.0  # that the thread has to write what is left
YIELD_EVERY, YIELD_S = 64, 0.0005  # in a keyframe: others get a turn

_Work = Callable[[], None]


class InBackground:
    """Writes to files in a thread of its own; the scheduler's thread calls every method."""

    def __init__(self, files: RotatedFiles, redact: Redaction | None = None, *, max_pending: int = MAX_PENDING) -> None:
        self._files = files
        self._redact = redact
        self._max_pending = max_pending
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._pending = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self._header: entries.Header | None = None
        self._sink: WholeWrites | None = None
        self._writer: Writer | None = None
        self._attempts = 0
        self._flushed_at = self._opened_at = clocks.monotonic()
        self._has_state_waiting = False
        self._retry_at: float | None = None  # the disk has refused something

    # ---- what the scheduler's thread calls -----------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether entries are to be left out: too many wait, or they cannot be written."""
        return self._pending >= self._max_pending or (
            self._retry_at is not None and clocks.monotonic() < self._retry_at
        )

    @property
    def wants_state(self) -> bool:
        """Whether a new file is due; it begins with the whole state."""
        if self._writer is None or self._has_state_waiting:
            return False
        return self._is_new_file_due()

    def _is_new_file_due(self) -> bool:
        assert self._writer is not None
        age_s = clocks.monotonic() - self._opened_at
        return self._writer.size >= self._files.max_bytes_each or age_s >= self._files.max_age_each_s

    def begin(self, header: entries.Header) -> None:
        """Open the first file, or raise UsageError."""
        self._header = header
        self._begin_file(header.started)
        self._thread.start()

    def take(self, times: list[float], items: list[Item]) -> None:
        """Take over these lists."""
        self._send(len(items), lambda: self._write(times, items))

    def take_state(self, time: float, items: list[Item]) -> None:
        """Take over the whole state."""
        self._has_state_waiting = True
        self._send(len(items), lambda: self._write_state(time, items))

    def close(self, time: float) -> None:
        """Write what is left; waits for the thread."""
        if not self._thread.is_alive():  # nothing was begun, or the first file could not be
            return
        self._work.put(lambda: self._end_file(time))
        self._work.put(None)
        self._thread.join(CLOSE_S)

    def _send(self, number: int, work: _Work) -> None:
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
        while True:
            try:
                work = self._work.get(timeout=FLUSH_S)
            except queue.Empty:
                work = _nothing
            if work is None:
                return
            try:
                work()
                if clocks.monotonic() - self._flushed_at >= FLUSH_S:
                    self._flush()
            except (OSError, MooringError) as error:
                self._fail(error)
            except Exception as error:  # our own mistake: it must not go unnoticed, and the scheduler goes on
                log.error(error, "Unexpected error in the record")
                self._fail(error)

    def _write(self, times: Sequence[float], items: Sequence[Item]) -> None:
        self._heed(items)
        if self._writer is not None:
            self._writer.write(times, items)
            self._attempts = self._writer.attempts
        else:
            self._attempts = max(
                (each.number for each in items if isinstance(each, entries.Attempt)), default=self._attempts
            )

    def _heed(self, items: Sequence[Item]) -> None:
        """Let the next file begin with the configuration of now."""
        if entries.Configured in map(type, items):
            assert self._header is not None
            *_, last = (item for item in items if isinstance(item, entries.Configured))
            self._header = msgspec.structs.replace(
                self._header, configuration=last.configuration, extenders=last.extenders
            )

    def _write_state(self, time: float, items: Sequence[Item]) -> None:
        self._heed(items)
        if self._writer is None:
            self._begin_file(time)
        elif self._is_new_file_due():
            self._end_file(time)
            self._begin_file(time)
        assert self._writer is not None
        self._writer.write_state(time, items, pause=lambda: clocks.sleep(YIELD_S), every=YIELD_EVERY)
        self._has_state_waiting = False
        self._retry_at = None

    def _flush(self) -> None:
        self._flushed_at = clocks.monotonic()
        if self._writer is not None:
            self._writer.flush()

    def _begin_file(self, time: float) -> None:
        assert self._header is not None
        header = msgspec.structs.replace(self._header, started=time)
        self._sink = self._files.begin()
        self._writer = Writer(self._sink, header, redact=self._redact, attempts=self._attempts)
        self._opened_at = clocks.monotonic()

    def _end_file(self, time: float) -> None:
        writer, self._writer = self._writer, None
        sink, self._sink = self._sink, None
        if writer is not None and sink is not None:
            with contextlib.closing(sink):
                writer.close(time)

    def _fail(self, error: Exception) -> None:
        """Leave entries out for a while; then a new file begins."""
        if self._retry_at is None:
            text = getattr(error, "strerror", None) or str(error)
            log.error(text, "The record cannot be written; entries are left out", path=self._files.path)
        self._retry_at = clocks.monotonic() + RETRY_S
        self._has_state_waiting = False
        self._writer = None
        if self._sink is not None:
            with contextlib.suppress(OSError):
                self._sink.close()
            self._sink = None


def _nothing() -> None:
    pass


@contextlib.asynccontextmanager
async def running(recorder: Recorder) -> AsyncIterator[Recorder]:
    """Hand entries over every second, also where little happens, and close the recorder in the end."""

    async def hand_over() -> None:
        while True:
            await asyncio.sleep(HAND_OVER_S)
            recorder.hand_over()

    task = asyncio.create_task(hand_over(), name="record")
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(recorder.close)


def record_live(
    path: str, *, max_bytes: int, max_age_s: float, source: str = "scheduler", keeps_annotations: bool = False
) -> Recorder:
    """A recorder for a scheduler that runs for long."""
    files = RotatedFiles(path, max_bytes=max_bytes, max_age_s=max_age_s)
    return Recorder(InBackground(files), source=source, is_redacted=not keeps_annotations, batch=BATCH)
