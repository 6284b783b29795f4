"""Transcripts: a command, a line of ``----``, and what it prints; then a blank line and the next command.

What goes to standard error stands after standard output, and an exit code that is not 0 in a last line.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from dataclasses import dataclass
from pathlib import Path

from mooring.cli.main import run

RULE = "----"


@dataclass(frozen=True)
class Block:
    command: str
    output: str


def read(path: Path) -> list[Block]:
    """The blocks of a file. Text before the first command is a mistake."""
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [i - 1 for i, line in enumerate(lines) if line == RULE and i > 0]
    if not starts or starts[0] != 0:
        raise ValueError(f"{path.name}: expected a command in the first line and {RULE} in the second")
    ends = [*starts[1:], len(lines)]
    return [
        Block(lines[start], "\n".join(lines[start + 2 : end]).rstrip("\n") + "\n")
        for start, end in zip(starts, ends, strict=True)
    ]


def written(blocks: list[Block]) -> str:
    return "\n".join(f"{block.command}\n{RULE}\n{block.output}" for block in blocks)


def play(command: str) -> Block:
    """Run a command of ours in this process and note what it prints."""
    program, *arguments = shlex.split(command)
    assert program == "mooring", f"{command}: only commands of mooring can be played"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    text = out.getvalue() + err.getvalue() + (f"exit code {code}\n" if code else "")
    return Block(command, text.rstrip("\n") + "\n")
