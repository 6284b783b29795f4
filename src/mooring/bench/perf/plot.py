"""Throughput over time as a picture: pods bound in each second of a run, one line for each workload."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mooring.bench.perf import svg
from mooring.bench.perf.report import Result

WIDTH, HEIGHT = 860.0, 420.0
LEFT, RIGHT, TOP = 64.0, 20.0, 44.0
LEGEND_ROW = 18.0
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22")


def throughput(results: Sequence[Result], subtitle: str = "") -> str:
    """An SVG document. Workloads that failed or bound nothing are left out."""
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

    body = [svg.text(LEFT, 20, "Pods bound per second", size=15)]
    if subtitle:
        body.append(svg.text(LEFT, 36, subtitle, size=10, fill="#666666"))
    for i in range(int(top_y / step_y + 0.5) + 1):
        y = y_of(i * step_y)
        body += [
            svg.line(LEFT, y, WIDTH - RIGHT, y),
            svg.text(LEFT - 8, y + 4, f"{i * step_y:,.0f}", anchor="end", size=11),
        ]
    for i in range(int(seconds / step_x) + 1):
        x = x_of(i * step_x)
        body += [svg.line(x, bottom, x, bottom + 4, "#888888"), svg.text(x, bottom + 18, f"{i * step_x:g} s", size=11)]
    for i, result in enumerate(shown):
        colour = COLOURS[i % len(COLOURS)]
        points = [(x_of(second + 0.5), y_of(rate)) for second, rate in enumerate(result.throughput.windows)]
        if len(points) == 1:
            points = [(x_of(0.0), points[0][1]), (x_of(1.0), points[0][1])]
        body.append(svg.polyline(points, colour))
        y = HEIGHT + 6 + i * LEGEND_ROW
        label = f"{result.full_name}: {result.throughput.average:,.0f} pods/s"
        if result.threshold is not None:
            label += f", threshold {result.threshold:g}"
            body.append(svg.line(LEFT, y_of(result.threshold), WIDTH - RIGHT, y_of(result.threshold), colour, "4 4"))
        body += [svg.box(LEFT, y - 9, 12, 10, colour), svg.text(LEFT + 18, y, label)]
    if not shown:
        body.append(svg.text(WIDTH / 2, HEIGHT / 2, "nothing was bound", anchor="middle"))
    height = HEIGHT + 16 + LEGEND_ROW * len(shown)
    return svg.document(WIDTH, height, "Pods bound per second", body)


def scale(highest: float) -> tuple[float, float]:
    """A round step, and the multiple of it that has room for the highest value."""
    rough = highest / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return step, math.ceil(highest / step * 0.999) * step
