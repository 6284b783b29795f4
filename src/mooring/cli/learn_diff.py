"""Differences of two schedulers: as a unified diff, or change by change with a sentence each."""

from __future__ import annotations

import difflib
from pathlib import Path

from rich.console import Console
from rich.text import Text

from mooring.lessons.changes import explained
from mooring.lessons.course import Lesson
from mooring.lessons.words import Words

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_diff(to: Console, old: Path, new: Path, old_name: str, new_name: str) -> None:
    """Print a unified diff, coloured on a terminal."""
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (old, new))
    for line in difflib.unified_diff(before, after, old_name, new_name, lineterm="", n=3):
        to.print(Text(line, style="bold" if line.startswith(("+++", "---")) else _STYLES.get(line[:1], "")))


def print_explained(to: Console, old: Lesson, new: Lesson, words: Words) -> None:
    """Print the changes from one lesson to the next in the order in which they are best understood."""
    for number, change in enumerate(explained(old, new), 1):
        to.print(Text(f"{number}. {words(change.says)}", style="bold"))
        for lines in change.hunks:
            to.print()
            for line in lines:
                to.print(Text(f"    {line}", style=_STYLES.get(line[:1], "")))
        to.print()
