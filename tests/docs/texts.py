"""Reads texts as a machine can: files to write, commands to run, what they print, links."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
LEARN = REPOSITORY / "docs" / "learn"
STAGES = REPOSITORY / "src" / "mooring" / "learn"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w-]+\.(?:py|yaml|toml))\n")
_SAVED_AS = re.compile(r"`([\w-]+\.(?:json|csv))`[^`\n]*\n\n$")  # without comments: the line before names the file


@dataclass
class Step:
    """A command as a reader types it, and the lines that should follow; a line of … stands for any others.

    A comment behind the command may say that it fails: ``# exit code 1``.
    """

    command: str
    expected: list[str] = field(default_factory=list)
    exit_code: int = 0


@dataclass
class WrittenFile:
    name: str
    content: str


def english() -> list[Path]:
    """All texts in English, lessons first; the copies of lessons in docs/learn are compared, not read again."""
    others = [path for path in sorted(LEARN.glob("*.md")) if not re.match(r"[1-7]-", path.name)]
    return [*sorted(STAGES.glob("stage*/README.md")), *others]


def everything() -> list[Path]:
    return [*english(), *sorted(LEARN.glob("*/*.md")), REPOSITORY / "README.ja.md", REPOSITORY / "README.zh.md"]


def parts(text: str) -> list[Step | WrittenFile]:
    """The files and commands of a text, in order."""
    found: list[Step | WrittenFile] = []
    for fence in _FENCE.finditer(text):
        kind, block = fence.groups()
        if kind == "console":
            found += _steps(block)
        elif named := _FILE.match(block) or (kind in ("json", "csv") and _SAVED_AS.search(text[: fence.start()])):
            found.append(WrittenFile(named[1], block))
    return found


def _steps(block: str) -> list[Step]:
    steps: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            command, _, comment = line[2:].partition("  # ")
            fails = re.search(r"exit code (\d)", comment)
            steps.append(Step(command.strip(), exit_code=int(fails[1]) if fails else 0))
        else:
            assert steps, f"output before the first command: {line}"
            steps[-1].expected.append(line)
    return steps


def commands(path: Path) -> list[str]:
    return [part.command for part in parts(path.read_text(encoding="utf-8")) if isinstance(part, Step)]


def inline_commands(text: str) -> list[str]:
    """Commands of ours that are mentioned in the running text."""
    return [found for found in re.findall(r"`([^`\n]+)`", outside_of_code(text)) if found.startswith("mooring ")]


def outside_of_code(text: str) -> str:
    """A text without its code blocks."""
    return _FENCE.sub("", text)


def follows(expected: list[str], output: list[str]) -> bool:
    """Say whether the expected lines are what was printed, with … for any number of lines."""
    if not expected:
        return not output
    if expected[0] == "…":
        return any(follows(expected[1:], output[i:]) for i in range(len(output) + 1))
    return bool(output) and _is_like(expected[0].rstrip(), output[0].rstrip()) and follows(expected[1:], output[1:])


def _is_like(expected: str, line: str) -> bool:
    """… within a line stands for anything."""
    return line == expected or re.fullmatch(".*".join(map(re.escape, expected.split("…"))), line) is not None
