"""The measures of a run: one row, columns over time, waiting times by priority, and pending pods with reasons.

Shares are between 0 and 1, times are in seconds, cpu is in cores and memory in bytes. ``allocated`` is the requests of
the pods on nodes, as a share of capacity. ``fragmentation`` is free capacity that a typical pod cannot use, as a share
of capacity; so both together are at most 1, and the rest is free and usable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.record.node_measures import Moment, integral

if TYPE_CHECKING:
    from mooring.record.meter import Meter, State


# --------------------------------------------------------------------------------------------------------------------
# Samples at equal distances, at most twice ``SAMPLES``: then every other one is dropped.
#
# A sample is a snapshot of gauges, which know their integrals. So a mean between two samples is exact, whatever was
# dropped between them.

T = TypeVar("T")
SAMPLES = 128
FIRST_STEP_S = 1.0


@dataclass(frozen=True, slots=True)
class TimelineSample(Generic[T]):
    """The state at a time, and the peak of pending pods since the previous sample."""

    at_s: float
    state: T
    peak: float


class Timeline(Generic[T]):
    """Takes samples as time passes. ``due_s`` is when the next one is due: check before calling."""

    def __init__(self, take: Callable[[], T], peak: Callable[[], float]) -> None:
        self._take, self._peak = take, peak  # ``peak`` also begins a new one
        self._step_s = FIRST_STEP_S
        self.due_s = 0.0
        self.samples: list[TimelineSample[T]] = []

    def pass_to(self, at_s: float) -> None:
        """Advance to ``at_s``; events at that time are not part of earlier samples."""
        state = self._take()
        while self.due_s < at_s:
            self.samples.append(TimelineSample(self.due_s, state, self._peak()))
            if len(self.samples) > 2 * SAMPLES:
                self._thin_out()
            self.due_s = self.samples[-1].at_s + self._step_s

    def finish(self, at_s: float) -> list[TimelineSample[T]]:
        """Return all samples, the last one at the end."""
        if self.due_s < at_s:
            self.pass_to(at_s)
        return [*self.samples, TimelineSample(at_s, self._take(), self._peak())]

    def _thin_out(self) -> None:
        """Keep every other sample, including the first and the last."""
        self._step_s *= 2
        old = self.samples
        self.samples = [old[0]] + [
            TimelineSample(second.at_s, second.state, max(first.peak, second.peak))
            for first, second in zip(old[1::2], old[2::2], strict=True)
        ]


QUANTILES = (50, 90, 99)
_ALWAYS = ("cpu", "memory", "pods")  # reported even if no pod requests them
Number: TypeAlias = float | int
Still: TypeAlias = tuple[str, str, str, float]
"""A pod that is still pending: the cause, its key, the message of its last attempt, and for how long."""


class WaitingTimes(msgspec.Struct, frozen=True):
    """How long the pods of a priority waited from arrival to placement. ``priority`` None: all pods."""

    priority: int | None
    pods: int
    p50: float
    p90: float
    p99: float
    longest: float


class StillPending(msgspec.Struct, frozen=True):
    """Pods pending at the end for one cause, with an example."""

    cause: str
    pods: int
    longest: float
    example: str
    message: str


@dataclass(slots=True)
class Measures:
    """All measures. ``columns`` have one value per sample, ``row`` one for the whole run."""

    started_at: float  # seconds since 1970
    seconds: float
    row: dict[str, Number] = field(default_factory=dict)
    columns: dict[str, list[float]] = field(default_factory=dict)
    zones: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)  # that a node has and a pod requested
    causes: list[str] = field(default_factory=list)  # of pending pods, the longest waits first
    waiting: list[WaitingTimes] = field(default_factory=list)  # all pods first, then by priority, the highest first
    waits: list[float] = field(default_factory=list)  # of all pods, sorted
    pending: list[StillPending] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the measures in JSON's form."""
        return {
            "row": {name: _short(value) for name, value in self.row.items()},
            "columns": {name: [_short(value) for value in values] for name, values in self.columns.items()},
            "pending": [
                {
                    "cause": each.cause,
                    "pods": each.pods,
                    "longestSeconds": _short(each.longest),
                    "example": each.example,
                    "message": each.message,
                }
                for each in self.pending
            ],
        }


def _short(value: Number) -> Number:
    return value if isinstance(value, int) else float(f"{value:.9g}")


def assemble(
    meter: Meter, samples: Sequence[TimelineSample[State]], still: Sequence[Still], started_at: float
) -> Measures:
    """Return the measures of a meter after the last event."""
    made = _Assembly(meter, samples)
    result = Measures(started_at, samples[-1].at_s, resources=made.resources, zones=made.zones)
    result.columns = made.columns()
    result.causes = made.causes
    result.waits = sorted(wait for waits in meter.waits.values() for wait in waits)
    by_priority = sorted(meter.waits.items(), reverse=True)
    result.waiting = [_waiting(None, result.waits)] if result.waits else []
    if len(by_priority) > 1:
        result.waiting += [_waiting(priority, sorted(waits)) for priority, waits in by_priority]
    result.pending = _still_pending(still)
    result.row = made.row(result, len(still))
    return result


