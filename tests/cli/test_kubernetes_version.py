"""``--kubernetes-version``: which server is asked, and what a command says about it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.main import run
from mooring.core.config.versions import VERSIONS

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"pods": "9"}}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "x"}]},
}
CORDONED = {**NODE, "spec": {"unschedulable": True}}
OLD, NEW = "no new claims to deallocate, preemption: ", "unschedulable. preemption: "


@dataclass
class Result:
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> Result:
        code = run(list(arguments))
        return Result(code, *capsys.readouterr())

    return call


OLDEST, *_, NEWEST = VERSIONS


def case(version: str | None) -> str:
    pod = {**POD, "metadata": {"name": "p", "namespace": "default", "uid": "u"}}
    value = {"id": "c", "objects": [CORDONED], "steps": [{"pod": pod, "afterwards": "deleted"}]}
    return json.dumps(value if version is None else {**value, "kubernetes": version})


@pytest.mark.parametrize(
    ("version", "option", "said", "warning"),
    [
        pytest.param(None, (), OLD, "", id="a case that does not say is 1.36"),
        pytest.param("v1.36.4", (), OLD, "", id="a case of 1.36"),
        pytest.param("v1.37.0-rc.1", (), NEW, "", id="a case of 1.37"),
        pytest.param("v1.37.0-rc.1", ("--kubernetes-version", "1.36"), OLD, "", id="the option comes first"),
        pytest.param("v1.30.1", (), OLD, f"the cluster is Kubernetes 1.30; deciding as {OLDEST}", id="an old case"),
        pytest.param("v1.50.0", (), NEW, f"the cluster is Kubernetes 1.50; deciding as {NEWEST}", id="a new case"),
    ],
)
def test_decide(
    invoke: Any, tmp_path: Path, version: str | None, option: tuple[str, ...], said: str, warning: str
) -> None:
    (tmp_path / "cases.jsonl").write_text(f"{case(version)}\n{case(version)}\n")
    result = invoke("decide", str(tmp_path / "cases.jsonl"), *option)
    assert result.exit_code == 0
    for line in result.stdout.splitlines():
        assert said in json.loads(line)["steps"][0]["message"]
    assert result.stderr.count("warning: ") == bool(warning) and warning in result.stderr


@pytest.mark.parametrize(
    ("kubelet", "option", "said"),
    [
        pytest.param("v1.36.2", (), OLD, id="the dump says 1.36"),
        pytest.param("v1.37.0", (), NEW, id="the dump says 1.37"),
        pytest.param("v1.37.0", ("--kubernetes-version=1.36",), OLD, id="the option comes first"),
    ],
)
def test_explain(invoke: Any, tmp_path: Path, kubelet: str, option: tuple[str, ...], said: str) -> None:
    node = {**CORDONED, "status": {**NODE["status"], "nodeInfo": {"kubeletVersion": kubelet}}}  # type: ignore[dict-item]
    (tmp_path / "dump.json").write_text(json.dumps(node))
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    result = invoke(
        "explain", str(tmp_path / "pod.json"), "--cluster", str(tmp_path / "dump.json"), "-o", "json", *option
    )
    assert result.exit_code == 1
    assert said in result.stdout
    assert result.stderr == ("" if said == OLD else "Deciding as Kubernetes 1.37, as the cluster says.\n")


def test_a_version_that_there_is_not(invoke: Any) -> None:
    result = invoke("config", "defaults", "--kubernetes-version", "1.29")
    assert result.exit_code == 2
    assert f"--kubernetes-version: found '1.29', expected one of {', '.join(VERSIONS)}" in result.stderr


def test_the_default_configuration_of_a_version(invoke: Any) -> None:
    first = invoke("config", "defaults", "--kubernetes-version", "1.37").stdout
    assert first.index("name: NodeName") < first.index("name: NodeUnschedulable")
    before = invoke("config", "defaults").stdout
    assert before.index("name: NodeName") > before.index("name: NodeUnschedulable")


# ---- what differs between versions -------------------------------------------------------------------------------


def test_what_changed_between_two_versions(invoke: Any) -> None:
    result = invoke("diff", "--version", "1.35", "1.36", "--explain")
    assert result.exit_code == 0
    assert "BalanceCountsImprovement" in result.stdout and "kubernetes#135573" in result.stdout
    assert "NodeNameComesFirst" not in result.stdout, "this came with 1.37"
    value = json.loads(invoke("diff", "--version", "1.36", "1.35", "--explain", "-o", "json").stdout)
    assert (value["before"], value["after"]) == ("1.35", "1.36")
    assert {"name", "since", "about", "says", "upstream"} == value["changes"][0].keys()


@pytest.mark.parametrize("more", [(), ("--version", "1.35", "1.36", "--cluster", "dump.json")])
def test_explain_needs_versions_and_no_cluster(invoke: Any, more: tuple[str, ...]) -> None:
    result = invoke("diff", "--explain", *more)
    assert result.exit_code == 2 and "give --version OLD NEW and no cluster" in result.stderr


@pytest.mark.parametrize(
    ("example", "because"),
    [
        pytest.param("cluster", "; before, 90 and 90 (BalanceCountsImprovement)", id="balance"),
        pytest.param("images", "node-b 100 and node-a 0; before, 0 and 0 (ImageVolumesCount)", id="image volumes"),
        pytest.param("devices", "node-b 200 and node-a 174; before, 0 and 0 (DevicesAreScored)", id="devices"),
    ],
)
def test_an_upgrade_moves_a_pod(invoke: Any, example: str, because: str) -> None:
    cluster = str(Path(__file__).parents[2] / "examples" / "upgrade" / f"{example}.yaml")
    result = invoke("diff", "--cluster", cluster, "--version", "1.34", "1.37")
    assert result.exit_code == 1
    assert because in result.stdout


def test_a_version_that_the_cluster_says_is_named(invoke: Any) -> None:
    cluster = str(Path(__file__).parents[2] / "examples" / "upgrade" / "cluster.yaml")
    assert (
        invoke("explain", "cache", "--cluster", cluster).stderr == "Deciding as Kubernetes 1.34, as the cluster says.\n"
    )
    assert not invoke("explain", "cache", "--cluster", cluster, "--kubernetes-version", "1.34").stderr


def test_the_change_behind_a_move_is_in_the_json(invoke: Any) -> None:
    cluster = str(Path(__file__).parents[2] / "examples" / "upgrade" / "cluster.yaml")
    result = invoke("diff", "--cluster", cluster, "--version", "1.35", "1.36", "-o", "json")
    (move,) = json.loads(result.stdout)["moved"]
    assert move["changes"] == ["BalanceCountsImprovement"]
