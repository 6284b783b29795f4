"""Writes reports; the ending of the file's name selects the format."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from mooring.api.errors import InputError, UsageError
from mooring.api.tables import write_parquet
from mooring.record.measures import Measures, zone_name
from mooring.show.figures import IN_ZONE, ReportedRun, count, duration, figures, runs_of_records, share, side_by_side
from mooring.show.report_page import page
from mooring.sim.result import Simulation

# --------------------------------------------------------------------------------------------------------------------
# A report as Markdown, short enough for a pull request. Names stand in code, so that they are never markup.

BLOCKS = "▁▂▃▄▅▆▇█"
SPARKS = 48
MOST_CAUSES = 8
MOST_ZONES = 6
MOST_MESSAGE = 160


def markdown(runs: Sequence[ReportedRun]) -> str:
    """Return the figures as tables, pending pods, and the course of allocation and pending pods."""
    parts = [f"## {' and '.join(code(run.name) for run in runs)}", *_heads(runs)]
    parts += _tables(runs[0].measures) if len(runs) == 1 else [_comparison(runs)]
    for run in runs:
        parts += _pending(run, is_only=len(runs) == 1)
    parts += _course(runs)
    return "\n\n".join(part for part in parts if part) + "\n"


def _heads(runs: Sequence[ReportedRun]) -> list[str]:
    texts = [", ".join(f"{name} {_plain(text)}" for name, text in run.facts.items()) for run in runs]
    if len(runs) == 1:
        return texts
    return ["\n".join(f"- {code(run.name)}: {text}" for run, text in zip(runs, texts, strict=True))]


def _tables(measures: Measures) -> list[str]:
    """Return the figures of one run: a line for each group, and tables of waiting times and resources."""
    groups: dict[str, list[str]] = {}
    for each in figures(measures):
        if each.group in ("Pods", "Attempts", "Preemption", "Cluster"):
            groups.setdefault(each.group, []).append(f"{_plain(each.name)}: {_plain(each.text)}")
    tables = [_table(["", ""], [[group, ", ".join(texts)] for group, texts in groups.items()])]
    if measures.waiting:
        waits = [
            [
                "all" if each.priority is None else f"priority {each.priority}",
                count(each.pods),
                *(duration(value) for value in (each.p50, each.p90, each.p99, each.longest)),
            ]
            for each in measures.waiting
        ]
        tables.append(_table(["waiting", "pods", "p50", "p90", "p99", "longest"], waits))
    row = measures.row
    zones = measures.zones[:MOST_ZONES] if len(measures.zones) > 1 else []
    rows = [
        [code(name)]
        + [share(row[key]) if key in row else "–"
           for key in (f"allocated.{name}", f"allocatedAtEnd.{name}", f"fragmentation.{name}",
                       *(f"allocated.{name}.{zone_name(zone)}" for zone in zones))]
        for name in measures.resources
    ]  # fmt: skip
    if rows:
        head = [
            "allocated",
            "on average",
            "at the end",
            "free but unusable",
            *(code(zone_name(zone)) for zone in zones),
        ]
        tables.append(_table(head, rows))
    return tables


def _comparison(runs: Sequence[ReportedRun]) -> str:
    """Return the figures that differ between runs; those of single zones are only on the page."""
    found = [line for line in side_by_side([run.measures for run in runs]) if not line.group.startswith(IN_ZONE)]
    rows = [
        [_plain(f"{line.group}: {line.name}"), *(_plain(text) or "–" for text in line.texts)]
        for line in found
        if line.differs
    ]
    table = _table(["", *(code(run.name) for run in runs)], rows) + "\n\n" if rows else ""
    return f"{table}{len(found) - len(rows)} of {len(found)} figures are the same."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    marks = ["---", *("---:" if len(head) > 2 else "---" for _ in head[1:])]
    return "\n".join(_row(cells) for cells in (head, marks, *rows))


def _pending(run: ReportedRun, *, is_only: bool) -> list[str]:
    found = run.measures.pending
    if not found:
        return []
    rows = [_row(["pending at the end", "pods", "longest", "such as", "message"])]
    rows.append(_row(["---", "---:", "---:", "---", "---"]))
    for each in found[:MOST_CAUSES]:
        message = each.message if len(each.message) <= MOST_MESSAGE else each.message[: MOST_MESSAGE - 1] + "…"
        cells = [code(each.cause), count(each.pods), duration(each.longest), code(each.example), code(message)]
        rows.append(_row(cells))
    more = sum(each.pods for each in found[MOST_CAUSES:])
    if more:
        rows.append(_row([f"{len(found) - MOST_CAUSES} other causes", count(more), "", "", ""]))
    return [*([] if is_only else [f"### {code(run.name)}"]), "\n".join(rows)]


def _course(runs: Sequence[ReportedRun]) -> list[str]:
    """Return allocation and pending pods over time as small bars."""
    lines: list[str] = []
    width = max(len(run.name) for run in runs) if len(runs) > 1 else 0
    most = max(max(run.measures.columns["pending"]) for run in runs)
    for run in runs:
        measures = run.measures
        for name in [each for each in measures.resources if each != "pods"][:4]:
            lines.append(_bars(f"{name} allocated", measures.columns[f"allocated.{name}"], 1.0, run.name, width))
        lines.append(_bars("pending", measures.columns["pending"], most, run.name, width))
    return ["```text\n" + "\n".join(lines) + "\n```"]


def _bars(what: str, values: Sequence[float], highest: float, run: str, width: int) -> str:
    thinned = _thinned(values, SPARKS)
    top = len(BLOCKS) - 1
    scale = top / highest if highest else 0.0
    bars = "".join(BLOCKS[min(top, max(0, round(value * scale)))] for value in thinned)
    whose = f"{_one_line(run).ljust(width)}  " if width else ""
    return f"{whose}{_one_line(what):<28} {bars}"


def _thinned(values: Sequence[float], most: int) -> list[float]:
    """Reduce to at most this many means of neighbours."""
    if len(values) <= most:
        return list(values)
    edges = [i * len(values) // most for i in range(most + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def code(text: str) -> str:
    """Format a text as code, also with backticks and bars in it, also in a cell of a table."""
    shown = _one_line(text).replace("|", "\\|")
    if not shown.strip():
        return ""
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _plain(text: str) -> str:
    """Escape markup of Markdown and HTML outside of code."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~@&])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f\u2028\u2029]+", " ", text)


