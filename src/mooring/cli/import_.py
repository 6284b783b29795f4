"""``mooring import``: files of other tools as a story for ``mooring simulate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.api.errors import UsageError
from mooring.cli.options import examples

if TYPE_CHECKING:
    from mooring.sim.imports.imported import Imported


@click.command(
    epilog=examples(
        "mooring import nodes.csv pods.csv -o openb.yaml",
        "mooring import cluster.yaml trace.sktrace -o trace.yaml",
        "mooring import dump/",
    )
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="STORY.yaml",
    help="Write a story that imports the files.",
)
def import_(files: tuple[str, ...], output: Path | None) -> None:
    """Read files of other tools, say what is in them and what a simulation does not use.

    Known are openb's CSV tables, records and exports of kube-scheduler-simulator, SimKube traces, records of mooring
    (run.mrec@90s), CSV tables as stories read them, and what kubectl prints. Files that belong together are given
    together: a trace and its nodes.
    """
    from mooring.cli.output import console, keep_inputs
    from mooring.sim.imports.read import import_story

    if output is not None and output.suffix not in (".yaml", ".yml"):
        raise UsageError(f"-o {output}: expected a name that ends in .yaml")
    if output is not None:
        keep_inputs(output, files)
    found = import_story(files)
    out = console()
    out.print(f"{found.format}: {found.summary()}", markup=False)
    _print_length(found)
    for line in found.not_simulated:
        out.print(f"  not simulated: {line}", markup=False)
    if output is not None:
        _write(output, files, found)
        out.print(f"{output}: mooring simulate {output}", markup=False)


def _print_length(found: Imported) -> None:
    from mooring.api.times import human_duration

    if found.length_s:
        click.echo(f"  from the first to the last: {human_duration(found.length_s)}")


def _write(output: Path, files: tuple[str, ...], found: Imported) -> None:
    """Write a story that names the files relative to its own folder."""
    from mooring.api import yaml

    beside = [os.path.relpath(file, output.parent) for file in files]
    story: dict[str, object] = {"title": f"{found.format}: {found.summary()}"}
    if found.config is not None:
        story["config"] = dict(found.config)
    story["steps"] = [{"import": beside}, {"advance": "end"}]
    notes = "".join(f"# not simulated: {' '.join(line.split())}\n" for line in found.not_simulated)
    try:
        output.write_text(notes + yaml.dump(story, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output}: {(error.strerror or str(error)).lower()}") from None
