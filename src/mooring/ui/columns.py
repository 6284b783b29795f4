"""Columns that only grow, and how their newest parts go over the wire.

A message is a length (4 bytes, little-endian), a JSON header of that length, and one buffer per column, each begun at a
multiple of 8. The reader says how many rows of each table it has, and gets what is new, at most ``MAX_ROWS`` of each:
what the server holds for one reader is bounded by that.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any

MAX_ROWS = 262_144
ALIGNMENT = 8

TYPES = {"d": "f64", "i": "i32", "B": "u8"}


class Texts:
    """Texts by number; the same text has one number."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.values)
            self.values.append(text)
        return found

    def __len__(self) -> int:
        return len(self.values)

    def part(self, begin: int, end: int) -> dict[str, Any]:
        return {"texts": self.values[begin:end]}


class Table:
    """Rows in named columns of numbers; types are those of :mod:`array`."""

    def __init__(self, **types: str) -> None:
        self.columns: dict[str, array[Any]] = {name: array(type) for name, type in types.items()}
        self._appends = tuple(column.append for column in self.columns.values())
        self._last = next(reversed(self.columns.values()))  # a row is there when its last column is

    def add(self, *values: float) -> int:
        """Add a row and return its number."""
        row = len(self)
        for append, value in zip(self._appends, values, strict=True):
            append(value)
        return row

    def __len__(self) -> int:
        return len(self._last)

    def part(self, begin: int, end: int) -> dict[str, Any]:
        return {name: column[begin:end] for name, column in self.columns.items()}


Tables = dict[str, Texts | Table]


def encode(
    tables: Tables, have: Sequence[int], *, last: str, more: dict[str, Any] | None = None, most: int = 0
) -> bytes:
    """A message with what is new in each table. Rows of ``last`` refer to the others, and come when those are there."""
    ends = {last: len(tables[last])}  # before the others: they may grow meanwhile
    ends |= {name: len(table) for name, table in tables.items() if name != last}
    parts: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    is_whole = True
    for (name, table), begin in sorted(zip(tables.items(), have, strict=True), key=lambda each: each[0][0] == last):
        end = min(ends[name], begin + (most or MAX_ROWS))
        if name == last and not is_whole:
            end = begin
        is_whole = is_whole and end == ends[name]
        part: dict[str, Any] = {"table": name, "rows": max(0, end - begin)}
        for column, values in table.part(begin, end).items():
            if isinstance(values, list):
                part[column] = values
            else:
                part.setdefault("columns", []).append([column, TYPES[values.typecode]])
                buffers.append(values.tobytes())
        parts.append(part)
    header = json.dumps({"tables": parts, "whole": is_whole, **(more or {})}, ensure_ascii=False).encode()
    message = bytearray(len(header).to_bytes(4, "little") + header)
    for buffer in buffers:
        message += bytes(-len(message) % ALIGNMENT) + buffer
    return bytes(message)
