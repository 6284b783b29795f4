"""Plots as SVG: lines and stacked areas over time, and a histogram. Colours come from the page's style sheet.

Every name is text. A line has its own colour and dash pattern, so that no plot depends on colour alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from mooring.show.figures import count, duration, nice_step, time_step

WIDTH, HEIGHT = 640.0, 236.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 14.0, 10.0, 204.0
CHARACTER = 8.0  # approximate width of a character in a label
MOST_TIPS = 80
COLOURS = 8  # classes s0 … s7 of the style sheet


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot."""

    name: str
    values: Sequence[float]


def lines(
    title: str,
    seconds: Sequence[float],
    series: Sequence[Series],
    text: Callable[[float], str] = count,
    *,
    until_s: float = 0.0,
    highest: float | None = None,
    stacked: bool = False,
) -> str:
    """Draw values over time, each of which holds since the time before it.

    ``until_s`` and ``highest`` are minimum ends of the axes, so that several plots can be compared.
    """
    frame = _Frame(max(seconds[-1], until_s) if seconds else until_s, _highest(series, highest, stacked), text)
    shapes = frame.areas(seconds, series) if stacked else frame.lines(seconds, series)
    body = [*frame.axes(), *shapes, *frame.tips(seconds, series, stacked)]
    return _figure(title, body, [each.name for each in series], stacked)


