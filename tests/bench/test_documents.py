"""What measurements read and start: earlier results, and processes of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mooring.api.errors import InputError
from mooring.bench import own_process as own
from mooring.bench.decisions import read_document
from mooring.bench.own_process import own_process

FORMAT = "mooring.example/v1"


def test_a_result_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"format": FORMAT, "value": 3}))
    assert read_document(path, FORMAT, "mooring bench x")["value"] == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "no such file or directory", id="no file"),
        pytest.param(b"{", "not JSON: ", id="no JSON"),
        pytest.param(b"\xff\xfe\x00", "not JSON: ", id="no text"),
        pytest.param(b"[]", f"not a result of mooring bench x -o json \\({FORMAT}\\)", id="a list"),
        pytest.param(b'{"format": "other"}', "not a result of mooring bench x", id="another format"),
    ],
)
def test_what_is_no_result_is_refused(content: bytes | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_document(path, FORMAT, "mooring bench x")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that answers twice and ends with the given code."""
    (tmp_path / "answering.py").write_text(
        "import json, sys, time\n"
        "request = json.load(sys.stdin)\n"
        "for i in range(2):\n    print(json.dumps({'i': i, 'asked': request['question']}), flush=True)\n"
        "print(request.get('half', ''), end='', flush=True)\n"
        "time.sleep(request.get('sleep', 0))\n"
        "sys.exit(request.get('code', 0))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "answering"


def test_a_process_of_its_own_answers_line_by_line(module: str) -> None:
    with own_process(module, {"question": "why", "code": 3}) as process:
        assert process.exit_code is None
        assert list(process.answers()) == [{"i": 0, "asked": "why"}, {"i": 1, "asked": "why"}]
    assert process.exit_code == 3


def test_an_answer_that_was_cut_off_is_none(module: str) -> None:
    with own_process(module, {"question": "why", "code": 3, "half": '{"i": 2, '}) as process:
        assert [answer["i"] for answer in process.answers()] == [0, 1]
    assert process.exit_code == 3


def test_a_process_that_does_not_end_is_ended(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "STOP_S", 0.1)
    with pytest.raises(subprocess.TimeoutExpired), own_process(module, {"question": "", "sleep": 1000}) as process:
        next(process.answers())
    assert process.exit_code is not None


def test_a_module_that_is_not_there_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with own_process("nothing_like_it", {}) as process:
        assert list(process.answers()) == []
    assert process.exit_code == 1
    assert "nothing_like_it" in capfd.readouterr().err
