"""``mooring admission``: exit codes, mistakes, a live cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

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
