"""mooring learn: listing, playing, copying, checking and comparing lessons."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import types
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mooring.cli.learn import schedule_for, serve_sandbox
from mooring.cli.main import run
from mooring.learn.course import CHAPTERS, LESSONS, Chapter, lesson, place, remember, solved
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient

Start = Callable[..., "subprocess.Popen[str]"]
ReadUntil = Callable[["subprocess.Popen[str]", str], str]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LC_ALL", "C")


def test_the_list_has_lessons_and_chapters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn"]) == 0
    out = capsys.readouterr().out
    for one in (*LESSONS, *CHAPTERS):
        assert re.search(rf"^{one.number} +{re.escape(one.title)}", out, re.MULTILINE)
    assert "Next: mooring learn 1\n" in out


def test_the_list_remembers_what_was_solved(capsys: pytest.CaptureFixture[str]) -> None:
    remember(1)
    remember(3)
    assert run(["learn"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^1 +✓ +any node", out, re.MULTILINE)
    assert re.search(r"^2 +filter plugins", out, re.MULTILINE)
    assert "Next: mooring learn 2\n" in out


@pytest.mark.parametrize("content", ["", "[]", '{"solved": 3}', '{"solved": ["x"]}'])
def test_a_broken_memory_counts_for_nothing(content: str) -> None:
    place().parent.mkdir(parents=True)
    place().write_text(content)
    assert solved() == set()
    remember(2)
    assert solved() == {2}


def test_after_the_last_exercise_the_chapters_are_next(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(1, 8):
        remember(number)
    assert run(["learn"]) == 0
    assert "All exercises are solved. Next: mooring learn 8\n" in capsys.readouterr().out


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda one: f"chapter {one.number}")
def test_a_chapter_is_printed(chapter: Chapter, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", str(chapter.number)]) == 0
    assert capsys.readouterr().out.strip() == chapter.text().read_text(encoding="utf-8").strip()


def test_a_text_is_rendered_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert run(["learn", "1", "--text"]) == 0
    out = capsys.readouterr().out
    assert "## " not in out
    assert "What is new" in out


@pytest.mark.parametrize("number", range(1, 8), ids=lambda n: f"lesson {n}")
def test_a_lesson_plays_and_says_what_is_seen(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", str(number)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Lesson {number}: {lesson(number).title}\n")
    assert "   0.0 s  scenario   " in out
    assert " s  scheduler  Scheduled: Successfully assigned default/" in out
    assert "          → " in out
    assert f"mooring learn {number} --edit" in out


def test_the_way_of_a_learner(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "1", "--edit"]) == 0
    copy = Path("lesson1/my_scheduler.py")
    assert copy.read_text(encoding="utf-8") == lesson(1).source.read_text(encoding="utf-8")
    assert Path("lesson1/README.md").read_text(encoding="utf-8") == lesson(1).text().read_text(encoding="utf-8")
    assert run(["learn", "1", "--check", str(copy)]) == 1
    out = capsys.readouterr().out
    assert "✗ a pod with a nodeSelector goes to the node that has the label\n  seen: pod-0 asks for disk=ssd" in out
    assert "\n  hint: a predicate is a function" in out
    assert "· every label of the nodeSelector counts" in out
    assert "0 of 5 so far.\nOne more hint: add --hint 2" in out
    copy.write_text(lesson(1).solution, encoding="utf-8")
    assert run(["learn", "1", "--check", str(copy)]) == 0
    assert "All 5 checks passed: the exercise of lesson 1 is solved.\nNext: mooring learn 2" in capsys.readouterr().out
    assert run(["learn", "1", "--file", str(copy)]) == 0
    assert "pod1       1/1     Running" in capsys.readouterr().out


def test_a_copy_is_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "2", "--edit", "here/mine"]) == 0
    Path("here/mine/my_scheduler.py").write_text("# three evenings of work\n")
    assert run(["learn", "2", "--edit", "here/mine"]) == 2
    assert "is not overwritten" in capsys.readouterr().err
    assert Path("here/mine/my_scheduler.py").read_text(encoding="utf-8") == "# three evenings of work\n"


def test_a_folder_that_cannot_be_made_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    assert run(["learn", "2", "--edit", "file/inside"]) == 2
    assert capsys.readouterr().err.startswith("mooring: file/inside: cannot be written: ")


@pytest.mark.parametrize("number", range(1, 7), ids=lambda n: f"from {n} to {n + 1}")
def test_neighbours_can_be_compared(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "diff", str(number), str(number + 1)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"--- lesson {number}: ")
    assert f'+"""Lesson {number + 1}: ' in out
    assert "\x1b[" not in out  # no terminal, no colours


