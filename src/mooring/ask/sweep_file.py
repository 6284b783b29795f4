"""The file of a sweep: a command and its values, the resulting rows, and the table of their results.

```yaml
title: Two policies over a day
parameters:
  data: {help: a folder with traces}
command: simulate ${here}/day.yaml --set pods=${pods} --set policy=${policy} --seed ${seed}
over:
  pods: {files: "${data}/*.csv"}    # every file that matches
  policy: [spread, pack]            # these values
seeds: 10                           # 0 to 9; or a list
table: {rows: pods, columns: policy, value: pods.placed}
```
"""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import itertools
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from stat import S_ISREG
from statistics import mean, stdev
from typing import Any

from mooring.api import yaml
from mooring.api.errors import InputError, UsageError
from mooring.api.manifests import read_bytes
from mooring.api.tables import write_parquet
from mooring.api.text import hint
from mooring.api.version import __version__
from mooring.core.explain.decision import DecisionTable
from mooring.sim.step_fields import parameter_values, substituted

_FIELDS = ("title", "parameters", "command", "over", "seeds", "table")
_TABLE_FIELDS = ("rows", "columns", "value")
_MORE_TABLE_FIELDS = ("beside", "page", "note")
SEED, HERE = "seed", "here"
MAX_ROWS = 1_000_000


