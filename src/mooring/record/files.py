"""Files of records: private from their first byte, and for a scheduler that runs for months, bounded and rotated."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Iterable

from mooring.errors import MooringError, UsageError
from mooring.record.blocks import MAGIC

BACKUPS = 3


def create(path: str | os.PathLike[str], inputs: Iterable[str] = ()) -> io.FileIO:
    """A new file for its owner only: it names pods of every namespace. A record of that name is replaced.

    Unless it is one of the ``inputs``, of which a record is being made.
    """
    try:
        _keep_others(path, inputs)
        file = io.FileIO(os.fspath(path), "w", opener=lambda name, flags: os.open(name, flags, 0o600))
        os.fchmod(file.fileno(), 0o600)  # also if it was there before
        return file
    except OSError as error:
        raise UsageError(f"{os.fspath(path)}: {error.strerror or error}") from None


def _keep_others(path: str | os.PathLike[str], inputs: Iterable[str] = ()) -> None:
    """Refuse to replace what is no record (a story, say, whose name was given twice), and records that are read."""
    if os.path.isfile(path):  # not a device, nor something that is not there
        if any(os.path.exists(each) and os.path.samefile(path, each) for each in inputs):
            raise UsageError(f"{os.fspath(path)}: is what is simulated, so it is not replaced; give another name")
        with open(path, "rb") as file:
            begins = file.read(len(MAGIC))
        if begins and begins != MAGIC:
            raise UsageError(f"{os.fspath(path)}: exists and is no record, so it is not replaced; give another name")


class WholeWrites:
    """A file as a sink: each write is carried out whole, or the file is as it was before."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._size = 0

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)
                self._file.seek(self._size)
            raise MooringError(f"{os.fspath(self._file.name)}: {error.strerror or error}") from None
        self._size += len(data)

    def close(self) -> None:
        self._file.close()


class RotatedFiles:
    """``FILE``, ``FILE.1`` (newer) … ``FILE.3`` (oldest): together so many bytes, and nothing older than so long."""

    def __init__(self, path: str, *, max_bytes: int, max_age_s: float) -> None:
        self.path = path
        self.max_bytes_each = max_bytes // (BACKUPS + 1)
        self.max_age_each_s = max_age_s / (BACKUPS + 1)
        self._max_age_s = max_age_s
        if self.max_bytes_each < 1 << 20:
            raise UsageError(f"--record-max-size: {max_bytes >> 20} MiB; a record needs at least {BACKUPS + 1} MiB")
        if max_age_s <= 0:
            raise UsageError(f"--record-max-age: {max_age_s:g}s; it should be longer than 0s, such as 72h")

    def begin(self) -> WholeWrites:
        """A new file. The one before it, also of a former process, moves on; what is too old goes."""
        for name in (self.path, *(f"{self.path}.{number}" for number in range(1, BACKUPS + 1))):
            with contextlib.suppress(OSError):  # whoever moves it says what is wrong
                _keep_others(name)
        if os.path.exists(self.path) and os.path.getsize(self.path):
            self._rotate()
        for number in range(1, BACKUPS + 1):
            with contextlib.suppress(OSError):
                if os.path.getmtime(f"{self.path}.{number}") < time.time() - self._max_age_s:
                    os.remove(f"{self.path}.{number}")
        return WholeWrites(create(self.path))

    def _rotate(self) -> None:
        try:
            for number in range(BACKUPS - 1, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
            os.replace(self.path, f"{self.path}.1")
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror or error}") from None
