"""The benchmark measures what it says, with servers that really run."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tools import bench_extender as bench

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("flask", [True, False], ids=["beside Flask", "without Flask, which is said"])
def test_a_small_run(flask: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if flask and not bench.has_flask():
        pytest.skip("Flask is not installed")
    monkeypatch.setattr(bench, "has_flask", lambda: flask)
    result = bench.run(nodes=20, calls=2, clients=2)
    whole = result["whole_filter"]
    assert whole["naive_server"] == ("Flask" if flask else "http.server and json, because Flask is not installed")
    assert 0 < result["names_filter_and_prioritize"]["p50_ms"] <= result["names_filter_and_prioritize"]["p99_ms"]
    assert whole["mooring"]["calls_per_s"] > 0 and whole["naive"]["calls_per_s"] > 0
    lines: list[str] = []
    bench.draw(result, lines.append)
    assert f"naive is {whole['naive_server']}" in lines[-1]


def test_a_server_that_does_not_start_is_one_line() -> None:
    with pytest.raises(bench.MooringError, match="did not start"), bench._naive("raise SystemExit"):
        pass


def test_the_command_prints_the_result_and_says_each_part() -> None:
    done = CliRunner().invoke(bench.main, ["--nodes", "5", "--calls", "1", "-o", "json"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["nodes"], found["calls"], found["clients"]) == (5, 1, 2)
    assert found["whole_filter"]["mooring"]["calls_per_s"] > 0
    assert len(done.stderr.splitlines()) == 4
