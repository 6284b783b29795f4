"""Tables of plain text: aligned columns without lines, as kubectl prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from io import StringIO

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def print_table(to: Console, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print aligned columns without lines, as kubectl does; numbers are the caller's to format.

    Where a terminal is too narrow, columns move together, and the first one, which names things, is folded last.
    """
    rows = list(rows)
    lines = _lines(columns, rows, to.width)
    if lines is not None:
        print_plain(to, lines)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(Text(column), overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))  # brackets are no markup here
    if to.is_terminal and _natural_width(to, table) > to.width:
        table.padding = (0, 2, 0, 0)
    print_aligned(to, table)


GAP = 3
_NOT_PLAIN = re.compile(r"[^ -~]")  # what takes no column, or two of them


def _lines(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], width: int) -> list[str] | None:
    """The lines of a table of plain text that has room; None for others. Rich takes 0.5 ms for each line."""
    whole = [list(columns), *([cell for cell in row if isinstance(cell, str)] for row in rows)]
    if any(len(row) != len(columns) for row in whole) or any(_NOT_PLAIN.search(cell) for row in whole for cell in row):
        return None
    widths = [max(map(len, cells)) + GAP for cells in zip(*whole, strict=True)]
    if sum(widths) > width:
        return None
    return ["".join(cell.ljust(each) for cell, each in zip(row, widths, strict=True)).rstrip() for row in whole]


def print_plain(to: Console, lines: Sequence[str]) -> None:
    """Print lines that fit, the first of which is a heading."""
    if to.is_terminal:
        to.print(Text(lines[0], style="bold"))
        to.print(Text("\n".join(lines[1:])), highlight=False, end="\n" if lines[1:] else "")
    else:
        to.file.write("".join(line + "\n" for line in lines))


def _natural_width(to: Console, table: Table) -> int:
    """The columns that the table takes where there is room for everything."""
    return Measurement.get(to, to.options.update(width=100_000), table).maximum


def print_aligned(to: Console, table: Table) -> None:
    """Print a table; without a terminal no line ends in spaces."""
    if to.is_terminal:
        to.print(table)
        return
    with to.capture() as capture:
        to.print(table)
    to.file.write("".join(line.rstrip() + "\n" for line in capture.get().splitlines()))


def printed(draw: Callable[[Console], None]) -> str:
    """What is drawn, as text without colours; nothing is cut or wrapped."""
    page = StringIO()
    draw(Console(file=page, width=1_000_000, highlight=False, soft_wrap=True, emoji=False))
    return page.getvalue().rstrip()
