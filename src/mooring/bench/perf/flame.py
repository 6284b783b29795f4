"""Flame graphs: a box for each function, as wide as its share of the samples, on top of who called it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from mooring.bench.perf import svg
from mooring.bench.perf.profiling import Stacks, part_of

WIDTH, ROW, MARGIN = 1400.0, 17.0, 10.0
MIN_SHARE = 0.0005
LETTER = 6.2


@dataclass(slots=True)
class _Box:
    count: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    children: dict[str, _Box] = field(default_factory=dict)


def collapsed(stacks: Stacks) -> str:
    """One line for each stack: what other flame graph tools read."""
    return "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))


def flame_graph(stacks: Stacks, title: str) -> str:
    """An SVG document; colours say whose work a box is, titles its share."""
    root = _Box()
    for stack, count in stacks.items():
        part, box = part_of(stack), root
        root.count += count
        for frame in stack.split(";"):
            box = box.children.setdefault(frame, _Box())
            box.count += count
            box.parts[part] = box.parts.get(part, 0) + count
    depth = _depth(root, root.count)
    height = MARGIN * 2 + 40 + depth * ROW
    body = [svg.text(MARGIN, 24, title, size=15)]
    body.append(svg.text(MARGIN, 40, f"{root.count:,} samples; hover for shares", size=10, fill="#666666"))
    if root.count:
        _draw(root, MARGIN, height - MARGIN - ROW, (WIDTH - 2 * MARGIN) / root.count, root.count, body)
    return svg.document(WIDTH, height, title, body)


def _depth(box: _Box, total: int) -> int:
    shown = [child for child in box.children.values() if child.count >= total * MIN_SHARE]
    return 1 + max((_depth(child, total) for child in shown), default=0)


def _draw(box: _Box, x: float, y: float, scale: float, total: int, body: list[str]) -> None:
    for frame, child in sorted(box.children.items()):
        width = child.count * scale
        if child.count >= total * MIN_SHARE:
            part = max(child.parts, key=lambda name: child.parts[name])
            body.append(
                svg.box(x, y, max(width - 0.5, 0.2), ROW - 1, _colour(part), f"{frame}: {child.count / total:.1%}")
            )
            letters = int((width - 6) / LETTER)
            if letters >= 3:
                label = frame if len(frame) <= letters else frame[: letters - 1] + "…"
                body.append(svg.text(x + 3, y + ROW - 5, label, size=11))
            _draw(child, x, y - ROW, scale, total, body)
        x += width


def _colour(part: str) -> str:
    hue = zlib.crc32(part.encode()) % 360
    return f"hsl({hue}, 65%, 72%)"
