"""Which cluster a question is about, and where a pod without a namespace is looked for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.cli.main import run
from mooring.cli.options import ClusterSource

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: shop}}
- {name: two, context: {cluster: c, user: u}}
"""
CLUSTER = """
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: '4', pods: '9'}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: c, image: i}]}}
"""


@pytest.mark.parametrize(
    ("source", "namespace"),
    [
        pytest.param({}, "shop", id="the context's"),
        pytest.param({"context": "two"}, "default", id="a context without one"),
        pytest.param({"namespace": "bank"}, "bank", id="the option wins"),
    ],
)
def test_where_names_are_looked_for_in_a_live_cluster(tmp_path: Path, source: dict[str, str], namespace: str) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    assert ClusterSource(kubeconfig=str(file), **source).names_in == namespace


@pytest.mark.parametrize("command", [["explain", "web"], ["capacity", "--pod", "web"]], ids=["explain", "capacity"])
def test_a_dump_takes_the_option_too(tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    assert run([*command, "--cluster", str(file)]) == 2
    assert "did you mean shop/web?" in capsys.readouterr().err
    assert run([*command, "--cluster", str(file), "-n", "shop"]) == 0
    assert "shop/web" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["-n", "shop"], ["--namespace=shop"], ["--namespace", "shop", "--kubeconfig", "x"]])
def test_options_of_kubectl_may_stand_before_the_command(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    behind = run(["explain", "web", "--cluster", str(file), *option]), capsys.readouterr()
    assert (run([*option, "explain", "web", "--cluster", str(file)]), capsys.readouterr()) == behind
    assert len(option) > 2 or behind[0] == 0


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_runs_it_as_its_own_command(tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-mooring"
    plugin.write_text(f"#!{sys.executable}\nfrom mooring.cli.main import main\nmain()\n")
    plugin.chmod(0o755)
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin:/usr/local/bin",
        "PYTHONPATH": ":".join(sys.path),
        "HOME": str(tmp_path),
    }
    asked = ["kubectl", "mooring", "explain", "web", "-n", "shop", "--cluster", str(file)]
    answer = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)
    assert answer.stdout.startswith("shop/web goes to a"), answer.stderr
    wrong = subprocess.run([*asked, "--wrong"], capture_output=True, text=True, env=environment, check=False)
    assert "see kubectl mooring explain --help" in wrong.stderr
