"""``mooring bench soak``: an hour of trouble, and whether anything was lost."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console

from mooring.cli.output import console, emit, output_option, print_table

if TYPE_CHECKING:
    from mooring.bench.soak import Report

TELL_EVERY_S = 60.0


@click.command()
@click.option("--minutes", type=click.FloatRange(0.05, 1440), default=60.0, show_default=True, help="How long.")
@click.option("--nodes", type=click.IntRange(2, 1000), default=20, show_default=True, help="Nodes in the cluster.")
@click.option("--rate", type=click.FloatRange(0.1, 1000), default=20.0, show_default=True, help="Changes per second.")
@click.option("--seed", type=int, default=1, show_default=True, help="Which changes: the same seed, the same ones.")
@click.option(
    "--leader-every",
    "leader_every_s",
    type=click.FloatRange(3.0),
    default=30.0,
    show_default=True,
    help="Seconds between leader changes.",
)
@output_option()
def soak(minutes: float, nodes: int, rate: float, seed: int, leader_every_s: float, output: str) -> int:
    """Run two replicas of the scheduler on an embedded cluster under churn and faults.

    Pods come and go, nodes flap, watches drop, requests fail, leaders change. Afterwards: no pod lost, none bound
    twice, no node overfilled, no task left over, memory flat. Exit code 1 if one of these does not hold.

    \b
    Example:
      mooring bench soak --minutes 3
    """
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
            click.echo(_so_far(elapsed, report), err=True)

    if not logging.getLogger().isEnabledFor(logging.INFO):
        for name in ("mooring", "aiohttp"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # refused requests are what this is about
    report = asyncio.run(
        soaking.soak(
            minutes * 60,
            nodes=nodes,
            rate=rate,
            seed=seed,
            leader_every_s=leader_every_s,
            least=soaking.Least(leader_changes=int(minutes * 60 / leader_every_s / 3)),
            progress=progress,
        )
    )
    emit(report.to_dict(), output, lambda out: _draw(out, report))
    return 1 if report.problems else 0


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
        out.print(f"PROBLEM: {problem}", style="red")
    if not report.problems:
        out.print("no pod lost, none bound twice, no node overfilled, nothing left behind", style="green")
