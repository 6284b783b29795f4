"""Charts of throughput over time: pods bound in each second of a run, one line per workload."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

from mooring.bench.perf.report import PerfResult

# --------------------------------------------------------------------------------------------------------------------
# SVG elements of charts and flame graphs.

FONT = "ui-sans-serif, system-ui, sans-serif"


def document(width: float, height: float, title: str, body: Iterable[str]) -> str:
    """Return a whole picture on a white background, readable without style sheets."""
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{number(width)}" height="{number(height)}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        ]
    )


def number(value: float) -> str:
    """Return the number with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, content: str, *, anchor: str = "start", size: float = 12, fill: str = "#222222") -> str:
    return (
        f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" font-size="{number(size)}" '
        f"fill={quoteattr(fill)}>{escape(content)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = "#dddddd", dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" '
        f"stroke={quoteattr(stroke)}{dashes}/>"
    )


def box(x: float, y: float, width: float, height: float, fill: str, title: str = "") -> str:
    start = (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
        f"fill={quoteattr(fill)}"
    )
    return f"{start}><title>{escape(title)}</title></rect>" if title else f"{start}/>"


def polyline(points: Iterable[tuple[float, float]], stroke: str, dash: str = "") -> str:
    joined = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{joined}" fill="none" stroke={quoteattr(stroke)} stroke-width="2"{dashes}/>'


def dot(x: float, y: float, fill: str, title: str) -> str:
    """Return a mark on a line; hovering over it shows its title."""
    where = f'cx="{number(x)}" cy="{number(y)}" r="3"'
    return f"<circle {where} fill={quoteattr(fill)}><title>{escape(title)}</title></circle>"


WIDTH, HEIGHT = 860.0, 420.0
LEFT, RIGHT, TOP = 64.0, 20.0, 44.0
LEGEND_ROW = 18.0
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22")


def throughput(results: Sequence[PerfResult], subtitle: str = "") -> str:
    """Return an SVG document. Workloads that failed or bound no pods are left out."""
    shown = [result for result in results if result.throughput.windows]
    seconds = max((len(result.throughput.windows) for result in shown), default=1)
    highest = max((max(result.throughput.windows) for result in shown), default=1.0)
    step_y, top_y = scale(max(highest, 1.0))
    step_x, _ = scale(max(float(seconds), 1.0))
    step_x = max(1.0, step_x)
    bottom = HEIGHT - 40.0

    def x_of(second: float) -> float:
        return LEFT + second / seconds * (WIDTH - LEFT - RIGHT)

    def y_of(rate: float) -> float:
        return bottom - rate / top_y * (bottom - TOP)

    body = [text(LEFT, 20, "Pods bound per second", size=15)]
    if subtitle:
        body.append(text(LEFT, 36, subtitle, size=10, fill="#666666"))
    for i in range(int(top_y / step_y + 0.5) + 1):
        y = y_of(i * step_y)
        body += [
            line(LEFT, y, WIDTH - RIGHT, y),
            text(LEFT - 8, y + 4, f"{i * step_y:,.0f}", anchor="end", size=11),
        ]
    for i in range(int(seconds / step_x) + 1):
        x = x_of(i * step_x)
        body += [line(x, bottom, x, bottom + 4, "#888888"), text(x, bottom + 18, f"{i * step_x:g} s", size=11)]
    for i, result in enumerate(shown):
        colour = COLOURS[i % len(COLOURS)]
        points = [(x_of(second + 0.5), y_of(rate)) for second, rate in enumerate(result.throughput.windows)]
        if len(points) == 1:
            points = [(x_of(0.0), points[0][1]), (x_of(1.0), points[0][1])]
        body.append(polyline(points, colour))
        y = HEIGHT + 6 + i * LEGEND_ROW
        label = f"{result.full_name}: {result.throughput.average:,.0f} pods/s"
        if result.threshold is not None:
            label += f", threshold {result.threshold:g}"
            body.append(line(LEFT, y_of(result.threshold), WIDTH - RIGHT, y_of(result.threshold), colour, "4 4"))
        body += [box(LEFT, y - 9, 12, 10, colour), text(LEFT + 18, y, label)]
    if not shown:
        body.append(text(WIDTH / 2, HEIGHT / 2, "nothing was bound", anchor="middle"))
    height = HEIGHT + 16 + LEGEND_ROW * len(shown)
    return document(WIDTH, height, "Pods bound per second", body)


def scale(highest: float) -> tuple[float, float]:
    """Return a round step, and the smallest multiple of it that is at least the highest value."""
    rough = highest / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return step, math.ceil(highest / step * 0.999) * step
