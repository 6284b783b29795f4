"""``mooring import``: what is in a file, what is not simulated, and a story that plays it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli.main import run

TABLE = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos\nweb,1000,10,0,0,LS\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,4000,8192,0,\n"


def test_it_says_what_is_there_and_what_is_not_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.csv").write_text(TABLE)
    assert run(["import", str(tmp_path / "pods.csv")]) == 0
    assert capsys.readouterr().out == (
        "openb pods: 1 pod that arrives\n  not simulated: 1 × qos of a pod: nothing that scheduling reads\n"
    )


def test_the_story_it_writes_can_be_simulated_from_anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "pods.csv").write_text(TABLE)
    (tmp_path / "data" / "nodes.csv").write_text(NODES)
    (tmp_path / "stories").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run(["import", "data/nodes.csv", "data/pods.csv", "-o", "stories/openb.yaml"]) == 0
    text = (tmp_path / "stories" / "openb.yaml").read_text()
    assert text.startswith("# not simulated: 1 × qos") and "../data/nodes.csv" in text
    monkeypatch.chdir(tmp_path / "data")
    capsys.readouterr()
    assert run(["simulate", str(tmp_path / "stories" / "openb.yaml"), "-o", "json"]) == 0
    assert '"placed": 1' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["absent.csv"], "absent.csv: no such file or directory", id="no file"),
        pytest.param(
            ["pods.csv", "-o", "story.txt"], "-o story.txt: expected a name that ends in .yaml", id="no story"
        ),
        pytest.param(["pods.csv", "-o", "no/story.yaml"], "no/story.yaml: no such file or directory", id="no folder"),
        pytest.param(["bad.csv"], "bad.csv, line 1: no column 'cpu_milli'", id="a column is missing"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], want: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pods.csv").write_text(TABLE)
    (tmp_path / "bad.csv").write_text("name,memory_mib,num_gpu,gpu_milli\n")
    monkeypatch.chdir(tmp_path)
    assert run(["import", *arguments]) == 2
    error = capsys.readouterr().err
    assert want in error and error.count("\n") == 1