def histogram(title: str, waits: Sequence[float], *, highest: int | None = None) -> str:
    """Draw how many of these sorted waits are in each span; spans grow by powers of about three."""
    spans = spans_of(waits)
    most = max([number for _, _, number in spans] + [highest or 0], default=0) or 1
    step = nice_step(most)
    top = -(-most // step) * step
    width = (WIDTH - LEFT - RIGHT) / max(1, len(spans))
    body: list[str] = []
    for i in range(round(top / step) + 1):
        body += _mark(BOTTOM - i * step / top * (BOTTOM - TOP), count(i * step))
    for i, (low, high, number) in enumerate(spans):
        x, height = LEFT + i * width, number / top * (BOTTOM - TOP)
        tip = f"{number:,} pods waited {_span(low, high)}"
        body.append(
            f'<rect class="bar" x="{_n(x + 2)}" y="{_n(BOTTOM - height)}" width="{_n(width - 4)}" '
            f'height="{_n(max(height, 0.5 if number else 0))}"><title>{escape(tip)}</title></rect>'
        )
        body.append(_text(x + width / 2, BOTTOM + 14, _short_span(low, high), "middle"))
    return _figure(title, body, [], False)


def spans_of(waits: Sequence[float]) -> list[tuple[float, float, int]]:
    """Return spans of waiting times (from, below) with their numbers of pods, up to the last non-empty one."""
    bounds = [0.0, 0.1, 0.3, 1, 3, 10, 30, 60, 180, 600, 1800, 3600, 3 * 3600, 12 * 3600, 86400, float("inf")]
    counts = [0] * (len(bounds) - 1)
    i = 0
    for wait in waits:
        while wait >= bounds[i + 1]:
            i += 1
        counts[i] += 1
    last = max((i for i, number in enumerate(counts) if number), default=0)
    return [(bounds[i], bounds[i + 1], counts[i]) for i in range(max(last + 1, 4))]


def _span(low: float, high: float) -> str:
    if not low:
        return f"less than {duration(high)}"
    return f"at least {duration(low)}" if high == float("inf") else f"{duration(low)} to {duration(high)}"


def _short_span(low: float, high: float) -> str:
    """Format a span briefly: ``<.1s``, ``.3s``, ``3m``."""
    if not low:
        return f"<{_short_span(high, high)}"
    for size, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if low >= size:
            return f"{low / size:g}{name}"
    return f"{low:g}s".lstrip("0")


def _highest(series: Sequence[Series], highest: float | None, stacked: bool) -> float:
    if stacked:
        found = max((sum(column) for column in zip(*(each.values for each in series), strict=True)), default=0.0)
    else:
        found = max((max(each.values, default=0.0) for each in series), default=0.0)
    return max(found, highest or 0.0)


class _Frame:
    """Maps times and values to coordinates."""

    def __init__(self, seconds: float, highest: float, text: Callable[[float], str]) -> None:
        self._seconds, self._text = seconds, text
        self._step = nice_step(highest)
        marks = max(1, -(-highest * 0.999 // self._step)) if highest > 0 else 1
        self._top = marks * self._step

    def x(self, at_s: float) -> float:
        return LEFT + (at_s / self._seconds if self._seconds else 1.0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return BOTTOM - value / self._top * (BOTTOM - TOP)

    def axes(self) -> list[str]:
        body: list[str] = []
        for i in range(round(self._top / self._step) + 1):
            body += _mark(self.y(i * self._step), self._text(i * self._step).replace(".0 %", " %"))
        if not self._seconds:
            return [*body, _text(WIDTH - RIGHT, BOTTOM + 16, "one instant", "end")]
        step = time_step(self._seconds)
        for i in range(int(self._seconds / step * 1.0001) + 1):
            x = self.x(i * step)
            body.append(f'<path class="tick" d="M{_n(x)} {_n(BOTTOM)}v4"/>')
            text = duration(i * step) if i else "0"
            inside = min(x, WIDTH - len(text) * CHARACTER / 2)  # keep the last one inside the picture
            body.append(_text(inside, BOTTOM + 16, text, "middle" if i else "start"))
        return body

    def lines(self, seconds: Sequence[float], series: Sequence[Series]) -> list[str]:
        return [
            f'<path class="line s{i % COLOURS}" d="{self._steps(seconds, each.values)}"/>'
            for i, each in enumerate(series)
        ]

    def _steps(self, seconds: Sequence[float], values: Sequence[float]) -> str:
        """Return the upper edge of a series: level from one time to the next."""
        if not self._seconds:
            y = _n(self.y(values[-1]))
            return f"M{_n(LEFT)} {y}H{_n(WIDTH - RIGHT)}"
        path = [f"M{_n(self.x(0))} {_n(self.y(values[0]))}"]
        last = values[0]
        for at_s, value in zip(seconds[1:], values[1:], strict=True):
            if value != last:
                path.append(f"V{_n(self.y(value))}")
                last = value
            path.append(f"H{_n(self.x(at_s))}")
        return _joined(path)

    def areas(self, seconds: Sequence[float], series: Sequence[Series]) -> list[str]:
        """Stack areas: each is drawn from its upper edge to the bottom, the highest first."""
        total = [0.0] * len(seconds)
        edges: list[list[float]] = []
        for each in series:
            total = [a + b for a, b in zip(total, each.values, strict=True)]
            edges.append(total)
        shapes: list[str] = []
        for i, edge in reversed(list(enumerate(edges))):
            outline = f"{self._steps(seconds, edge)}V{_n(BOTTOM)}H{_n(LEFT)}z"  # back along the axis
            shapes.append(f'<path class="area s{i % COLOURS}" d="{outline}"/>')
        return shapes

    def tips(self, seconds: Sequence[float], series: Sequence[Series], stacked: bool) -> list[str]:
        """Return tooltips at a bounded number of places."""
        if not self._seconds:
            return []
        every = max(1, -(-(len(seconds) - 1) // MOST_TIPS))
        shapes: list[str] = []
        before = 0
        for i in range(every, len(seconds) + every - 1, every):
            i = min(i, len(seconds) - 1)
            x = self.x(seconds[before])
            rows = [f"{duration(seconds[before])} to {duration(seconds[i])}"]
            rows += [f"{each.name}: {self._text(each.values[i])}" for each in series]
            shapes.append(
                f'<rect class="tip" x="{_n(x)}" y="{_n(TOP)}" width="{_n(self.x(seconds[i]) - x)}" '
                f'height="{_n(BOTTOM - TOP)}"><title>{escape(chr(10).join(rows))}</title></rect>'
            )
            before = i
        return shapes


def _joined(path: list[str]) -> str:
    """Join a path without the points within level lines."""
    kept: list[str] = []
    for part in path:
        if part[0] == "H" and kept and kept[-1][0] == "H":
            kept[-1] = part
        else:
            kept.append(part)
    return "".join(kept)


def _mark(y: float, text: str) -> list[str]:
    grid = f'<path class="grid" d="M{_n(LEFT)} {_n(y)}H{_n(WIDTH - RIGHT)}"/>'
    return [grid, _text(LEFT - 6, y + 4, text, "end")]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{escape(text)}</text>'


def _figure(title: str, body: Sequence[str], names: Sequence[str], stacked: bool) -> str:
    kind = "area" if stacked else "line"
    key = '<svg class="key" viewBox="0 0 26 10" aria-hidden="true"><path class="{} s{}" d="{}"/></svg>'
    shape = "M0 0h26v10H0z" if stacked else "M0 5h26"
    legend = "".join(f"<li>{key.format(kind, i % COLOURS, shape)}{escape(name)}</li>" for i, name in enumerate(names))
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg class="plot" viewBox="0 0 {_n(WIDTH)} {_n(HEIGHT)}" role="img" aria-label="{escape(title)}">'
        f"{''.join(body)}</svg>" + (f"<ul>{legend}</ul>" if len(names) > 1 or stacked else "") + "</figure>"
    )


def _n(value: float) -> str:
    """Format with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
