"""Measures as tables for programs: CSV, and Parquet with pyarrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mooring.errors import UsageError
from mooring.report.run import Run

RUN = "run"
NEEDS_PYARROW = "Parquet needs pyarrow, which is not installed: pip install 'mooring[parquet]'"


def over_time(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """A row per run and sample; what a run does not have is None."""
    names = list(dict.fromkeys(name for run in runs for name in run.measures.columns))
    table: dict[str, list[Any]] = {RUN: [], **{name: [] for name in names}}
    for run in runs:
        columns = run.measures.columns
        length = len(columns["seconds"])
        table[RUN] += [run.name] * length
        for name in names:
            table[name] += columns.get(name, [None] * length)
    return table


def one_row_each(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """A row per run; what a run does not have is None."""
    names = list(dict.fromkeys(name for run in runs for name in run.measures.row))
    return {RUN: [run.name for run in runs], **{name: [run.measures.row.get(name) for run in runs] for name in names}}


def to_csv(table: dict[str, list[Any]]) -> str:
    """Numbers with nine digits; what is missing is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow([f"{value:.9g}" if isinstance(value, float) else value for value in row])
    return out.getvalue()


def write_parquet(table: dict[str, list[Any]], path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(NEEDS_PYARROW) from None
    parquet.write_table(pyarrow.table(table), path)
