"""``mooring diff``: two configurations, two versions or a plugin; the exit code says whether a pod moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.cli.main import run

CLUSTER = """
kind: List
items:
- kind: Node
  metadata: {name: a, labels: {kubernetes.io/hostname: a}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
- kind: Node
  metadata: {name: b, labels: {kubernetes.io/hostname: b}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
- kind: Pod
  metadata: {name: old}
  spec: {nodeName: a, containers: [{name: main, resources: {requests: {cpu: "2"}}}]}
- kind: Pod
  metadata: {name: web}
  spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
"""
PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
PLUGIN = """
from mooring import sdk


class NotOnB(sdk.NodeFilter):
    name = "NotOnB"

    def filter(self, state, pod, node):
        return sdk.unschedulable("not on b") if node.name == "b" else sdk.SUCCESS
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "packed.yaml").write_text(PACKED)
    (tmp_path / "not_on_b.py").write_text(PLUGIN)


@pytest.mark.parametrize(
    ("arguments", "names", "moved"),
    [
        pytest.param(["--config", "packed.yaml"], ("the default", "packed.yaml"), [("b", "a")], id="with the default"),
        pytest.param(
            ["--config", "packed.yaml", "--config", "packed.yaml"], ("packed.yaml", "packed.yaml"), [], id="with itself"
        ),
        pytest.param(["--version", "1.36", "1.37"], ("1.36", "1.37"), [], id="two versions"),
        pytest.param(
            ["--version", "1.36", "1.37", "--config", "packed.yaml"],
            ("1.36", "1.37"),
            [],
            id="one configuration of both",
        ),
        pytest.param(["--plugin", "not_on_b.py"], ("the default", "not_on_b.py"), [("b", "a")], id="a plugin"),
    ],
)
def test_what_is_compared(
    arguments: list[str],
    names: tuple[str, str],
    moved: list[tuple[str, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["diff", "--cluster", "cluster.yaml", "-o", "json", *arguments]) == (1 if moved else 0)
    found = json.loads(capsys.readouterr().out)
    assert (found["before"], found["after"]) == names
    assert [(move["from"], move["to"]) for move in found["moved"]] == moved


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "--cluster", "cluster.yaml", "--plugin", "not_on_b.py"]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "1 pod moved: 1 pending pod, under the default and under not_on_b.py."
    assert "NotOnB refuses b: not on b" in out
    assert "The first difference is default/web:" in out


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param([], "nothing to compare; expected --config A --config B", id="nothing"),
        pytest.param(["--config", "a", "--config", "b", "--config", "c"], "expected one comparison", id="three files"),
        pytest.param(
            ["--version", "1.36", "1.37", "--config", "a", "--config", "b"], "expected one comparison", id="both"
        ),
        pytest.param(["--version", "1.36", "1.99"], "found '1.99', expected one of 1.", id="a version"),
        pytest.param(["--config", "none.yaml"], "none.yaml: no such file", id="no such file"),
        pytest.param(
            ["--version", "1.36", "1.37", "--kubernetes-version", "1.36"],
            "--version compares two versions",
            id="two ways",
        ),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "--cluster", "cluster.yaml", *arguments]) == 2
    err = capsys.readouterr().err
    assert want in err and err.count("\n") == 1
