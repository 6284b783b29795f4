"""Autoscaling policies on one trace: costs and waiting times, compared with confidence from seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.text import Text

from mooring.api.errors import InputError
from mooring.api.tables import print_more, print_notes, print_table, printed, printed_html
from mooring.api.text import count_of
from mooring.api.times import format_duration
from mooring.sim.autoscaler.packing import EXACT
from mooring.sim.autoscaler.policy import PolicyFile, read_policy_file
from mooring.sim.result import Simulation
from mooring.sim.scenario import Scenario, ScenarioCluster
from mooring.sim.simulate import run_scenario

# Of Student's t for 95 %, by degrees of freedom; beyond the last one it is close to the last.
_T = (0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10,
      2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04)  # fmt: skip

_SECONDS = ("waitP50", "waitP99", "waitLongest")
_SHARES = ("unusedCpu", "unusedMemory")
_LABELS = {
    "cost": "cost",
    "costPerHour": "cost per hour",
    "waitP50": "waiting, p50",
    "waitP99": "waiting, p99",
    "waitLongest": "waiting, longest",
    "pending": "still pending",
    "unusedCpu": "unused CPU",
    "unusedMemory": "unused memory",
    "nodes": "nodes on average",
    "nodesMost": "nodes at most",
    "nodesOrdered": "nodes ordered",
    "launchesFailed": "launches failed",
    "nodesRemoved": "nodes removed",
    "nodesInterrupted": "nodes interrupted",
    "podsEvicted": "pods evicted",
    "workLostHours": "hours of work lost",
    "podsNotAsPlanned": "pods not as planned",
    "nodesNotAsPlanned": "nodes not as planned",
}


@dataclass(frozen=True, slots=True)
class Estimated:
    """The mean of a measure over seeds, and half the width of its 95 % confidence interval; None for one seed."""

    mean: float
    margin: float | None

    @staticmethod
    def of(values: Sequence[float]) -> Estimated:
        n = len(values)
        margin = _T[min(n - 1, len(_T) - 1)] * stdev(values) / sqrt(n) if n > 1 else None
        return Estimated(mean(values), margin)

    @property
    def is_clear(self) -> bool:
        """Report for a difference whether it is not 0 with this confidence."""
        return self.margin is not None and abs(self.mean) > self.margin

    def to_dict(self) -> dict[str, Any]:
        margin = None if self.margin is None else round(self.margin, 9)
        return {"mean": round(self.mean, 9), "margin": margin}


@dataclass(slots=True)
class PolicyRuns:
    """The runs of one policy, one for each seed."""

    policy: str
    packing: str
    runs: list[Simulation] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.policy if self.packing == EXACT else f"{self.policy} ({self.packing})"

    def values(self, measure: str) -> list[float]:
        return [measures_of(run)[measure] for run in self.runs]


@dataclass(slots=True)
class AutoscalingComparison:
    """Policies on one story. Printed, it reads as ``mooring autoscale`` shows it."""

    story: str
    seeds: list[int]
    policies: list[PolicyRuns]

    @property
    def held(self) -> bool:
        """Report whether all expectations of the story held."""
        return all(run.held for each in self.policies for run in each.runs)

    def difference(self, measure: str, policy: PolicyRuns) -> Estimated:
        """Return how much more than the first policy, seed by seed."""
        first = self.policies[0].values(measure)
        return Estimated.of([b - a for a, b in zip(first, policy.values(measure), strict=True)])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        return {
            "story": self.story,
            "seeds": self.seeds,
            "policies": [
                {
                    "policy": each.policy,
                    "packing": each.packing,
                    "measures": {name: Estimated.of(each.values(name)).to_dict() for name in _LABELS},
                    "differences": {
                        name: {**found.to_dict(), "isClear": found.is_clear}
                        for name in _LABELS
                        if each is not self.policies[0]
                        for found in (self.difference(name, each),)
                    },
                    "runs": [
                        {
                            "seed": run.seed,
                            "pods": run.to_dict()["pods"],
                            "waitingSeconds": run.to_dict()["waitingSeconds"],
                            "failure": run.failure,
                            "autoscaler": run.autoscaling.to_dict() if run.autoscaling else None,
                        }
                        for run in each.runs
                    ],
                }
                for each in self.policies
            ],
        }

    def __repr__(self) -> str:
        return printed(lambda to: draw(to, self))

    def _repr_html_(self) -> str:
        return printed_html(lambda to: draw(to, self))


def measures_of(run: Simulation) -> dict[str, float]:
    """Return the measures for a choice: cost, waiting times, waste and disruptions."""
    found, row = run.autoscaling, {} if run.measures is None else run.measures.row
    columns = {} if run.measures is None else run.measures.columns
    if found is None:
        raise InputError("the story has no autoscaler; give a policy")
    hours = found.hours or 1.0
    return {
        "cost": found.cost,
        "costPerHour": found.cost_per_hour,
        "waitP50": run.waiting_s.get("p50", 0.0),
        "waitP99": run.waiting_s.get("p99", 0.0),
        "waitLongest": run.waiting_s.get("max", 0.0),
        "pending": len(run.pending),
        "unusedCpu": 1 - float(row.get("allocated.cpu", 0)),
        "unusedMemory": 1 - float(row.get("allocated.memory", 0)),
        "nodes": sum(found.node_hours.values()) / hours,
        "nodesMost": max(columns.get("nodes", [0])),
        "nodesOrdered": found.ordered,
        "launchesFailed": sum(found.failed.values()),
        "nodesRemoved": sum(found.removed.values()),
        "nodesInterrupted": found.interrupted,
        "podsEvicted": sum(found.evicted.values()),
        "workLostHours": found.lost_hours,
        "podsNotAsPlanned": found.mismatched,
        "nodesNotAsPlanned": len(found.unused),
    }


def compare_policies(
    story: Scenario,
    policies: Iterable[PolicyFile | None],
    *,
    seeds: Sequence[int] = (0,),
    until_s: float | None = None,
    run: Callable[..., Simulation] = run_scenario,
) -> AutoscalingComparison:
    """Play a story once for each policy and seed; None stands for the story's own autoscaler."""
    found = AutoscalingComparison(story.name, list(seeds), [])
    for policy in policies:
        told = story if policy is None else scaled_by(story, policy)
        runs = PolicyRuns("", EXACT) if policy is None else PolicyRuns(policy.name, policy.packing)
        for seed in seeds:
            result = run(told, until_s=until_s, seed=seed)
            if result.is_mistake:
                raise InputError(result.failure)
            if result.autoscaling is None:
                raise InputError(f"{story.source or story.name}: no step autoscaler in it; give a policy")
            if policy is None:
                runs.policy, runs.packing = result.autoscaling.policy or story.name, result.autoscaling.packing
            runs.runs.append(result)
            if result.was_interrupted:
                raise KeyboardInterrupt
        found.policies.append(runs)
    return found


