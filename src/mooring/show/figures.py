"""Measures of a run as named figures, in groups: the content of every report's tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from mooring.record.entries import Attempt, Happened
from mooring.record.measures import Measures, zone_name
from mooring.record.meter import measure_entries
from mooring.record.reader import Record

# --------------------------------------------------------------------------------------------------------------------
# Numbers as text.


def share(value: float) -> str:
    """``46.6 %``; a small share that is not 0 does not look like 0."""
    per_cent = value * 100
    if 0 < per_cent < 0.1:
        return "< 0.1 %"
    return f"{per_cent:.1f} %" if per_cent < 99.95 or per_cent > 100.05 else "100 %"


def count(value: float) -> str:
    """``1,234``, ``12.3``, ``0.05``."""
    if 0 < abs(value) < 0.01:
        return "< 0.01" if value > 0 else "> -0.01"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """``120 ms``, ``4.2 s``, ``3 min 5 s``, ``2 h 10 min``, ``6 d 4 h``: two units at most."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return "0 s" if seconds < 0.0005 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for size, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {smaller_name}" if rest else "")
    raise AssertionError(seconds)


def price(value: float) -> str:
    return f"{value:,.2f}"


def nice_step(highest: float, marks: int = 4) -> float:
    """Return the distance of ticks on an axis from 0 to ``highest``: 1, 2 or 5 times a power of ten."""
    if highest <= 0:
        return 1.0
    rough = highest / marks
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def time_step(seconds: float, marks: int = 6) -> float:
    """Return the distance of ticks on a time axis."""
    rough = seconds / marks
    if rough < 1:
        return nice_step(seconds, marks)
    for step in _TIME_STEPS:
        if step >= rough:
            return float(step)
    return nice_step(seconds / 86400, marks) * 86400