@dataclass(frozen=True)
class SweepRow:
    """One run of the command: its values, and the resulting arguments."""

    values: Mapping[str, Any]  # by name, as in the table
    template: tuple[str, ...]  # the command before substitution
    arguments: tuple[str, ...]

    @cached_property
    def specification(self) -> dict[str, Any]:
        """Return what identifies the row. Files count by their content, wherever they are."""
        files = {
            place: digest
            for place, argument in zip(self.template, self.arguments, strict=True)
            if (digest := _digest(argument.rpartition("=")[2])) is not None
        }
        return {"command": list(self.template), "values": dict(self.values), "files": files, "mooring": __version__}

    @cached_property
    def key(self) -> str:
        """Return the hash of the specification: the row's name, the same on every machine."""
        text = json.dumps(self.specification, sort_keys=True, ensure_ascii=False, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class TableShape:
    """The table of results: one value, by two parameters, as the mean over the rest.

    ``beside`` is a CSV file with reference numbers for comparison. ``page`` is the name of a page in the folder of the
    results, and ``note`` a text on it, for example about the reference numbers.
    """

    rows: str
    columns: str
    value: str
    beside: str = ""
    page: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep with all its rows, in the order of the file; seeds vary fastest."""

    source: str
    title: str
    names: tuple[str, ...]
    rows: list[SweepRow] = field(default_factory=list)
    table: TableShape | None = None


def load_sweep(path: str | Path, given: Mapping[str, Any] | None = None) -> Sweep:
    """Read a sweep file; ``given`` sets its parameters."""
    source = str(path)
    document = yaml.load(read_bytes(Path(path)), source)
    if not isinstance(document, Mapping):
        raise InputError(f"{source}: expected a sweep with the fields {', '.join(_FIELDS)}")
    try:
        return _sweep(source, document, given or {})
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


def _sweep(source: str, document: Mapping[str, Any], given: Mapping[str, Any]) -> Sweep:
    for name in document:
        if name not in _FIELDS:
            raise InputError(f"{name}: no such field; expected {', '.join(_FIELDS)}")
    fixed = {**parameter_values(document.get("parameters") or {}, given), HERE: os.path.dirname(source) or "."}
    template = _template(document.get("command"))
    over = document.get("over") or {}
    if not isinstance(over, Mapping):
        raise InputError("over: expected names with their values")
    axes = {str(name): _axis(str(name), each, fixed) for name, each in over.items()}
    if "seeds" in document:
        axes[SEED] = [(seed, seed) for seed in _seeds(document["seeds"])]
    for name in fixed:
        if name in axes:
            raise InputError(f"over: {name} is a parameter already")
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MAX_ROWS:
        raise InputError(f"over: {count:,} rows; expected at most {MAX_ROWS:,}")
    rows = [_row(template, fixed, dict(zip(axes, chosen, strict=True))) for chosen in itertools.product(*axes.values())]
    table = document.get("table")
    return Sweep(
        source,
        str(document.get("title") or ""),
        tuple(axes),
        rows,
        _table(substituted(table, fixed), axes) if table else None,
    )


def _template(command: Any) -> tuple[str, ...]:
    """Return the words of the command; a list is taken unchanged."""
    if isinstance(command, str) and command.strip():
        words = shlex.split(command)
    elif isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        words = command
    else:
        raise InputError("command: expected a command of mooring, such as: simulate day.yaml --seed ${seed}")
    return tuple(words[1:] if words[0] == "mooring" else words)


def _axis(name: str, given: Any, fixed: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the values of one name: for the table, and for the command."""
    value = substituted(given, fixed)
    if isinstance(value, Mapping) and set(value) == {"files"}:
        return list(_files(name, str(value["files"])))
    if not isinstance(value, list) or not value or any(isinstance(each, Mapping | list) for each in value):
        raise InputError(f"over.{name}: expected a list of values, or files: with a pattern")
    return [(each, each) for each in value]


def _files(name: str, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield every matching file, labelled by the variable part of the pattern."""
    found = sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
    if not found:
        raise InputError(f"over.{name}: no file matches {pattern}")
    folder = os.path.dirname(re.split(r"[*?\[]", pattern)[0])
    for path in found:
        yield os.path.relpath(path, folder or "."), path


def _seeds(given: Any) -> list[int]:
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return list(range(given))
    if isinstance(given, list) and given and all(isinstance(each, int) for each in given):
        return given
    raise InputError(f"seeds: found {given!r}, expected how many, or a list of numbers")


def _row(template: tuple[str, ...], fixed: Mapping[str, Any], chosen: Mapping[str, tuple[Any, Any]]) -> SweepRow:
    values = {**fixed, **{name: argument for name, (_, argument) in chosen.items()}}
    arguments = tuple(str(substituted(word, values)) for word in template)
    shown = {name: value for name, value in fixed.items() if name != HERE and not os.path.exists(str(value))}
    return SweepRow({**shown, **{name: value for name, (value, _) in chosen.items()}}, template, arguments)


def _table(given: Any, axes: Mapping[str, Any]) -> TableShape:
    if not isinstance(given, Mapping) or not set(_TABLE_FIELDS) <= set(given) <= {*_TABLE_FIELDS, *_MORE_TABLE_FIELDS}:
        more = ", ".join(_MORE_TABLE_FIELDS)
        raise InputError(f"table: expected the fields {', '.join(_TABLE_FIELDS)}, and perhaps {more}")
    for name in ("rows", "columns"):
        if given[name] not in axes:
            raise InputError(f"table.{name}: found {given[name]!r}, expected one of {', '.join(axes)}")
    page = str(given.get("page", ""))
    if page and (os.path.basename(page) != page or not page.endswith(".html")):
        raise InputError(f"table.page: found {page!r}, expected the name of a page, such as table.html")
    beside, note = str(given.get("beside", "")), str(given.get("note", ""))
    return TableShape(str(given["rows"]), str(given["columns"]), str(given["value"]), beside, page, note)


def _digest(path: str) -> str | None:
    """Return the hash of a file's content; None if there is no such file."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    return _content_digest(path, stat.st_mtime_ns, stat.st_size) if S_ISREG(stat.st_mode) else None


@lru_cache(maxsize=4096)
def _content_digest(path: str, changed_ns: int, size: int) -> str:
    """Hash a file once for all rows that name it, as long as it does not change."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:20]


# --------------------------------------------------------------------------------------------------------------------
# Results as one tidy table: a line per row, a column per value; and as a summary table.

Record = dict[str, Any]


def tidy(results: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Return a flat record for each result, sorted by the values."""
    return sorted(records_of(results), key=_order)


def records_of(results: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Return a flat record for each result, in order: its values first, then the command's output."""
    return [_record(result) for result in results]


def _record(result: Mapping[str, Any]) -> Record:
    """Flatten a result. A value wins over an output field of the same name."""
    values = {"key": result["key"], **result["values"], "exitCode": result.get("exitCode")}
    return {**values, **flat(result["result"]), **values}


def flat(value: Any, prefix: str = "") -> Record:
    """Flatten nested fields with dots between their names; a list becomes its length."""
    if isinstance(value, Mapping):
        found: Record = {}
        for name, each in value.items():
            found |= flat(each, f"{prefix}.{name}" if prefix else str(name))
        return found
    if isinstance(value, list):
        return {prefix or "count": len(value)}
    return {prefix or "result": value}


def _order(record: Record) -> tuple[tuple[int, float, str], ...]:
    """Sort numbers by size, texts alphabetically."""
    return tuple(
        (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))
        for name, value in record.items()
        if name != "key"
    )


def columns_of(records: Iterable[Record]) -> list[str]:
    """Return all columns, in order of first appearance."""
    return list(dict.fromkeys(name for record in records for name in record))


def to_csv(records: Sequence[Record]) -> str:
    page = io.StringIO()
    writer = csv.DictWriter(page, columns_of(records), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return page.getvalue()


def write_table(records: Sequence[Record], path: str | Path) -> None:
    """Write CSV or Parquet, by the name's ending."""
    suffix = Path(path).suffix
    if suffix == ".csv":
        Path(path).write_text(to_csv(records), encoding="utf-8")
    elif suffix == ".parquet":
        write_parquet({name: [record.get(name) for record in records] for name in columns_of(records)}, path)
    else:
        raise UsageError(f"{path}: expected a name that ends in .csv or .parquet")


def pivot(records: Sequence[Record], shape: TableShape) -> DecisionTable:
    """Return one value by two parameters: the mean over all other rows, with the standard deviation if there are
    several.

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
    """Format the mean with as many decimals as the number beside it."""
    if not values:
        return "-"
    spread = f" ± {stdev(values):.2g}" if len(values) > 1 else ""
    if not other:
        return f"{mean(values):.4g}{spread}"
    return f"{mean(values):.{len(other.partition('.')[2])}f}{spread} ({other})"


def _read_beside(shape: TableShape) -> dict[tuple[str, str], str]:
    """Read reference numbers by row and column: a CSV file whose first column has the row names."""
    try:
        with open(shape.beside, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if shape.rows not in (reader.fieldnames or ()):
                raise InputError(f"table.beside: {shape.beside}: no column {shape.rows}")
            return {(line[shape.rows], name): value for line in reader for name, value in line.items() if value}
    except OSError as error:
        raise InputError(f"table.beside: {shape.beside}: {(error.strerror or str(error)).lower()}") from None


def described(shape: TableShape) -> str:
    """Return a description of the table's numbers."""
    beside = f" ({Path(shape.beside).stem} in parentheses)" if shape.beside else ""
    return f"{shape.value}, mean ± standard deviation{beside}"
