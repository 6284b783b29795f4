"""A soak in virtual time: one seed after another, and a short story of the first that breaks a promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from mooring.bench.virtual.plan import Plan, make_plan
from mooring.bench.virtual.run import Outcome, Run
from mooring.bench.virtual.shrink import shrink
from mooring.bench.virtual.story import Story, story_of, to_text

Progress = Callable[[str], None]
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
