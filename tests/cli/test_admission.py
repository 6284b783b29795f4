"""``mooring admission``: exit codes, mistakes, a live cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api import yaml
from mooring.cli.main import run
from mooring.controlplane.registry.catalog import by_group_kind
from mooring.controlplane.server import ControlPlane

EXAMPLES = Path(__file__).parents[2] / "examples" / "quotas"
CLUSTER, TRAIN = f"--cluster {EXAMPLES}/cluster.yaml", f"{EXAMPLES}/train.yaml"


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        pytest.param(f"{TRAIN} {CLUSTER}", 0, "ml/train is admitted by ClusterQueue team-b", id="admitted"),
        pytest.param(f"sweep -n ml {CLUSTER}", 0, "ml/sweep is admitted by ClusterQueue team-a", id="by name"),
        pytest.param(f"{TRAIN} {CLUSTER} --queue nope", 1, "ml/train waits for quota", id="no such queue"),
    ],
)
def test_answers(command: str, code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["admission", *command.split()]) == code
    assert capsys.readouterr().out.startswith(line)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param(f"{TRAIN} --cluster run.mrec", "a record has no quotas", id="a record"),
        pytest.param(f"nope {CLUSTER}", "no Workload or Job of that name in a queue", id="no such job"),
        pytest.param(
            f"{TRAIN} --cluster {EXAMPLES.parent}/what-if/cluster.yaml",
            "the cluster has no ClusterQueue",
            id="no Kueue",
        ),
    ],
)
def test_mistakes_are_one_line(command: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["admission", *command.split()]) == 2
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "path", "value", "message"),
    [
        pytest.param("Job", "metadata", "x", "Job without a name: metadata: expected an object", id="job metadata"),
        pytest.param("Job", "spec.parallelism", None, "1 pod", id="a null is a default"),
        pytest.param(
            "Job", "spec.parallelism", "many", "Job ml/train: spec.parallelism: expected an integer", id="count"
        ),
        pytest.param(
            "Job", "spec.parallelism", -1, "Job ml/train: Expected `int` >= 0 at `$.spec", id="negative count"
        ),
        pytest.param(
            "Job", "spec.template", None, "spec.template: found none; expected the template", id="no template"
        ),
        pytest.param(
            "Job", "spec.template.spec", [1], "Job ml/train: spec.template.spec: expected an object", id="pod"
        ),
        pytest.param("ClusterQueue", "metadata", {}, "ClusterQueue without a name: metadata.name", id="no name"),
        pytest.param("ClusterQueue", "spec.resourceGroups", 1e30, "team-b: spec.resourceGroups: expected", id="groups"),
        pytest.param(
            "ClusterQueue", "spec.cohortName", ["<b>"], "team-b: spec.cohortName: expected a text", id="cohort"
        ),
        pytest.param("ResourceFlavor", "spec.nodeLabels", [None], "spot: spec.nodeLabels: expected", id="labels"),
        pytest.param("Workload", "status.conditions", -1, "ml/job-sweep: status.conditions: expected", id="conditions"),
        pytest.param("Workload", "spec.podSets", [{"count": "x"}], "spec.podSets[0].count: expected", id="pod sets"),
    ],
)
def test_wrong_types_are_one_line(
    kind: str, path: str, value: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = yaml.load((EXAMPLES / "cluster.yaml").read_bytes(), "cluster.yaml")
    job = yaml.load((EXAMPLES / "train.yaml").read_bytes(), "train.yaml")
    *steps, last = path.split(".")
    at = {each["kind"]: each for each in (*cluster["items"], job)}[kind]
    for step in steps:
        at = at[step]
    at[last] = value
    for name, obj in {"cluster.json": cluster, "train.json": job}.items():
        (tmp_path / name).write_text(json.dumps(obj))
    code = run(["admission", f"{tmp_path}/train.json", "--cluster", f"{tmp_path}/cluster.json"])
    printed = capsys.readouterr()
    assert message in printed.out + printed.err
    assert code == 2 or not printed.err
    assert len(printed.err.splitlines()) == (code == 2)


def test_negative_quota_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (EXAMPLES / "cluster.yaml").read_text().replace('nominalQuota: "8"', 'nominalQuota: "-8"')
    (tmp_path / "cluster.yaml").write_text(text)
    assert run(["admission", f"{EXAMPLES}/train.yaml", "--cluster", f"{tmp_path}/cluster.yaml"]) == 2
    assert "spot: cpu: nominalQuota: found -8; expected 0 or more" in capsys.readouterr().err


async def test_a_live_cluster_is_asked_and_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig_path=kubeconfig) as plane:
        namespace = by_group_kind("", "Namespace")
        assert namespace is not None
        plane.api.create(namespace, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
        for obj in yaml.load((EXAMPLES / "cluster.yaml").read_bytes(), "cluster.yaml")["items"]:
            kind = by_group_kind(obj["apiVersion"].rpartition("/")[0], obj["kind"])
            assert kind is not None
            if obj["kind"] not in ("Workload", "Pod"):
                plane.api.create(kind, obj["metadata"].get("namespace", ""), obj)
        before = plane.api.store.rv
        command = ["admission", TRAIN, "--kubeconfig", str(kubeconfig), "-o", "json"]
        code = await asyncio.to_thread(run, command)
        found = json.loads(capsys.readouterr().out)
        assert (code, found["isAdmitted"], found["preempted"], found["placed"]) == (0, True, [], 2)
        assert plane.api.store.rv == before
