"""``mooring scenario``: listing, showing and playing stories, and one line for each mistake."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mooring.api.errors import UsageError
from mooring.cli.main import run
from mooring.cli.story_options import EMBEDDED, KUBERNETES, Place, Telling, with_scheduler
from mooring.sim.library import find, names
from mooring.sim.narration import NORMAL, QUIET, VERBOSE
from mooring.sim.remote_world import ExistingWorld
from mooring.sim.worlds import PlaySettings, World

POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"
GOOD = f"title: Good\nsteps: [{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{pod: p, node: node1}}}}]\n"
BAD = GOOD.replace("title: Good", "title: Bad").replace("node: node1", "node: node2, within: 5s")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(BAD)


def test_every_story_is_listed_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == names()
    assert all(find(line.split()[0]).title in line for line in lines[1:])


@pytest.mark.parametrize("name", ["first-placement", "preemption", "good.yaml"])
def test_a_story_is_shown_unchanged(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "show", name]) == 0
    assert capsys.readouterr().out == Path(find(name).source).read_text()


@pytest.mark.parametrize(
    ("stories", "code", "summaries"),
    [
        pytest.param(["good.yaml"], 0, ["good: as expected (1 expectation held in "], id="good"),
        pytest.param(["bad.yaml"], 1, ["bad: NOT as expected: "], id="bad"),
        pytest.param(
            ["bad.yaml", "good.yaml"],
            1,
            ["bad: NOT as expected: ", "good: as expected (1 expectation held in "],
            id="all are played, one is enough to fail",
        ),
    ],
)
def test_the_exit_code_and_a_summary_for_each(
    stories: list[str], code: int, summaries: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["scenario", "run", "--virtual-time", *stories]) == code
    told = [line for line in capsys.readouterr().out.splitlines() if "as expected" in line]
    assert len(told) == len(summaries)
    assert all(line.startswith(summary) for line, summary in zip(told, summaries, strict=True))


def test_a_mistake_that_only_shows_while_it_is_played(capsys: pytest.CaptureFixture[str]) -> None:
    workload = "workload: {every: 1s, count: 1, name: 'web-{i}', cpu: '1', recreate: true}"
    Path("again.yaml").write_text(f"steps:\n- nodes: {{count: 1}}\n- {workload}\n- advance: 5s\n")
    assert run(["scenario", "run", "--virtual-time", "again.yaml", "bad.yaml"]) == 2
    told = capsys.readouterr().out
    assert "again: a mistake in the story: again.yaml: steps[1]: recreate: only mooring simulate" in told
    assert "bad: NOT as expected: " in told


def test_json_is_nothing_but_objects(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "run", "--virtual-time", "-o", "json", "good.yaml", "bad.yaml"]) == 1
    notes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [note["text"] for note in notes if note["type"] == "say"] == ["Good", "Bad"]
    assert [note["held"] for note in notes if note["type"] in ("expect", "FAILED")] == [True, False]


def test_quiet_and_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    counts = []
    for option in ("--quiet", "--output=text", "--verbose"):
        run(["scenario", "run", "--virtual-time", option, "good.yaml"])
        counts.append(len(capsys.readouterr().out.splitlines()))
    assert counts == sorted(set(counts))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param([], "Missing argument 'FILE|NAME...'", id="no story"),
        pytest.param(["nothing-like-it"], "no scenario 'nothing-like-it'; there are", id="an unknown story"),
        pytest.param(["gone.yaml"], "gone.yaml: No such file or directory", id="no such file"),
        pytest.param(["wrong.yaml"], "wrong.yaml: steps[0]: no step 'jump'", id="a mistake in the file"),
        pytest.param(["breaks.py"], "breaks.py: the story failed: ZeroDivisionError", id="a story that breaks"),
        pytest.param(["--virtual-time", "--kubeconfig", "x", "good.yaml"], "only the embedded", id="time of others"),
        pytest.param(
            ["--control-plane", "kubernetes", "--kubeconfig", "x", "good.yaml"], "exclude each other", id="two clusters"
        ),
        pytest.param(["--kubeconfig", "gone", "good.yaml"], "gone", id="a kubeconfig that is not there"),
        pytest.param(["--seed", "x", "good.yaml"], "'x' is not a valid integer", id="a seed that is no number"),
        pytest.param(["--config", "gone.yaml", "good.yaml"], "gone.yaml: no such file", id="no configuration"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.yaml").write_text("steps: [{jump: 1}]")
    Path("breaks.py").write_text("async def scenario(cluster):\n    1 / 0\n")
    virtual = [] if "--kubeconfig" in arguments else ["--virtual-time"]
    assert run(["scenario", "run", *virtual, *arguments]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_binaries_that_are_missing_are_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert run(["scenario", "run", "--control-plane", "kubernetes", "good.yaml"]) == 2
    assert "--control-plane kubernetes: etcd and kube-apiserver not on PATH" in capsys.readouterr().err


# ---- what start and scenario run share ---------------------------------------------------------------------------


def test_where_a_story_is_played() -> None:
    assert Place(EMBEDDED, None).is_embedded
    assert not Place(KUBERNETES, None).is_embedded
    assert not Place(EMBEDDED, "kubeconfig").is_embedded
    with pytest.raises(UsageError, match="exclude each other"):
        Place(KUBERNETES, "kubeconfig")


KUBECONFIG = """
{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}],
 contexts: [{name: a, context: {cluster: a}}], current-context: a}
