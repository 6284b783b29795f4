"""``mooring report`` on records of simulations."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli.main import run
from mooring.record.recorder import Recorder
from mooring.sim.simulate import Arrival, simulate
from mooring.testing import make_node, make_pod


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "monday.mrec"
    recorder = Recorder.to_file(path, source="simulation")
    arrivals = [Arrival(10.0 * i, make_pod(f"web-{i}", cpu="2"), run_s=35.0) for i in range(4)]
    arrivals.insert(1, Arrival(5.0, make_pod("huge", cpu="9")))
    simulate([make_node("a", cpu="4")], arrivals, observers=[recorder])
    recorder.close()
    return path


def test_without_a_file_the_figures_are_printed(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(record)]) == 0
    out = capsys.readouterr().out
    assert "pending at the end" in out and "Insufficient cpu" in out and "default/huge" in out


def test_a_page_is_written_and_named(record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "report.html"
    assert run(["report", str(record), "-o", str(output)]) == 0
    assert capsys.readouterr().out.startswith(f"{output}: 5 pods, ")
    assert "monday.mrec" in output.read_text()


def test_two_records_of_one_name_are_distinguished(record: Path, tmp_path: Path) -> None:
    copy = tmp_path / record.name
    copy.write_bytes(record.read_bytes())
    output = tmp_path / "both.md"
    assert run(["report", str(record), str(copy), "-o", str(output)]) == 0
    text = output.read_text()
    assert str(record) in text and str(copy) in text


@pytest.mark.parametrize(
    ("name", "output", "want"),
    [
        pytest.param("absent", "r.html", "absent: No such file or directory", id="no such record"),
        pytest.param("text", "r.html", "text: not a mooring record", id="another file"),
        pytest.param("text", "r.pdf", "the ending '.pdf'; expected one of .html", id="another form"),
    ],
)
def test_bad_usage_is_one_line(
    tmp_path: Path, name: str, output: str, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("hello, this is no record at all")
    assert run(["report", str(tmp_path / name), "-o", str(tmp_path / output)]) == 2
    error = capsys.readouterr().err
    assert want in error and error.count("\n") == 1


def test_a_truncated_record_is_reported(record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.mrec"
    cut.write_bytes(record.read_bytes()[:-1])
    assert run(["report", str(cut)]) == 0
    assert capsys.readouterr().err.startswith(f"warning: {cut}: the record was cut off")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["report", "run.mrec", "-o", "link.html"], id="a report under another name"),
        pytest.param(["report", "run.mrec", "--html", "run.mrec"], id="the page instead of its record"),
        pytest.param(["ui", "run.mrec", "-o", "run.mrec"], id="mooring ui"),
    ],
)
def test_what_is_read_is_not_written_over(
    record: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.mrec").write_bytes(record.read_bytes())
    Path("link.html").symlink_to("run.mrec")
    assert run(command) == 2
    said = capsys.readouterr().err
    assert "run.mrec is an input and is not overwritten; give another file" in said and said.count("\n") == 1
    assert Path("run.mrec").read_bytes() == record.read_bytes()


def test_the_page_of_a_truncated_record_says_that_it_is_truncated(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cut := tmp_path / "cut.mrec").write_bytes(record.read_bytes()[:-3])
    assert run(["report", str(cut), "--html", str(tmp_path / "page.html")]) == 0
    assert "cut.mrec: the record was cut off, or is still being written" in capsys.readouterr().err
    assert run(["report", str(record), "--html", str(tmp_path / "page.html")]) == 0
    assert "cut off" not in capsys.readouterr().err