IN_ZONE = "Allocated on average in"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: its group, its name, and its value as a number and as a text."""

    group: str
    name: str
    value: float
    text: str


def figures(measures: Measures) -> list[Figure]:
    """All figures of a run, in the order in which they are shown."""
    made = _Figures(measures)
    made.add("Pods", "came", "pods", count)
    made.add("Pods", "placed", "placed", count)
    made.add("Pods", "left their nodes", "ended", count)
    made.add("Pods", "pending at the end", "pending", count)
    made.add("Pods", "pending on average", "pendingMean", count)
    made.add("Pods", "pending at most", "pendingMost", count)
    for waiting in measures.waiting:
        whose = "Waiting" if waiting.priority is None else f"Waiting, priority {waiting.priority}"
        for name, value in (("p50", waiting.p50), ("p90", waiting.p90), ("p99", waiting.p99)):
            made.put(whose, name, value, duration)
        made.put(whose, "longest", waiting.longest, duration)
    for name in measures.resources:
        made.add("Allocated on average", name, f"allocated.{name}", share)
    for name in measures.resources:
        made.add("Allocated at the end", name, f"allocatedAtEnd.{name}", share)
    if len(measures.zones) > 1:
        for zone in measures.zones:
            for name in measures.resources:
                where = f"{IN_ZONE} {zone_name(zone)}"
                made.add(where, name, f"allocated.{name}.{zone_name(zone)}", share)
    for name in measures.resources:
        if name != "pods":
            made.add("Free but unusable, on average", name, f"fragmentation.{name}", share)
    for name in measures.resources:
        if name != "pods":
            made.add("Free but unusable, at the end", name, f"fragmentationAtEnd.{name}", share)
    made.add("Attempts", "all", "attempts", count)
    made.add("Attempts", "without a node", "attemptsUnschedulable", count)
    made.add("Attempts", "errors", "attemptsFailed", count)
    made.add("Attempts", "failed bindings", "bindingFailures", count)
    made.add("Attempts", "most failures of one pod", "mostFailuresOfAPod", count)
    made.add("Preemption", "preemptions", "preemptions", count)
    made.add("Preemption", "victims", "victims", count)
    made.add("Preemption", "by pods that were victims before", "cascades", count)
    made.add("Preemption", "longest cascade", "longestCascade", count)
    made.add("Preemption", "broken disruption budgets", "budgetBreaches", count)
    made.add("Cluster", "nodes at the end", "nodes", count)
    made.add("Cluster", "time", "seconds", duration)
    made.add("Cluster", "cost", "cost", price)
    return made.figures


class _Figures:
    def __init__(self, measures: Measures) -> None:
        self._row = measures.row
        self.figures: list[Figure] = []

    def add(self, group: str, name: str, key: str, text: Callable[[float], str]) -> None:
        """Add a figure of the row; a missing one is left out."""
        if key in self._row:
            self.put(group, name, self._row[key], text)

    def put(self, group: str, name: str, value: float, text: Callable[[float], str]) -> None:
        self.figures.append(Figure(group, name, value, text(value)))


@dataclass(frozen=True, slots=True)
class Line:
    """A figure of several runs, in their order; empty where a run lacks it."""

    group: str
    name: str
    texts: tuple[str, ...]
    differs: bool


def side_by_side(runs: list[Measures]) -> list[Line]:
    """The figures of several runs, in the order of the first run that has them."""
    found = [{(each.group, each.name): each for each in figures(run)} for run in runs]
    keys: dict[tuple[str, str], None] = {}
    for of_run in found:
        keys.update(dict.fromkeys(of_run))
    groups = {group: i for i, group in enumerate(dict.fromkeys(group for group, _ in keys))}
    lines = []
    for group, name in sorted(keys, key=lambda key: groups[key[0]]):  # stable within a group
        cells = [of_run.get((group, name)) for of_run in found]
        texts = tuple("" if cell is None else cell.text for cell in cells)
        lines.append(Line(group, name, texts, len(set(texts)) > 1))
    return lines


# --------------------------------------------------------------------------------------------------------------------
# A run in a report: its name, facts, and measures.

Timed = tuple[float, Happened]
SHOW_EVERY = 500  # attempts


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """``facts`` are pairs of a name and a text, for the head of a report."""

    name: str
    measures: Measures
    facts: dict[str, str] = field(default_factory=dict)


Show = Callable[[str, int, int], None]
"""Called with the record being read, how many of its attempts were read, and their number."""


def run_of_record(path: str | Path, name: str = "", show: Show | None = None) -> ReportedRun:
    """Read and measure a record."""
    name = name or Path(path).name
    with Record.open(path) as record:
        entries = record.entries()
        if show is not None:
            entries = _shown(entries, partial(show, name), record.num_attempts)
        measures = measure_entries(entries, record.last_time)
        header = record.header
        facts = {
            "recorded by": f"{header.source}, mooring {header.mooring}",
            "decides as": f"Kubernetes {header.kubernetes}",
            "began": _date(header.started),
        }
        if not record.is_complete:
            facts["note"] = "the record was cut off, or is still being written"
    return ReportedRun(name, measures, {key: text for key, text in facts.items() if text})


def runs_of_records(paths: Iterable[str | Path], show: Show | None = None) -> list[ReportedRun]:
    """Read several records; equal names are distinguished by their folders."""
    places = [Path(path) for path in paths]
    names = [place.name for place in places]
    return [run_of_record(place, str(place) if names.count(place.name) > 1 else place.name, show) for place in places]


def _shown(entries: Iterator[Timed], show: Callable[[int, int], None], total: int) -> Iterator[Timed]:
    done = 0
    for timed in entries:
        if isinstance(timed[1], Attempt):
            done += 1
            if done % SHOW_EVERY == 0:
                show(done, total)
        yield timed


def _date(seconds: float) -> str:
    """Format a time of a real clock; virtual time begins in 1970 and is left out."""
    if seconds < 365 * 86400:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""
