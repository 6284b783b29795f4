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

    def progress(elapsed: float, report: Report) -> None:
        if sys.stderr.isatty():
            to.print(f"{elapsed / 60:5.1f} min  {report.pods_bound:,} pods bound", end="\r")

    if not logging.getLogger().isEnabledFor(logging.INFO):
        for name in ("mooring", "aiohttp"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # refused requests are what this is about
    report = asyncio.run(
        soaking.soak(minutes * 60, nodes=nodes, rate=rate, seed=seed, leader_every_s=leader_every_s, progress=progress)
    )
    emit(report.to_dict(), output, lambda out: _draw(out, report))
    return 1 if report.problems else 0


def _draw(out: Console, report: Report) -> None:
    print_table(out, ("WHAT", "HOW OFTEN"), [(name, f"{count:,}") for name, count in report.done.items()])
    out.print()
    out.print(f"{report.pods_bound:,} pods bound by {report.leaders} leaders in {report.seconds / 60:g} minutes")
    out.print(f"all pods had a node {report.settled_s:.1f} s after the last fault")
    out.print(
        f"memory {report.memory_first_mib:.0f} → {report.memory_last_mib:.0f} MiB, "
        f"slope of the second half {report.memory_slope_mib_per_min:+.2f} MiB/min"
    )
    out.print(f"tasks left over: {report.tasks_left}")
    for problem in report.problems:
        out.print(f"PROBLEM: {problem}", style="red")
    if not report.problems:
        out.print("no pod lost, none bound twice, no node overfilled", style="green")
