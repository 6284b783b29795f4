"""Points of a search: configurations with measurements, the best ones, and the chosen one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape as escape_html
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.errors import UsageError
from mooring.api.tables import print_table, printed
from mooring.api.text import count_of

DEFAULT, YOURS = "default", "yours"


@dataclass(frozen=True, slots=True)
class Objective:
    """A measure to minimise or maximise."""

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
    """A configuration: its differences from the base, and the objectives in the search and on the hold-out part."""

    name: str
    values: Mapping[str, Any]
    config: Mapping[str, Any] | None
    found: tuple[float, ...]
    held_out: tuple[float, ...] | None = None
    is_best: bool = False  # not dominated by another point
    lacks: tuple[str, ...] = ()  # the user's own plugins that it lacks: shown, but cannot be chosen

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
    """Report whether one is at least as good in everything and better in something."""
    triples = list(zip(one, other, objectives, strict=True))
    return not any(each.better(b, a) for a, b, each in triples) and any(each.better(a, b) for a, b, each in triples)


def mark_best(points: Sequence[Point], objectives: Sequence[Objective]) -> list[Point]:
    """Return the points that no other dominates; of equal results the first one found."""
    seen: set[tuple[float, ...]] = set()
    rivals = [point for point in points if not point.lacks]
    for point in rivals:
        beaten = any(dominates(other.found, point.found, objectives) for other in rivals)
        point.is_best = not beaten and point.found not in seen
        seen.add(point.found)
    return [point for point in points if point.is_best]


def choose(best: Sequence[Point], objectives: Sequence[Objective]) -> Point:
    """Return the point nearest to the best of every objective, scaled by the range of the best points."""
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
    """All points that were tried. It is true if the chosen one is better than the reference, on the hold-out part.

    The reference is the user's own configuration, or else the default.
    """

    story: str
    objectives: tuple[Objective, ...]
    points: list[Point]
    chosen: Point
    failed: list[str] = field(default_factory=list)  # errors of invalid configurations

    @property
    def default(self) -> Point:
        return next(point for point in self.points if point.name == DEFAULT)

    @property
    def reference(self) -> Point:
        """The present configuration: the user's own, or else the default."""
        return next((point for point in self.points if point.name == YOURS), self.default)

    @property
    def best(self) -> list[Point]:
        return [point for point in self.points if point.is_best]

    def __bool__(self) -> bool:
        """Compare on the hold-out part, if there is one."""
        old, new = self.reference, self.chosen
        if new is old:
            return False
        if old.held_out is None or new.held_out is None:
            return any(o.better(b, a) for a, b, o in zip(old.found, new.found, self.objectives, strict=True))
        pairs = list(zip(old.held_out, new.held_out, self.objectives, strict=True))
        return not dominates(old.held_out, new.held_out, self.objectives) and any(o.better(b, a) for a, b, o in pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
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
        return text(self)


# --------------------------------------------------------------------------------------------------------------------
# Rendering of a tuning, on a terminal and as text.


def draw(to: Console, found: Tuning) -> None:
    """Print the best points beside the default, in the search and on the hold-out part, and the chosen one."""
    goals = ", ".join(map(str, found.objectives))
    failed = f", {len(found.failed)} of them impossible" if found.failed else ""
    tried = len(found.points) + len(found.failed)
    to.print(f"{count_of(tried, 'configuration')} tried on {escape(found.story)} for {escape(goals)}{failed}.")
    to.print()
    names = [each.name for each in found.objectives]
    held = any(point.held_out is not None for point in found.points)
    columns = ["POINT", *names, *(f"{name}, held out" for name in names if held), "CHANGES"]
    fixed = [point for point in found.points if not point.values and not point.is_best]
    print_table(to, columns, [_row(point, found, held) for point in (*fixed, *found.best)])
    to.print()
    to.print(_verdict(found))


def text(found: Tuning) -> str:
    """Return the text without colours."""
    return printed(lambda to: draw(to, found))


def _row(point: Point, found: Tuning, held: bool) -> list[str | Text]:
    cells: list[str | Text] = [Text(point.name, style="bold green" if point is found.chosen else "")]
    cells += [f"{value:.6g}" for value in point.found]
    if held:
        cells += [f"{value:.6g}" for value in point.held_out or ()] or ["-"] * len(found.objectives)
    cells.append(", ".join(f"{_short(name)} {value}" for name, value in point.values.items()) or "none")
    return cells


def _short(name: str) -> str:
    """Shorten ``weights.NodeResourcesFit`` to the plugin's name, and arguments to theirs."""
    return name.partition(".")[2] or name


def _verdict(found: Tuning) -> str:
    told = ""
    if found.default.lacks:
        lacking = ", ".join(found.default.lacks)
        told = f"The default is shown for comparison only: it lacks {escape(lacking)}.\n"
    old, new = found.reference.name, found.chosen.name
    if found.chosen is found.reference:
        return f"{told}No point is better than {old}."
    told += f"[green]{escape(new)} is chosen[/green]: of the best points it is nearest to all objectives"
    if found:
        return f"{told}; it is better than {old}."
    return f"{told}. [red]On the hold-out part it is no better than {old}[/red]: do not use it."


# --------------------------------------------------------------------------------------------------------------------
# The Pareto picture: every point by its first two objectives, the best ones joined, as SVG.

WIDTH, HEIGHT, MARGIN = 720, 480, 70
_GREY, _BLUE, _GREEN, _RED, _INK = "#b0b4ba", "#3949ab", "#2e7d32", "#c62828", "#202124"


def pareto_svg(found: Tuning) -> str:
    """Draw the points. With one objective the second axis is the number of the point."""
    place = _Scale(found)
    best = sorted(found.best, key=place.x)
    line = " ".join(f"{place.x(point):.1f},{place.y(point):.1f}" for point in best)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        'font-family="ui-sans-serif, system-ui, sans-serif">',
        f"<title>{escape_html(', '.join(map(str, found.objectives)))}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *place.axes(),
        f'<polyline points="{line}" fill="none" stroke="{_BLUE}" stroke-width="1.5"/>' if len(best) > 1 else "",
        *(_dot(place, point, _BLUE if point.is_best else _GREY) for point in found.points),
        _dot(place, found.default, _RED, "default"),
        _dot(place, found.chosen, _GREEN, "chosen") if found.chosen is not found.default else "",
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


class _Scale:
    """Maps objectives to coordinates."""

    def __init__(self, found: Tuning) -> None:
        self._numbers = {point.name: i for i, point in enumerate(found.points)}
        self._two = len(found.objectives) > 1
        self._names = [str(found.objectives[0]), str(found.objectives[1]) if self._two else "the number of the point"]
        self._ranges = [
            _range([point.found[0] for point in found.points]),
            _range([self._second(p) for p in found.points]),
        ]

    def _second(self, point: Point) -> float:
        return point.found[1] if self._two else float(self._numbers[point.name])

    def x(self, point: Point) -> float:
        low, high = self._ranges[0]
        return MARGIN + (point.found[0] - low) / (high - low) * (WIDTH - 2 * MARGIN)

    def y(self, point: Point) -> float:
        low, high = self._ranges[1]
        return HEIGHT - MARGIN - (self._second(point) - low) / (high - low) * (HEIGHT - 2 * MARGIN)

    def axes(self) -> list[str]:
        bottom, right = HEIGHT - MARGIN, WIDTH - MARGIN
        (x_low, x_high), (y_low, y_high) = self._ranges
        return [
            f'<path d="M{MARGIN} {MARGIN}V{bottom}H{right}" fill="none" stroke="{_INK}"/>',
            _text(WIDTH / 2, HEIGHT - 20, self._names[0], "middle"),
            _text(MARGIN, 40, self._names[1], "start"),
            _text(MARGIN, bottom + 20, f"{x_low:.4g}", "middle"),
            _text(right, bottom + 20, f"{x_high:.4g}", "middle"),
            _text(MARGIN - 8, bottom, f"{y_low:.4g}", "end"),
            _text(MARGIN - 8, MARGIN + 5, f"{y_high:.4g}", "end"),
        ]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _dot(place: _Scale, point: Point, colour: str, name: str = "") -> str:
    x, y = place.x(point), place.y(point)
    told = escape_html(", ".join([point.name, *(f"{key}: {value}" for key, value in point.values.items())]))
    label = _text(x + 9, y - 9, name, "start", colour) if name else ""
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if name else 4}" fill="{colour}">'
    return f"{dot}<title>{told}</title></circle>{label}"


def _text(x: float, y: float, text: str, anchor: str, colour: str = _INK) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="13" fill="{colour}" text-anchor="{anchor}">{escape_html(text)}</text>'
