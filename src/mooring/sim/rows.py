"""Rows of CSV files, and texts with ``{column}`` in them that are filled in from a row."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.errors import InputError
from mooring.meant import hint

Row = dict[str, str]
NUMBER = "i"
"""``{i}`` is the number of the row, from 1."""
_PLACE = re.compile(r"\{([^{}]+)\}")


_UNREADABLE = (csv.Error, UnicodeDecodeError, OSError, EOFError)  # the last two: a broken .gz


@dataclass(slots=True)
class Table:
    """A CSV file: its header, and its rows one after another, each with the line at which it ends."""

    path: Path
    columns: list[str]

    @classmethod
    def open(cls, path: Path) -> Table:
        """Read the header."""
        columns = column_names(path)
        for i, name in enumerate(columns):
            if name in columns[:i]:
                raise InputError(f"{path}, line 1: the column {name!r} is there twice")
        return cls(path, columns)

    def rows(self) -> Iterator[tuple[int, Row]]:
        """The rows, read as they are asked for: a trace may be larger than the memory."""
        columns, width = self.columns, len(self.columns)
        with _opened(self.path) as file:
            reader = csv.reader(file)
            next(reader, None)
            try:
                for values in reader:
                    if len(values) == width:
                        yield reader.line_num, dict(zip(columns, map(str.strip, values), strict=True))
                    elif any(values):
                        raise InputError(
                            f"{self.path}, line {reader.line_num}: {len(values)} values; "
                            f"expected {width}, as the header has columns"
                        )
            except _UNREADABLE as error:
                raise _unreadable(self.path, error, reader.line_num + 1) from None

    def count(self) -> int:
        """About how many rows there are: for a progress bar."""
        with _opened(self.path) as file, contextlib.suppress(*_UNREADABLE):  # whoever reads the rows says where
            return max(0, sum(1 for _ in file) - 1)
        return 0

    def check(self, used: Iterable[str], what: str) -> None:
        """Every column that a text uses must be there."""
        for name in used:
            if name != NUMBER and name not in self.columns:
                raise InputError(
                    f"{self.path}, line 1: no column {name!r}, which {what} needs; {hint(name, self.columns)}"
                )


def column_names(path: Path) -> list[str]:
    """What the header names."""
    with _opened(path) as file:
        try:
            header = next(csv.reader(file), None)
        except _UNREADABLE as error:
            raise _unreadable(path, error, 1) from None
    if not header or not any(header):
        raise InputError(f"{path}, line 1: no header; expected the names of columns with commas between them")
    return [name.strip().lstrip("\ufeff") for name in header]


def _unreadable(path: Path, error: Exception, line: int) -> InputError:
    if isinstance(error, UnicodeDecodeError):  # read in pieces: the line is not known
        return InputError(f"{path}: not UTF-8 text; expected CSV")
    return InputError(f"{path}, line {line}: not CSV: {error}")


def _opened(path: Path) -> io.TextIOBase:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def columns_in(value: Any) -> set[str]:
    """The columns that texts in ``value`` name."""
    if isinstance(value, str):
        return set(_PLACE.findall(value))
    if isinstance(value, Mapping):
        return set().union(*(columns_in(each) for pair in value.items() for each in pair))
    if isinstance(value, list):
        return set().union(*(columns_in(each) for each in value))
    return set()


Fill = Callable[[Mapping[str, str]], Any]


def filler(value: Any) -> Fill:
    """A function from a row to ``value`` with every ``{column}`` filled in.

    Where a column is empty, what would be made of it is left out of its mapping or list.
    """
    if isinstance(value, str):
        return _text_filler(value)
    if isinstance(value, Mapping):
        pairs = [(filler(str(key)), filler(item), bool(columns_in(item))) for key, item in value.items()]
        return lambda row: {
            key(row): found for key, fill, may_lack in pairs if not ((found := fill(row)) in ("", {}, []) and may_lack)
        }
    if isinstance(value, list):
        items = [(filler(item), bool(columns_in(item))) for item in value]
        return lambda row: [
            found for fill, may_lack in items if not ((found := fill(row)) in ("", {}, []) and may_lack)
        ]
    return lambda row: value


def _text_filler(text: str) -> Fill:
    parts = _PLACE.split(text)  # texts and names by turns
    if len(parts) == 1:
        return lambda row: text
    if len(parts) == 3 and not parts[0] and not parts[2]:
        name = parts[1]
        return lambda row: row[name]
    names = parts[1::2]
    pattern = "{}".join(text.replace("{", "{{").replace("}", "}}") for text in parts[0::2])

    def fill(row: Mapping[str, str]) -> str:
        values = [row[name] for name in names]
        if not any(values):
            return ""  # a unit with no number before it
        return pattern.format(*values)

    return fill
