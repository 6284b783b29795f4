"""The frame of the command line: one line per failure, the right exit code, no needless imports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from mooring import __version__
from mooring.api.errors import ApiError, ConfigError, InputError, MooringError
from mooring.cli import main as frame


def run_with(monkeypatch: pytest.MonkeyPatch, error: BaseException, *args: str) -> int:
    """Run a command that raises ``error``."""

    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr(frame, "_load", lambda entry: failing)
    return frame.run([*args, "start"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(InputError("pods.yaml: line 3: no such thing"), 2, id="bad input is 2"),
        pytest.param(ConfigError("a: wrong", "b: wrong"), 2, id="a bad configuration is 2"),
        pytest.param(ApiError("the server said no", code=500), 1, id="a refusal of the API server is 1"),
        pytest.param(MooringError("it failed"), 1, id="any other failure is 1"),
        pytest.param(KeyboardInterrupt(), 130, id="Ctrl-C is 130"),
    ],
)
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    assert run_with(monkeypatch, error) == code


def test_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_with(monkeypatch, MooringError("first\nsecond\x1b[31m"))
    assert capsys.readouterr().err == "mooring: first second�[31m\n"


def test_a_bug_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(monkeypatch, ZeroDivisionError("division by zero")) == 1
    err = capsys.readouterr().err
    assert err == (
        "mooring: internal error: ZeroDivisionError: division by zero (run again with -vv for the traceback)\n"
    )


@pytest.mark.parametrize("how", ["-vv", "MOORING_DEBUG"])
def test_the_traceback_is_printed_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    if how == "MOORING_DEBUG":
        monkeypatch.setenv("MOORING_DEBUG", "1")
    run_with(monkeypatch, ZeroDivisionError("x"), *(["-vv"] if how == "-vv" else []))
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param(["confg"], 'mooring: no command "confg"; did you mean config?', id="a misspelt command"),
        pytest.param(
            ["config", "check"], "mooring: Missing argument 'FILE'; see mooring config check --help", id="FILE"
        ),
        pytest.param(
            ["config", "defaults", "-o", "xml"],
            "mooring: Invalid value for '-o' / '--output': 'xml' is not one of 'yaml', 'json'; "
            "see mooring config defaults --help",
            id="a format that is not there",
        ),
    ],
)
def test_bad_usage_is_one_line_and_2(args: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(args) == 2
    assert capsys.readouterr().err == want + "\n"


def test_a_command_without_its_module_reports_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = frame.CommandEntry("later", "mooring.cli.nowhere", "later", "Not here yet.", frame.RUN)
    monkeypatch.setattr(frame, "COMMANDS", (*frame.COMMANDS, gone))
    assert frame.run(["later"]) == 2
    assert capsys.readouterr().err == f'mooring: the command "later" is not part of this version ({__version__})\n'
    frame.run(["--help"])
    assert "later" not in capsys.readouterr().out


def test_a_command_that_lacks_a_package_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking(name: str) -> None:
        raise ModuleNotFoundError("No module named 'celery'", name="celery")

    monkeypatch.setattr("importlib.import_module", lacking)
    assert frame.run(["start"]) == 2
    assert "needs the package celery, which is not installed" in capsys.readouterr().err


def every_command(group: click.Group = frame.cli, path: str = "mooring") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from every_command(command, f"{path} {name}")


EVERY = [pytest.param(path, command, id=path) for path, command in every_command()]


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(("path", "command"), EVERY)
def test_a_commands_help_has_a_whole_example(path: str, command: click.Command, width: int) -> None:
    text = command.get_help(click.Context(command, info_name=path, terminal_width=width))
    lines = [line.strip() for line in text.splitlines()]
    if path != "mooring config":  # its commands have one each
        assert "Example:" in lines
        assert any("mooring " in line for line in lines[lines.index("Example:") :])
    broken = [line for line in lines if re.search(r"(^|\s)(--|~|/)\S*-$", line)]
    assert broken == [], "an option or a path is broken at a hyphen"


@pytest.mark.parametrize(("path", "command"), [each for each in EVERY if each.id != "mooring run"])  # it has flags
def test_an_option_is_one_line_on_a_terminal_of_80_columns(path: str, command: click.Command) -> None:
    text = command.get_help(click.Context(command, info_name=path, terminal_width=78))  # click keeps two columns free
    options = text.partition("\nOptions:\n")[2].partition("\n\n")[0].splitlines()
    assert options
    assert [line for line in options if not line.startswith("  -")] == []


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param(["explain", "--top", "0"], "'--top': 0 is not in the range x>=1", id="too small"),
        pytest.param(["ui", "--port", "70000"], "'--port': 70000 is not in the range 0<=x<=65535", id="too large"),
        pytest.param(["explain", "--top", "x"], "'--top': 'x' is not a valid integer", id="no integer"),
        pytest.param(
            ["optimise", "--time-limit", "-1"], "'--time-limit': -1.0 is not in the range x>=0", id="negative"
        ),
        pytest.param(["optimise", "--time-limit", "x"], "'--time-limit': 'x' is not a valid number", id="no number"),
    ],
)
def test_an_error_about_a_number_names_the_range(
    capsys: pytest.CaptureFixture[str], args: list[str], want: str
) -> None:
    assert frame.run(args) == 2
    assert capsys.readouterr().err == f"mooring: Invalid value for {want}; see mooring {args[0]} --help\n"


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in frame.COMMANDS])
def test_the_list_of_commands_says_what_the_command_says(entry: frame.CommandEntry) -> None:
    """The list is written by hand, because it is shown without importing the commands."""
    assert len(entry.help) <= 64, "it fits beside the names in 80 columns"
    if entry.name not in frame.cli.list_commands(click.Context(frame.cli)):
        pytest.skip("not part of this version")
    command = frame.cli.get_command(click.Context(frame.cli), entry.name)
    assert command is not None
    said = command.get_short_help_str(limit=1000)
    assert entry.help.split()[0] == said.split()[0]


def test_the_help_has_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["--help"]) == 0
    headings = [line for line in capsys.readouterr().out.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == ["Options:", "Start:", "Learn:", "Explain:", "What if:", "Run:", "Develop:"]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["--version"]) == 0
    assert capsys.readouterr().out == f"mooring {__version__}\n"
    assert frame.run([]) == 0
    assert "Start:" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["completion", shell]) == 0
    assert "_MOORING_COMPLETE" in capsys.readouterr().out


def _subprocess(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mooring", *args],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **env},
    )


def test_completing_a_command_name() -> None:
    done = _subprocess(_MOORING_COMPLETE="bash_complete", COMP_WORDS="mooring con", COMP_CWORD="1")
    assert done.stdout == "plain,consolidate\nplain,config\n"


def test_the_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from mooring.cli.main import run; run(['--help']); "
        "print([m for m in ('numpy', 'aiohttp', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away_is_no_error() -> None:
    pipeline = f"{sys.executable} -m mooring config defaults -o json | head -c 1"
    done = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("{", "")


def test_no_colours_outside_a_terminal() -> None:
    assert "\x1b" not in _subprocess("config", "defaults").stdout


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_no_command_starts_threads_for_linear_algebra() -> None:
    code = (
        "import os, sys\nfrom mooring.cli.entry import main\nsys.argv = ['mooring', '--version']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "import numpy\nprint(len(os.listdir('/proc/self/task')))"
    )
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True, env=env
    )
    assert done.stdout.splitlines()[-1] == "1"
