"""The search on a story that can be worked out by hand: one large pod fits only if the small ones are packed."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mooring.api import yaml
from mooring.api.errors import InputError, UsageError
from mooring.ask.tune import TrialTask, measured, tune
from mooring.cli.main import run

STORY = """
parameters: {pods: pods.csv}
steps:
- nodes: {count: 2, cpu: "4"}
- workload: {csv: "${pods}", every: 1s}
"""
PODS = "name,cpu\nsmall-1,1\nsmall-2,1\nlarge,4\n"
SPACE = "strategies: [LeastAllocated, MostAllocated]\nweights: {NodeResourcesBalancedAllocation: [0, 1]}\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("day.yaml").write_text(STORY)
    Path("pods.csv").write_text(PODS)
    Path("other.csv").write_text(PODS.replace("small-1,1", "small-1,2"))
    Path("space.yaml").write_text(SPACE)


def search(**options: Any) -> Any:
    options = {"objectives": ["pending=min"], "space": "space.yaml", "trials": 4, "hold_out": 0, **options}
    return tune("day.yaml", **options)


def test_packing_is_found_and_the_default_is_a_point() -> None:
    found = search()
    assert [point.name for point in found.points] == ["default", "trial 1", "trial 2", "trial 3", "trial 4"]
    assert found.default.found == (1.0,), "spread over both nodes, the small pods leave no room"
    assert found.chosen.found == (0.0,) and found.chosen.values["strategy"] == "MostAllocated"
    assert found and found.chosen.held_out is None


def test_the_same_arguments_give_the_same_points_wherever_they_run() -> None:
    with ThreadPoolExecutor(2) as pool:
        assert search(executor=pool).to_dict() == search().to_dict()


def test_the_best_points_are_tried_on_another_trace() -> None:
    found = search(hold_out={"pods": "other.csv"})
    assert (found.default.held_out, found.chosen.held_out) == ((1.0,), (0.0,))
    assert found


def test_a_share_of_the_last_pods_is_held_out() -> None:
    assert measured(TrialTask("day.yaml", part=(0, 0.67)), None)["pods"] == 2
    assert measured(TrialTask("day.yaml", part=(0.67, 1)), None)["pods"] == 1
    found = search(hold_out=0.34)
    assert found.default.found == (0.0,), "without the large pod no pod waits"
    assert not found, "no point is better"


def test_a_configuration_of_ones_own_is_a_point_and_the_base() -> None:
    args = {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 7}}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    Path("mine.yaml").write_text(yaml.dump({**config, "profiles": [{"pluginConfig": [args]}]}))
    found = search(config="mine.yaml", trials=1)
    assert [point.name for point in found.points] == ["default", "yours", "trial 1"]
    assert "hardPodAffinityWeight: 7" in yaml.dump(found.points[2].config)
    assert "hardPodAffinityWeight: 7" not in yaml.dump(found.points[0].config)


def test_a_default_without_ones_own_plugins_cannot_be_chosen() -> None:
    """Under the default all pods fit: it knows nothing of the rule that the story's own configuration has."""
    Path("never.py").write_text(
        "from mooring import sdk\n\n\nclass Never(sdk.NodeFilter):\n    name = 'Never'\n\n"
        "    def filter(self, state, pod, node):\n"
        "        return sdk.unschedulable('never') if pod.name == 'small-1' else sdk.SUCCESS\n"
    )
    head = "plugins: [never.py]\nconfig: {profiles: [{plugins: {filter: {enabled: [{name: Never}]}}}]}\n"
    Path("day.yaml").write_text(head + STORY)
    Path("pods.csv").write_text("name,cpu\nsmall-1,1\nsmall-2,1\n")
    found = search(trials=2)
    assert [(point.name, point.found, point.lacks) for point in found.points[:2]] == [
        ("default", (0.0,), ("Never",)),
        ("yours", (1.0,), ()),
    ]
    assert found.chosen is found.reference is found.points[1] and not found
    assert "The default is shown for comparison only: it lacks Never." in repr(found)


def test_an_impossible_configuration_is_no_point() -> None:
    Path("space.yaml").write_text("arguments: {InterPodAffinity.hardPodAffinityWeight: {choices: [-5]}}\n")
    found = search(trials=1)
    assert [point.name for point in found.points] == ["default"]
    assert "hardPodAffinityWeight" in found.failed[0]
    assert not found


@pytest.mark.parametrize(
    ("options", "error", "want"),
    [
        pytest.param(
            {"objectives": ["waiting=min"]}, InputError, "no measure 'waiting'.*did you mean waitLongest", id="unknown"
        ),
        pytest.param({"objectives": []}, UsageError, "at least one objective", id="none"),
        pytest.param({"hold_out": 1.5}, UsageError, "expected a share from 0 up to 1", id="all is held out"),
        pytest.param({"hold_out": {"pods": "none.csv"}}, UsageError, "none.csv", id="no such trace"),
    ],
)
def test_a_mistake_is_reported(options: dict[str, Any], error: type[Exception], want: str) -> None:
    with pytest.raises(error, match=want):
        search(**options)


def test_a_story_without_a_workload_has_nothing_to_hold_out() -> None:
    Path("day.yaml").write_text("steps:\n- nodes: {count: 2}\n")
    with pytest.raises(InputError, match="nothing can be held out"):
        search(hold_out=0.3)


def test_optuna_that_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"pip install 'mooring\[tune\]'"):
        search()


# ---- the command -------------------------------------------------------------------------------------------------

COMMAND = ["tune", "day.yaml", "--objective", "pending=min", "--space", "space.yaml", "--trials", "4", "--jobs", "1"]


def test_the_command_writes_the_configuration_and_the_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, "--hold-out", "pods=other.csv", "--write-config", "better.yaml", "--picture", "p.svg"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "5 configurations tried on day.yaml for pending=min."
    assert lines[3].split() == ["default", "1", "1", "none"]
    assert lines[-1].endswith("it is better than default.")
    assert "type: MostAllocated" in Path("better.yaml").read_text()
    assert Path("p.svg").read_text().startswith("<svg ")
    capsys.readouterr()
    assert run(["config", "check", "better.yaml"]) == 0


def test_the_exit_code_says_that_nothing_is_better(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, "--hold-out", "0.34"]) == 1
    assert "No point is better than default." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--hold-out", "some"], "--hold-out: found 'some'", id="a share"),
        pytest.param(["--objective", "pending"], "expected MEASURE=min", id="an objective"),
        pytest.param(["--hold-out", "0", "--picture", "nowhere/p.svg"], "nowhere/p.svg: no such file", id="a picture"),
    ],
)
def test_bad_usage_is_2(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, *arguments]) == 2
    assert want in capsys.readouterr().err
