"""``--config`` and ``--plugin``: what a command does with them, and what it warns of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli, run
from mooring.core.config.load import enabling

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


PLUGIN = """
from mooring import sdk

class Wanted(sdk.Args):
    limit: int = 1

class Never(sdk.NodeFilter):
    name = "Never"
    args = Wanted

    def filter(self, state, pod, node):
        return sdk.unschedulable("not here")
"""
V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("never.py").write_text(PLUGIN)
    Path("plain.yaml").write_text(V1)
    Path("enabled.yaml").write_text(V1 + "profiles: [{plugins: {filter: {enabled: [{name: Never}]}}}]\n")
    Path("node.json").write_text(json.dumps(NODE))
    Path("pod.json").write_text(json.dumps(POD))
    return tmp_path


COMMANDS = [
    pytest.param(["explain", "--cluster", "node.json", "--pod", "pod.json"], id="explain"),
    pytest.param(["scenario", "run", "--virtual-time", "-q", "affinity"], id="scenario run"),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "code", "warning"),
    [
        pytest.param([], 0, "", id="without the plugin"),
        pytest.param(["--plugin", "never.py"], 1, "", id="a plugin without a configuration is enabled"),
        pytest.param(["--plugin", "never.py", "--config", "enabled.yaml"], 1, "", id="a profile enables it"),
        pytest.param(
            ["--plugin", "never.py", "--config", "plain.yaml"],
            0,
            "warning: plain.yaml: no profile enables the plugin Never, so it does nothing\n",
            id="no profile enables it",
        ),
    ],
)
def test_a_plugin_of_ones_own(
    files: Path, command: list[str], options: list[str], code: int, warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, *options]) == code
    assert capsys.readouterr().err == warning


@pytest.mark.e2e
def test_start_takes_a_plugin_and_a_configuration(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("story.yaml").write_text(
        "steps: [{nodes: {}}, {create: {apiVersion: v1, kind: Pod, metadata: {name: p}, "
        "spec: {containers: [{name: c, image: i}]}}}, {expect: {pod: p, pending: 1 not here}}]"
    )
    assert run(["start", "--once", "--scenario", "story.yaml", "--plugin", "never.py"]) == 0
    assert run(["start", "--once", "--nodes", "1", "--plugin", "never.py", "--config", "enabled.yaml"]) == 0
    assert run(["start", "--once", "--nodes", "1", "--config", "enabled.yaml"]) == 2
    assert 'FilterPlugin "Never" does not exist' in capsys.readouterr().err


def test_config_check_knows_a_plugin_of_ones_own(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", "enabled.yaml"]) == 1
    assert run(["config", "check", "enabled.yaml", "--plugin", "never.py"]) == 0
    assert "Never" in capsys.readouterr().out


def test_config_check_lets_the_plugin_judge_its_arguments(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "pluginConfig: [{name: Never, args: {limit: many}}], "
    text = Path("enabled.yaml").read_text().replace("{plugins", "{" + arguments + "plugins")
    Path("enabled.yaml").write_text(text)
    assert run(["config", "check", "enabled.yaml", "--plugin", "never.py"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("enabled.yaml: ") and "limit" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("1 / 0", "ZeroDivisionError", id="it breaks"),
        pytest.param("", "no plugin in this file", id="it is empty"),
        pytest.param(
            PLUGIN.replace("(self, state, pod, node)", "(self, pod)"),
            "expected def filter(self, state, pod, node)",
            id="a wrong signature",
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_is_one_line(
    files: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("never.py").write_text(text)
    for command in ("explain --cluster node.json --pod pod.json", "scenario run taints", "config check plain.yaml"):
        assert run([*command.split(), "--plugin", "never.py"]) == 2
        err = capsys.readouterr().err
        assert says in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("document", "want"),
    [
        pytest.param(None, [{"plugins": {"multiPoint": {"enabled": [{"name": "A"}]}}}], id="nothing"),
        pytest.param(
            {"profiles": [{"schedulerName": "x"}, {}]},
            [
                {"schedulerName": "x", "plugins": {"multiPoint": {"enabled": [{"name": "A"}]}}},
                {"plugins": {"multiPoint": {"enabled": [{"name": "A"}]}}},
            ],
            id="every profile",
        ),
        pytest.param(
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": "A", "weight": 7}]}}}]},
            [{"plugins": {"score": {"enabled": [{"name": "A", "weight": 7}]}, "multiPoint": {"enabled": []}}}],
            id="a profile that names it already",
        ),
    ],
)
def test_enabling_a_plugin(document: dict[str, Any] | None, want: list[dict[str, Any]]) -> None:
    assert enabling(document, ["A"])["profiles"] == want


def test_a_password_of_an_extender_is_not_shown(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = {**CONFIG, "extenders": [{"urlPrefix": "http://me:secret@127.0.0.1:1/", "filterVerb": "filter"}]}
    Path("plain.yaml").write_text(json.dumps(secret))
    Path("case.jsonl").write_text(json.dumps({"id": "a", "objects": [NODE], "steps": [], "config": secret}))
    run(["explain", "--cluster", "node.json", "--pod", "pod.json", "--config", "plain.yaml"])
    run(["config", "check", "plain.yaml"])
    run(["config", "check", "plain.yaml", "-o", "json"])
    run(["decide", "case.jsonl"])
    printed = capsys.readouterr()
    assert "127.0.0.1" in printed.out and "127.0.0.1" in printed.err
    assert "secret" not in printed.out + printed.err


# ---- extenders, which are not called -----------------------------------------------------------------------------


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
