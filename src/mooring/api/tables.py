"""Plain-text tables: aligned columns without lines, as kubectl prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mooring.api.errors import UsageError
from mooring.api.text import count_of, first_of


def print_table(to: Console, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print aligned columns without lines, as kubectl does; numbers are the caller's to format.

    On a narrow terminal columns move together and texts are folded. A long text in the last column without enough room
    is printed below its row.
    """
    rows = list(rows)
    lines = _lines(columns, rows, to.width)
    if lines is not None:
        print_plain(to, lines)
        return
    if to.is_terminal:
        widths = [max(map(_width, cells), default=0) for cells in zip(columns, *rows, strict=True)]
        if sum(widths) + NARROW_GAP * (len(widths) - 1) > to.width:
            _print_narrow(to, columns, rows, widths)
            return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(Text(column), overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))  # brackets are no markup here
    if to.is_terminal and _natural_width(to, table) > to.width:
        table.padding = (0, NARROW_GAP, 0, 0)
    print_aligned(to, table)


GAP, NARROW_GAP = 3, 2
LEAST_TEXT = 25  # columns for a long text beside its row
LONG_TEXT = 60  # columns; what is shorter is folded beside its row
COMFORTABLE, LEAST = 13, 6  # columns that a column keeps as long as others can be folded, and in any case
_NOT_PLAIN = re.compile(r"[^ -~]")  # what takes no column, or two of them


def _print_narrow(to: Console, columns: Sequence[str], rows: Sequence[Sequence[str | Text]], widths: list[int]) -> None:
    """Print a table that is too wide: its widest columns are folded, and possibly the last one is below each row."""
    room = to.width - sum(widths[:-1]) - NARROW_GAP * (len(widths) - 1)  # for the last column
    is_below = len(widths) > 1 and room < LEAST_TEXT and widths[-1] > LONG_TEXT
    beside = widths[:-1] if is_below else widths
    _fit(beside, to.width)
    for number, row in enumerate([columns, *rows]):
        texts = [Text(cell, style="" if number else "bold") if isinstance(cell, str) else cell for cell in row]
        folded = [list(text.wrap(to, width)) for text, width in zip(texts, beside, strict=False)]
        for i in range(max(map(len, folded))):
            line = Text()
            for lines, width in zip(folded, beside, strict=True):
                piece = lines[i] if i < len(lines) else Text()
                piece.rstrip()
                line.append_text(piece).append(" " * (width - piece.cell_len + NARROW_GAP))
            _print_line(to, line)
        if is_below and texts[-1]:
            for piece in texts[-1].wrap(to, max(LEAST, to.width - NARROW_GAP)):
                _print_line(to, Text(" " * NARROW_GAP).append_text(piece))


def _width(cell: str | Text) -> int:
    """Return the width of the longest line: a heading may have several."""
    return max(map(cell_len, str(cell).split("\n")))


def _print_line(to: Console, line: Text) -> None:
    line.rstrip()
    to.print(line, soft_wrap=True)


def _fit(widths: list[int], width: int) -> None:
    """Narrow columns until all fit. The first one, with names, is folded last."""
    first, others = range(1), range(1, len(widths))
    for which, least in ((others, COMFORTABLE), (first, 2 * COMFORTABLE), (others, LEAST), (first, LEAST)):
        while sum(widths) + NARROW_GAP * (len(widths) - 1) > width:
            widest = max(which, key=widths.__getitem__, default=0)
            if widths[widest] <= least:
                break
            widths[widest] -= 1


def _lines(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], width: int) -> list[str] | None:
    """Return the lines of a table of plain text that fits; None for others. Rich takes 0.5 ms for each line."""
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
    """Return the width of the table without a limit."""
    return Measurement.get(to, to.options.update(width=100_000), table).maximum


def print_aligned(to: Console, table: Table) -> None:
    """Print a table; without a terminal no line ends in spaces."""
    if to.is_terminal:
        to.print(table)
        return
    with to.capture() as capture:
        to.print(table)
    to.file.write("".join(line.rstrip() + "\n" for line in capture.get().splitlines()))


def printed_html(draw: Callable[[Console], None]) -> str:
    """Return what is drawn as HTML for a notebook: the same lines with their colours."""
    to = Console(file=StringIO(), record=True, force_terminal=True, width=160, highlight=False, emoji=False)
    draw(to)
    return to.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def printed(draw: Callable[[Console], None]) -> str:
    """Return what is drawn as text without colours; nothing is cut or wrapped."""
    page = StringIO()
    draw(Console(file=page, width=1_000_000, highlight=False, soft_wrap=True, emoji=False))
    return page.getvalue().rstrip()


def print_more(to: Console, count: int, shown: int, how: str = "--top N shows N") -> None:
    """Print below a table how many rows were left out, and how to see them."""
    if count > shown:
        to.print(f"… and {count - shown} more ({how})")


def print_refused(to: Console, refused: Mapping[str, str], what: str, top: int) -> None:
    """Print refused pods with the scheduler's message, grouped if it differs only in preemption.

    ``what`` goes before their names. The reasons of most pods come first, and at most ``top`` of them.
    """
    groups: dict[str, dict[str, list[str]]] = {}
    for pod, message in refused.items():
        groups.setdefault(message.partition(". ")[0], {}).setdefault(message, []).append(pod)
    by_size = sorted(groups.items(), key=lambda group: -sum(map(len, group[1].values())))
    for reasons, messages in by_size[:top]:
        pods = [pod for group in messages.values() for pod in group]
        to.print(f"  {what}{escape(first_of(pods))}:")
        to.print(f"    {escape(next(iter(messages)) if len(messages) == 1 else f'{reasons}. …')}")
    left = sum(len(pods) for _, messages in by_size[top:] for pods in messages.values())
    if left:
        to.print(f"  {what}{count_of(left, 'more pod')}, for {count_of(len(by_size) - top, 'other reason')}")


def print_notes(to: Console, notes: Sequence[str]) -> None:
    """Print notes below an empty line; nothing if there are none."""
    if notes:
        to.print()
    for note in notes:
        to.print(f"Note: {escape(note)}")


def write_parquet(columns: Mapping[str, Sequence[Any]], path: str | Path) -> None:
    """Write columns as a Parquet file; UsageError where pyarrow is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError("Parquet needs pyarrow, which is not installed: pip install 'mooring[parquet]'") from None
    parquet.write_table(pyarrow.table(dict(columns)), path)
