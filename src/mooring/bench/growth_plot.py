"""Charts of growth: cost over nodes on logarithmic axes, cost over running pods on linear ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mooring.bench.growth import KINDS, NODES, PODS, Curve, GrowthPlan
from mooring.bench.perf.plot import COLOURS, box, document, dot, line, polyline, scale, text

WIDTH, HEIGHT = 960.0, 400.0
TOP, BOTTOM = 74.0, 352.0
PANEL, GAP, LEFT = 380.0, 90.0, 70.0
LEGEND_ROW = 18.0
DASHES = "5 4"
GREY = "#888888"
TITLE = "CPU time per decision, every node scored"


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: the positions of values, and its ticks."""

    at: Callable[[float], float]
    marks: Sequence[float]


def growth(curves: Sequence[Curve], plan: GrowthPlan, subtitle: str = "", before: Sequence[Curve] = ()) -> str:
    """Return an SVG document with one panel per quantity that grew; with ``before``, only nodes, before and now."""
    body = [text(LEFT, 20, TITLE, size=15)]
    if subtitle:
        body.append(text(LEFT, 36, subtitle, size=10, fill="#666666"))
    panels = [
        (NODES, f"µs, by nodes with {plan.pods_per_node} running pods each", "nodes (both axes are logarithmic)", True),
        (PODS, f"µs, by running pods on {plan.fixed_nodes:,} nodes", "running pods", False),
    ]
    for i, (by, title, label, is_logarithmic) in enumerate(panels):
        shown = [curve for curve in curves if curve.by == by]
        scaled: Sequence[Curve] = ()
        if before:
            (by, title, label, is_logarithmic), scaled = panels[0], [*before, *curves]
            shown = [curve for curve in (curves if i else before) if curve.by == by]
            title = f"{'now' if i else 'before'}: {title}"
        body += _panel(LEFT + i * (PANEL + GAP), title, label, shown, scaled, is_logarithmic=is_logarithmic)
    kinds = [kind for kind in KINDS if any(curve.kind == kind for curve in curves)]
    body += _legend(kinds, curves)
    return document(WIDTH, HEIGHT + 44 + LEGEND_ROW * len(kinds), TITLE, body)


def _panel(
    left: float,
    title: str,
    label: str,
    curves: Sequence[Curve],
    scaled: Sequence[Curve] = (),
    *,
    is_logarithmic: bool,
) -> list[str]:
    """Return axes and curves. ``scaled`` are all curves that share the axes."""
    right = left + PANEL
    body = [text(left, TOP - 16, title, size=12)]
    if not curves:
        return [*body, text((left + right) / 2, (TOP + BOTTOM) / 2, "not measured", anchor="middle")]
    sizes = sorted({size for curve in scaled or curves for size in curve.sizes})
    costs = [cost for curve in scaled or curves for cost in curve.p5_us]
    across = _logarithmic(sizes[0], sizes[-1], left, right) if is_logarithmic else _linear(sizes[-1], left, right)
    up = _logarithmic(min(costs), max(costs), BOTTOM, TOP) if is_logarithmic else _linear(max(costs), BOTTOM, TOP)
    for mark in up.marks:
        y = up.at(mark)
        body += [
            line(left, y, right, y),
            text(left - 8, y + 4, f"{mark:,.0f}", anchor="end", size=11),
        ]
    for size in sizes if is_logarithmic else across.marks:
        x = across.at(size)
        body += [
            line(x, BOTTOM, x, BOTTOM + 4, GREY),
            text(x, BOTTOM + 18, f"{size:,.0f}", anchor="middle", size=11),
        ]
    body.append(text((left + right) / 2, BOTTOM + 36, label, anchor="middle", size=11, fill="#666666"))
    if is_logarithmic:
        body += _linear_growth(across, up, sizes, costs)
    for curve in curves:
        points = [(across.at(size), up.at(cost)) for size, cost in zip(curve.sizes, curve.p5_us, strict=True)]
        body.append(polyline(points, _colour(curve.kind), "" if curve.alike else DASHES))
        for (x, y), size, cost in zip(points, curve.sizes, curve.p5_us, strict=True):
            body.append(dot(x, y, _colour(curve.kind), f"{curve.kind}, {size:,} {curve.by}: {cost:,.0f} µs"))
    return body


def _linear_growth(across: Axis, up: Axis, sizes: Sequence[int], costs: Sequence[float]) -> list[str]:
    """Return the line of linear growth, starting from the cheapest point, as far as there is room."""
    low, high = min(costs), max(costs)
    end = min(float(sizes[-1]), sizes[0] * high / low)
    x, y = across.at(end), up.at(low * end / sizes[0])
    return [
        line(across.at(sizes[0]), up.at(low), x, y, GREY, "1 3"),
        text(x - 6, y + 4, "linear", anchor="end", size=10, fill=GREY),
    ]


def _legend(kinds: Sequence[str], curves: Sequence[Curve]) -> list[str]:
    y = HEIGHT + 18
    body = [
        line(LEFT, y - 4, LEFT + 26, y - 4, "#222222"),
        text(LEFT + 34, y, "pods of one template"),
        line(LEFT + 180, y - 4, LEFT + 206, y - 4, "#222222", DASHES),
        text(LEFT + 214, y, "a template each: no cache helps"),
        text(LEFT + PANEL + GAP, y, "grows with the power (0 flat, 1 linear)", fill="#666666"),
    ]
    for i, kind in enumerate(kinds):
        y = HEIGHT + 18 + LEGEND_ROW * (i + 1)
        body += [box(LEFT, y - 9, 12, 10, _colour(kind)), text(LEFT + 18, y, kind)]
        powers = [f"of {by} {' / '.join(found)}" for by in (NODES, PODS) if (found := _powers(curves, by, kind))]
        body.append(text(LEFT + PANEL + GAP, y, ", ".join(powers)))
    return body


def _powers(curves: Sequence[Curve], by: str, kind: str) -> list[str]:
    """Return the exponents: with one template, then with a template each."""
    found = {curve.alike: curve.exponent for curve in curves if (curve.by, curve.kind) == (by, kind)}
    return [f"{found[alike]:.2f}" for alike in (True, False) if found.get(alike) is not None]


def _colour(kind: str) -> str:
    return COLOURS[list(KINDS).index(kind) % len(COLOURS)]


def _linear(highest: float, start: float, end: float) -> Axis:
    step, top = scale(max(highest, 1.0))
    marks = [i * step for i in range(round(top / step) + 1)]
    return Axis(lambda value: start + value / top * (end - start), marks)


def _logarithmic(lowest: float, highest: float, start: float, end: float) -> Axis:
    """An axis from the 1, 2 or 5 below the lowest value to the one above the highest; values <= 0 are not shown."""
    rounds = [factor * 10.0**power for power in range(-1, 9) for factor in (1, 2, 5)]
    low = max((mark for mark in rounds if mark <= lowest * 1.001), default=rounds[0])
    high = min((mark for mark in rounds if mark >= highest * 0.999 and mark > low), default=rounds[-1])
    low_log, high_log = math.log(low), math.log(high)

    def at(value: float) -> float:
        return start + (math.log(max(value, low)) - low_log) / (high_log - low_log) * (end - start)

    return Axis(at, [mark for mark in rounds if low <= mark <= high])
