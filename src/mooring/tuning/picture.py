"""The Pareto picture: every point by its first two objectives, the best ones joined, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mooring.tuning.points import Point, Tuning

WIDTH, HEIGHT, MARGIN = 720, 480, 70
_GREY, _BLUE, _GREEN, _RED, _INK = "#b0b4ba", "#3949ab", "#2e7d32", "#c62828", "#202124"


def pareto_svg(found: Tuning) -> str:
    """A picture of the points. With one objective the second axis is the number of the point."""
    place = _Scale(found)
    best = sorted(found.best, key=place.x)
    line = " ".join(f"{place.x(point):.1f},{place.y(point):.1f}" for point in best)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        'font-family="ui-sans-serif, system-ui, sans-serif">',
        f"<title>{escape(', '.join(map(str, found.objectives)))}</title>",
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
    """From objectives to places on the page."""

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
    told = escape(", ".join([point.name, *(f"{key}: {value}" for key, value in point.values.items())]))
    label = _text(x + 9, y - 9, name, "start", colour) if name else ""
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if name else 4}" fill="{colour}">'
    return f"{dot}<title>{told}</title></circle>{label}"


def _text(x: float, y: float, text: str, anchor: str, colour: str = _INK) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="13" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
