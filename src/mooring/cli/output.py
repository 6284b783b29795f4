"""Output of commands: tables for people, JSON or YAML for programs, colours only on a terminal."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mooring.api import yaml
from mooring.api.errors import InputError, UsageError
from mooring.api.tables import print_aligned
from mooring.api.tables import print_table as print_table
from mooring.api.text import printable
from mooring.cli.streams import say

F = TypeVar("F", bound=Callable[..., Any])

# Without a terminal nothing is cut or wrapped: the reader may be a program.
_UNBOUNDED = 1_000_000


def output_option(*formats: str) -> Callable[[F], F]:
    """Add ``-o table|json|yaml`` (or just the formats named) to a command, as parameter ``output``."""
    first, *others, last = choices = formats or ("table", "json", "yaml")
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default=first,
        metavar="FORMAT",
        help=f"Print {', '.join((f'{first} (default)', *others))} or {last}.",
    )


def console(*, stderr: bool = False) -> Console:
    """Return a console that knows whether it is a terminal; NO_COLOR and FORCE_COLOR are honoured."""
    stream = sys.stderr if stderr else sys.stdout
    is_terminal = stream.isatty()
    return _Console(
        file=stream, width=None if is_terminal else _UNBOUNDED, highlight=False, soft_wrap=not is_terminal, emoji=False
    )


class _Console(Console):
    """A console whose texts cannot control the terminal; colours and cursor movements are not texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            is_ours = segment.control or segment.text == "\r"  # a line that is written over; rich takes it out of texts
            clean = segment.text if is_ours else printable(segment.text)
            yield segment if clean == segment.text else Segment(clean, segment.style)


def emit(value: Any, output: str, table: Callable[[Console], None]) -> None:
    """Print ``value`` as JSON or YAML, or call ``table`` to draw it for a person."""
    if output == "json":
        click.echo(to_json(value))
    elif output == "yaml":
        click.echo(yaml.dump(plain(value), sort_keys=False), nl=False)
    else:
        table(console())


def to_json(value: Any) -> str:
    return _UNESCAPED.sub(_escaped, json.dumps(plain(value), indent=2, ensure_ascii=False))


_UNESCAPED = re.compile(r"[\x7f-\x9f]")  # JSON allows them; terminals interpret some of them


def _escaped(control: re.Match[str]) -> str:
    return f"\\u{ord(control[0]):04x}"


def plain(value: Any) -> Any:
    """Return dicts, lists, strings and numbers for structs, dataclasses, enums, sets and NumPy values."""
    if value is None or isinstance(value, str | bool | int | float):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "tolist"):  # NumPy, without importing it for commands that do not use it
        return plain(value.tolist())
    return str(value)


def print_facts(to: Console, facts: Mapping[str, str]) -> None:
    """Print names and texts side by side, as kubectl describe does; facts without a text are left out."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts.items():
        if text:
            table.add_row(f"  {name}:", Text(text))
    print_aligned(to, table)


def keep_inputs(output: Path, inputs: Iterable[str]) -> None:
    """Refuse to overwrite an input file, under any name, or to write into a directory that is read as a whole."""
    for each in inputs:
        for place in (output, output.parent):
            if os.path.exists(each) and place.exists() and os.path.samefile(place, each):
                raise UsageError(f"{output}: {each} is an input and is not overwritten; give another file")


def read_input(path: str) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as e:
        raise InputError(f"{path}: {(e.strerror or str(e)).lower()}") from None


# --------------------------------------------------------------------------------------------------------------------
# Progress of a measurement: a bar on a terminal, a line for each new part elsewhere. Always on standard error.


class Show(Protocol):
    """Called often: the current part, how much of it is done, and the current stage."""

    def __call__(self, part: str, done: int, total: int, stage: str = "") -> None: ...


@contextmanager
def progress(unit: str, *, eta: bool = False) -> Iterator[Show]:
    """Show progress until the block ends. ``unit`` says what is counted.

    ``eta`` also shows the remaining time.
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
    """Show progress of one part on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    with ExitStack() as stack:
        shown: list[Show] = []

        def show(done: int, total: int) -> None:
            if not shown:  # the bar has a thread: it starts after possible forks
                shown.append(stack.enter_context(progress(unit)))
            shown[0](part, done, total)

        yield show


class _Lines:
    """Prints one line per part: a log needs no line per step."""

    def __init__(self) -> None:
        self._part = ""

    def __call__(self, part: str, done: int, total: int, stage: str = "") -> None:
        if part != self._part:
            self._part = part
            say(part)


class _Tenths:
    """Prints a line at each tenth, with the remaining time."""

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
