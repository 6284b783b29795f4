"""A measurement in its own process, so that the memory and garbage of other code do not count.

The module reads a JSON request from its standard input and prints one JSON answer per line.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

STOP_S = 120.0


class OwnProcess:
    """A process that answers; its exit code is known once it has ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def answers(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # otherwise the process ended in the middle of an answer
                yield json.loads(line)


@contextlib.contextmanager
def own_process(module: str, request: dict[str, Any]) -> Iterator[OwnProcess]:
    """Run a module on a request; after the block it has a while to end by itself."""
    command = [sys.executable, "-m", module]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request))
            process.stdin.close()
            yield OwnProcess(process)
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        raise
