"""Every command in the course's texts is run, every link and file name is looked up."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest.mock
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mooring.cli.main import COMMANDS, cli, run
from mooring.learn.classroom import Classroom
from mooring.learn.course import CHAPTERS

from .texts import (
    LEARN,
    REPOSITORY,
    STAGES,
    Step,
    WrittenFile,
    commands,
    english,
    everything,
    follows,
    inline_commands,
    outside_of_code,
    parts,
)

ANSWER_MAY_BE_NO = re.compile(r"^mooring (explain|deschedule|learn \d --check) ")
OURS = re.compile(r"^mooring ")


def name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


class Terminal:
    """What a reader has before them: a folder, environment variables, and programs in the background."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = environ
        self._exported: dict[str, str] = {}
        self._background: list[subprocess.Popen[str]] = []

    def type(self, command: str, exit_code: int = 0) -> str:
        """Run a command and return what it prints."""
        if command.endswith(" &"):
            return self.start(command.removesuffix(" &"))
        if command.startswith("cd "):
            os.chdir(command.removeprefix("cd "))
            return ""
        if setting := re.fullmatch(r"export (\w+)=(\S+)", command):
            self.environ[setting[1]] = self._exported[setting[1]] = setting[2]
            return ""
        if OURS.match(command):
            return self._ours(command, exit_code)
        program = shlex.split(command)[0]
        assert program in ("kubectl", "curl", "sed", "grep", "python", "pip"), (
            f"{command}: not a command that this test knows"
        )
        if program in ("python", "pip"):
            command = f"{sys.executable} {'-m pip' if program == 'pip' else ''} {command.partition(' ')[2]}"
        elif shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, env=self.environ, check=False)
        assert done.returncode == exit_code, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _ours(self, command: str, exit_code: int) -> str:
        """Run a command of ours in this process, which is quicker."""
        command, _, file = command.partition(" > ")
        out, err = io.StringIO(), io.StringIO()
        exported = unittest.mock.patch.dict(os.environ, self._exported)
        with exported, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(shlex.split(command)[1:])
        assert "internal error" not in err.getvalue(), f"{command}: {err.getvalue()}"
        wanted = (0, 1) if ANSWER_MAY_BE_NO.match(command) else (exit_code,)
        assert code in wanted, f"{command}: {code}: {err.getvalue()}"
        if file:
            Path(file).write_text(out.getvalue())
            return ""
        return out.getvalue() + (err.getvalue() if exit_code else "")

    def start(self, command: str, until: str = "") -> str:
        """Start a command that stays, and return what it prints until it is ready; `> file 2>&1` is a file."""
        until = until or ("Caches are synced" if command.startswith("mooring run ") else "Ctrl-C ends it")
        command, _, file = command.removesuffix(" 2>&1").partition(" > ")
        arguments = [sys.executable, "-m", *shlex.split(command)]
        if file:
            return self._start_into(Path(file), arguments, until)
        started = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environ
        )
        self._background.append(started)
        assert started.stdout is not None
        seen = ""
        for line in started.stdout:
            seen += line
            if until in line:
                return seen
        raise AssertionError(f"{command}: it ended with: {seen}")

    def _start_into(self, file: Path, arguments: list[str], until: str) -> str:
        with file.open("w") as output:
            started = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT, text=True, env=self.environ)
        self._background.append(started)
        while until not in file.read_text():
            assert started.poll() is None, f"{arguments}: it ended with: {file.read_text()}"
            time.sleep(0.05)
        return ""

    def close(self) -> None:
        for started in self._background:
            started.send_signal(signal.SIGTERM)  # SIGINT may be ignored where the tests run
            started.communicate()


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.chdir(tmp_path)
    opened = Terminal({**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# Translations have the same commands as the originals, see below; the front page has a test of its own.
RUN = [path for path in english() if commands(path)]


@pytest.mark.timeout(900)  # only against hanging: on a busy machine the commands of a page take minutes
@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in RUN])
def test_the_commands_of_a_text_work_in_the_order_of_the_text(path: Path, terminal: Terminal, free_port: int) -> None:
    for part in parts(path.read_text(encoding="utf-8").replace("8888", str(free_port))):
        if isinstance(part, Step) and part.command == "make start":
            continue  # how a clone becomes an installation is tested where packaging is
        if isinstance(part, WrittenFile):
            Path(part.name).write_text(part.content)
            continue
        assert isinstance(part, Step)
        printed = terminal.type(part.command)
        if part.expected:
            assert follows(part.expected, printed.splitlines()), f"{part.command} printed:\n{printed}"


