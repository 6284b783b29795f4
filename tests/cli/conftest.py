"""What tests of the command line share: mooring as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import pytest

# Ctrl-C works in these processes even if the tests were started with SIGINT ignored, as `nohup make test &` does.
_MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from mooring.cli.main import main
main(sys.argv[1:])
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start ``mooring`` with these arguments; what still runs after the test is killed."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
        env = {**os.environ, "PYTHONUNBUFFERED": "1", **options.pop("env", {})}
        process = subprocess.Popen([sys.executable, "-c", _MAIN, *arguments], text=True, env=env, **options)
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def read_until() -> Callable[[subprocess.Popen[str], str], str]:
    """Read what a process prints up to the line that has these words."""

    def read_until(process: subprocess.Popen[str], wanted: str) -> str:
        stream: IO[str] | None = process.stdout
        assert stream is not None
        seen = ""
        for line in stream:
            seen += line
            if wanted in line:
                return seen
        raise AssertionError(f"{wanted!r} was not printed: {seen}")

    return read_until
