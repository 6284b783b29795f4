"""How far a measurement is: a bar on a terminal, a line for each new part elsewhere. Always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from mooring.cli.output import console
from mooring.cli.streams import say


class Show(Protocol):
    """Called often: which part is measured now, how much of it is done, and a word for the present stage."""

    def __call__(self, part: str, done: int, total: int, stage: str = "") -> None: ...


@contextmanager
def progress(unit: str, *, eta: bool = False) -> Iterator[Show]:
    """Show how far a measurement is, until the block ends. ``unit`` says what is counted.

    ``eta`` also shows how long it will still take.
    """
    if not sys.stderr.isatty():
        yield _Tenths(unit) if eta else _Lines()
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:.0f}}/{{task.total:.0f}} {unit}"),
        TextColumn("{task.fields[stage]}"),
        TimeElapsedColumn(),
        *([TextColumn("left:"), TimeRemainingColumn()] if eta else []),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=1, stage="")

        def show(part: str, done: int, total: int, stage: str = "") -> None:
            bar.update(task, description=part, completed=done, total=max(1, total), stage=stage)

        yield show


@contextmanager
def shown_on_a_terminal(unit: str, part: str) -> Iterator[Callable[[int, int], None]]:
    """Show how far one part is where a person looks on, and say nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    with progress(unit) as show:
        yield lambda done, total: show(part, done, total)


class _Lines:
    """Prints one line per part: a log needs no line per step."""

    def __init__(self) -> None:
        self._part = ""

    def __call__(self, part: str, done: int, total: int, stage: str = "") -> None:
        if part != self._part:
            self._part = part
            say(part)


class _Tenths:
    """Prints a line at each tenth of the way, with how long the rest will take."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._tenth = -1
        self._first: tuple[float, int] | None = None  # when, and how much was done then

    def __call__(self, part: str, done: int, total: int, stage: str = "") -> None:
        now = time.monotonic()
        began, before = self._first = self._first or (now, done)
        tenth = done * 10 // max(1, total)
        if tenth == self._tenth:
            return
        self._tenth = tenth
        left_s = (now - began) / (done - before) * (total - done) if done > before else 0.0
        left = (
            f", about {left_s / 60:.0f} min left"
            if left_s >= 60
            else f", about {left_s:.0f} s left"
            if left_s >= 1
            else ""
        )
        say(f"{part}: {done} of {total} {self._unit}{left}")
