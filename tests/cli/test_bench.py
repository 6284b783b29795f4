"""``mooring bench decide``: what they print, where, and that they are not silent."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

from mooring.api import yaml
from mooring.cli import output as showing
from mooring.cli.main import run
from mooring.cli.output import progress

TINY = ["bench", "decide", "--nodes", "10", "--pods", "5"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_row_for_each_kind_of_pods(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TINY, "--workload", "plain"]) == 0
    header, alike, unlike = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["workload", "nodes"]
    assert alike.split()[:4] == ["plain", "10", "0", "yes"]
    assert unlike.split()[:4] == ["plain", "10", "0", "no"]


@pytest.mark.parametrize(
    ("workload", "rows", "placed"),
    [
        pytest.param("spread", 2, 5, id="spread"),
        pytest.param("affinity", 2, 5, id="affinity"),
        pytest.param("anti-affinity", 2, 5, id="anti-affinity"),
        pytest.param("mixed", 2, 5, id="mixed"),
        pytest.param("preemption", 1, 5, id="preemption makes room for each"),
        pytest.param("volumes", 1, 5, id="volumes"),
    ],
)
def test_every_workload_is_placed(workload: str, rows: int, placed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TINY, "--workload", workload, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [result["placed"] for result in found["results"]] == [placed] * rows
    assert {result["workload"] for result in found["results"]} == {workload}
    assert {"mooring", "python", "numpy"} <= found["machine"].keys()
    assert found["state"] is None


def test_results_as_yaml_are_those_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TINY, "--workload", "plain", "--running", "20", "-o", "yaml"]) == 0
    found = yaml.load(capsys.readouterr().out)
    assert [result["running_pods"] for result in found["results"]] == [20, 20]


def test_each_part_is_reported_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    run([*TINY, "--workload", "plain"])
    assert capsys.readouterr().err.splitlines() == [
        "1/2 plain, 10 nodes, pods alike",
        "2/2 plain, 10 nodes, pods each of its own template",
    ]


def test_a_part_is_reported_once_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("pods") as show:
        for part in ("first", "first", "second"):
            show(part, 1, 2)
    assert capsys.readouterr().err == "first\nsecond\n"


def test_a_terminal_sees_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(showing, "console", lambda stderr: Console(file=terminal, force_terminal=True, width=100))
    with progress("pods") as show:
        show("plain", 3, 0, "binding")
        show("plain", 3, 7, "binding")
    assert "3/7 pods" in terminal.getvalue() and "binding" in terminal.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["decide", "--nodes", "0"], id="no nodes"),
        pytest.param(["decide", "--workload", "odd"], id="an unknown workload"),
        pytest.param(["odd"], id="an unknown measurement"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
