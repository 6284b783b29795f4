"""``mooring scenario``: play stories about a cluster and say whether they went as expected."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.api.errors import InputError, MooringError, UsageError
from mooring.cli.options import Group, examples
from mooring.cli.story_options import (
    Place,
    Telling,
    place_options,
    record_option,
    recording,
    scheduler_options,
    telling_options,
    with_scheduler,
)

if TYPE_CHECKING:
    from mooring.sim.player import PlayResult
    from mooring.sim.scenario import Scenario


@click.group(cls=Group, epilog=examples("mooring scenario run --virtual-time preemption"))
def scenario() -> None:
    """Play stories about a cluster, in real or in virtual time."""


@scenario.command("list", epilog=examples("mooring scenario list"))
def list_() -> None:
    """Name the stories that come with mooring."""
    from mooring.cli.output import console, print_table
    from mooring.sim.library import built_in

    print_table(console(), ("NAME", "TITLE"), [(each.name, each.title) for each in built_in()])


@scenario.command(epilog=examples("mooring scenario show first-placement"))
@click.argument("name")
def show(name: str) -> None:
    """Print a story's source, to read it or to begin one of your own."""
    from mooring.sim.library import find

    click.echo(Path(find(name).source).read_text(encoding="utf-8"), nl=False)


@scenario.command(epilog=examples("mooring scenario run --virtual-time first-placement"))
@click.argument("stories", nargs=-1, required=True, metavar="FILE|NAME...")
@click.option("--virtual-time", is_flag=True, help="Use virtual time: jump to the next event.")
@place_options
@scheduler_options
@click.option("--seed", default=0, metavar="N", help="Set the random seed.")
@record_option
@telling_options
def run(
    stories: tuple[str, ...],
    virtual_time: bool,
    control_plane: str,
    kubeconfig: str | None,
    config_path: str | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    seed: int,
    record: str | None,
    quiet: bool,
    verbose: int,
    output: str,
) -> int:
    """Play stories; the exit code says whether all expectations held (0) or not (1); 2: a story is wrong."""
    from dataclasses import replace

    from mooring.sim.library import find
    from mooring.sim.player import run_in_real_time, run_in_virtual_time

    place = Place(control_plane, kubeconfig)
    if virtual_time and not place.is_embedded:
        raise UsageError("--virtual-time: only the embedded control plane can let time jump")

    if record is not None and len(stories) > 1:
        raise UsageError(f"--record: a record holds one story; give one of the {len(stories)}")

    def play(story: Scenario) -> PlayResult:
        with recording(settings, record, "scenario", story) as recorded:
            if virtual_time:
                return run_in_virtual_time(story, recorded)
            if place.is_embedded:
                return run_in_real_time(story, recorded)
            with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
                world = partial(place.remote_world, kubeconfig_path=Path(folder) / "kubeconfig")
                return run_in_real_time(story, recorded, world)

    found = [with_scheduler(find(each), config_path, plugins, kubernetes_version) for each in stories]
    settings = replace(Telling(quiet, verbose, output).settings(), seed=seed)
    results: list[PlayResult] = []
    for each in found:
        try:
            results.append(play(each))
        except (MooringError, click.ClickException):
            raise
        except Exception as error:
            raise InputError(f"{each.source}: the story failed: {type(error).__name__}: {error}") from error
        if output == "text":
            click.echo(_summary(results[-1]))
    return max((result.exit_code for result in results), default=0)


def _summary(result: PlayResult) -> str:
    from mooring.sim.narration import many

    if result.held:
        held = many(result.expectations, "expectation")
        return f"{result.scenario}: as expected ({held} held in {result.seconds:.1f}s)"
    return f"{result.scenario}: {result.verdict}"
