"""Results as one tidy table: a line per row, a column per value; and as a small table for people."""

from __future__ import annotations

import csv
import io
import platform
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from mooring.api.errors import InputError, UsageError
from mooring.api.text import hint
from mooring.api.version import __version__
from mooring.ask.sweep.specification import SEED, Sweep, TableShape
from mooring.core.explain.decision import DecisionTable

Record = dict[str, Any]


def tidy(results: Iterable[Mapping[str, Any]]) -> list[Record]:
    """A flat record for each result, sorted by the values."""
    return sorted(records_of(results), key=_order)


def records_of(results: Iterable[Mapping[str, Any]]) -> list[Record]:
    """A flat record for each result, in the order given: its values first, then what the command printed."""
    return [_record(result) for result in results]


def _record(result: Mapping[str, Any]) -> Record:
    """Where the command prints a field that has the name of a value, the value stands."""
    values = {"key": result["key"], **result["values"], "exitCode": result.get("exitCode")}
    return {**values, **flat(result["result"]), **values}


def flat(value: Any, prefix: str = "") -> Record:
    """Nested fields with dots between their names; a list becomes its length."""
    if isinstance(value, Mapping):
        found: Record = {}
        for name, each in value.items():
            found |= flat(each, f"{prefix}.{name}" if prefix else str(name))
        return found
    if isinstance(value, list):
        return {prefix or "count": len(value)}
    return {prefix or "result": value}


def _order(record: Record) -> tuple[tuple[int, float, str], ...]:
    """Numbers by their size, texts by their letters."""
    return tuple(
        (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))
        for name, value in record.items()
        if name != "key"
    )


def columns_of(records: Iterable[Record]) -> list[str]:
    """All columns, in the order in which they first come."""
    return list(dict.fromkeys(name for record in records for name in record))


def to_csv(records: Sequence[Record]) -> str:
    page = io.StringIO()
    writer = csv.DictWriter(page, columns_of(records), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return page.getvalue()


def write_table(records: Sequence[Record], path: str | Path) -> None:
    """Write CSV or Parquet, as the name ends."""
    suffix = Path(path).suffix
    if suffix == ".csv":
        Path(path).write_text(to_csv(records), encoding="utf-8")
    elif suffix == ".parquet":
        _write_parquet(records, path)
    else:
        raise UsageError(f"{path}: expected a name that ends in .csv or .parquet")


def _write_parquet(records: Sequence[Record], path: str | Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError("Parquet needs pyarrow, which is not installed: pip install 'mooring[parquet]'") from None
    names = columns_of(records)
    table = pyarrow.table({name: [record.get(name) for record in records] for name in names})
    parquet.write_table(table, path)


def pivot(records: Sequence[Record], shape: TableShape) -> DecisionTable:
    """One value by two parameters: the mean over all other rows, with the standard deviation if there are several.

    Where ``beside`` has a number, it follows in parentheses.
    """
    cells: dict[tuple[Any, Any], list[float]] = {}
    for record in records:
        value = record.get(shape.value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            cells.setdefault((record.get(shape.rows), record.get(shape.columns)), []).append(value)
    if records and not cells:
        known = [name for name, value in records[0].items() if isinstance(value, int | float)]
        raise InputError(f"table.value: no result has a number {shape.value!r}; {hint(shape.value, known)}")
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    others = _read_beside(shape) if shape.beside else {}
    return DecisionTable(
        (shape.rows, *map(str, columns)),
        [
            (
                str(row),
                *(_cell(cells.get((row, column), []), others.get((str(row), str(column)))) for column in columns),
            )
            for row in rows
        ],
    )


def _cell(values: list[float], other: str | None) -> str:
    """The mean has as many digits after the point as the number beside it."""
    if not values:
        return "-"
    spread = f" ± {stdev(values):.2g}" if len(values) > 1 else ""
    if not other:
        return f"{mean(values):.4g}{spread}"
    return f"{mean(values):.{len(other.partition('.')[2])}f}{spread} ({other})"


def _read_beside(shape: TableShape) -> dict[tuple[str, str], str]:
    """The numbers of somebody else, by row and column: a CSV file whose first column has the name of the rows."""
    try:
        with open(shape.beside, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if shape.rows not in (reader.fieldnames or ()):
                raise InputError(f"table.beside: {shape.beside}: no column {shape.rows}")
            return {(line[shape.rows], name): value for line in reader for name, value in line.items() if value}
    except OSError as error:
        raise InputError(f"table.beside: {shape.beside}: {(error.strerror or str(error)).lower()}") from None


# --------------------------------------------------------------------------------------------------------------------
# The table of a sweep as a page that stands by itself.

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:90em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}th,td{padding:.3em .6em;border-bottom:1px solid #8884;text-align:right}"
    "th:first-child,td:first-child{text-align:left}td{font-variant-numeric:tabular-nums;white-space:nowrap}"
    "main{overflow-x:auto}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}}"
)


def described(shape: TableShape) -> str:
    """What the numbers of the table are."""
    beside = f" ({Path(shape.beside).stem} in parentheses)" if shape.beside else ""
    return f"{shape.value}, mean ± standard deviation{beside}"


def write_page(sweep: Sweep, table: DecisionTable, num_results: int, folder: Path) -> Path:
    """Write the page into the folder of the results, of which there may be fewer than the sweep has rows."""
    assert sweep.table is not None
    path = folder / sweep.table.page
    title = escape(sweep.title or Path(sweep.source).stem)
    seeds = sorted({row.values[SEED] for row in sweep.rows if SEED in row.values})
    runs = num_results if num_results == len(sweep.rows) else f"{num_results} of {len(sweep.rows)}"
    made = f"mooring {__version__}, Python {platform.python_version()}, {runs} runs"
    if seeds:
        made += f", seeds {', '.join(map(str, seeds))}"
    command = escape("mooring " + " ".join(sweep.rows[0].template))
    note = "".join(f"<p>{escape(each)}</p>\n" for each in sweep.table.note.strip().split("\n\n") if each)
    path.write_text(
        "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content=width=device-width>"
        f"<title>{title}</title><style>{STYLE}</style>\n"
        f"<h1>{title}</h1>\n<p>{escape(described(sweep.table))}</p>\n<main>{table.html(limit=len(table.rows))}</main>\n"
        f"<p>{escape(made)}. Each number is from runs of</p>\n<pre>{command}</pre>\n{note}",
        encoding="utf-8",
    )
    return path
