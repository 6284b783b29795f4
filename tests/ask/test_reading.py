"""Clusters from files, patterns, text and a live API server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import InputError, MooringError
from mooring.ask.scheduler import _run, connect, load
from mooring.controlplane.server import ControlPlane
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient


def manifest(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


POD = manifest("Pod", "p", spec={"containers": [{"name": "c", "image": "pause"}]})
LIST = {"apiVersion": "v1", "kind": "List", "items": [manifest("Node", "a"), manifest("Node", "b"), POD]}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump.json").write_text(json.dumps(LIST))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "node-c.yaml").write_text(json.dumps(manifest("Node", "c")))
    (tmp_path / "parts" / "node-d.yaml").write_text(json.dumps(manifest("Node", "d")))
    return tmp_path


@pytest.mark.parametrize(
    ("sources", "nodes"),
    [
        pytest.param(["dump.json"], ["a", "b"], id="a file"),
        pytest.param([Path("dump.json")], ["a", "b"], id="a path"),
        pytest.param(["parts"], ["c", "d"], id="a directory"),
        pytest.param(["parts/*.yaml"], ["c", "d"], id="a pattern"),
        pytest.param(["**/node-d.yaml"], ["d"], id="a pattern through directories"),
        pytest.param(["dump.json", "parts"], ["a", "b", "c", "d"], id="several"),
        pytest.param([json.dumps(LIST).encode()], ["a", "b"], id="what kubectl printed"),
        pytest.param([LIST], ["a", "b"], id="a dict"),
        pytest.param(["parts", LIST], ["c", "d", "a", "b"], id="files and a dict"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_load(files: Path, sources: list[Any], nodes: list[str]) -> None:
    assert [node.name for node in load(*sources).nodes] == nodes


def test_pods_that_wait_are_there_too(files: Path) -> None:
    assert [pod.key for pod in load("dump.json").pending] == ["default/p"]


def test_classes_of_another_file_count(tmp_path: Path) -> None:
    (tmp_path / "a-pod.yaml").write_text(json.dumps(manifest("Pod", "p", spec={"priorityClassName": "high"})))
    priority = {**manifest("PriorityClass", "high", value=7), "apiVersion": "scheduling.k8s.io/v1"}
    (tmp_path / "b-class.yaml").write_text(json.dumps(priority))
    assert load(tmp_path).pending[0].spec.priority == 7


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("gone.json", "gone.json: no such file or directory", id="a file that is not there"),
        pytest.param("gone/*.json", "gone/*.json: no file matches this pattern", id="a pattern that matches nothing"),
        pytest.param(b"[1]", "the given manifest: a list, expected a Kubernetes object", id="text that is no manifest"),
        pytest.param(7, "found 7; expected a path", id="a number"),
    ],
)
def test_bad_sources(files: Path, source: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        load(source)
    assert str(raised.value).startswith(message)


async def test_connect_reads_a_live_cluster_once(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig_path=kubeconfig):
        async with RestClient(find_config(str(kubeconfig))) as client:
            node = manifest("Node", "live", status={"allocatable": {"cpu": "4", "pods": "10"}})
            await client.create("/api/v1/nodes", json.dumps(node).encode())
            await client.create("/api/v1/namespaces/default/pods", json.dumps(POD).encode())
        cluster = await asyncio.to_thread(connect, str(kubeconfig))
    assert [node.name for node in cluster.nodes] == ["live"]
    assert [pod.key for pod in cluster.pending] == ["default/p"]


async def test_connect_works_where_a_loop_is_running() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    assert _run(answer()) == 7, "as in a notebook"


def test_connect_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(MooringError, match="gone: No such file"):
        connect(str(tmp_path / "gone"))


def test_without_a_cluster_the_error_names_python_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MooringError, match=r'give a file as in mooring.connect\(kubeconfig="FILE"\), set KUBECONFIG'):
        connect()