# --------------------------------------------------------------------------------------------------------------------
# Measures as tables for programs: CSV, and Parquet with pyarrow.

RUN = "run"


def over_time(runs: Sequence[ReportedRun]) -> dict[str, list[Any]]:
    """Return a row per run and sample; missing values are None."""
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
    """Return a row per run; missing values are None."""
    names = list(dict.fromkeys(name for run in runs for name in run.measures.row))
    return {RUN: [run.name for run in runs], **{name: [run.measures.row.get(name) for run in runs] for name in names}}


def to_csv(table: dict[str, list[Any]]) -> str:
    """Format CSV with nine digits; missing values are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow([f"{value:.9g}" if isinstance(value, float) else value for value in row])
    return out.getvalue()


FORMS = (".html", ".md", ".csv", ".parquet", ".json")


def write_report(runs: Sequence[ReportedRun], path: Path, *, one_row: bool = False) -> None:
    """Write the report of one run or several. ``one_row``: in tables a row per run, instead of one per sample.

    An existing report is replaced only by a complete one: a disk may be full.
    """
    check_form(path)
    whole = path.resolve()  # follow links
    part = whole.with_name(f"{whole.name}.part")
    try:
        if path.suffix.lower() == ".parquet":
            write_parquet(one_row_each(runs) if one_row else over_time(runs), part)
        else:
            part.write_text(_text(runs, path.suffix.lower(), one_row), encoding="utf-8", newline="")
        part.replace(whole)
    except OSError as error:
        with contextlib.suppress(OSError):  # it does not exist if nothing could be written
            part.unlink()
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def report(*runs: Simulation | str | Path, to: str | Path, one_row: bool = False) -> Path:
    """Write the figures of simulations and records, several of them side by side, and return the path.

    ``to`` is a page (.html), Markdown (.md), or a table (.csv, .parquet, .json). ``one_row``: in tables a row for each
    run, not one per time.
    """
    path = Path(to)
    check_form(path)
    found = []
    for number, run in enumerate(runs, 1):
        if isinstance(run, str | Path):
            found += runs_of_records([run])
        elif isinstance(run, Simulation) and run.measures is not None:
            facts = {"decides as": f"Kubernetes {run.kubernetes_version}", "seed": str(run.seed)}
            found.append(ReportedRun(run.name or f"run {number}", run.measures, facts))
        else:
            raise InputError(f"report: found {run!r}; expected what mooring.simulate returns, or the path of a record")
    if not found:
        raise InputError("report: expected what mooring.simulate returns, or the path of a record")
    write_report(found, path, one_row=one_row)
    return path


def check_form(path: Path) -> None:
    """Reject a name without a known ending, before anything is measured."""
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