def test_the_difference_is_coloured_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert run(["learn", "diff", "1", "2"]) == 0
    assert re.search(r"\x1b\[32m\+", capsys.readouterr().out)


def test_text_and_solution_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "3", "--text"]) == 0
    assert capsys.readouterr().out.strip() == lesson(3).text().read_text(encoding="utf-8").strip()
    assert run(["learn", "3", "--solution"]) == 0
    assert "+class LeastPods(Plugin):" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["15"], 'lesson "15": expected a number from 1 to 14, or diff', id="a lesson that is not there"),
        pytest.param(["0"], 'lesson "0": expected a number from 1 to 14, or diff', id="lesson zero"),
        pytest.param(["eight"], 'lesson "eight": expected a number from 1 to 14, or diff', id="a word"),
        pytest.param(["diff", "2"], "Missing argument 'AFTER'", id="a difference to nothing"),
        pytest.param(["diff", "2", "9"], "lesson 9: there are", id="a difference to a lesson that is not there"),
        pytest.param(
            ["3", "--check", "no.py"],
            "no.py: there is no such file; give the name of your copy, for example lesson3/my_scheduler.py",
            id="no such file",
        ),
        pytest.param(["1", "--file", "no.py"], "for example lesson1/my_scheduler.py", id="no such file to play"),
        pytest.param(["9" * 5000], "expected a number from 1 to 14, or diff", id="a number without end"),
        pytest.param(
            ["3", "--check", "a.py", "--text"], "--check and --text exclude each other", id="two options together"
        ),
        pytest.param(["3", "--with", "9"], "lesson 9: there are lessons 1 to 7", id="with a lesson that is not there"),
        pytest.param(
            ["3", "--with", "2", "--file", "a.py"], "--file and --with exclude each other", id="two schedulers"
        ),
        pytest.param(["3", "--scenario", "no.py"], "for example lesson3/my_scenario.py", id="no such scenario"),
        pytest.param(["3", "--check", "."], ". is a folder; give the file", id="a folder to check"),
        pytest.param(["3", "--lang", "de"], "--lang de: the course is written in en, ja, zh", id="another language"),
        pytest.param(["diff", "2", "4", "--explain"], "lessons 2 and 4 are not neighbours", id="too far apart"),
        pytest.param(["3", "--kubeconfig", "no.yaml"], "no.yaml", id="a kubeconfig that is not there"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("mooring: ")
    assert want in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param("def broken(:\n", "line 1: ", id="a syntax error"),
        pytest.param("import sys; sys.exit(3)\n", "it ends the program", id="sys.exit"),
        pytest.param("Scheduler = 1\n", "Scheduler should be a class", id="no class"),
    ],
)
def test_playing_a_broken_file_is_one_line(source: str, want: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(source)
    assert run(["learn", "2", "--file", "mine.py"]) in (1, 2)
    err = capsys.readouterr().err
    assert err.startswith("mooring: mine.py: ")
    assert want in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("step", range(1, 6), ids=lambda n: f"step {n}")
def test_the_first_scheduler_comes_in_steps(step: int, capsys: pytest.CaptureFixture[str]) -> None:
    """What each step adds is seen in the log, in the pod's status and in its events."""
    assert run(["learn", "1", "--step", str(step)]) == 0
    out = capsys.readouterr().out
    assert f"Step {step} of 5" in out
    assert ("new node: node0" in out) == (step == 2)
    assert ("is chosen for default/nginx" in out) == (step >= 3)
    assert ("nginx   1/1     Running" in out) == (step >= 4)
    assert ("nginx   0/1     Pending" in out) == (step < 4)
    assert ("Successfully assigned default/nginx" in out) == (step == 5)
    assert ("Events:  <none>" in out) == (step < 5)


@pytest.mark.parametrize("number", range(2, 8), ids=lambda n: f"lesson {n} with scheduler {n - 1}")
def test_a_play_with_the_scheduler_before_shows_another_result(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Notes are computed from what happened, so each scheduler gets some that the other does not get."""

    def notes(*arguments: str) -> list[str]:
        assert run(["learn", str(number), *arguments, "-o", "json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [line["text"] for line in lines if line["who"] == "note"]

    own, before = notes(), notes("--with", str(number - 1))
    assert set(own) - set(before)
    assert set(before) - set(own)


def test_a_scenario_of_ones_own_is_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "2", "--edit"]) == 0
    capsys.readouterr()
    copy = Path("lesson2/my_scenario.py")
    assert copy.read_text(encoding="utf-8") == lesson(2).scenario.read_text(encoding="utf-8")
    assert run(["learn", "2", "--scenario", str(copy)]) == 0
    played = capsys.readouterr().out
    assert run(["learn", "2"]) == 0
    assert played == capsys.readouterr().out
    copy.write_text(copy.read_text(encoding="utf-8").replace("pod1 arrives", "somebody comes"))
    assert run(["learn", "2", "--scenario", str(copy)]) == 0
    assert "scenario   somebody comes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param("", "no function in it to play; expected `async def scenario(room)`", id="an empty file"),
        pytest.param(
            "def scenario(room): ...\n",
            "no function in it to play; expected `async def scenario(room)`",
            id="not async",
        ),
        pytest.param(
            "async def scenario(room):\n    room.nod('a')\n", "line 2, in scenario: `room.nod('a')`", id="a typo"
        ),
        pytest.param(
            "async def scenario(room):\n    room.kubectl('top')\n", 'room.kubectl("top"): it knows', id="kubectl"
        ),
    ],
)
def test_a_broken_scenario_is_one_line(source: str, want: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(source)
    assert run(["learn", "2", "--scenario", "mine.py"]) in (1, 2)
    err = capsys.readouterr().err
    assert want in err
    assert err.count("\n") == 1


def test_hints_come_in_steps(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(lesson(5).source)
    assert run(["learn", "5", "--check", file]) == 1
    first = capsys.readouterr().out
    assert first.count("  hint: ") == 1
    assert "add --hint 2" in first
    assert run(["learn", "5", "--check", file, "--hint", "3"]) == 1
    all_of_them = capsys.readouterr().out
    assert all_of_them.count("  hint: ") == 3
    assert "If you are stuck: mooring learn 5 --solution" in all_of_them


def test_an_exception_while_playing_names_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    source = (
        lesson(2)
        .source.read_text(encoding="utf-8")
        .replace("        if node.spec.unschedulable:", "        if node.unschedulable:")
    )
    Path("mine.py").write_text(source)
    assert run(["learn", "2", "--file", "mine.py"]) == 1
    err = capsys.readouterr().err
    assert re.search(r"mooring: mine\.py: line \d+, in filter: `if node\.unschedulable:`: AttributeError", err)


class Heard:
    """A console and a teller whose lines a test can wait for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._came = asyncio.Event()
        self.console = Console(file=self, width=200)  # type: ignore[arg-type]

    def write(self, text: str) -> int:
        self.lines += text.splitlines()
        self._came.set()
        return len(text)

    def flush(self) -> None:
        pass

    def tell(self, at_s: float, who: str, text: str) -> None:
        self.write(text)

    async def until(self, wanted: str) -> str:
        while True:
            found = next((line for line in self.lines if wanted in line), None)
            if found is not None:
                return found
            self._came.clear()
            await self._came.wait()


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def create_pod(kubeconfig: str, name: str) -> None:
    spec = {"schedulerName": "mooring-lesson", "containers": [{"name": "main", "image": "pause:3.10"}]}
    async with RestClient(find_config(kubeconfig)) as client:
        body = json.dumps({"metadata": {"name": name}, "spec": spec}).encode()
        await client.create("/api/v1/namespaces/default/pods", body)


async def phase(kubeconfig: str, name: str) -> str:
    """The phase of a pod that has a node: fake kubelets run it immediately."""
    async with RestClient(find_config(kubeconfig)) as client:
        while True:
            answer = await client.get(f"/api/v1/namespaces/default/pods/{name}")
            found = str(json.loads(answer.body)["status"]["phase"])
            if found != "Pending":
                return found
            await asyncio.sleep(0.01)


async def test_a_sandbox_schedules_the_learners_pods() -> None:
    heard = Heard()
    async with running(serve_sandbox(heard.console, heard.tell, 1, lesson(1).module("scheduler"))):
        kubeconfig = (await heard.until("kubectl --kubeconfig")).split()[2]
        await heard.until("Ctrl-C ends it")
        await create_pod(kubeconfig, "mine")
        await heard.until("Scheduled: Successfully assigned default/mine to node")
        assert await phase(kubeconfig, "mine") == "Running"


async def test_every_command_of_a_sandbox_names_its_kubeconfig() -> None:
    """So that none of them, pasted alone, can reach the learner's own cluster."""
    heard = Heard()
    async with running(serve_sandbox(heard.console, heard.tell, 1, lesson(1).module("scheduler"))):
        await heard.until("Ctrl-C ends it")
        commands = [line for line in heard.lines if "kubectl" in line]
        assert commands and all(line.startswith("  kubectl --kubeconfig /") for line in commands)


async def test_a_sandbox_serves_and_another_lesson_can_schedule_for_it() -> None:
    """The sandbox is a cluster like any other. Its own scheduler sleeps here, so only the visitor can place the pod."""

    class Sleeper:
        def __init__(self, client: RestClient) -> None:
            pass

        async def run(self) -> None:
            await asyncio.Event().wait()

    asleep = types.ModuleType("asleep")
    asleep.Scheduler = Sleeper  # type: ignore[attr-defined]
    sandbox, visitor = Heard(), Heard()
    async with running(serve_sandbox(sandbox.console, sandbox.tell, 1, asleep)):
        kubeconfig = (await sandbox.until("kubectl --kubeconfig")).split()[2]
        await sandbox.until("Ctrl-C ends it")
        async with running(schedule_for(visitor.console, visitor.tell, lesson(3).module("scheduler"), kubeconfig)):
            await visitor.until("The cluster answers (200)")
            await create_pod(kubeconfig, "guest")
            await visitor.until("Scheduled: Successfully assigned default/guest to node")


@pytest.mark.e2e
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_sandbox_and_nothing_is_left(
    number: signal.Signals, code: int, start: Start, read_until: ReadUntil, tmp_path: Path
) -> None:
    sandbox = start("learn", "1", "--sandbox", env={"TMPDIR": str(tmp_path)})
    read_until(sandbox, "Ctrl-C ends it")
    assert len(list(tmp_path.iterdir())) == 1
    sandbox.send_signal(number)
    _, err = sandbox.communicate()
    assert (sandbox.returncode, err.strip(), list(tmp_path.iterdir())) == (code, "", [])


@pytest.mark.e2e
def test_sigterm_ends_a_sandbox_that_ignores_ctrl_c(read_until: ReadUntil, tmp_path: Path) -> None:
    """As ``nohup mooring learn 1 --sandbox &`` does in a script."""
    command = f'trap "" INT; exec {sys.executable} -m mooring learn 1 --sandbox'
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE, text=True, env=env) as sandbox:
        read_until(sandbox, "Ctrl-C ends it")
        sandbox.send_signal(signal.SIGTERM)
        sandbox.communicate()
    assert (sandbox.returncode, list(tmp_path.iterdir())) == (143, [])
