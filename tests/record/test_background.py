"""A live scheduler's record: written by a thread, bounded, and honest about what is missing."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import MooringError, UsageError
from mooring.record import background
from mooring.record.background import LOOK_S, PART, PART_S, InBackground
from mooring.record.entries import Attempt, Configured, ExtenderVerbs, Gap, Header
from mooring.record.files import MAGIC, RotatedFiles, WholeWrites, create
from mooring.record.reader import Record
from mooring.record.recorder import Immediately, Recorder
from mooring.testing import make_node

from .conftest import play, read, story
from .test_reopening import check_all, decided_again, told

HEADER = Header(format=1, mooring="0", kubernetes="1.36", started=1.0)


def files(path: Path, **limits: Any) -> RotatedFiles:
    return RotatedFiles(str(path), **{"max_bytes": 4 << 20, "max_age_s": 3600, **limits})


class AtOnce(InBackground):
    """Does the thread's work immediately, so that a test does not depend on its speed."""

    def _send(self, number: int, work: Any) -> None:
        self._do(work)


def test_a_thread_writes_the_same_entries(tmp_path: Path) -> None:
    path, sink = tmp_path / "live.mrec", io.BytesIO()
    play(story(1, 20), Recorder(InBackground(files(path)), batch=16))
    play(story(1, 20), Recorder(Immediately(sink)))
    with Record.open(path) as record:
        assert list(record.entries()) == list(read(sink.getvalue()).entries())
        assert record.is_complete and check_all(record, step=5)
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_comes_while_a_keyframe_is_packed_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that come after the state was taken may change what the parts that are left would say."""
    monkeypatch.setattr("mooring.record.background.PART", 1)
    path, sink = tmp_path / "live.mrec", io.BytesIO()
    play(story(1, 20), Recorder(InBackground(files(path)), batch=4, keyframe_every=30))
    play(story(1, 20), Recorder(Immediately(sink), batch=4, keyframe_every=30))
    with Record.open(path) as record:
        assert list(record.entries()) == list(read(sink.getvalue()).entries())
        assert check_all(record, step=5)


def test_a_keyframe_is_packed_on_where_nothing_more_happens(tmp_path: Path) -> None:
    output = AtOnce(files(tmp_path / "r"))
    output.begin(HEADER)
    output.take_state(1.0, [make_node(f"node-{i}") for i in range(2 * PART)])
    looks = 0
    while output.go_on() == PART_S:
        looks += 1
    assert looks == 1 and output.go_on() == LOOK_S
    with Record.open(tmp_path / "r", follows=True) as record:
        assert len(list(record.moment(1.0).cluster.nodes)) == 2 * PART


@pytest.mark.parametrize("told_in", ["entries", "state"])
def test_a_file_that_begins_after_a_reload_has_the_new_header(tmp_path: Path, told_in: str) -> None:
    rotated = files(tmp_path / "live.mrec")
    rotated.max_bytes_each = 1  # every state begins a new file
    output = AtOnce(rotated)
    output.begin(HEADER)
    reload = Configured({"profiles": [{"schedulerName": "other"}]}, (ExtenderVerbs("e", ("filter",)),), ("mine",))
    if told_in == "entries":
        output.take([2.0], [reload])
    output.take_state(3.0, [reload] if told_in == "state" else [])
    output.close(4.0)
    headers = []
    for path in sorted(tmp_path.iterdir(), reverse=True):
        with Record.open(path) as record:
            headers.append((record.header.configuration, record.header.extenders, record.header.annotations))
    assert headers == [({}, (), ()), (reload.configuration, reload.extenders, reload.annotations)]


class Congested(Immediately):
    """Takes nothing between two numbers of attempts."""

    def __init__(self, sink: io.BytesIO, recorder: list[Recorder], first: int, last: int) -> None:
        super().__init__(sink)
        self._recorder, self._first, self._last = recorder, first, last

    @property
    def is_full(self) -> bool:  # type: ignore[override]
        return bool(self._recorder) and self._first <= self._recorder[0].attempts < self._last


def test_what_is_left_out_is_counted_and_the_rest_can_be_opened() -> None:
    sink, known = io.BytesIO(), []
    recorder = Recorder(Congested(sink, known, 20, 50), batch=4)
    known.append(recorder)
    play(story(2, 60), recorder)
    record = read(sink.getvalue())
    entries = [entry for _, entry in record.entries()]
    (gap,) = (entry for entry in entries if isinstance(entry, Gap))
    numbers = [entry.number for entry in entries if isinstance(entry, Attempt)]
    assert gap.missing > 30 and len(numbers) < recorder.attempts == record.num_attempts
    after = [entry for entry in entries if isinstance(entry, Attempt) and entry.number > 60]
    for entry in after[:: len(after) // 5]:
        assert decided_again(record.attempt(entry.number)) == told(entry)


def test_a_new_file_begins_with_the_whole_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.record.writer.BLOCK_ENTRIES", 64)
    path = tmp_path / "live.mrec"
    limits = files(path)
    limits.max_bytes_each = 6_000
    play(story(3, 60), Recorder(AtOnce(limits), batch=16))
    names = sorted(os.listdir(tmp_path))  # how many there are depends on how well uids compress
    assert names == ["live.mrec", *(f"live.mrec.{age}" for age in range(1, len(names)))] and len(names) >= 3
    numbers: list[int] = []
    for name in (*reversed(names[1:]), names[0]):
        with Record.open(tmp_path / name) as record:
            attempts = [entry for _, entry in record.attempts()]
            assert record.is_complete and (tmp_path / name).stat().st_mode & 0o777 == 0o600
            assert decided_again(record.attempt(attempts[-1].number)) == told(attempts[-1])
            numbers += [entry.number for entry in attempts]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_a_file_of_a_former_process_is_kept_and_old_ones_go(tmp_path: Path) -> None:
    path = tmp_path / "live.mrec"
    path.write_bytes(MAGIC + b"former")
    old = tmp_path / "live.mrec.1"
    old.write_bytes(MAGIC + b"old")
    os.utime(old, (1, 1))
    files(path).begin().close()
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == {
        "live.mrec": b"",
        "live.mrec.1": MAGIC + b"former",
    }


class FullDisk(io.FileIO):
    """Takes so many bytes."""

    room = 100

    def write(self, data: Any) -> int:
        taken = bytes(data)[: self.room]
        if not taken:
            raise OSError(28, "No space left on device")
        self.room -= len(taken)
        return super().write(taken)


def test_a_write_that_fails_leaves_no_half_block(tmp_path: Path) -> None:
    sink = WholeWrites(FullDisk(tmp_path / "r", "w"))
    sink.write(b"x" * 60)
    with pytest.raises(MooringError, match="r: No space left"):
        sink.write(b"y" * 60)
    sink.close()
    assert (tmp_path / "r").read_bytes() == b"x" * 60


def test_a_first_file_that_cannot_be_opened_is_the_only_error(tmp_path: Path) -> None:
    output = InBackground(files(tmp_path / "absent" / "r"))
    with pytest.raises(UsageError, match="absent/r: No such file or directory"):
        output.begin(HEADER)
    output.close(1.0)


def test_a_full_disk_leaves_entries_out_and_does_not_stop_anything(tmp_path: Path) -> None:
    limits = files(tmp_path / "r")
    limits.begin = lambda: WholeWrites(FullDisk(tmp_path / "r", "w"))  # type: ignore[method-assign]
    FullDisk.room = 10_000
    output = InBackground(limits)
    output.begin(HEADER)
    output.take_state(1.0, [make_node("a")])
    for i in range(10_000):
        output.take([2.0 + i], [make_node(f"node-{os.urandom(8).hex()}")])
    output.close(3.0)
    assert output.is_full
    with Record.open(tmp_path / "r", follows=True) as record:
        assert not record.is_complete


def test_an_end_not_written_in_time_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "CLOSE_S", 0.01)
    goes_on = threading.Event()

    class Hangs(io.FileIO):
        def write(self, data: Any) -> int:
            goes_on.wait()
            return super().write(data)

    limits = files(tmp_path / "r")
    limits.begin = lambda: WholeWrites(Hangs(tmp_path / "r", "w"))  # type: ignore[method-assign]
    output = InBackground(limits)
    output.begin(HEADER)
    output.take_state(1.0, [make_node("a")])
    output.close(3.0)
    goes_on.set()
    output._thread.join()
    assert [each.getMessage() for each in caplog.records] == ["The record could not be finished"]


def test_after_a_while_a_new_file_begins_with_the_whole_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.record.background.RETRY_S", 0.0)
    limits = files(tmp_path / "r")
    begin = limits.begin
    limits.begin = lambda: WholeWrites(FullDisk(tmp_path / "full", "w"))  # type: ignore[method-assign]
    FullDisk.room = 2_000
    output = AtOnce(limits)
    output.begin(HEADER)
    output.take_state(1.0, [make_node("a")])
    while not output.wants_state:
        output.take([2.0], [make_node(f"node-{os.urandom(8).hex()}")])
        output._writer.flush()  # type: ignore[union-attr]
    limits.begin = begin  # type: ignore[method-assign]
    output.take_state(3.0, [make_node("b")])
    assert not output.wants_state and not output.is_full
    output.close(4.0)
    with Record.open(tmp_path / "r") as record:
        assert record.is_complete and [node.name for node in record.moment(3.0).cluster.nodes] == ["b"]


def test_a_disk_that_stays_full_pushes_no_good_record_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mooring.record.background.RETRY_S", 0.0)
    room = [1 << 20]  # on the disk, for all files together

    class SmallDisk(io.FileIO):
        def write(self, data: Any) -> int:
            if len(data) > room[0]:
                raise OSError(28, "No space left on device")
            room[0] -= len(data)
            return super().write(data)

    monkeypatch.setattr("mooring.record.files.create", lambda path: SmallDisk(path, "w"))
    output = AtOnce(files(tmp_path / "r"))
    output.begin(HEADER)
    output.take_state(1.0, [make_node("good")])
    many = [make_node(f"node-{os.urandom(8).hex()}") for _ in range(100)]
    for time in range(2, 10):  # each time there is room for the beginning of a file, and not for the state
        room[0] = 400
        output.take([float(time)] * len(many), many)
        output._writer.flush()  # type: ignore[union-attr]
        assert output.wants_state
        output.take_state(time + 0.5, many)
        while output.go_on() == PART_S:
            pass
    room[0] = 1 << 20
    output.take_state(10.0, [make_node("again")])
    output.close(11.0)
    names = []
    for each in ("r", "r.1"):
        with Record.open(tmp_path / each, follows=True) as record:
            names.append([node.name for node in record.moment(record.last_time).cluster.nodes])
    assert names == [["again"], ["good"]] and len(list(tmp_path.iterdir())) == 2
    said = [each.getMessage() for each in caplog.records]
    assert said == ["The record cannot be written; entries are dropped"], "once, and not for every entry"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        pytest.param({"max_bytes": 1 << 20}, "--record-max-size: 1 MiB", id="too small"),
        pytest.param({"max_age_s": 0}, "--record-max-age: 0s", id="no time"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(tmp_path: Path, limits: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        files(tmp_path / "r", **limits)


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent/r: No such file or directory"):
        create(tmp_path / "absent" / "r")


def test_what_is_no_record_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text("steps: []\n")
    with pytest.raises(UsageError, match=r"story.yaml: exists and is not a record, so it is not overwritten"):
        create(path)
    assert path.read_text() == "steps: []\n"


@pytest.mark.parametrize("name", ["live", "live.1", "live.3"])
def test_other_files_are_not_rotated(tmp_path: Path, name: str) -> None:
    (tmp_path / "live").write_bytes(MAGIC)
    (tmp_path / name).write_text("mine")
    os.utime(tmp_path / name, (1, 1))
    with pytest.raises(UsageError, match=f"{name}: exists and is not a record, so it is not overwritten"):
        files(tmp_path / "live").begin()
    assert (tmp_path / name).read_text() == "mine" and sorted(path.name for path in tmp_path.iterdir()) == sorted(
        {"live", name}
    )


def test_a_file_that_was_open_to_all_is_private_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.touch(0o644)
    create(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_disk_that_recovers_while_it_is_asked_about_is_no_error(tmp_path, monkeypatch):
    """The thread clears the time of the next try at any moment; so it does here, between two reads of it."""
    sink = InBackground(RotatedFiles(str(tmp_path / "r.mrec"), max_bytes=64 << 20, max_age_s=60.0))
    sink._retry_at = 1e12

    def monotonic() -> float:
        sink._retry_at = None
        return 0.0

    monkeypatch.setattr(background.clocks, "monotonic", monotonic)
    assert sink.is_full
    assert not sink.is_full
