"""Draws the pictures of the lessons into docs/images/learn: python -m tools.draw_lessons.

A picture shows a lesson's play: one lane per pod, one box per thing that happened to it, and the scores as bars.

It is drawn from what the scheduler logs while the scenario is played, so it shows what the code does. It has names and
numbers only, and is the same in every language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from mooring.learn.course import LESSONS, Lesson, play

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "learn"
LANE, COLUMN, LEFT, TOP = 34, 96, 74, 30
BAR, BARS, SHOWN_SCORES = 44, 84, 2
GREY = "#6b7280"
COLOURS = {  # fill, text
    "bound": ("#d1fae5", "#065f46"),
    "chosen": ("#e0e7ff", "#3730a3"),
    "refused": ("#fee2e2", "#991b1b"),
    "waits": ("#fef3c7", "#92400e"),
    "woken": ("#dbeafe", "#1e40af"),
}


@dataclass(slots=True)
class Box:
    """What happened to one pod at one moment."""

    at_s: float
    pod: str
    kind: str
    text: str


Scores = list[tuple[str, dict[str, int]]]
"""For each attempt that compared nodes: the pod, and each node's total."""


def watch(which: Lesson) -> tuple[list[Box], Scores]:
    """Play a lesson and return what happened, in order, and the scores."""
    found: list[Box] = []
    scores: Scores = []
    last = ""

    def note(at_s: float, who: str, text: str) -> None:
        nonlocal last
        if who != "scheduler":
            return
        if match := re.match(r"found a pod to schedule: default/(\S+?)(,|$)", text):
            last = match[1]
        elif text.startswith("scores: "):
            pairs = (pair.split("=") for pair in text.removeprefix("scores: ").split())
            scores.append((last, {node: int(total) for node, total in pairs}))
        elif match := re.match(r"(\S+) is chosen for default/(\S+)", text):
            found.append(Box(at_s, match[2], "chosen", match[1]))
        elif match := re.match(r"default/(\S+) waits for \S+ (\d+ s)", text):
            found.append(Box(at_s, match[1], "waits", f"… {match[2]}"))
        elif match := re.match(r"Scheduled: Successfully assigned default/(\S+) to (\S+)", text):
            _bound(found, Box(at_s, match[1], "bound", f"✓ {match[2]}"))
        elif match := re.match(r"(\w+) wakes default/(\S+)", text):
            found.append(Box(at_s, match[2], "woken", match[1]))
        elif match := re.match(r"FailedScheduling: 0/(\d+)", text):
            found.append(Box(at_s, last, "refused", f"✗ 0/{match[1]}"))
        elif text.startswith("FailedScheduling: "):
            found.append(Box(at_s, last, "refused", "✗ error"))

    play(which, note)
    return found, scores


def _bound(found: list[Box], box: Box) -> None:
    """A pod that is bound at the moment its node is chosen gets one box, not two."""
    for before in found:
        if before.kind == "chosen" and before.pod == box.pod and box.at_s - before.at_s < 0.01:
            found[found.index(before)] = box
            return
    found.append(box)


def svg(which: Lesson) -> str:
    """Draw a lesson's play."""
    found, scores = watch(which)
    pods = list(dict.fromkeys(box.pod for box in found))
    shown = scores[:SHOWN_SCORES]
    lanes_end = TOP + LANE * len(pods)
    width = max(LEFT + COLUMN * len(found), LEFT + BAR * max((len(totals) for _, totals in shown), default=0)) + 8
    height = lanes_end + BARS * len(shown) + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' font-family="ui-monospace, monospace" font-size="12" role="img">',
        f"<title>{escape(', '.join(f'{box.pod} {box.text} {box.at_s:.1f} s' for box in found))}</title>",
    ]
    for row, pod in enumerate(pods):
        y = TOP + LANE * row + LANE // 2
        parts.append(f'<text x="4" y="{y + 4}" fill="{GREY}">{escape(pod)}</text>')
        parts.append(f'<line x1="{LEFT}" x2="{width - 6}" y1="{y}" y2="{y}" stroke="#9ca3af" stroke-dasharray="2 4"/>')
    before = None
    for column, box in enumerate(found):
        x, y = LEFT + COLUMN * column, TOP + LANE * pods.index(box.pod) + 5
        if before is None or box.at_s - before >= 0.05:
            parts.append(f'<text x="{x + 2}" y="16" fill="{GREY}">{box.at_s:.1f} s</text>')
        before = box.at_s
        fill, ink = COLOURS[box.kind]
        parts.append(f'<rect x="{x}" y="{y}" width="{COLUMN - 8}" height="24" rx="5" fill="{fill}"/>')
        parts.append(f'<text x="{x + 7}" y="{y + 16}" fill="{ink}">{escape(box.text)}</text>')
    for row, (pod, totals) in enumerate(shown):
        parts += _bars(lanes_end + BARS * (row + 1), pod, totals)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bars(bottom: int, pod: str, totals: dict[str, int]) -> list[str]:
    """One bar per node, as high as its total; ``bottom`` is the lower edge."""
    best = max(totals.values())
    parts = [f'<text x="4" y="{bottom - 20}" fill="{GREY}">{escape(pod)}</text>']
    for column, (node, total) in enumerate(totals.items()):
        x = LEFT + BAR * column
        height = round(40 * total / best) if best else 0
        fill = COLOURS["bound"][1] if total == best and best else "#9ca3af"
        parts.append(f'<rect x="{x}" y="{bottom - 18 - height}" width="30" height="{height + 1}" fill="{fill}"/>')
        parts.append(f'<text x="{x}" y="{bottom - 22 - height}" fill="{GREY}" font-size="10">{total}</text>')
        parts.append(f'<text x="{x}" y="{bottom - 5}" fill="{GREY}" font-size="10">{escape(node)}</text>')
    return parts


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for one in LESSONS:
        (FOLDER / f"lesson-{one.number}.svg").write_text(svg(one), encoding="utf-8")
