"""The measures of a run as named figures, in groups: what the tables of every report show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mooring.measures.results import Measures, zone_name
from mooring.report.numbers import count, duration, price, share

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
        """A figure of the row; one that is not there is left out."""
        if key in self._row:
            self.put(group, name, self._row[key], text)

    def put(self, group: str, name: str, value: float, text: Callable[[float], str]) -> None:
        self.figures.append(Figure(group, name, value, text(value)))


@dataclass(frozen=True, slots=True)
class Line:
    """A figure of several runs: the texts in the order of the runs, empty where a run does not have it."""

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
