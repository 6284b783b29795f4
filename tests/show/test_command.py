"""``mooring ui`` and its relatives: what each shows, and one clear line where something is missing."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from mooring.api.errors import UsageError
from mooring.cli import pages as ui_watch
from mooring.cli.learn import learn
from mooring.cli.main import run
from mooring.learn.course import lesson, play
from mooring.show import exports as bundle
from mooring.show.exports import page_files
from mooring.show.shown import Shown
from mooring.show.source import RecordFile
from mooring.show.timeline import EventKind
from mooring.sim.scenario import node, pod
from mooring.sim.worlds import EmbeddedWorld, Listening, PlaySettings


def test_a_page_that_was_not_built_is_named_in_one_line(tmp_path):
    with pytest.raises(
        UsageError, match=r"the page has not been built into this installation: building it needs Node\.js"
    ):
        page_files(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param([], "expected one record or two", id="no record"),
        pytest.param(["a", "b", "c"], "expected one record or two", id="three records"),
        pytest.param(["nothing.mooring"], "nothing.mooring: No such file or directory", id="a file that is not there"),
        pytest.param([__file__.replace(".py", ".pyc"), "--kubeconfig", "x"], "expected no records", id="both together"),
    ],
)
def test_wrong_arguments_get_one_line(arguments, line, capsys, monkeypatch):
    monkeypatch.setattr(bundle, "page_files", lambda: {})
    assert run(["ui", *arguments]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("number", range(1, 8))
def test_every_lesson_has_a_page(number, tmp_path):
    path = tmp_path / "lesson.mooring"
    lines: list[str] = []
    play(lesson(number), lambda at_s, who, text: lines.append(text), record=str(path))
    shown = Shown("lesson", RecordFile(path))
    shown.refresh()
    events = shown.timeline.events.columns
    said = [
        shown.timeline.texts.values[text]
        for kind, text in zip(events["kind"], events["text"], strict=True)
        if kind == EventKind.SAID
    ]
    assert said == lines[: len(said)] and len(said) >= len(lines) - 1
    assert EventKind.ON in events["kind"]


def test_a_lesson_says_that_it_can_be_shown():
    assert "--ui" in CliRunner().invoke(learn, ["3", "--help"]).output


async def test_a_live_cluster_is_watched_and_only_read(tmp_path, monkeypatch):
    kubeconfig = tmp_path / "kubeconfig"
    seen: list[Shown] = []
    settings = PlaySettings(level=0, write=lambda line: None)
    async with EmbeddedWorld(settings, listening=Listening(kubeconfig_path=kubeconfig)) as world:
        await world.cluster.create(node("a"))

        async def look(shown: list[Shown], port: int, opens: bool | None) -> None:
            await world.cluster.create(pod("web"))
            await world.cluster.expect_pod("web", phase="Running")
            seen.extend(shown)

        monkeypatch.setattr(ui_watch, "serve_until_interrupted", look)
        await ui_watch.watch_and_serve(str(kubeconfig), 0, None)
    (shown,) = seen
    shown.refresh()
    assert shown.timeline.nodes.values == ["a"]
    assert shown.timeline.pod_names.values == ["default/web"]