def scaled_by(story: Scenario, policy: PolicyFile) -> Scenario:
    """Return the story with an autoscaler that begins before it."""

    async def play(cluster: ScenarioCluster) -> None:
        cluster.place = policy.name
        await cluster.backend.autoscale(policy)
        await story.play(cluster)

    return replace(story, play=play)


def read_policies(
    paths: Iterable[str],
    catalogue: str | None,
    packings: Sequence[str],
    *,
    cloud: Any = None,
    values: Mapping[str, Any] | None = None,
) -> list[PolicyFile]:
    """Return each policy with each packing."""
    if catalogue is None:
        raise InputError("a policy needs a catalogue of instance types; give one with --catalogue")
    return [
        read_policy_file(Path(path), Path(catalogue), cloud=cloud, packing=packing, values=values)
        for path in paths
        for packing in packings
    ]


# ---- rendering
# ------------------------------------------------------------------------------------------------------

TOP = 10


def draw(to: Console, found: AutoscalingComparison, top: int = TOP) -> None:
    """Print a column for each policy and a row for each measure; then pods that were placed elsewhere than planned."""
    several = len(found.policies) > 1
    rows = []
    for name, label in _LABELS.items():
        cells = [_cell(name, Estimated.of(each.values(name))) for each in found.policies]
        if set(cells) != {"0"} or name in ("cost", "pending"):
            marks = [""] + ["*" * found.difference(name, each).is_clear for each in found.policies[1:]]
            rows.append((label, *(f"{cell}{mark}" for cell, mark in zip(cells, marks, strict=True))))
    seeds = f", {count_of(len(found.seeds), 'seed')}" if len(found.seeds) > 1 else ""
    to.print(f"{found.story}{seeds}", markup=False)
    print_table(to, ["", *(each.name.upper() for each in found.policies)], rows)
    notes = []
    if len(found.seeds) > 1:
        notes.append("± is half of the 95 % confidence interval of the mean")
        if several:
            notes.append(f"* differs from {found.policies[0].name} with 95 % confidence, seed by seed")
    print_notes(to, notes)
    for each in found.policies:
        _draw_kinds(to, each)
    for each in found.policies:
        _draw_mismatches(to, each, top)


def _draw_kinds(to: Console, policy: PolicyRuns) -> None:
    first = policy.runs[0].autoscaling
    if first is None or not first.node_hours:
        return
    total = sum(first.node_hours.values())
    kinds = sorted(first.node_hours.items(), key=lambda item: -item[1])
    text = ", ".join(f"{name} {hours:,.1f} h ({hours / total:.0%})" for name, hours in kinds[:6])
    to.print(f"{policy.name}: {text}", markup=False)


def _draw_mismatches(to: Console, policy: PolicyRuns, top: int) -> None:
    first = policy.runs[0].autoscaling
    if first is None or not first.mismatches:
        return
    to.print()
    to.print(
        f"{policy.name}: pods for which a node was bought that the scheduler then placed elsewhere"
        f" ({first.mismatched} of {first.planned})",
        markup=False,
    )
    shown = [
        (format_duration(round(each.at_s)), Text(each.pod), each.planned, each.node) for each in first.mismatches[:top]
    ]
    print_table(to, ["AT", "POD", "BOUGHT FOR IT", "WENT TO"], shown)
    print_more(to, first.mismatched, top)


def _cell(name: str, value: Estimated) -> str:
    return _written(name, value.mean) + ("" if not value.margin else f" ±{_written(name, value.margin)}")


def _written(name: str, value: float) -> str:
    if name in _SECONDS:
        return format_duration(round(value, 1 if value < 10 else 0))
    if name in _SHARES:
        return f"{value:.1%}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
