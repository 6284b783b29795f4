"""CSV files with a header, read strictly: every mistake is told with its file and line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring.errors import InputError

MOST = 2**43 - 1  # of any number: in MiB it still fits 63 bits as bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table. ``where`` is its file and line."""

    where: str
    values: dict[str, str]

    def text(self, column: str) -> str:
        """What stands in a column that must not be empty."""
        found = self.values[column]
        if not found:
            raise InputError(f"{self.where}: {column}: nothing where a text would be right")
        return found

    def number(self, column: str, *, default: int | None = None) -> int:
        """A whole number, 0 or more; ``default`` stands for an empty or absent column."""
        found = self.values.get(column, "")
        if not found and default is not None:
            return default
        # Only ASCII digits: int() also takes "1_000" and "٣".
        if not (found.isascii() and found.isdigit()):
            kind = "a negative number" if found[:1] == "-" and found[1:].isdigit() else repr(found[:40])
            raise InputError(f"{self.where}: {column}: {kind} where a whole number, 0 or more, would be right")
        if len(found) > 15 or int(found) > MOST:
            raise InputError(f"{self.where}: {column}: {found[:20]} where at most {MOST} would be right")
        return int(found)


def read_table(path: Path, text: str, columns: Sequence[str]) -> Iterator[Row]:
    """The rows below the header, which must name these columns and may name more; empty lines are skipped."""
    lines = csv.reader(text.splitlines(keepends=True), strict=True)
    header: list[str] = []
    has_rows = False
    try:
        for values in lines:
            where = f"{path}, line {lines.line_num}"
            if not values:
                continue
            if not header:
                header = _header(values, columns, where)
                continue
            if len(values) != len(header):
                raise InputError(f"{where}: {len(values)} values where the header has {len(header)} columns")
            has_rows = True
            yield Row(where, dict(zip(header, (value.strip() for value in values), strict=True)))
    except csv.Error as error:
        raise InputError(f"{path}, line {lines.line_num}: {error}; expected comma-separated values") from None
    if not header:
        raise InputError(f"{path}: an empty file; expected a line that names the columns: {', '.join(columns)}")
    if not has_rows:
        raise InputError(f"{path}: nothing below the header; expected a row for each node or pod")


def column_names(text: str) -> list[str]:
    """The names in the first line that is not empty, without a check."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return [name.strip() for name in first.split(",")]


def _header(values: list[str], columns: Sequence[str], where: str) -> list[str]:
    names = [value.strip() for value in values]
    for column in columns:
        if column not in names:
            found = ", ".join(names)[:200]
            raise InputError(f"{where}: no column {column!r}; found {found}; expected {', '.join(columns)}")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: the column {name!r} is there twice")
    return names
