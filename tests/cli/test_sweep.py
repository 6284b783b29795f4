"""``mooring sweep``: run, merge and manifest."""

from __future__ import annotations

import json
from pathlib import Path

import kubernetes_validate
import pytest

from mooring.api import yaml
from mooring.cli.main import run

SWEEP = """
title: Budgets
parameters: {folder: .}
command: lint ${folder}/budget.yaml --no-cluster --disable ${rule}
over: {rule: [budget-blocks-drain, unknown-field]}
table: {rows: rule, columns: rule, value: findings}
"""
BUDGET = """apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(SWEEP)
    Path("budget.yaml").write_text(BUDGET)


def test_run_twice_and_merge(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "run", "sweep.yaml", "--jobs", "1"]) == 0
    out = capsys.readouterr()
    assert out.out.splitlines() == [
        "  sweep:    Budgets",
        "  rows:     2: 2 run now, 0 had a result already",
        "  results:  sweep.results",
        "",
        "findings, mean ± standard deviation",
        "rule                  budget-blocks-drain   unknown-field",
        "budget-blocks-drain   0                     -",
        "unknown-field         -                     1",
    ]
    assert "Budgets: 2 of 2 rows" in out.err
    assert run(["sweep", "run", "sweep.yaml", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == 2
    assert run(["sweep", "merge", "sweep.results", "sweep.results", "-f", "all.csv"]) == 0
    assert capsys.readouterr().out == "all.csv: 2 rows, 9 columns\n"
    assert run(["sweep", "merge", "sweep.results"]) == 0
    assert capsys.readouterr().out == Path("all.csv").read_text()
    head, *rows = Path("all.csv").read_text().splitlines()
    assert head == "key,rule,exitCode,files,objects,skipped,rules,withoutCluster,findings"
    assert [row.split(",", 1)[1] for row in rows] == [
        "budget-blocks-drain,0,1,1,0,4,13,0",
        "unknown-field,1,1,1,0,4,13,1",
    ]


def test_failed_rows_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "run", "sweep.yaml", "--set", "folder=nowhere", "--jobs", "1", "--shard", "1/2"]) == 1
    out = capsys.readouterr()
    assert "1: 0 run now, 0 had a result already, 1 failed" in out.out
    assert "mooring lint nowhere/budget.yaml" in out.err and "no such file" in out.err


def test_a_job_that_kubernetes_takes(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--set",
        "folder=data",
        "--shards",
        "8",
        "--image",
        "registry.example/mooring:0.1",
        "--claim",
        "traces",
    ]
    assert run(["sweep", "manifest", "sweep.yaml", *arguments]) == 0
    job = yaml.load(capsys.readouterr().out)
    kubernetes_validate.validate(job, "1.32", strict=True)
    assert (job["spec"]["completionMode"], job["spec"]["completions"]) == ("Indexed", 8)
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert " ".join(container["command"]) == (
        "mooring sweep run sweep.yaml --set folder=data --shard /8 --jobs 1 --results results"
    )


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["run", "none.yaml"], "none.yaml: no such file", id="no file"),
        pytest.param(["run", "sweep.yaml", "--set", "x=1"], "no parameter 'x'", id="no such parameter"),
        pytest.param(["run", "sweep.yaml", "--shard", "2/2"], "expected I/N", id="no such shard"),
        pytest.param(["run", "sweep.yaml", "--on", "dask://a", "--jobs", "2"], "give one of them", id="here and there"),
        pytest.param(["merge", "nowhere"], "nowhere: no such folder", id="no results"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", *arguments]) == 2
    err = capsys.readouterr().err
    assert want in err and err.count("\n") == 1
