"""``mooring bench growth`` from the command line."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mooring.bench import growth
from mooring.cli.main import run

TINY = ["bench", "growth", "--nodes", "5,10", "--pods", "0,20", "--fixed-nodes", "10", "--pods-per-node", "2"]
QUICK = ["--kind", "plain", "--decisions", "20"]


def test_sizes_are_measured_saved_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, picture = tmp_path / "growth.json", tmp_path / "growth.svg"
    assert run([*TINY, *QUICK, "-o", "json", "--save", str(saved), "--plot", str(picture)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(saved.read_text())
    assert printed["format"] == growth.FORMAT
    assert [tuple(each["size"].values()) for each in printed["sizes"]] == [(5, 10), (10, 20), (10, 0)]
    assert [(curve["by"], curve["alike"]) for curve in printed["curves"]] == [
        ("nodes", True),
        ("nodes", False),
        ("pods", True),
        ("pods", False),
    ]
    assert {"date", "machine", "versions", "plan", "memory"} <= printed.keys()
    assert ET.parse(picture).getroot().tag.endswith("svg")


def test_what_is_saved_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[growth.Size] = []

    def measure(size: growth.Size, kinds: tuple[str, ...], decisions: int, **_: object) -> growth.Measured:
        asked.append(size)
        kinds = growth.kinds_at(size, kinds)
        costs = [growth.Cost(kind, alike, 20, 20, 5.0, 6.0, 7.0) for kind in kinds for alike in (True, False)]
        return growth.Measured(size, costs)

    monkeypatch.setattr(growth, "run", measure)
    saved = tmp_path / "growth.json"
    assert run([*TINY, "--by", "nodes", "--save", str(saved)]) == 0
    assert asked == [growth.Size(5, 10), growth.Size(10, 20)]
    assert run([*TINY, "--resume", str(saved), "--save", str(saved)]) == 0
    assert asked[2:] == [growth.Size(10, 0)]
    out = capsys.readouterr().out
    assert "by running pods: CPU µs per decision, 5th percentile / median" in out
    assert "pod anti-affinity   no      5 / 6" in out
    before = json.loads(saved.read_text())
    before["date"] = "then"
    saved.write_text(json.dumps(before))
    assert run([*TINY, "--resume", str(saved)]) == 0
    assert len(asked) == 3
    assert "then, " in capsys.readouterr().out, "what is shown was measured when the file says"


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "growth", "--help"]) == 0
    assert "mooring bench growth --save growth.json --plot growth.svg" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--kind", "odd"], "--kind: no kind 'odd'; there are plain", id="an unknown kind"),
        pytest.param(["--nodes", "0,5"], "--nodes: '0' is not a number from 1 to", id="no nodes"),
        pytest.param(["--pods", "few"], "--pods: 'few' is not a number from 0 to", id="a word for a number"),
        pytest.param(["--plot", "/nowhere/a.svg"], "no such directory", id="nowhere to draw"),
        pytest.param(["--resume", "/nowhere.json"], "/nowhere.json: no such file", id="nothing to resume"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "growth", *arguments]) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1
