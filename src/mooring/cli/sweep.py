"""``mooring sweep``: a command for many parameters and seeds, and one table of the results."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.api.errors import UsageError
from mooring.cli.options import Group, Integers, examples
from mooring.cli.output import console, emit, output_option, print_facts
from mooring.cli.streams import say

if TYPE_CHECKING:
    from mooring.ask.sweep import Done, SweepStore
    from mooring.ask.sweep_file import Sweep

F = TypeVar("F", bound=Callable[..., Any])


def _set_option(command: F) -> F:
    return click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the file; repeatable."
    )(command)


def _results_option(command: F) -> F:
    return click.option("--results", metavar="DIR", help="Write results to this folder.  [default: FILE.results]")(
        command
    )


@click.group(cls=Group, epilog=examples("mooring sweep run day.sweep.yaml", "mooring sweep merge day.sweep.results"))
def sweep() -> None:
    """Run a command for many parameters and seeds, and put the results into one table."""


@sweep.command(
    epilog=examples("mooring sweep run table.yaml --set data=traces", "mooring sweep run table.yaml --shard 0/4")
)
@click.argument("file")
@_set_option
@_results_option
@click.option("--jobs", type=Integers(1), help="Run N rows at a time.  [default: cores]")
@click.option("--shard", metavar="I/N", help="Run every N-th row from I (or from the Job).")
@click.option("--on", metavar="ADDRESS", help="Run on dask://HOST:PORT or ray://HOST:PORT.")
@output_option()
def run(
    file: str,
    settings: tuple[str, ...],
    results: str | None,
    jobs: int | None,
    shard: str | None,
    on: str | None,
    output: str,
) -> int:
    """Run every row of a sweep that has no result yet.

    A row is identified by a hash of its specification: an interrupted sweep continues where it was. Exit code 0: all
    rows have a result; 1: some failed, and are tried again next time; 2: the input cannot be used.
    """
    from mooring.ask.sweep import Shard, SweepStore, parse_shard, results_of
    from mooring.ask.sweep_file import load_sweep
    from mooring.sim.step_fields import parse_settings

    if on is not None and jobs is not None:
        raise UsageError("--on runs on a cluster, and --jobs on this machine; give one of them")
    found = load_sweep(file, parse_settings(settings))
    store = SweepStore(results or results_of(file))
    part = parse_shard(shard) if shard is not None else Shard()
    done = _run(found, store, jobs or os.cpu_count() or 1, part, on)
    _write_page(found, store)
    value = {
        "file": file,
        "title": found.title,
        "results": str(store.folder),
        "rows": done.rows,
        "kept": done.kept,
        "ran": done.ran,
        "failed": [{"command": command, "message": said} for command, said in done.failed.items()],
    }
    emit(value, output, lambda to: _draw(found, store, done))
    return 1 if done.failed else 0


def _run(found: Sweep, store: SweepStore, jobs: int, part: Any, on: str | None) -> Done:
    from mooring.ask.sweep import run_sweep
    from mooring.ask.workers import workers_on
    from mooring.cli.output import progress

    title = found.title or Path(found.source).stem
    with progress("rows", eta=True) as show:

        def on_progress(done: int, total: int) -> None:
            show(title, done, total)

        if on is None:
            # Processes that have imported everything once. Python 3.11 hangs where they are replaced after some tasks.
            with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
                return run_sweep(found, store, executor=pool, work=run_here, shard=part, on_progress=on_progress)
        with workers_on(on) as workers:
            return run_sweep(found, store, executor=workers.executor, shard=part, on_progress=on_progress)


def run_here(arguments: Sequence[str], folder: str | None = None) -> tuple[int, str, str]:
    """Run one command in this process, without other work; return its exit code and its output."""
    from mooring.cli.main import run as run_command

    printed, said = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        code = run_command([*arguments, "-o", "json"])
    return code, printed.getvalue(), said.getvalue()


def _write_page(found: Sweep, store: SweepStore) -> None:
    """Write the page that the sweep names, from the existing results."""
    from mooring.ask.sweep_file import pivot, records_of
    from mooring.show.sweep_page import write_page

    if found.table is not None and found.table.page:
        records = records_of(value for row in found.rows if (value := store.get(row)) is not None)
        if records:
            write_page(found, pivot(records, found.table), len(records), store.folder)


def _draw(found: Sweep, store: SweepStore, done: Done) -> None:
    from mooring.ask.sweep_file import described, pivot, records_of

    to = console()
    ran = f"{done.ran} run now, {done.kept} had a result already" + (
        f", {len(done.failed)} failed" if done.failed else ""
    )
    print_facts(to, {"sweep": found.title or found.source, "rows": f"{done.rows}: {ran}", "results": str(store.folder)})
    for command, said in list(done.failed.items())[:5]:
        say(f"mooring: {command}: {said}")
    records = records_of(value for row in found.rows if (value := store.get(row)) is not None)
    if found.table is not None and records:
        to.print()
        to.print(described(found.table), markup=False)
        click.echo(pivot(records, found.table).text(limit=1000))
        if found.table.page:
            to.print(f"\nThe page is {store.folder / found.table.page}", markup=False, highlight=False)


@sweep.command(
    epilog=examples("mooring sweep merge table.results -f table.csv", "mooring sweep merge a b -f all.parquet")
)
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@click.option("-f", "--file", metavar="FILE", help="Write .csv or .parquet.  [default: print CSV]")
def merge(folders: tuple[str, ...], file: str | None) -> int:
    """Put the results in one or more folders into one tidy table.

    A row that is in several folders counts once. Nested fields have dots between their names; a list is its length.
    """
    from mooring.ask.sweep import read_folders
    from mooring.ask.sweep_file import columns_of, tidy, to_csv, write_table

    records = tidy(read_folders(folders))
    if file is None:
        click.echo(to_csv(records), nl=False)
        return 0
    write_table(records, file)
    click.echo(f"{file}: {len(records)} rows, {len(columns_of(records))} columns")
    return 0


@sweep.command(
    epilog=examples(
        "mooring sweep manifest table.yaml --shards 8 --image registry.example/mooring:0.1 | kubectl apply -f -"
    )
)
@click.argument("file")
@_set_option
@click.option("--shards", type=Integers(1), default=4, show_default=True, help="Share the rows among N pods.")
@click.option("--image", required=True, help="Use this image, which contains mooring.")
@click.option("--claim", default="sweep", show_default=True, help="Mount this claim for files and results.")
@click.option("--name", default="sweep", show_default=True, help="Set the name of the Job.")
def manifest(file: str, settings: tuple[str, ...], shards: int, image: str, claim: str, name: str) -> int:
    """Print a Kubernetes Job with an index, whose pods share the rows of a sweep.

    The claim must be one that several pods can mount. FILE and the files that it names are paths on it.
    """
    from mooring.api import yaml
    from mooring.ask.sweep import job_manifest
    from mooring.sim.step_fields import parse_settings

    value = job_manifest(file, shards=shards, image=image, claim=claim, settings=parse_settings(settings), name=name)
    click.echo(yaml.dump(value, sort_keys=False), nl=False)
    return 0
