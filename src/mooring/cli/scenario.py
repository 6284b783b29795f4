"""``mooring scenario``: play stories about a cluster and say whether they went as expected."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring.cli.help import Group, examples
from mooring.errors import InputError, MooringError, UsageError

if TYPE_CHECKING:
    from mooring.sim.runner import Result, Settings, World
    from mooring.sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Telling:
    """How loud, and in which form."""

    quiet: bool
    verbose: int
    output: str

    def settings(self) -> Settings:
        from mooring.sim.narration import NORMAL, QUIET, VERBOSE
        from mooring.sim.runner import Settings

        level = QUIET if self.quiet else VERBOSE if self.verbose else NORMAL
        colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and self.output == "text"
        return Settings(level=level, as_json=self.output == "json", colored=colored, write=print_line)


def print_line(text: str = "") -> None:
    """Print a line at once, also into a file or a pipe: a story takes its time."""
    click.echo(text)
    sys.stdout.flush()


def telling_options(command: Any) -> Any:
    """Add ``-q``, ``-v`` and ``-o`` to a command."""
    command = click.option("-q", "--quiet", is_flag=True, help="Only what the story itself says and expects.")(command)
    command = click.option("-v", "--verbose", count=True, help="Every move of the queue and every score.")(command)
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Text for people, or one JSON object per line.",
    )(command)


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
@click.option("--virtual-time", is_flag=True, help="Do not wait: let time jump to whatever happens next.")
@click.option(
    "--control-plane",
    type=click.Choice(["embedded", "kubernetes"]),
    default="embedded",
    help="The embedded API server, or real etcd and kube-apiserver from PATH or KUBEBUILDER_ASSETS.",
)
@click.option("--kubeconfig", metavar="FILE", help="Play on the cluster that this file leads to.")
@click.option("--seed", default=0, metavar="N", help="For everything that is drawn by lot.")
@telling_options
def run(
    stories: tuple[str, ...],
    virtual_time: bool,
    control_plane: str,
    kubeconfig: str | None,
    seed: int,
    quiet: bool,
    verbose: int,
    output: str,
) -> int:
    """Play stories; the exit code says whether all expectations held (0) or not (1)."""
    from dataclasses import replace

    from mooring.sim.library import find
    from mooring.sim.runner import run_in_real_time, run_in_virtual_time

    is_remote = kubeconfig is not None or control_plane == "kubernetes"
    if is_remote and virtual_time:
        raise UsageError("--virtual-time: only the embedded control plane can let time jump")
    if kubeconfig is not None and control_plane == "kubernetes":
        raise UsageError("--kubeconfig and --control-plane: one of them would be right")

    def play(story: Scenario) -> Result:
        if is_remote:
            return _run_remotely(story, settings, kubeconfig)
        return (run_in_virtual_time if virtual_time else run_in_real_time)(story, settings)

    found = [find(each) for each in stories]
    settings = replace(Telling(quiet, verbose, output).settings(), seed=seed)
    results: list[Result] = []
    for each in found:
        try:
            results.append(play(each))
        except (MooringError, click.ClickException):
            raise
        except Exception as error:
            raise InputError(f"{each.source}: the story broke off: {type(error).__name__}: {error}") from error
        if output == "text":
            click.echo(_summary(results[-1]))
    return 0 if all(result.held for result in results) else 1


def _run_remotely(story: Scenario, settings: Settings, kubeconfig: str | None) -> Result:
    import asyncio
    import tempfile

    from mooring.client.kubeconfig import load_kubeconfig
    from mooring.sim.remote_world import ExistingWorld, KubernetesWorld

    async def main() -> Result:
        with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
            world: World
            if kubeconfig is not None:
                world = ExistingWorld(settings, story, load_kubeconfig([kubeconfig]))
            else:
                world = KubernetesWorld(settings, story, Path(folder) / "kubeconfig")
            async with world:
                return await world.play(story)

    return asyncio.run(main())


def _summary(result: Any) -> str:
    if result.held:
        return f"{result.scenario}: as expected ({result.expectations} expectations held in {result.seconds:.1f}s)"
    return f"{result.scenario}: NOT as expected: {result.failure}"
