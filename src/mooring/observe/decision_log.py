"""The decision log: one JSON line per decision, sampled, written in the background, rotated by size.

``record`` encodes and returns; a task writes what has gathered twice a second. When the disk is slower than the
scheduler the buffer fills, and then decisions are left out of the log and counted: the scheduler is never held up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from typing import BinaryIO

import msgspec

from mooring.errors import UsageError
from mooring.observe.logs import get_logger

log = get_logger("mooring.observe.decision_log")

FLUSH_S = 0.5


class DecisionLog:
    """A file of decisions and its rotated predecessors: ``FILE``, ``FILE.1`` (newer) … ``FILE.n`` (oldest)."""

    def __init__(
        self,
        path: str,
        *,
        sample_rate: float = 1.0,
        max_bytes: int = 100 << 20,
        backups: int = 3,
        buffer_bytes: int = 8 << 20,
        rng: random.Random | None = None,
    ) -> None:
        if not 0 <= sample_rate <= 1:
            raise UsageError(f"--decision-log-sample: {sample_rate}; it should be between 0 and 1")
        self._path = path
        self._sample_rate = sample_rate
        self._max_bytes = max_bytes
        self._backups = backups
        self._buffer_bytes = buffer_bytes
        self._rng = rng or random.Random()
        self._encode = msgspec.json.Encoder().encode
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Future[None] | None = None
        self.dropped = 0
        self.written = 0
        try:
            self._file: BinaryIO | None = _open(path)
        except OSError as error:
            raise UsageError(f"--decision-log {path}: {error.strerror or error}") from None

    def is_sampled(self) -> bool:
        """Throw the dice; ask before building an entry that costs something."""
        return self._sample_rate >= 1 or self._rng.random() < self._sample_rate

    def record(self, entry: object) -> None:
        """Take an entry that was sampled: anything msgspec can encode."""
        if self._buffered >= self._buffer_bytes:
            self.dropped += 1
            return
        line = self._encode(entry)
        self._buffer.append(line)
        self._buffered += len(line) + 1

    def start(self) -> None:
        """Begin writing in the background."""
        self._task = asyncio.create_task(self._run(), name="decision log")

    async def close(self) -> None:
        """Write what is left and close the file."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._writing is not None:
            # A thread that writes cannot be called back: its lines come first.
            await asyncio.wait([self._writing])
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Close the file without what is left to be written."""
        if self._file is not None:
            file, self._file = self._file, None
            with contextlib.suppress(OSError):  # the disk is full, and that has been said
                file.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            lines = self._take()
            if lines:
                self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, lines))
                await asyncio.shield(self._writing)

    def flush(self) -> None:
        """Write what has gathered, now."""
        lines = self._take()
        if lines:
            self._write(lines)

    def _take(self) -> list[bytes]:
        lines, self._buffer = self._buffer, []
        self._buffered = 0
        return lines

    def _write(self, lines: list[bytes]) -> None:
        for line in lines:
            try:
                if self._file is None:
                    raise OSError("closed")
                if self._file.tell() + len(line) + 1 > self._max_bytes and self._file.tell() > 0:
                    self._rotate()
                self._file.write(line + b"\n")
                self.written += 1
            except OSError as error:
                self.dropped += 1
                if self.dropped == 1:
                    log.error(error.strerror or error, "Decisions are left out of the log", path=self._path)
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.flush()

    def _rotate(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        for number in range(self._backups - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        if self._backups > 0:
            os.replace(self._path, f"{self._path}.1")
        else:
            os.truncate(self._path, 0)
        self._file = _open(self._path)


def _open(path: str) -> BinaryIO:
    """Open the log for its owner only: it names pods of every namespace."""
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))