# Texts that are read in the repository; links are relative to where they lie.
READ = sorted(
    path
    for folder in (".", "docs", "decisions", "examples", "deploy", "tests", "tools", "src/mooring", ".github")
    for path in (REPOSITORY / folder).glob("*.md" if folder == "." else "**/*.md")
)


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in READ])
def test_links_lead_to_files_of_the_repository(path: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", outside_of_code(path.read_text(encoding="utf-8")))
    links = re.findall(r"\]\((?!\w+:|#)([^)\s#]+)", text)
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in everything()])
def test_file_names_in_code_marks_exist(path: Path) -> None:
    files = re.findall(r"`((?:src|docs|examples)/[\w./-]+)`", path.read_text(encoding="utf-8"))
    assert [file for file in files if not (REPOSITORY / file).exists()] == []


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in everything()])
def test_commands_in_running_text_exist(path: Path) -> None:
    """They are not run, but their names and options are looked up."""
    for command in inline_commands(path.read_text(encoding="utf-8")):
        words = command.split()[1:]
        group: click.Command = cli
        while words and isinstance(group, click.Group) and not words[0].startswith("-"):
            assert isinstance(group, click.Group)
            found = group.get_command(click.Context(group), words[0])
            assert found is not None, f"{command}: there is no {words[0]}"
            group, words = found, words[1:]
        if group.name == "run":
            continue  # it reads its flags by itself
        known = {"--help"} | {option for parameter in group.params for option in parameter.opts}
        for option in words:
            assert not option.startswith("--") or option.split("=")[0] in known, f"{command}: there is no {option}"


@pytest.mark.parametrize("path", sorted(LEARN.rglob("scenarios.md")), ids=name)
def test_every_verb_of_a_scenario_is_documented(path: Path) -> None:
    known = {verb for verb in vars(Classroom) if not verb.startswith("_") and callable(getattr(Classroom, verb))}
    documented = set(re.findall(r"`(?:await )?room\.(\w+)\(", path.read_text(encoding="utf-8")))
    assert documented == known - {"heard", "stop"}  # those two are for the classroom itself


def test_every_command_of_the_course_is_one_of_ours() -> None:
    """A text with wrong commands would be caught above; this catches one without any commands."""
    assert {entry.name for entry in COMMANDS} >= {"learn", "explain", "scenario", "extender", "config", "start"}
    assert all(commands(path) for path in sorted(STAGES.glob("stage*/README.md")))


def test_the_texts_that_are_shipped_are_those_of_the_documentation() -> None:
    command = [sys.executable, str(REPOSITORY / "scripts" / "copy_course_texts"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


PAGES = sorted(path.name for path in LEARN.glob("*.md"))


@pytest.mark.parametrize("language", ["ja", "zh"])
def test_every_page_is_translated(language: str) -> None:
    assert sorted(path.name for path in (LEARN / language).glob("*.md")) == PAGES


@pytest.mark.parametrize("language", ["ja", "zh"])
@pytest.mark.parametrize("page", PAGES)
def test_a_translation_has_the_same_commands_files_and_sections(language: str, page: str) -> None:
    original, translated = ((folder / page).read_text(encoding="utf-8") for folder in (LEARN, LEARN / language))
    assert parts(translated) == parts(original)
    headings = [
        [len(marks) for marks in re.findall(r"^(#+) ", outside_of_code(text), re.M)] for text in (original, translated)
    ]
    assert headings[0] == headings[1]
    assert re.search(r"[\u3040-\u30ff]" if language == "ja" else r"[\u4e00-\u9fff]", translated)


@pytest.mark.parametrize("language", ["ja", "zh"])
@pytest.mark.parametrize("page", PAGES)
def test_a_translation_names_the_same_things(language: str, page: str) -> None:
    """Names in code marks are facts: none may be missing from a translation."""
    original, translated = ((folder / page).read_text(encoding="utf-8") for folder in (LEARN, LEARN / language))
    names = set(re.findall(r"`([^`\n]+)`", outside_of_code(original)))
    assert {one for one in names if f"`{one}`" not in translated} == set()


@pytest.mark.parametrize("language", ["", "ja", "zh"])
def test_every_chapter_is_shipped(language: str) -> None:
    for chapter in CHAPTERS:
        page = (LEARN / language / chapter.page).read_text(encoding="utf-8")
        shipped = chapter.text(language or "en").read_text(encoding="utf-8")
        assert shipped.splitlines()[0] == page.splitlines()[0]


@pytest.mark.parametrize("page", ["README.ja.md", "README.zh.md"])
def test_the_translated_front_pages_have_the_same_commands_and_links(page: str) -> None:
    original, translated = ((REPOSITORY / name).read_text(encoding="utf-8") for name in ("README.md", page))
    assert commands(REPOSITORY / page) == commands(REPOSITORY / "README.md")
    links = [set(re.findall(r"\]\((?!docs/learn|README)([^)]+)", text)) for text in (original, translated)]
    assert links[0] == links[1]


@pytest.mark.parametrize(
    ("expected", "output", "want"),
    [
        pytest.param(["a"], ["a"], True, id="the same line"),
        pytest.param(["a"], ["a", "b"], False, id="more than was announced"),
        pytest.param(["a", "…"], ["a", "b", "c"], True, id="the rest may be anything"),
        pytest.param(["…", "c"], ["a", "b", "c"], True, id="the beginning may be anything"),
        pytest.param(["…", "d"], ["a", "b", "c"], False, id="but the line has to come"),
        pytest.param(["b"], ["a"], False, id="another line"),
    ],
)
def test_how_output_is_compared(expected: list[str], output: list[str], want: bool) -> None:
    assert follows(expected, output) is want
