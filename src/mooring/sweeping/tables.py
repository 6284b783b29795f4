"""Results as one tidy table: a line per row, a column per value; and as a small table for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from mooring.errors import InputError, UsageError
from mooring.explanation.tables import Table
from mooring.meant import hint
from mooring.sweeping.specification import TableShape

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


def pivot(records: Sequence[Record], shape: TableShape) -> Table:
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
    return Table(
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
