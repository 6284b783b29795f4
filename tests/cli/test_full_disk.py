"""A record on a full disk: the cluster goes on without it, and the command says so."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from mooring.api.errors import MooringError
from mooring.cli.main import run
from mooring.record import files


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_story_goes_on_when_its_record_cannot(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left, usual = [1 + written], files.WholeWrites.write  # the header is written

    def write(self: files.WholeWrites, data: bytes) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise MooringError(f"r.mrec: {OSError(errno.ENOSPC, 'No space left on device').strerror}")
        return usual(self, data)

    monkeypatch.setattr(files.WholeWrites, "write", write)
    record = tmp_path / "r.mrec"
    assert run(["scenario", "run", "--virtual-time", "-q", "preemption", "--record", str(record)]) == 1
    out, err = capsys.readouterr()
    assert "mooring: r.mrec: No space left on device" in err
    assert "Traceback" not in out + err
    assert run(["scenario", "run", "--virtual-time", "-q", "preemption"]) == 0
    *story, _ = capsys.readouterr().out.splitlines()  # the last line sums up
    assert story and out.splitlines() == story