class _Assembly:
    """Turns samples into columns, and the last one into a row."""

    def __init__(self, meter: Meter, samples: Sequence[TimelineSample[State]]) -> None:
        self._meter, self._samples = meter, samples
        self._names = meter.resources.names
        self._seconds = samples[-1].at_s
        last = samples[-1].state
        self._times = np.array([sample.at_s for sample in samples])
        self._zone_means = {
            name: (self._means(partial(_zone_part, zone=i, part=1)), self._means(partial(_zone_part, zone=i, part=2)))
            for i, (name, _, _) in enumerate(last.zones)
        }
        # A resource counts if a node has had it and pods have asked for it, a cause if a pod has waited for it.
        self.resources = [
            name
            for i, name in enumerate(self._names)
            if any(_ever(allocatable, i, self._seconds) for _, _, allocatable in last.zones)
            and (name in _ALWAYS or meter.shapes.has_asked_for(i))
        ]
        self.zones = sorted(
            name
            for name, _, allocatable in last.zones
            if any(_ever(allocatable, i, self._seconds) for i in range(len(allocatable[0])))
        )
        times = {
            name: integral(last.pending, i, self._seconds) + last.pending[0][i] for i, name in enumerate(meter.causes)
        }
        self.causes = [name for name, _ in sorted(times.items(), key=lambda item: -item[1]) if times[name] > 0]

    # ---- over time -----------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, list[float]]:
        columns: dict[str, list[float]] = {"seconds": [sample.at_s for sample in self._samples]}
        nodes, pending = self._means(lambda state: state.nodes), self._means(lambda state: state.pending)
        columns["nodes"], columns["nodesInUse"] = self._column(nodes, 0), self._column(nodes, 1)
        for name in self.resources:
            columns[f"allocated.{name}"] = self._shares(name, None)
        for name in self.resources:
            if len(self.zones) > 1:
                for zone in self._zones_with(name):
                    columns[f"allocated.{name}.{zone_name(zone)}"] = self._shares(name, zone)
        columns["pending"] = pending.sum(axis=1).tolist()
        columns["pendingMost"] = [sample.peak for sample in self._samples]
        for cause in self.causes:
            columns[f"pending.{cause}"] = self._column(pending, self._meter.causes.index(cause))
        for name in self.resources:
            if name != "pods":
                columns[f"fragmentation.{name}"] = [self._fragmentation(sample.state, name) for sample in self._samples]
        for i, what in enumerate(("attempts", "placed", "ended", "victims")):
            columns[what] = [float(sample.state.counts[i]) for sample in self._samples]
        if any(sample.state.nodes[0][2] for sample in self._samples):
            columns["cost"] = [integral(sample.state.nodes, 2, sample.at_s) / 3600 for sample in self._samples]
        return columns

    def _means(self, of: Callable[[State], Moment]) -> NDArray[np.float64]:
        """Return gauges at each sample, [sample, gauge]: means since the previous sample; first, their values."""
        moments = [of(sample.state) for sample in self._samples]
        values, sums = (_filled([moment[part] for moment in moments]) for part in (0, 1))
        integrals = values * self._times[:, None] - sums
        spans = np.diff(self._times, prepend=0.0)[:, None]
        means = np.diff(integrals, axis=0, prepend=0.0) / np.where(spans > 0, spans, 1.0)
        return np.where(spans > 0, means, values)

    def _column(self, means: NDArray[np.float64], index: int) -> list[float]:
        found: list[float] = means[:, index].tolist() if index < means.shape[1] else [0.0] * len(self._samples)
        return found

    def _zones_with(self, resource: str) -> list[str]:
        """Return the zones that had any of a resource: without capacity there is no share."""
        index, last = self._names.index(resource), self._samples[-1].state
        had = {name for name, _, allocatable in last.zones if _ever(allocatable, index, self._seconds)}
        return [zone for zone in self.zones if zone in had]

    def _shares(self, resource: str, zone: str | None) -> list[float]:
        index = self._names.index(resource)
        used, has = np.zeros(len(self._samples)), np.zeros(len(self._samples))
        for name, (used_means, has_means) in self._zone_means.items():
            if zone is None or name == zone:
                used += self._column(used_means, index)
                has += self._column(has_means, index)
        return [_share(*pair) for pair in zip(used.tolist(), has.tolist(), strict=True)]

    def _fragmentation(self, state: State, resource: str) -> float:
        """Return the free capacity that a typical pod cannot use, as a share of capacity."""
        index = self._names.index(resource)
        has = sum(_value(allocatable, index) for _, _, allocatable in state.zones)
        stranded = state.stranded[index] if index < len(state.stranded) else 0.0
        return _share(stranded, has)

    # ---- as one row ----------------------------------------------------------------------------------------------

    def row(self, result: Measures, still_pending: int) -> dict[str, Number]:
        meter, preemptions, last = self._meter, self._meter.preemptions, self._samples[-1]
        row: dict[str, Number] = {
            "seconds": self._seconds,
            "nodes": int(last.state.nodes[0][0]),
            "pods": meter.arrived,
            "placed": meter.placed,
            "ended": meter.ended,
            "pending": still_pending,
            "pendingMean": self._mean(result.columns["pending"]),
            "pendingMost": int(max(result.columns["pendingMost"])),
        }
        for cause in self.causes:
            row[f"pendingMean.{cause}"] = self._mean(result.columns[f"pending.{cause}"])
        for name in self.resources:
            row[f"allocated.{name}"] = self._whole_share(name, None)
        for name in self.resources:
            row[f"allocatedAtEnd.{name}"] = self._share_at_end(name)
        if len(self.zones) > 1:
            for name in self.resources:
                for zone in self._zones_with(name):
                    row[f"allocated.{name}.{zone_name(zone)}"] = self._whole_share(name, zone)
        for waiting in result.waiting:
            group = "" if waiting.priority is None else f".priority{waiting.priority}"
            for quantile in QUANTILES:
                row[f"waitP{quantile}{group}"] = getattr(waiting, f"p{quantile}")
            row[f"waitLongest{group}"] = waiting.longest
        row |= {
            "attempts": meter.attempts,
            "attemptsUnschedulable": meter.unschedulable,
            "attemptsFailed": meter.errors,
            "mostFailuresOfAPod": meter.most_attempts,
            "bindingFailures": meter.binding_failures,
            "preemptions": preemptions.preemptions,
            "victims": preemptions.victims,
            "cascades": preemptions.cascades,
            "longestCascade": preemptions.longest_cascade,
            "budgetBreaches": preemptions.budget_breaches,
        }
        for name in self.resources:
            if name != "pods":
                row[f"fragmentation.{name}"] = self._mean(result.columns[f"fragmentation.{name}"])
                row[f"fragmentationAtEnd.{name}"] = result.columns[f"fragmentation.{name}"][-1]
        if "cost" in result.columns:
            row["cost"] = result.columns["cost"][-1]
        return row

    def _mean(self, values: Sequence[float]) -> float:
        """Return the time-weighted mean of a column."""
        total = before_s = 0.0
        for sample, value in zip(self._samples, values, strict=True):
            total += value * (sample.at_s - before_s)
            before_s = sample.at_s
        return total / self._seconds if self._seconds else values[-1]

    def _whole_share(self, resource: str, zone: str | None) -> float:
        """Return the use over the whole time, as a share of the capacity over the whole time."""
        if not self._seconds:
            return self._share_at_end(resource, zone)
        index, used, has = self._names.index(resource), 0.0, 0.0
        for name, use, allocatable in self._samples[-1].state.zones:
            if zone is None or name == zone:
                used += integral(use, index, self._seconds)
                has += integral(allocatable, index, self._seconds)
        return _share(used, has)

    def _share_at_end(self, resource: str, zone: str | None = None) -> float:
        index = self._names.index(resource)
        zones = [each for each in self._samples[-1].state.zones if zone is None or each[0] == zone]
        return _share(sum(_value(used, index) for _, used, _ in zones), sum(_value(has, index) for _, _, has in zones))


