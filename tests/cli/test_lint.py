"""``mooring lint``: findings for people and for code review, and an exit code for CI."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mooring.ask.lint.lint import all_rules
from mooring.cli.main import run

CLUSTER = """
kind: Node
metadata: {name: a, labels: {kubernetes.io/hostname: a}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"""
BUDGET = """apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
"""
POD = """kind: Pod
metadata: {name: web}
spec:
  tolerations:
  - {key: nobody}
  containers: [{name: main, image: x}]
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "pod.yaml").write_text(POD)
    (tmp_path / "manifests" / "values.yaml").write_text("replicas: 3\n")
    (tmp_path / "budget.yaml").write_text(BUDGET)


def test_findings_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "manifests", "--cluster", "cluster.yaml"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "manifests/pod.yaml:5 warning unknown-toleration",
        "  Pod web: no node has a taint that nobody tolerates",
        "  fix: remove it, or taint the nodes that are meant",
        "",
        f"1 warning: 1 object in 2 files, {len(all_rules())} rules.",
    ]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["manifests", "--cluster", "cluster.yaml"], 1, id="a warning"),
        pytest.param(["manifests", "--cluster", "cluster.yaml", "--fail-on", "error"], 0, id="only errors count"),
        pytest.param(["budget.yaml", "--no-cluster", "--fail-on", "error"], 1, id="an error"),
        pytest.param(["budget.yaml", "--no-cluster", "--fail-on", "never"], 0, id="nothing counts"),
        pytest.param(["budget.yaml", "--no-cluster", "--disable", "budget-blocks-drain"], 0, id="switched off"),
    ],
)
def test_the_exit_code_says_how_bad_it_is(arguments: list[str], code: int) -> None:
    assert run(["lint", *arguments]) == code


def test_sarif_for_code_review(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "manifests", "budget.yaml", "--cluster", "cluster.yaml", "-o", "sarif"]) == 1
    sarif = json.loads(capsys.readouterr().out)
    (job,) = sarif["runs"]
    rules = job["tool"]["driver"]["rules"]
    assert sarif["version"] == "2.1.0"
    assert [rule["id"] for rule in rules] == [rule.name for rule in all_rules()]
    places = [
        (
            result["level"],
            rules[result["ruleIndex"]]["id"] == result["ruleId"],
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            result["locations"][0]["physicalLocation"]["region"]["startLine"],
        )
        for result in job["results"]
    ]
    assert places == [
        ("error", True, "budget.yaml", 4),
        ("warning", True, "budget.yaml", 4),
        ("warning", True, "manifests/pod.yaml", 5),
    ]


def test_what_a_chart_renders_comes_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"# Source: chart/budget.yaml\n" + BUDGET.encode())))
    assert run(["lint", "-", "--no-cluster"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "-:5 error budget-blocks-drain"


def test_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "--rules"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert names == [rule.name for rule in all_rules()]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param([], "expected MANIFESTS", id="nothing to look at"),
        pytest.param(["none.yaml", "--no-cluster"], "none.yaml: no such file", id="no such file"),
        pytest.param(["none.yaml"], "none.yaml: no such file", id="no such file comes before no cluster"),
        pytest.param(
            ["manifests"],
            "no cluster configured: give --cluster DUMP, --kubeconfig FILE or --no-cluster, set KUBECONFIG",
            id="no cluster",
        ),
        pytest.param(
            ["manifests", "--no-cluster", "--disable", "budget-block-drain"],
            "no lint rule 'budget-block-drain'; did you mean budget-blocks-drain?",
            id="no such rule",
        ),
        pytest.param(["manifests", "--no-cluster", "--cluster", "x"], "give one of them", id="a cluster and none"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], want: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert run(["lint", *arguments]) == 2
    err = capsys.readouterr().err
    assert want in err and err.count("\n") == 1
