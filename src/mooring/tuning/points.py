"""Points of a search: configurations with what was measured; which of them are best, and which one is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.errors import UsageError

DEFAULT, YOURS = "default", "yours"


@dataclass(frozen=True, slots=True)
class Objective:
    """A measure that is to be small, or large."""

    name: str
    maximize: bool = False

    def better(self, one: float, other: float) -> bool:
        return one > other if self.maximize else one < other

    def __str__(self) -> str:
        return f"{self.name}={'max' if self.maximize else 'min'}"


def parse_objective(text: str) -> Objective:
    """``waitP99=min``, ``allocated.cpu=max``."""
    name, _, direction = text.rpartition("=")
    if not name or direction not in ("min", "max"):
        raise UsageError(f"--objective: found {text!r}, expected MEASURE=min or MEASURE=max, such as waitP99=min")
    return Objective(name, direction == "max")


@dataclass(slots=True)
class Point:
    """A configuration: the values that differ from the base, and the objectives in the search and on the hold-out."""

    name: str
    values: Mapping[str, Any]
    config: Mapping[str, Any] | None
    found: tuple[float, ...]
    held_out: tuple[float, ...] | None = None
    is_best: bool = False  # no other point is better in everything
    lacks: tuple[str, ...] = ()  # plugins of the user's own: a point without them is shown, and cannot be chosen

    def to_dict(self, objectives: Sequence[Objective]) -> dict[str, Any]:
        names = [each.name for each in objectives]
        return {
            "name": self.name,
            "values": dict(self.values),
            "objectives": dict(zip(names, self.found, strict=True)),
            "heldOut": None if self.held_out is None else dict(zip(names, self.held_out, strict=True)),
            "best": self.is_best,
            "lacks": list(self.lacks),
        }


def dominates(one: Sequence[float], other: Sequence[float], objectives: Sequence[Objective]) -> bool:
    """Whether one is at least as good in everything and better in something."""
    triples = list(zip(one, other, objectives, strict=True))
    return not any(each.better(b, a) for a, b, each in triples) and any(each.better(a, b) for a, b, each in triples)


def mark_best(points: Sequence[Point], objectives: Sequence[Objective]) -> list[Point]:
    """The points that no other dominates, each kind of result once, the one that was found first."""
    seen: set[tuple[float, ...]] = set()
    rivals = [point for point in points if not point.lacks]
    for point in rivals:
        beaten = any(dominates(other.found, point.found, objectives) for other in rivals)
        point.is_best = not beaten and point.found not in seen
        seen.add(point.found)
    return [point for point in points if point.is_best]


def choose(best: Sequence[Point], objectives: Sequence[Objective]) -> Point:
    """The point that is nearest to the best of every objective, each measured by how far the best points are apart."""
    columns = list(zip(*(point.found for point in best), strict=True))

    def distance(point: Point) -> float:
        total = 0.0
        for value, column, objective in zip(point.found, columns, objectives, strict=True):
            low, high = min(column), max(column)
            if high > low:
                total += ((high - value) if objective.maximize else (value - low)) / (high - low)
        return total

    return min(best, key=distance)


@dataclass(slots=True)
class Tuning:
    """All points that were tried. It is true if the chosen one is better than what there is, on the hold-out part.

    What there is: the user's own configuration, or else the default.
    """

    story: str
    objectives: tuple[Objective, ...]
    points: list[Point]
    chosen: Point
    failed: list[str] = field(default_factory=list)  # what was wrong with configurations that are no points

    @property
    def default(self) -> Point:
        return next(point for point in self.points if point.name == DEFAULT)

    @property
    def reference(self) -> Point:
        """The configuration that there is today: the user's own, or else the default."""
        return next((point for point in self.points if point.name == YOURS), self.default)

    @property
    def best(self) -> list[Point]:
        return [point for point in self.points if point.is_best]

    def __bool__(self) -> bool:
        """Judged by the part that the search has not seen, if there is one."""
        old, new = self.reference, self.chosen
        if new is old:
            return False
        if old.held_out is None or new.held_out is None:
            return any(o.better(b, a) for a, b, o in zip(old.found, new.found, self.objectives, strict=True))
        pairs = list(zip(old.held_out, new.held_out, self.objectives, strict=True))
        return not dominates(old.held_out, new.held_out, self.objectives) and any(o.better(b, a) for a, b, o in pairs)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        return {
            "story": self.story,
            "objectives": [str(each) for each in self.objectives],
            "better": bool(self),
            "than": self.reference.name,
            "chosen": self.chosen.name,
            "config": self.chosen.config,
            "points": [point.to_dict(self.objectives) for point in self.points],
            "failed": self.failed,
        }

    def __repr__(self) -> str:
        from mooring.tuning.rendering import text  # which draws tunings, and knows them therefore

        return text(self)
