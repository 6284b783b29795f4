"""``mooring bench soak``: an hour of trouble, and whether anything was lost."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.console import Console

from mooring.cli.output import Numbers, console, emit, output_option, print_table
from mooring.cli.streams import say

if TYPE_CHECKING:
    from mooring.bench.soak import Report
    from mooring.bench.virtual.soak import VirtualReport

TELL_EVERY_S = 60.0


@click.command()
@click.option("--minutes", type=Numbers(0.05, 1440), default=60.0, show_default=True, help="How long.")
@click.option("--nodes", type=click.IntRange(2, 1000), help="Nodes.  [default: 20; in virtual time by seed]")
@click.option(
    "--rate",
    type=Numbers(0.1, 1000),
    help="Changes per second.  [default: 20]  In virtual time: pods per second between faults.  [default: 0.1]",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Which changes: the same seed, the same ones.")
@click.option(
    "--leader-every",
    "leader_every_s",
    type=Numbers(3.0),
    default=30.0,
    show_default=True,
    help="Seconds between leader changes; in virtual time by seed.",
)
@click.option("--virtual-time", is_flag=True, help="Replicas in one thread; nobody waits, and a seed is a run.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="In virtual time: so many seeds.")
@click.option(
    "--crowd",
    type=click.Choice(("tight", "roomy", "dense")),
    help="In virtual time: little room, room, or many pods that come at once.  [default: tight or roomy, by seed]",
)
@click.option(
    "--load",
    type=click.Choice(("none", "volumes", "devices", "gangs")),
    help="In virtual time: what some pods want besides room.  [default: by seed]",
)
@click.option(
    "--story",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="In virtual time: play the scenario file that a failed soak printed.",
)
@output_option()
def soak(
    minutes: float,
    nodes: int | None,
    rate: float | None,
    seed: int,
    leader_every_s: float,
    virtual_time: bool,
    seeds: int,
    crowd: str | None,
    load: str | None,
    story: Path | None,
    output: str,
) -> int:
    """Run replicas of the scheduler on an embedded cluster under churn and faults.

    Pods come and go, nodes flap, watches drop, requests fail, leaders change. Afterwards: no pod lost, none bound
    twice, no node overfilled, no task left over, memory flat. Exit code 1 if one of these does not hold.

    With --virtual-time everything breaks that can: messages, watches, servers, disks, clocks, leaders, plugins,
    extenders. A seed that fails is shortened to a story, which is printed as a scenario file that plays it again.

    \b
    Example:
      mooring bench soak --minutes 3
      mooring bench soak --virtual-time --minutes 10 --seeds 20
    """
    if virtual_time or story is not None:
        if click.get_current_context().get_parameter_source("leader_every_s") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--leader-every: in virtual time the seed says when leaders change")
        shape = {"crowd": crowd or "", "load": "" if load == "none" else load, "nodes": nodes, "rate": rate}
        return _virtual(minutes, shape, range(seed, seed + seeds), story, output)
    if seeds != 1 or crowd is not None or load is not None:
        raise click.UsageError("--seeds, --crowd and --load are for --virtual-time")
    import asyncio

    from mooring.bench import soak as soaking

    to = console(stderr=True)
    told_at = 0.0

    def progress(elapsed: float, report: Report) -> None:
        nonlocal told_at
        if sys.stderr.isatty():
            to.print(_so_far(elapsed, report), end="\r")
        elif elapsed - told_at >= TELL_EVERY_S:  # a log wants fewer lines than a terminal
            told_at = elapsed
            say(_so_far(elapsed, report))

    if not logging.getLogger().isEnabledFor(logging.INFO):
        for name in ("mooring", "aiohttp"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # refused requests are what this is about
    report = asyncio.run(
        soaking.soak(
            minutes * 60,
            nodes=nodes or 20,
            rate=rate or 20.0,
            seed=seed,
            leader_every_s=leader_every_s,
            least=soaking.Least(leader_changes=int(minutes * 60 / leader_every_s / 3)),
            progress=progress,
        )
    )
    emit(report.to_dict(), output, lambda out: _draw(out, report))
    return 1 if report.problems else 0


def _virtual(minutes: float, shape: dict[str, Any], seeds: range, story: Path | None, output: str) -> int:
    from mooring.bench.virtual.soak import replay, virtual_soak
    from mooring.bench.virtual.story import from_text

    to, told_at = console(stderr=True), time.monotonic()

    def progress(text: str) -> None:
        nonlocal told_at
        if sys.stderr.isatty():
            to.print(text, end="\r")
        elif time.monotonic() - told_at >= TELL_EVERY_S:
            told_at = time.monotonic()
            say(text)

    for name in ("mooring", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    began_s = time.process_time()
    if story is not None:
        report = replay(from_text(story.read_text("utf-8"), str(story)), progress)
    else:
        report = virtual_soak(minutes * 60, seeds, progress=progress, **shape)
    cpu_s = time.process_time() - began_s
    emit(report.to_dict(), output, lambda out: _draw_virtual(out, report, cpu_s))
    return 1 if report.problems else 0


def _draw_virtual(out: Console, report: VirtualReport, cpu_s: float) -> None:
    from mooring.bench.virtual.soak import PROMISES

    print_table(out, ("WHAT", "HOW OFTEN"), [(name, f"{count:,}") for name, count in report.done.items()])
    out.print()
    first, last = report.seeds[0], report.seeds[-1]
    seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
    lived = f"{report.lifetimes:,} pods lived and went"
    out.print(f"{seeds}: {lived}, {report.pods_bound:,} were bound by {report.leaders} leaders")
    out.print(f"{report.virtual_s / 60:,.1f} minutes of a cluster's time in {cpu_s:,.1f} s of CPU time")
    for seed, digest in list(report.digests.items())[-5:]:
        out.print(f"digest of seed {seed}: {digest}")
    for problem in report.problems:
        out.print(f"PROBLEM: {problem}", style="red", markup=False)
    if report.story:
        out.print("\nThe shortest story found; play it with mooring scenario run --virtual-time FILE:\n")
        out.print(report.story, markup=False, highlight=False, soft_wrap=True)
    if not report.problems:
        out.print(", ".join(PROMISES), style="green")


def _so_far(elapsed: float, report: Report) -> str:
    return (
        f"{elapsed / 60:5.1f} min  {report.pods_bound:,} pods bound by {report.leaders} leaders, "
        f"{report.memory_last_mib:.0f} MiB"
    )


def _draw(out: Console, report: Report) -> None:
    print_table(out, ("WHAT", "HOW OFTEN"), [(name, f"{count:,}") for name, count in report.done.items()])
    out.print()
    out.print(f"{report.pods_bound:,} pods bound by {report.leaders} leaders in {report.seconds / 60:g} minutes")
    out.print(f"all pods had a node {report.settled_s:.1f} s after the last fault")
    print_table(
        out,
        ("WHAT IS HELD", "AFTER WARM-UP", "AT THE END", "AT MOST"),
        [
            (name, f"{report.held_middle.get(name, 0):,}", f"{count:,}", f"{report.held_most[name]:,}")
            for name, count in report.held_last.items()
        ],
    )
    out.print()
    out.print(
        f"memory {report.memory_first_mib:.0f} → {report.memory_middle_mib:.0f} → {report.memory_last_mib:.0f} MiB; "
        f"in the second half {report.memory_slope_at_equal_open_files_mib_per_min:+.2f} MiB/min "
        f"at an equal number of connections ({report.memory_slope_mib_per_min:+.2f} with them), "
        f"{report.blocks_slope_per_min:+,.0f} blocks of memory/min"
    )
    out.print(f"tasks left over: {report.tasks_left}")
    for problem in report.problems:
        out.print(f"PROBLEM: {problem}", style="red", markup=False)
    if not report.problems:
        out.print("no pod lost, none bound twice, no node overfilled, nothing left behind", style="green")
