"""``mooring bench soak``: what is asked for, what is told meanwhile, and what the exit code says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mooring.bench import soak as soaking
from mooring.bench.soak import Report
from mooring.bench.virtual.soak import VirtualReport
from mooring.cli.main import run


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a soak would have been asked for. Its report can be filled in beforehand; it tells progress three times."""
    seen: dict[str, Any] = {"report": Report(180.0, 1)}

    async def soak(seconds: float, *, progress: Callable[[float, Report], None], **options: Any) -> Report:
        seen.update(options, seconds=seconds)
        for elapsed in (10.0, 65.0, 130.0):
            progress(elapsed, seen["report"])
        return seen["report"]

    monkeypatch.setattr(soaking, "soak", soak)
    return seen


def test_options_become_what_is_asked_for(asked: dict[str, Any]) -> None:
    arguments = "--minutes 3 --nodes 5 --rate 2.5 --seed 7 --leader-every 20"
    assert run(["bench", "soak", *arguments.split()]) == 0
    assert (asked["seconds"], asked["nodes"], asked["rate"], asked["seed"]) == (180, 5, 2.5, 7)
    assert (asked["leader_every_s"], asked["least"].leader_changes) == (20, 3)


def test_a_log_gets_a_line_a_minute(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    asked["report"].pods_bound, asked["report"].leaders, asked["report"].memory_last_mib = 1234, 5, 67.8
    run(["bench", "soak", "--minutes", "3"])
    assert capsys.readouterr().err.splitlines() == [
        "  1.1 min  1,234 pods bound by 5 leaders, 68 MiB",
        "  2.2 min  1,234 pods bound by 5 leaders, 68 MiB",
    ]


def test_a_good_report(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    report = asked["report"]
    report.done = {"pods created": 1000}
    report.held_last = report.held_most = {"process: tasks": 12}
    assert run(["bench", "soak", "--minutes", "3"]) == 0
    out = capsys.readouterr().out
    assert "pods created   1,000" in out and "process: tasks   0               12           12" in out
    assert out.endswith("no pod lost, none bound twice, no node overfilled, nothing left behind\n")


def test_a_problem_is_told_and_is_exit_code_1(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    asked["report"].problems = ["pod default/p was bound twice"]
    assert run(["bench", "soak", "--minutes", "3"]) == 1
    assert "PROBLEM: pod default/p was bound twice" in capsys.readouterr().out
    assert run(["bench", "soak", "--minutes", "3", "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == ["pod default/p was bound twice"]


@pytest.mark.parametrize(("given", "load"), [("", None), ("--load none", ""), ("--load gangs", "gangs")])
def test_a_load_is_the_seeds_or_what_is_given(given: str, load: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def virtual_soak(seconds: float, seeds: range, **shape: Any) -> VirtualReport:
        asked.update(shape, seeds=seeds)
        return VirtualReport(seconds, seeds=list(seeds))

    monkeypatch.setattr("mooring.bench.virtual.soak.virtual_soak", virtual_soak)
    assert run(["bench", "soak", "--virtual-time", "--seeds", "2", *given.split()]) == 0
    assert (asked["load"], asked["crowd"], asked["seeds"]) == (load, "", range(1, 3))


@pytest.mark.parametrize("arguments", [["--minutes", "0"], ["--nodes", "1"], ["--rate", "0"], ["--leader-every", "1"]])
def test_numbers_out_of_range_are_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "soak", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param("--minutes nan", "Invalid value for '--minutes': 'nan' is not a number", id="no minutes"),
        pytest.param("--virtual-time --rate nan", "Invalid value for '--rate': 'nan' is not a number", id="no rate"),
        pytest.param("--seeds 3", "--seeds, --crowd and --load are for --virtual-time", id="seeds in real time"),
        pytest.param("--crowd tight", "--seeds, --crowd and --load are for", id="a crowd in real time"),
        pytest.param("--load gangs", "--seeds, --crowd and --load are for", id="a load in real time"),
        pytest.param("--virtual-time --leader-every 9", "--leader-every: in virtual time", id="leaders by seed"),
    ],
)
def test_what_would_have_no_effect_is_refused(
    arguments: str, words: str, asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "soak", *arguments.split()]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
