"""How far a measurement is: a bar on a terminal, a line for each new part elsewhere. Always on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mooring.cli.output import console


class Show(Protocol):
    """Called often: which part is measured now, how much of it is done, and a word for the present stage."""

    def __call__(self, part: str, done: int, total: int, stage: str = "") -> None: ...


@contextmanager
def progress(unit: str) -> Iterator[Show]:
    """Show how far a measurement is, until the block ends. ``unit`` says what is counted."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:.0f}}/{{task.total:.0f}} {unit}"),
        TextColumn("{task.fields[stage]}"),
        TimeElapsedColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=1, stage="")

        def show(part: str, done: int, total: int, stage: str = "") -> None:
            bar.update(task, description=part, completed=done, total=max(1, total), stage=stage)

        yield show


class _Lines:
    """Prints one line per part: a log needs no line per step."""

    def __init__(self) -> None:
        self._part = ""

    def __call__(self, part: str, done: int, total: int, stage: str = "") -> None:
        if part != self._part:
            self._part = part
            click.echo(part, err=True)
