"""Commands that call no extenders say so, in one line, beside their output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli

URL = "http://127.0.0.1:1/ext"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "extenders": [{"urlPrefix": URL, "filterVerb": "filter"}],
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


def case(tmp_path: Path, with_config: bool) -> str:
    path = tmp_path / "case.jsonl"
    value = {"id": "a", "objects": [NODE], "steps": [{"pod": POD}], **({"config": CONFIG} if with_config else {})}
    path.write_text(json.dumps(value))
    return str(path)


@pytest.mark.parametrize(
    ("by_case", "by_option"),
    [
        pytest.param(True, False, id="the case has them"),
        pytest.param(False, True, id="the option's file has them"),
        pytest.param(False, False, id="there are none"),
    ],
)
def test_decide(tmp_path: Path, config: str, by_case: bool, by_option: bool) -> None:
    options = ["--config", config] if by_option else []
    result = CliRunner().invoke(cli, ["decide", case(tmp_path, by_case), *options])
    assert json.loads(result.stdout)["id"] == "a", result.output
    where = "case a" if by_case else config
    want = f"warning: {where}: extenders are not called here, their verdicts are missing: {URL}\n"
    assert result.stderr == (want if by_case or by_option else "")


def test_explain(tmp_path: Path, config: str) -> None:
    dump, pod = tmp_path / "dump.json", tmp_path / "pod.json"
    dump.write_text(json.dumps(NODE))
    pod.write_text(json.dumps(POD))
    result = CliRunner().invoke(
        cli, ["explain", "--pod", str(pod), "--cluster", str(dump), "--config", config, "-o", "json"]
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == f"warning: {config}: extenders are not called here, their verdicts are missing: {URL}\n"
