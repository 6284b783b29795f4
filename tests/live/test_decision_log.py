"""The decision log: lines, sampling, rotation, and a disk that is too slow."""

from __future__ import annotations

import asyncio
import json
import random
import stat
from pathlib import Path

import pytest

from mooring.api.errors import UsageError
from mooring.live import observer as decision_log
from mooring.live.observer import DecisionLog


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_entries_become_lines(tmp_path):
    path = tmp_path / "log"
    log = DecisionLog(str(path))
    log.record({"pod": "default/web", "node": "a"})
    log.record({"pod": "default/db", "node": None})
    await log.close()
    assert lines(path) == [{"pod": "default/web", "node": "a"}, {"pod": "default/db", "node": None}]
    assert log.written == 2


async def test_it_is_written_in_the_background(tmp_path, monkeypatch):
    monkeypatch.setattr(decision_log, "FLUSH_S", 0.001)
    path = tmp_path / "log"
    log = DecisionLog(str(path))
    log.start()
    log.record({"n": 1})
    for _ in range(2000):
        if log.written:
            break
        await asyncio.sleep(0.001)
    assert lines(path) == [{"n": 1}]
    await log.close()


async def test_sampling_keeps_the_rate(tmp_path):
    log = DecisionLog(str(tmp_path / "log"), sample_rate=0.1, rng=random.Random(4))
    session = 0

    def build() -> dict:
        nonlocal session
        session += 1
        return {}

    for _ in range(10_000):
        if log.is_sampled():
            log.record(build())
    await log.close()
    assert session == log.written
    assert 850 < session < 1150


async def test_rotation_keeps_a_number_of_files(tmp_path):
    path = tmp_path / "log"
    log = DecisionLog(str(path), max_bytes=40, backups=2)
    for number in range(12):
        log.record({"number": number})
    await log.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    kept = [entry["number"] for name in ("log.2", "log.1", "log") for entry in lines(tmp_path / name)]
    assert kept == list(range(12))[-len(kept) :]
    assert all(file.stat().st_size <= 40 for file in tmp_path.iterdir())


async def test_without_backups_the_file_starts_again(tmp_path):
    path = tmp_path / "log"
    log = DecisionLog(str(path), max_bytes=30, backups=0)
    for number in range(5):
        log.record({"number": number})
    await log.close()
    assert lines(path)[-1] == {"number": 4}
    assert [file.name for file in tmp_path.iterdir()] == ["log"]


async def test_a_full_buffer_drops_and_counts(tmp_path):
    log = DecisionLog(str(tmp_path / "log"), buffer_bytes=20)
    for number in range(10):
        log.record({"number": number})
    await log.close()
    assert log.written + log.dropped == 10
    assert log.dropped > 0


@pytest.mark.parametrize("rate", [-0.1, 1.5])
def test_a_rate_is_between_nothing_and_all(tmp_path, rate):
    with pytest.raises(UsageError, match="between 0 and 1"):
        DecisionLog(str(tmp_path / "log"), sample_rate=rate)


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"--decision-log .*absent/log: No such file"):
        DecisionLog(str(tmp_path / "absent" / "log"))


def test_only_the_owner_can_read_it_even_after_a_rotation(tmp_path):
    path = tmp_path / "decisions.jsonl"
    log = DecisionLog(str(path), max_bytes=10)
    for _ in range(3):
        log.record({"pod": "default/web"})
    log.flush()
    asyncio.run(log.close())
    assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {
        "decisions.jsonl": 0o600,
        "decisions.jsonl.1": 0o600,
        "decisions.jsonl.2": 0o600,
    }


class FullDisk:
    """A file on a disk that is full for a while."""

    def __init__(self, file):
        self.file, self.is_full = file, True

    def tell(self):
        return self.file.tell()

    def write(self, data):
        if self.is_full:
            raise OSError(28, "No space left on device")
        return self.file.write(data)

    def flush(self):
        self.file.flush()

    def close(self):
        self.file.close()


async def test_a_full_disk_costs_entries_and_is_reported_once(tmp_path, caplog):
    path = tmp_path / "decisions.jsonl"
    log = DecisionLog(str(path))
    disk = log._file = FullDisk(log._file)
    for number in range(3):
        log.record({"n": number})
        log.flush()
    disk.is_full = False
    log.record({"n": 3})
    await log.close()
    assert (log.dropped, log.written) == (3, 1)
    assert path.read_text() == '{"n":3}\n'
    (record,) = caplog.records
    assert record.getMessage() == "Decisions were dropped from the decision log"
    assert record.values == {"err": "No space left on device", "path": str(path)}


async def test_what_is_recorded_after_closing_is_dropped(tmp_path):
    log = DecisionLog(str(tmp_path / "decisions.jsonl"))
    await log.close()
    log.record({"n": 1})
    log.flush()
    assert (log.dropped, log.written) == (1, 0)


async def test_an_existing_log_is_continued(tmp_path):
    path = tmp_path / "decisions.jsonl"
    for number in range(2):
        log = DecisionLog(str(path))
        log.record({"n": number})
        await log.close()
    assert path.read_text() == '{"n":0}\n{"n":1}\n'


async def test_an_entry_larger_than_a_file_is_written_all_the_same(tmp_path):
    path = tmp_path / "decisions.jsonl"
    log = DecisionLog(str(path), max_bytes=10)
    log.record({"long": "x" * 50})
    log.record({"long": "y" * 50})
    await log.close()
    assert "y" * 50 in path.read_text() and "x" * 50 in (tmp_path / "decisions.jsonl.1").read_text()


@pytest.mark.parametrize(("rate", "is_sampled"), [(1.0, True), (0.0, False)])
def test_the_dice_are_not_thrown_where_the_answer_is_clear(tmp_path, rate, is_sampled):
    log = DecisionLog(str(tmp_path / "decisions.jsonl"), sample_rate=rate)
    assert {log.is_sampled() for _ in range(50)} == {is_sampled}
    asyncio.run(log.close())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
async def test_a_disk_that_stays_full_does_not_keep_the_process_from_ending():
    log = DecisionLog("/dev/full")
    log.record({"pod": "a"})
    log.flush()
    await log.close()
