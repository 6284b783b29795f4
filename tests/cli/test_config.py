"""``mooring config check|convert|defaults``."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.api import yaml
from mooring.cli.main import run

Write = Callable[[str], str]
V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return str(path)

    return to_file


def test_check_prints_which_plugins_run_where(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", write(V1)]) == 0
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines() if line.strip())
    assert lines["Profile"] == "default-scheduler"
    assert lines["bind"] == "DefaultBinder"
    assert lines["permit"] == "-"
    assert lines["score"].startswith("TaintToleration 3, NodeAffinity 2, NodeResourcesFit 1")


def test_check_as_json(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", write(V1), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is True
    [profile] = answer["profiles"]
    assert profile["schedulerName"] == "default-scheduler"
    assert profile["plugins"]["score"][0] == {"name": "TaintToleration", "weight": 3}
    assert profile["plugins"]["bind"] == [{"name": "DefaultBinder"}]


def test_check_lists_every_mistake_and_says_no(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(V1 + "parallelism: -1\npercentageOfNodesToScore: 101\n")
    assert run(["config", "check", file]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{file}: parallelism: Invalid value: -1: should be an integer value greater than zero",
        f"{file}: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ]


def test_mistakes_as_json(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", write(V1 + "foo: 1\n"), "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "valid": False,
        "problems": ['strict decoding error: unknown field "foo"'],
        "warnings": [],
    }


def test_an_unknown_plugin_gets_a_suggestion(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(V1 + "profiles: [{plugins: {score: {enabled: [{name: ImageLocalty}]}}}]\n")
    assert run(["config", "check", file]) == 1
    assert 'ScorePlugin "ImageLocalty" does not exist; did you mean ImageLocality?' in capsys.readouterr().err


def test_a_plugin_of_ones_own_can_be_assumed(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(V1 + "profiles: [{plugins: {multiPoint: {enabled: [{name: mine}]}}}]\n")
    assert run(["config", "check", file, "--assume", "mine=permit,score"]) == 0
    out = capsys.readouterr().out
    assert "permit               mine\n" in out
    assert "ImageLocality 1, mine 1\n" in out


@pytest.mark.parametrize("bad", ["mine", "mine=", "=filter", "mine=filtr"])
def test_a_bad_assumption_is_bad_usage(bad: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", write(V1), "--assume", bad]) == 2
    assert "expected PLUGIN=POINT,…" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "convert"])
def test_a_file_that_is_no_yaml_is_bad_input(command: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write("a: [")
    assert run(["config", command, file]) == 2
    assert capsys.readouterr().err.startswith(f"mooring: {file}: line 2, column 1: not valid YAML: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "empty; expected a KubeSchedulerConfiguration", id="nothing"),
        pytest.param("1", "expected a KubeSchedulerConfiguration object, found int", id="a number"),
        pytest.param(V1 + "---\n" + V1, "line 4: a second document starts here", id="two documents"),
        pytest.param(
            "kind: ConfigMap\ndata: {a: b}", "this is a ConfigMap; the configuration is in its data", id="map"
        ),
    ],
)
def test_a_file_that_is_no_configuration_is_a_problem_of_that_file(
    text: str, problem: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(text)
    assert run(["config", "check", file]) == 1
    assert capsys.readouterr().err.startswith(f"{file}: {problem}")


def test_standard_input_has_a_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1")))
    assert run(["config", "check", "-"]) == 1
    assert capsys.readouterr().err.startswith("standard input: expected a KubeSchedulerConfiguration")


def test_an_old_version_is_checked_with_warnings(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write("apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n")
    assert run(["config", "check", file]) == 0
    assert capsys.readouterr().err == (
        "warning: apiVersion: kubescheduler.config.k8s.io/v1beta3 is now kubescheduler.config.k8s.io/v1\n"
    )


def test_convert_prints_a_configuration_and_reports_on_the_side(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = '{"kind": "Policy", "apiVersion": "v1", "priorities": [{"name": "ResourceLimitsPriority", "weight": 1}]}'
    assert run(["config", "convert", write(policy)]) == 0
    captured = capsys.readouterr()
    assert yaml.load(captured.out)["kind"] == "KubeSchedulerConfiguration"
    assert "lost: priorities[0]: ResourceLimitsPriority: no equivalent\n" in captured.err
    assert run(["config", "convert", "--strict", write(policy)]) == 1


def test_convert_leaves_v1_alone(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "convert", write(V1 + "parallelism: 3\n")]) == 0
    captured = capsys.readouterr()
    assert captured.out == V1 + "parallelism: 3\n"
    assert captured.err == "already version v1, nothing changed\n"


def test_convert_refuses_what_would_not_load(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(V1 + "parallelism: none\n")
    assert run(["config", "convert", file]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f'mooring: {file}: parallelism: Invalid value: "none": expected an integer\n'


def test_defaults_can_be_checked(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "defaults"]) == 0
    assert run(["config", "check", write(capsys.readouterr().out)]) == 0


def test_defaults_follow_the_gates(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "defaults", "-o", "json", "--feature-gates", "GangScheduling=true,GenericWorkload=true"]) == 0
    enabled = json.loads(capsys.readouterr().out)["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert enabled[-1]["name"] == "GangScheduling"


def test_a_gate_that_depends_on_another_is_bad_usage(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", write(V1), "--feature-gates", "GangScheduling=true"]) == 2
    assert "depends on features that are disabled: [GenericWorkload]" in capsys.readouterr().err


def test_a_plugin_that_mooring_does_not_have_is_refused(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    enabled = "profiles: [{plugins: {multiPoint: {enabled: [{name: DeferredPodScheduling}]}}}]\n"
    assert run(["config", "check", write(V1 + enabled), "--kubernetes-version", "1.37"]) == 1
    assert 'PreFilterPlugin "DeferredPodScheduling" does not exist' in capsys.readouterr().err


def test_pod_groups_have_their_plugin(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    gates = ["--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true"]
    assert run(["config", "check", write(V1), *gates]) == 0
    out = capsys.readouterr().out
    assert "permit               GangScheduling\n" in out
    assert "podGroupPostFilter   DynamicResources, DefaultPreemption\n" in out