"""


def test_a_kubeconfig_leads_to_an_existing_cluster() -> None:
    Path("kubeconfig").write_text(KUBECONFIG)

    async def main() -> World:
        return Place(EMBEDDED, "kubeconfig").remote_world(PlaySettings(), None, Path("unused"))

    assert isinstance(asyncio.run(main()), ExistingWorld)


@pytest.mark.parametrize(
    ("telling", "level", "as_json"),
    [
        pytest.param(Telling(False, 0, "text"), NORMAL, False, id="as usual"),
        pytest.param(Telling(True, 1, "text"), QUIET, False, id="quiet wins"),
        pytest.param(Telling(False, 2, "json"), VERBOSE, True, id="verbose, as JSON"),
    ],
)
def test_narration_levels(telling: Telling, level: int, as_json: bool) -> None:
    settings = telling.settings()
    assert (settings.level, settings.as_json, settings.colored) == (level, as_json, False)


def test_a_storys_own_configuration_gets_the_plugin_too() -> None:
    Path("mine.py").write_text(
        "from mooring import sdk\nclass Mine(sdk.NodeScore):\n    name = 'Mine'\n"
        "    def score(self, state, pod, node):\n        return 1\n"
    )
    story = with_scheduler(find("label-appears"), None, ("mine.py",))
    assert story.config is not None
    (profile,) = story.config["profiles"]
    assert profile["plugins"]["filter"] == {"enabled": [{"name": "CpuLabelled"}]}
    assert profile["plugins"]["multiPoint"] == {"enabled": [{"name": "Mine"}]}
    assert story.plugin_files == ("mine.py",)


def test_a_story_with_faults_is_for_the_soak(tmp_path, capsys):
    story = tmp_path / "sleeper.yaml"
    story.write_text("soak: {seed: 1, replicas: 2}\nsteps:\n- fault: {what: sleep, name: leader, for: 17s}\n")
    assert run(["scenario", "run", "--virtual-time", str(story)]) == 2
    error = capsys.readouterr().err
    assert "python -m tests.faults.soak --story FILE" in error and error.count("\n") == 1


def test_a_fault_is_for_the_soak(tmp_path, capsys):
    story = tmp_path / "story.yaml"
    story.write_text("steps:\n- fault: {what: sleep}\n")
    assert run(["scenario", "run", "--virtual-time", str(story)]) == 2
    assert "steps[0]: fault: a story with faults is played in a checkout" in capsys.readouterr().err
