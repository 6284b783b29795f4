"""``mooring autoscale`` by hand: one policy, several compared over seeds, and what is wrong with the call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.ask.autoscale import Estimated
from mooring.cli.main import run
from tests.sim.autoscaler.stories import SIZES, groups, pool

STORY = """
parameters: {after: 1m}
steps:
- workload: {rate: 120/h, for: 20m, cpu: "1", run: {uniform: [5m, 15m]}, recreate: true}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "day.yaml").write_text(STORY)
    keeping = pool(disruption={"consolidateAfter": "${after}"})
    (tmp_path / "pool.json").write_bytes(msgspec.json.encode(keeping))
    small = groups({"name": "small", "type": "small", "max": 50})
    (tmp_path / "groups.json").write_bytes(msgspec.json.encode(small))
    (tmp_path / "types.json").write_bytes(msgspec.json.encode(SIZES))
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["autoscale", "day.yaml", "--catalogue", "types.json", "--until", "40m", *arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_policies_are_compared_seed_by_seed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "--policy", "pool.json", "--policy", "groups.json", "--seeds", "3", "--seed", "5")
    assert found["seeds"] == [5, 6, 7]
    first, second = found["policies"]
    assert (first["policy"], second["policy"], first["differences"]) == ("pool", "groups", {})
    costs = [[one["autoscaler"]["cost"] for one in each["runs"]] for each in (first, second)]
    assert first["measures"]["cost"]["mean"] == pytest.approx(sum(costs[0]) / 3)
    expected = Estimated.of([b - a for a, b in zip(*costs, strict=True)])
    assert second["differences"]["cost"]["mean"] == pytest.approx(expected.mean)
    assert second["differences"]["cost"]["isClear"] is expected.is_clear


def test_parameters_of_the_story_stand_in_the_policy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soon, late = (
        asked(capsys, "--policy", "pool.json", "--set", f"after={after}")["policies"][0]["measures"]["podsEvicted"]
        for after in ("0s", "Never")
    )
    assert soon["mean"] > late["mean"] == 0


def test_the_table_marks_what_differs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = ["--policy", "pool.json", "--policy", "groups.json"]
    assert run(["autoscale", "day.yaml", *policies, "--catalogue", "types.json", "--seeds", "3", "--until", "40m"]) == 0
    text = capsys.readouterr().out
    assert "day, 3 seeds" in text and "POOL" in text and "GROUPS" in text
    assert "* differs from pool with 95 % confidence" in text


def test_both_packings_side_by_side(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "--policy", "pool.json", "--packing", "upstream", "--packing", "exact")
    assert [each["packing"] for each in found["policies"]] == ["upstream", "exact"]


def test_a_record_of_one_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked(capsys, "--policy", "pool.json", "--record", "r.mrec")
    assert run(["report", "r.mrec"]) == 0
    assert "cost" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param([], "no step autoscaler in it; give a policy", id="no policy"),
        pytest.param(["--policy", "pool.json"], "give one with --catalogue", id="no catalogue"),
        pytest.param(["--packing", "exact"], "belong to a policy", id="packing alone"),
        pytest.param(["--policy", "none.yaml", "--catalogue", "types.json"], "none.yaml", id="no such file"),
        pytest.param(
            ["--policy", "pool.json", "--catalogue", "types.json", "--packing", "best"],
            "packing: expected exact or upstream, found 'best'",
            id="no packing",
        ),
        pytest.param(
            ["--policy", "pool.json", "--catalogue", "types.json", "--record", "r", "--seeds", "2"],
            "a record is of one run",
            id="two runs",
        ),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert run(["autoscale", "day.yaml", *arguments]) == 2
    error = capsys.readouterr().err.strip()
    assert says in error and "\n" not in error


@pytest.mark.parametrize(
    ("values", "mean", "margin"),
    [
        pytest.param([3.0], 3.0, None, id="one seed says nothing of chance"),
        pytest.param([1.0, 3.0], 2.0, 12.71, id="two"),  # 12.71 * sqrt(2) / sqrt(2)
        pytest.param([2.0] * 40, 2.0, 0.0, id="all the same"),
    ],
)
def test_confidence_is_students(values: list[float], mean: float, margin: float | None) -> None:
    found = Estimated.of(values)
    assert found.mean == mean and found.margin == (None if margin is None else pytest.approx(margin))
