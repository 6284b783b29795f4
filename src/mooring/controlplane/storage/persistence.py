"""Persistence across restarts: SQLite, one transaction for all writes that arrive at the same time.

A write is answered only after the transaction that holds it is on disk, so kill -9 loses nothing that was acknowledged;
grouping writes makes that cheap. Versions that were handed out but lost in a crash are never reused: a restart begins
well above the last one on disk, and older watches must list again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from mooring.api.errors import UsageError
from mooring.controlplane.storage.store import Journal, Store
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.status import StatusError

log = logging.getLogger(__name__)
RESTART_GAP = 100_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
  resource TEXT NOT NULL, key TEXT NOT NULL, rv INTEGER NOT NULL, raw BLOB NOT NULL,
  PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_Change = tuple[int, str, str, bytes | None]


def not_kept() -> StatusError:
    return StatusError(500, "InternalError", "Internal error occurred: the change could not be written to disk")


def _make_private(directory: Path, database: Path) -> None:
    """Create the database for its owner alone; SQLite gives the log beside it the same mode.

    An existing directory keeps its mode: its owner may share it on purpose. The files in it do not.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for path in (database, *(database.with_name(database.name + end) for end in ("-wal", "-shm"))):
        with contextlib.suppress(FileNotFoundError):
            path.chmod(0o600)


class Disk(Journal, Protocol):
    """Where a control plane keeps everything."""

    def open_store(self, kinds: Iterable[Kind], *, history: int = 10_000) -> Store:
        """Return a store with all stored objects of these kinds."""
        ...

    async def durable(self) -> None:
        """Return when everything recorded so far is on disk; raise the error that prevented it."""

    async def close(self) -> None: ...


class SqliteJournal:
    """Collects changes and commits them in batches on its own thread."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "mooring.db"
        try:
            _make_private(directory, self._path)
            self._db = sqlite3.connect(self._path, timeout=0.2, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.executescript(_SCHEMA)
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"{self._path}: cannot be used to keep data: {error}") from None
        self._pending: list[_Change] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mooring-journal")
        self._runner: asyncio.Task[None] | None = None
        self._in_flight: asyncio.Future[None] | None = None
        """Done when the batch that is being committed is on disk."""
        self._next: asyncio.Future[None] | None = None
        """Done when the batch that is being collected is."""

    def open_store(self, kinds: Iterable[Kind], *, history: int = 10_000) -> Store:
        """Return a store with all stored objects of these kinds."""
        row = self._db.execute("SELECT value FROM meta WHERE name = 'rv'").fetchone()
        start = row[0] + RESTART_GAP if row else 1
        store = Store(history=history, journal=self, start_rv=start)
        by_resource = {kind.resource: kind for kind in kinds}
        for resource, raw in self._db.execute("SELECT resource, raw FROM objects"):
            if resource in by_resource:
                store.load(by_resource[resource], raw)
        self._write([], start)
        return store

    def record(self, rv: int, resource: str, key: str, raw: bytes | None) -> None:
        self._pending.append((rv, resource, key, raw))

    async def durable(self) -> None:
        """Return when everything recorded so far is on disk; raise the error that prevented it."""
        if self._pending:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            waiting = self._next
            if self._runner is None:
                self._runner = asyncio.get_running_loop().create_task(self._run())
        elif self._in_flight is not None:
            waiting = self._in_flight
        else:
            return
        await asyncio.shield(waiting)

    async def _run(self) -> None:
        """Commit batches while there are any; each writer waits only for its own."""
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                self._in_flight, self._next = self._next or loop.create_future(), None
                try:
                    await loop.run_in_executor(self._thread, self._write, batch, batch[-1][0])
                except sqlite3.Error as error:
                    log.error("%s: cannot write: %s", self._path, error)
                    self._pending = batch + self._pending  # the next commit takes it along
                    self._in_flight.set_exception(not_kept())
                    self._in_flight.exception()  # marks it as seen, in case no writer waits
                    return
                self._in_flight.set_result(None)
        finally:
            self._in_flight = None
            self._runner = None

    def _write(self, batch: list[_Change], rv: int) -> None:
        last: dict[tuple[str, str], _Change] = {(change[1], change[2]): change for change in batch}
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(
                "INSERT OR REPLACE INTO objects (rv, resource, key, raw) VALUES (?, ?, ?, ?)",
                [change for change in last.values() if change[3] is not None],
            )
            self._db.executemany(
                "DELETE FROM objects WHERE resource = ? AND key = ?",
                [change[1:3] for change in last.values() if change[3] is None],
            )
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('rv', ?)", (rv,))
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    async def close(self) -> None:
        """Write everything to disk and close the file."""
        with contextlib.suppress(StatusError):
            while self._pending or self._in_flight is not None:
                await self.durable()
        self._thread.shutdown()
        self._db.close()
