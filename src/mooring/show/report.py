"""Write a report; the ending of the file's name says in which form."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mooring.api.errors import UsageError
from mooring.show.figures import ReportedRun
from mooring.show.markdown import markdown
from mooring.show.report_page import page

# --------------------------------------------------------------------------------------------------------------------
# Measures as tables for programs: CSV, and Parquet with pyarrow.

RUN = "run"
NEEDS_PYARROW = "Parquet needs pyarrow, which is not installed: pip install 'mooring[parquet]'"


def over_time(runs: Sequence[ReportedRun]) -> dict[str, list[Any]]:
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


def one_row_each(runs: Sequence[ReportedRun]) -> dict[str, list[Any]]:
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


FORMS = (".html", ".md", ".csv", ".parquet", ".json")


def write_report(runs: Sequence[ReportedRun], path: Path, *, one_row: bool = False) -> None:
    """Write the report of one run or several. ``one_row``: in tables a row per run, instead of one per sample.

    An earlier report stays until the new one is written whole: a disk may be full.
    """
    check_form(path)
    whole = path.resolve()  # where links lead to
    part = whole.with_name(f"{whole.name}.part")
    try:
        if path.suffix.lower() == ".parquet":
            write_parquet(one_row_each(runs) if one_row else over_time(runs), part)
        else:
            part.write_text(_text(runs, path.suffix.lower(), one_row), encoding="utf-8", newline="")
        part.replace(whole)
    except OSError as error:
        with contextlib.suppress(OSError):  # where nothing could be written there is none
            part.unlink()
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def check_form(path: Path) -> None:
    """Refuse a name whose ending says nothing, before anything is measured."""
    if path.suffix.lower() not in FORMS:
        found = f"the ending {path.suffix!r}" if path.suffix else "a name without an ending"
        raise UsageError(f"-o {path}: {found}; expected one of {', '.join(FORMS)}")


def _text(runs: Sequence[ReportedRun], form: str, one_row: bool) -> str:
    if form == ".html":
        return page(runs)
    if form == ".md":
        return markdown(runs)
    if form == ".csv":
        return to_csv(one_row_each(runs) if one_row else over_time(runs))
    return json.dumps([{"run": run.name, **run.measures.to_dict()} for run in runs], indent=2) + "\n"
