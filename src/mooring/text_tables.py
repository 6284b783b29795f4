"""Tables of plain text: aligned columns without lines, as kubectl prints them."""

from __future__ import annotations

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
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*row)
    if to.is_terminal and _natural_width(to, table) > to.width:
        table.padding = (0, 2, 0, 0)
    print_aligned(to, table)


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
    draw(Console(file=page, width=1_000_000, highlight=False, soft_wrap=True))
    return page.getvalue().rstrip()