def zone_name(zone: str) -> str:
    """A zone in the name of a column."""
    return zone or "no zone"


def _zone_part(state: State, zone: int, part: int) -> Moment:
    """Return use (1) or capacity (2) of a zone; zones are only added, so each keeps its index."""
    if zone >= len(state.zones):
        return [], []
    _, used, allocatable = state.zones[zone]
    return used if part == 1 else allocatable


def _filled(rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Combine rows of different lengths into one array, padded with 0."""
    filled = np.zeros((len(rows), max(map(len, rows), default=0)))
    for i, row in enumerate(rows):
        filled[i, : len(row)] = row
    return filled


def _value(moment: Moment, index: int) -> float:
    return moment[0][index] if index < len(moment[0]) else 0.0


def _share(part: float, whole: float) -> float:
    return max(0.0, part / whole) if whole > 0 else 0.0


def _ever(moment: Moment, index: int, seconds: float) -> bool:
    return bool(_value(moment, index) or integral(moment, index, seconds) > 0)


def _waiting(priority: int | None, waits: Sequence[float]) -> WaitingTimes:
    """Quantiles of sorted waits: the smallest wait that this percentage of all pods do not exceed."""
    p50, p90, p99 = (waits[max(0, -(-quantile * len(waits) // 100) - 1)] for quantile in QUANTILES)
    return WaitingTimes(priority, len(waits), p50, p90, p99, waits[-1])


def _still_pending(still: Sequence[Still]) -> list[StillPending]:
    counts: Mapping[str, int] = Counter(cause for cause, _, _, _ in still)
    longest: dict[str, Still] = {}
    for each in still:
        if each[0] not in longest or (each[3], each[2]) > (longest[each[0]][3], longest[each[0]][2]):
            longest[each[0]] = each
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [StillPending(cause, count, longest[cause][3], *longest[cause][1:3]) for cause, count in ordered]
