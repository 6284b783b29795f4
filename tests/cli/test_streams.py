"""Output that is not read, that does not fit, or that is closed: one line at most, and everything is cleaned up."""

from __future__ import annotations

import asyncio
import errno
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from mooring.cli import main as frame
from mooring.cli.streams import Output, OutputLost, open_missing_streams, watched_output

Start = Callable[..., "subprocess.Popen[str]"]


class Failing(io.StringIO):
    """A stream that takes some characters and then fails."""

    def __init__(self, room: int, number: int) -> None:
        super().__init__()
        self._room, self._number = room, number

    def write(self, text: str) -> int:
        if self.tell() + len(text) > self._room:
            raise OSError(self._number, "no")
        return super().write(text)


def run_printing(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None, callback: Callable[[], None]) -> int:
    monkeypatch.setattr(frame, "_load", lambda entry: click.Command("start", callback=callback))
    monkeypatch.setattr(sys, "stdout", stream)
    return frame.run(["start"])


def in_plain_code() -> None:
    click.echo("first")
    try:
        click.echo("second")
    except Exception:
        pytest.fail("code that survives every Exception must not survive a lost output")


def in_an_event_loop() -> None:
    async def tell() -> None:
        in_plain_code()

    async def main() -> None:
        await asyncio.gather(tell(), asyncio.sleep(3600))

    asyncio.run(main())


@pytest.mark.parametrize("callback", [in_plain_code, in_an_event_loop])
@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        pytest.param(errno.EPIPE, 141, "", id="the reader has gone"),
        pytest.param(errno.ENOSPC, 1, "mooring: cannot write to standard output: no\n", id="the disk is full"),
    ],
)
def test_a_write_that_fails_ends_the_command(
    callback: Callable[[], None],
    number: int,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = Failing(6, number)
    assert run_printing(monkeypatch, stream, callback) == code
    assert (stream.getvalue(), capsys.readouterr().err) == ("first\n", line)


def test_a_closed_output_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_printing(monkeypatch, None, in_plain_code) == 1
    assert capsys.readouterr().err == "mooring: cannot write to standard output: Bad file descriptor\n"


def test_a_command_that_prints_nothing_needs_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_printing(monkeypatch, None, lambda: None) == 0


def test_after_the_first_failure_writes_do_nothing() -> None:
    output = Output(Failing(0, errno.EPIPE))
    with pytest.raises(OutputLost):
        output.write("a")
    assert output.write("bc") == 2
    output.flush()


def test_a_failure_while_flushing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(OutputLost, match="full"), watched_output():
        print("buffered")


def test_a_process_without_input_and_error_gets_empty_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stderr", None)
    open_missing_streams()
    with sys.stdin, sys.stderr:
        assert sys.stdin.read() == ""
        print("nowhere", file=sys.stderr)


COMMANDS = [
    pytest.param(["--help"], id="the help"),
    pytest.param(["scenario", "list"], id="a table"),
    pytest.param(["config", "defaults"], id="a document"),
    pytest.param(["learn", "1"], id="a lesson"),
    pytest.param(["scenario", "run", "--virtual-time", "first-placement"], id="a story"),
    pytest.param(["start", "--once", "--nodes", "1"], id="a cluster"),
    pytest.param(["start", "--keep", "--scenario", "zone-spread"], id="a cluster that would stay"),
]


@pytest.mark.e2e
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_full_disk_is_one_line(arguments: list[str], start: Start, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        process = start(*arguments, stdout=full, env={"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": ""})
        _, err = process.communicate()
    assert err == "mooring: cannot write to standard output: No space left on device\n"
    assert process.returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
@pytest.mark.parametrize("arguments", COMMANDS[3:])
def test_a_closed_pipe_is_not_a_failure(arguments: list[str], start: Start, tmp_path: Path) -> None:
    process = start(*arguments, env={"TMPDIR": str(tmp_path)})
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == ("", 141)
    assert list(tmp_path.iterdir()) == []
