"""A soak in virtual time: one seed after another, and a short story of the first that breaks a promise.

python -m tests.faults.soak --minutes 10 --seeds 20
python -m tests.faults.soak --story story.yaml
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from mooring.api.errors import MooringError
from mooring.cli.options import Numbers
from mooring.cli.output import console, emit, output_option, print_table
from mooring.cli.streams import say
from tests.faults.plan import Plan, make_plan
from tests.faults.run import Outcome, Run
from tests.faults.story import Story, from_text, story_of, to_text

Progress = Callable[[str], None]
MAX_RUNS = 400
Fails = Callable[[Plan], list[str]]
"""Plays a plan and returns its problems."""
PROMISES = ("no pod lost", "none bound twice", "no node overfilled", "nobody bound without the lease")


@dataclass
class VirtualReport:
    """What a soak in virtual time found; ``problems`` is empty if all is well."""

    seconds: float
    seeds: list[int] = field(default_factory=list)
    pods_bound: int = 0
    lifetimes: int = 0
    leaders: int = 0
    virtual_s: float = 0.0
    digests: dict[int, str] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    story: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"digests": {str(seed): digest for seed, digest in self.digests.items()}}

    def add(self, outcome: Outcome) -> None:
        self.seeds.append(outcome.seed)
        self.pods_bound += outcome.pods_bound
        self.lifetimes += outcome.lifetimes
        self.leaders += outcome.leaders
        self.virtual_s += outcome.seconds + outcome.settled_s
        self.digests[outcome.seed] = outcome.digest
        self.done = dict(sorted((Counter(self.done) + Counter(outcome.done)).items()))
        self.problems += [f"seed {outcome.seed}: {problem}" for problem in outcome.problems]


def virtual_soak(
    seconds: float,
    seeds: Iterable[int],
    *,
    crowd: str = "",
    nodes: int | None = None,
    rate: float | None = None,
    load: str | None = None,
    replicas: int | None = None,
    progress: Progress = lambda text: None,
    shrinks: bool = True,
) -> VirtualReport:
    """Play the plans of these seeds; stop at the first that fails, and shorten it."""
    report = VirtualReport(seconds)
    for seed in seeds:
        plan = make_plan(seed, seconds, crowd=crowd, nodes=nodes, replicas=replicas, pods_per_s=rate, load=load)
        if not _play_into(report, plan, progress):
            if shrinks:
                report.story = short_story(plan, progress)
            break
    return report


def replay(story: Story, progress: Progress = lambda text: None) -> VirtualReport:
    """Play a story that was written down."""
    report = VirtualReport(story.seconds)
    _play_into(report, story, progress)
    return report


def _play_into(report: VirtualReport, plan: Plan | Story, progress: Progress) -> bool:
    def tell(run: Run) -> None:
        lifetimes = report.lifetimes + run.audit.lifetimes
        progress(
            f"seed {plan.seed}: {run.world.now_s / 60:5.1f} of {plan.seconds / 60:g} min, {lifetimes:,} pods have lived"
        )

    report.add(Run(plan).play(tell, stops_early=True))
    return not report.problems


def short_story(plan: Plan, progress: Progress = lambda text: None) -> str:
    """The short story of a plan that fails, as a scenario file."""

    def fails(candidate: Plan) -> list[str]:
        return Run(candidate).play(stops_early=True).problems

    short = shrink(plan, fails, lambda runs, plan: progress(f"shortening: {len(plan.steps)} steps after {runs} runs"))
    return to_text(story_of(short), fails(short))


def shrink(
    plan: Plan, fails: Fails, told: Callable[[int, Plan], None] = lambda runs, plan: None, max_runs: int = MAX_RUNS
) -> Plan:
    """The shortest plan found that still fails: first the end is cut off, then parts are left out, large ones first.

    Any failure will do: what a shorter story shows is easier to understand, even if it shows something else.
    """
    runs = 0

    def still_fails(candidate: Plan) -> bool:
        nonlocal runs
        runs += 1
        return bool(fails(candidate))

    size = max(1, len(plan.steps) // 2)
    while runs < max_runs:
        start, is_shorter = len(plan.steps), False
        while start > 0 and runs < max_runs:
            start = max(0, start - size)
            part = set(range(start, min(start + size, len(plan.steps))))
            if not part:
                continue
            candidate = plan.without(part)
            if still_fails(candidate):
                plan, is_shorter = candidate, True
                told(runs, plan)
        if size == 1 and not is_shorter:
            break
        size = max(1, size // 2) if not is_shorter or size > 1 else 1
    last_s = max((step.at_s + step.for_s for step in plan.steps), default=0.0)
    shorter = replace(plan, seconds=min(plan.seconds, round(last_s + 1.0, 3)))
    return shorter if runs < max_runs and still_fails(shorter) else plan


TELL_EVERY_S = 60.0


@click.command(name="soak")
@click.option("--minutes", type=Numbers(0.05, 1440), default=10.0, show_default=True, help="Virtual time of each seed.")
@click.option("--nodes", type=click.IntRange(2, 1000), help="Nodes.  [default: by seed]")
@click.option("--rate", type=Numbers(0.1, 1000), help="Pods per second between faults.  [default: 0.1]")
@click.option("--seed", type=int, default=1, show_default=True, help="The first seed; a seed decides the whole run.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="How many seeds to play.")
@click.option(
    "--crowd",
    type=click.Choice(("tight", "roomy", "dense")),
    help="Little room, much room, or many pods that come at once.  [default: tight or roomy, by seed]",
)
@click.option(
    "--load",
    type=click.Choice(("none", "volumes", "devices", "gangs")),
    help="What some pods need besides CPU and memory.  [default: by seed]",
)
@click.option(
    "--story",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Play the scenario file that a failed soak printed, instead of seeds.",
)
@output_option()
def main(
    minutes: float,
    nodes: int | None,
    rate: float | None,
    seed: int,
    seeds: int,
    crowd: str | None,
    load: str | None,
    story: Path | None,
    output: str,
) -> None:
    """Run replicas of the scheduler in virtual time while messages, watches, servers, disks and clocks fail.

    A seed that fails is shortened to a story, which is printed as a scenario file that plays it again. The exit code is
    1 if a pod was lost or bound twice, a node was overfilled, or a pod was bound without the lease.
    """
    to, told_at = console(stderr=True), time.monotonic()

    def progress(text: str) -> None:
        nonlocal told_at
        if sys.stderr.isatty():
            to.print(text, end="\r")
        elif time.monotonic() - told_at >= TELL_EVERY_S:  # a log needs fewer lines than a terminal
            told_at = time.monotonic()
            say(text)

    for name in ("mooring", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # failed requests are expected here
    began_s = time.process_time()
    if story is not None:
        report = replay(from_text(story.read_text("utf-8"), str(story)), progress)
    else:
        report = virtual_soak(
            minutes * 60,
            range(seed, seed + seeds),
            crowd=crowd or "",
            nodes=nodes,
            rate=rate,
            load="" if load == "none" else load,
            progress=progress,
        )
    cpu_s = time.process_time() - began_s
    emit(report.to_dict(), output, lambda out: _draw(out, report, cpu_s))
    if report.problems:
        sys.exit(1)


def _draw(out: Console, report: VirtualReport, cpu_s: float) -> None:
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
        out.print("\nThe shortest story found; play it with python -m tests.faults.soak --story FILE:\n")
        out.print(report.story, markup=False, highlight=False, soft_wrap=True)
    if not report.problems:
        out.print(", ".join(PROMISES), style="green")


if __name__ == "__main__":
    try:
        main(prog_name="python -m tests.faults.soak")
    except MooringError as error:
        sys.exit(f"soak: {error}")
