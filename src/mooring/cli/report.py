"""``mooring report``: the figures of a record, or of several side by side, as a page, Markdown or a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.api.errors import UsageError
from mooring.cli.options import examples

if TYPE_CHECKING:
    from mooring.show.figures import ReportedRun


@click.command(
    epilog=examples(
        "mooring report monday.mrec -o monday.html",
        "mooring report before.mrec after.mrec -o comparison.md",
        "mooring report monday.mrec -o monday.csv",
        "mooring report monday.mrec --html monday.html",
    )
)
@click.argument("records", nargs=-1, required=True, metavar="RECORD...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write .html, .md, .csv, .parquet or .json.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the page of mooring ui as one file.",
)
@click.option("--row", "one_row", is_flag=True, help="Write one row per record, not one per sample.")
def report(records: tuple[str, ...], output: Path | None, html: Path | None, one_row: bool) -> None:
    """Report what happened in a record: how full nodes were, how long pods waited and why, preemptions, cost.

    Several records are shown side by side. --html writes one record, or two, as a page to explore instead.
    """
    from mooring.cli.output import keep_inputs

    for each in filter(None, (output, html)):
        keep_inputs(each, records)
    if html is not None:
        from mooring.cli.pages import write_page

        if output is not None or one_row or len(records) > 2:
            raise UsageError("--html writes a page of one record or two; expected neither -o nor --row beside it")
        write_page(html, records)
        return
    from mooring.cli.output import progress
    from mooring.show.figures import runs_of_records
    from mooring.show.report import check_form, write_report

    if output is not None:
        check_form(output)
    with progress("attempts", eta=True) as show:
        runs = runs_of_records(records, show if sys.stderr.isatty() else None)
    if output is None:
        _print(runs)
        return
    write_report(runs, output, one_row=one_row)
    click.echo(f"{output}: {', '.join(_told(run) for run in runs)}")


def _told(run: ReportedRun) -> str:
    from mooring.show.figures import count, duration

    row = run.measures.row
    return f"{count(row['pods'])} pods, {count(row['attempts'])} attempts, {duration(row['seconds'])}"


def _print(runs: list[ReportedRun]) -> None:
    from mooring.cli.output import console, print_table
    from mooring.show.figures import side_by_side

    out = console()
    rows: list[tuple[str, ...]] = []
    group = ""
    for line in side_by_side([run.measures for run in runs]):
        rows.append((line.group if line.group != group else "", line.name, *(text or "–" for text in line.texts)))
        group = line.group
    names = [run.name for run in runs] if len(runs) > 1 else [""]
    print_table(out, ("", "", *names), rows)
    for run in runs:
        if run.measures.pending:
            whose = f" in {run.name}" if len(runs) > 1 else ""
            print_table(
                out,
                (f"PENDING{whose}", "PODS", "SUCH AS", "MESSAGE"),
                [(each.cause, str(each.pods), each.example, each.message) for each in run.measures.pending],
            )
