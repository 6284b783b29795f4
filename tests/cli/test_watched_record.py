"""A record of a watched cluster, on a disk without room."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import MooringError
from mooring.cli.watched_cluster import WatchedRecord
from mooring.core.config.features import DEFAULT_FEATURES
from mooring.core.config.load import default_config
from mooring.record.reader import Record
from mooring.testing import make_pod


class FullDisk(io.FileIO):
    """Has room until it has none."""

    has_room = True

    def write(self, data: Any) -> int:
        if not FullDisk.has_room:
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_a_full_disk_ends_the_record_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.cli.watched_cluster.create", lambda path: FullDisk(path, "w"))
    record = WatchedRecord(str(tmp_path / "r"), 1 << 20, default_config(), DEFAULT_FEATURES)
    record.put(make_pod("a"))
    record.flush()
    assert record.is_open and record.failure is None
    monkeypatch.setattr(FullDisk, "has_room", False)
    record.put(make_pod("b"))
    record.flush()
    assert not record.is_open and str(record.failure) == f"{tmp_path / 'r'}: No space left on device"
    record.put(make_pod("c"))  # its listener goes on
    record.note("a difference")
    record.flush()
    record.close()
    with Record.open(tmp_path / "r", follows=True) as found:
        assert not found.is_complete


def test_a_record_that_cannot_begin_is_one_line() -> None:
    with pytest.raises(MooringError, match=r"^/dev/full: No space left on device$"):
        WatchedRecord("/dev/full", 1 << 20, default_config(), DEFAULT_FEATURES)
