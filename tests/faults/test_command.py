"""``python -m tests.faults.soak``: what is asked for, what is printed, and what the exit code says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.faults import soak
from tests.faults.soak import VirtualReport


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a soak would have been asked for. Its report can be filled in beforehand."""
    seen: dict[str, Any] = {"report": VirtualReport(180.0, seeds=[1])}

    def virtual_soak(seconds: float, seeds: range, **shape: Any) -> VirtualReport:
        seen.update(shape, seconds=seconds, seeds=seeds)
        return seen["report"]

    monkeypatch.setattr(soak, "virtual_soak", virtual_soak)
    return seen


def run(arguments: str) -> Result:
    return CliRunner().invoke(soak.main, arguments.split())


def test_options_become_what_is_asked_for(asked: dict[str, Any]) -> None:
    assert run("--minutes 3 --nodes 5 --rate 2.5 --seed 7 --seeds 2 --crowd tight").exit_code == 0
    assert (asked["seconds"], asked["nodes"], asked["rate"], asked["crowd"]) == (180, 5, 2.5, "tight")
    assert asked["seeds"] == range(7, 9)


@pytest.mark.parametrize(("given", "load"), [("", None), ("--load none", ""), ("--load gangs", "gangs")])
def test_a_load_is_the_seeds_or_what_is_given(given: str, load: str | None, asked: dict[str, Any]) -> None:
    assert run(given).exit_code == 0
    assert (asked["load"], asked["crowd"], asked["seeds"]) == (load, "", range(1, 2))


def test_a_good_report(asked: dict[str, Any]) -> None:
    asked["report"].done = {"create": 1000}
    done = run("--minutes 3")
    assert (done.exit_code, done.output.splitlines()[1]) == (0, "create   1,000")
    assert done.output.endswith("no pod lost, none bound twice, no node overfilled, nobody bound without the lease\n")


def test_a_problem_is_reported_with_exit_code_1(asked: dict[str, Any]) -> None:
    asked["report"].problems = ["pod default/p was bound twice"]
    done = run("--minutes 3")
    assert done.exit_code == 1 and "PROBLEM: pod default/p was bound twice" in done.output
    done = run("--minutes 3 -o json")
    assert done.exit_code == 1 and json.loads(done.output)["problems"] == ["pod default/p was bound twice"]


@pytest.mark.parametrize("arguments", ["--minutes 0", "--nodes 1", "--rate 0", "--minutes nan", "--rate nan"])
def test_numbers_out_of_range_are_bad_usage(arguments: str) -> None:
    assert run(arguments).exit_code == 2


SLEEPER = """title: A leader that slept
soak: {seed: 1, replicas: 2}
steps:
- nodes: {count: 2}
- advance: 5s
- create: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: web}]}}
- fault: {what: sleep, name: leader, for: 17s}
- advance: 20s
"""


def test_a_story_is_played(tmp_path: Path) -> None:
    story = tmp_path / "sleeper.yaml"
    story.write_text(SLEEPER)
    done = run(f"--story {story}")
    assert done.exit_code == 0
    assert "seed 1: 0 pods lived and went, 1 were bound by 2 leaders" in done.output
