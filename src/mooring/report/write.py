"""Write a report; the ending of the file's name says in which form."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from mooring.errors import UsageError
from mooring.report.markdown import markdown
from mooring.report.page import page
from mooring.report.run import Run
from mooring.report.tables import one_row_each, over_time, to_csv, write_parquet

FORMS = (".html", ".md", ".csv", ".parquet", ".json")


def write_report(runs: Sequence[Run], path: Path, *, one_row: bool = False) -> None:
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


def _text(runs: Sequence[Run], form: str, one_row: bool) -> str:
    if form == ".html":
        return page(runs)
    if form == ".md":
        return markdown(runs)
    if form == ".csv":
        return to_csv(one_row_each(runs) if one_row else over_time(runs))
    return json.dumps([{"run": run.name, **run.measures.to_dict()} for run in runs], indent=2) + "\n"
