"""Draws the architecture from the code: its extension points, its layers, a real decision, a real fork.

python scripts/docs_pictures.py            draw them into docs/images
python scripts/docs_pictures.py --check    fail if one of them is not what the code says today
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
FONT = "ui-sans-serif, system-ui, sans-serif"
INK, QUIET, LINE = "#1a237e", "#5f6368", "#9fa8da"
BLUE, GREEN, AMBER, GREY, RED = "#e8eaf6", "#e0f2f1", "#fff3e0", "#f1f3f4", "#ffebee"


class Canvas:
    """A picture on a white ground, so that it can be read on light and dark pages."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size, self._title = (width, height), title
        self._body: list[str] = []

    def box(self, x: float, y: float, w: float, h: float, fill: str = BLUE, stroke: str = LINE) -> None:
        place = f'x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}"'
        self._body.append(f'<rect {place} rx="6" fill="{fill}" stroke="{stroke}"/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 13,
        fill: str = INK,
        anchor: str = "middle",
        bold: bool = False,
    ) -> None:
        style = f'font-size="{size:g}" fill="{fill}" text-anchor="{anchor}"' + (' font-weight="600"' if bold else "")
        self._body.append(f'<text x="{x:g}" y="{y:g}" {style}>{escape(text)}</text>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
        self._body.append(f'<line {ends} stroke="{QUIET}" stroke-width="1.5" marker-end="url(#end)"/>')

    def svg(self) -> str:
        width, height = self._size
        size = f'viewBox="0 0 {width} {height}" width="{width}"'
        marker = 'id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}">',
                f"<title>{escape(self._title)}</title>",
                f'<defs><marker {marker}><path d="M0 0L8 4L0 8z" fill="{QUIET}"/></marker></defs>',
                f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
                *self._body,
                "</svg>\n",
            ]
        )


# ---- the way of a pod --------------------------------------------------------------------------------------------

PHASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "queue": ("1. Queue: before an attempt", GREY, ("preEnqueue", "queueSort")),
    "cycle": (
        "2. Scheduling cycle: one pod at a time, synchronous",
        BLUE,
        ("preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit"),
    ),
    "binding": ("3. Binding cycle: many pods at once, asynchronous", GREEN, ("preBind", "bind", "postBind")),
}


def way_of_a_pod() -> str:
    """The extension points in the order in which a pod meets them, with the default profile's plugins."""
    from mooring.core.engine.in_tree import IN_TREE
    from mooring.core.framework.extension_points import EXTENSION_POINTS, points_of

    points = [point.name for point in EXTENSION_POINTS if point.methods and not point.is_for_groups]
    assert points == [point for _, _, inside in PHASES.values() for point in inside], "a point has no phase here"
    users = {point: [plugin.__name__ for plugin in IN_TREE if point in points_of(plugin)] for point in points}
    canvas = Canvas(980, 510, "The way of a pod through the extension points")
    left, top, gap, width = 30, 64, 15, 118
    canvas.text(left, 28, "The way of a pod", anchor="start", size=15, bold=True)
    canvas.text(950, 28, "in each box: plugins of the default profile", anchor="end", size=11, fill=QUIET)
    for title, fill, inside in PHASES.values():
        _phase(canvas, (left, top, width, gap), title, fill, {point: users[point] for point in inside})
        top += 154
    canvas.text(310, 118, "The pod with the smallest key is next.", anchor="start", size=12, fill=QUIET)
    canvas.text(
        440, 418, "The pod is assumed on its node, and the next pod is tried.", anchor="start", size=12, fill=QUIET
    )
    canvas.text(
        440, 436, "A binding that fails is undone, and the pod is retried.", anchor="start", size=12, fill=QUIET
    )
    return canvas.svg()


def _phase(
    canvas: Canvas, place: tuple[float, float, float, float], title: str, fill: str, users: dict[str, list[str]]
) -> None:
    x, top, width, gap = place
    canvas.text(x, top - 8, title, anchor="start", size=12, fill=QUIET)
    for i, (point, names) in enumerate(users.items()):
        left = x + i * (width + gap)
        is_detour = point == "postFilter"
        canvas.box(left, top, width, 100, AMBER if is_detour else fill)
        canvas.text(left + width / 2, top + 20, point, bold=True)
        shown = names if len(names) <= 4 else [*names[:3], f"and {len(names) - 3} more"]
        for row, name in enumerate(shown):
            canvas.text(left + width / 2, top + 40 + 15 * row, name, size=10 if len(name) < 20 else 7.6, fill=QUIET)
        if is_detour:
            canvas.text(left + width / 2, top + 92, "only if no node fits", size=10, fill=QUIET)
        if i + 1 < len(users):
            canvas.arrow(left + width, top + 54, left + width + gap, top + 54)


# ---- layers ------------------------------------------------------------------------------------------------------

NOTES = {
    "cli": "the commands",
    "learn": "seven small schedulers; measurements",
    "show": "the page, reports, pictures",
    "ask": "explain, capacity, drill, plan, diff, shadow",
    "sim": "stories and simulations in virtual time",
    "record": "what happened; the embedded API server",
    "live": "the scheduler in a cluster",
    "net": "HTTP, TLS, list and watch, extenders",
    "core": "the decision: session, engine, queue, plugins",
    "api": "Kubernetes' objects, typed",
}


def layers() -> str:
    """The rows of packages that import-linter holds: a row imports only rows below it."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["name"].startswith("Layers"))
    pure = next(contract["source_modules"] for contract in contracts if "is pure" in contract["name"])
    names = [[name.strip(" ()").removeprefix("mooring.") for name in row.split("|")] for row in rows]
    canvas = Canvas(900, 70 + 42 * len(rows), "Layers: a row imports only rows below it")
    canvas.text(30, 30, "A row imports only rows below it", anchor="start", size=15, bold=True)
    canvas.text(870, 30, "green: no event loop, no sockets, no chance", anchor="end", size=11, fill=QUIET)
    for i, row in enumerate(names):
        top, room = 50 + 42 * i, 560 / len(row)
        for k, name in enumerate(row):
            canvas.box(30 + k * room, top, room - 8, 32, GREEN if f"mooring.{name}" in pure else BLUE)
            canvas.text(26 + (k + 0.5) * room, top + 21, name, size=13 if len(row) < 5 else 11)
        canvas.text(606, top + 21, NOTES.get(row[0], ""), anchor="start", size=12, fill=QUIET)
    return canvas.svg()


# ---- columns -----------------------------------------------------------------------------------------------------


def columns() -> str:
    """A real decision about a pod of the examples, as the engine sees it: rows are nodes, rules are columns."""
    from mooring.testing import Scheduler, make_node, make_pod

    zones = {"a": "zone-1", "b": "zone-2", "c": "zone-1", "d": "zone-2", "e": "zone-1"}
    label = "topology.kubernetes.io/zone"
    taints = {"e": ["dedicated=gpu:NoSchedule"]}
    nodes = [
        make_node(name, cpu="4", memory="8Gi", labels={label: zone}, taints=taints.get(name, []))
        for name, zone in zones.items()
    ]
    running = [
        make_pod(f"old-{name}", node=name, cpu=cpu, memory="1Gi")
        for name, cpu in (("a", "1"), ("b", "3"), ("c", "3500m"))
    ]
    scheduler = Scheduler(*nodes, *running)
    decision = scheduler.decide(make_pod("web", cpu="1", memory="1Gi"))
    rows = scheduler.cluster.nodes()
    table = rows.table
    cpu = table.resources["cpu"]
    by_node = {info.name: i for i, info in enumerate(table.infos)}
    scores = decision.scores
    assert scores is not None and decision.statuses is not None
    feasible = {info.name: i for i, info in enumerate(scores.nodes.infos)}

    def verdict(name: str, plugin: str) -> str:
        status = decision.statuses.get(name)
        return "✗" if status.plugin == plugin else "✓"

    plugins = [name for name, column in scores.by_plugin.items() if column.any()]
    heads = [
        "node",
        "allocatable cpu",
        "requested cpu",
        "zone id",
        "taint set",
        "TaintToleration",
        "NodeResourcesFit",
        *plugins,
        "total",
    ]
    body = []
    for name, row in by_node.items():
        numbers = [str(int(scores.by_plugin[p][feasible[name]])) if name in feasible else "" for p in plugins]
        total = str(int(scores.totals[feasible[name]])) if name in feasible else ""
        body.append(
            [
                name,
                str(int(table.allocatable[cpu, row])),
                str(int(table.requested[cpu, row])),
                str(int(table.label(label).ids[row])),
                str(int(table.taint_set[row])),
                verdict(name, "TaintToleration"),
                verdict(name, "NodeResourcesFit"),
                *numbers,
                total,
            ]
        )
    groups = [("state", 4, GREY), ("filter", 2, AMBER), ("score", len(plugins) + 1, GREEN)]
    return _grid("A pod that asks for 1 cpu, on five nodes", heads, body, groups, winner=decision.node or "")


def _grid(
    title: str, heads: Sequence[str], body: Sequence[Sequence[str]], groups: Iterable[tuple[str, int, str]], winner: str
) -> str:
    width, left, top, high = 92, 30, 124, 30
    canvas = Canvas(left * 2 + 50 + width * (len(heads) - 1), top + high * (len(body) + 1) + 20, title)
    canvas.text(left, 32, f"{title}: {winner} wins", anchor="start", size=15, bold=True)
    starts = [left, *(left + 50 + width * i for i in range(len(heads) - 1))]
    column = 1
    fills = [BLUE]
    for name, count, fill in groups:
        span = width * count
        canvas.text(starts[column] + span / 2, 62, name, size=12, fill=QUIET)
        canvas.box(starts[column] + 3, 68, span - 6, 4, fill, fill)
        fills += [fill] * count
        column += count
    for i, head in enumerate(heads):
        wide = 50 if i == 0 else width
        for k, part in enumerate(_lines(head)):
            canvas.text(starts[i] + wide / 2, top - 8 - 13 * k, part, size=10.5, bold=True)
        for k, cells in enumerate(body):
            is_winner = cells[0] == winner
            fill = RED if cells[i] == "✗" else fills[i]
            canvas.box(starts[i] + 2, top + high * k, wide - 4, high - 4, fill, INK if is_winner else fill)
            canvas.text(starts[i] + wide / 2, top + high * k + 18, cells[i], size=12, bold=is_winner)
    canvas.text(
        left,
        top + high * len(body) + 22,
        "Each column is one array. A rule is one expression on whole columns.",
        anchor="start",
        size=11,
        fill=QUIET,
    )
    return canvas.svg()


def _lines(head: str) -> list[str]:
    """A long name in several lines, the last one first."""
    words = re.findall(r"[A-Z][a-z]+|[a-z]+", head)
    lines = [""]
    for word in words:
        joint = " " if " " in head and lines[-1] else ""
        if len(lines[-1]) + len(word) > 13:
            lines.append("")
            joint = ""
        lines[-1] += joint + word
    return lines[::-1]


# ---- a fork ------------------------------------------------------------------------------------------------------


def fork() -> str:
    """A real fork in which one pod was moved: which arrays it still shares with its parent."""
    import numpy as np

    from mooring.testing import Scheduler, make_node, make_pod

    scheduler = Scheduler(*(make_node(name) for name in "abc"), make_pod("old", node="a", cpu="1"))
    parent = scheduler.cluster.nodes().table
    child = parent.fork()
    child.move_pods([(0, scheduler.cluster.pods()[0])], -1)
    names = [
        "allocatable",
        "unschedulable",
        "taint_set",
        "feature_set",
        "lowest_priority",
        "requested",
        "non_zero_requested",
        "pod_count",
    ]
    shared = {name: np.shares_memory(getattr(parent, name), getattr(child, name)) for name in names}
    canvas = Canvas(760, 90 + 34 * len(names), "A fork in which one pod was removed")
    canvas.text(30, 32, "A fork in which one pod was removed from node a", anchor="start", size=15, bold=True)
    canvas.text(190, 62, "parent", size=12, fill=QUIET)
    canvas.text(570, 62, "fork", size=12, fill=QUIET)
    for i, (name, is_shared) in enumerate(shared.items()):
        top = 74 + 34 * i
        if is_shared:
            canvas.box(60, top, 640, 26, BLUE)
            canvas.text(380, top + 18, f"{name}: one array for both", size=12)
        else:
            canvas.box(60, top, 300, 26, BLUE)
            canvas.box(400, top, 300, 26, AMBER)
            values = [
                ", ".join(str(int(v)) for v in np.atleast_2d(getattr(table, name))[0]) for table in (parent, child)
            ]
            canvas.text(210, top + 18, f"{name}: {values[0]}", size=12)
            canvas.text(550, top + 18, f"own copy: {values[1]}", size=12)
    return canvas.svg()


PICTURES: dict[str, Callable[[], str]] = {
    "way-of-a-pod.svg": way_of_a_pod,
    "layers.svg": layers,
    "columns.svg": columns,
    "fork.svg": fork,
}


def main() -> int:
    for name, draw in PICTURES.items():
        file, svg = IMAGES / name, draw()
        if "--check" not in sys.argv[1:]:
            file.write_text(svg, encoding="utf-8")
        elif not file.is_file() or file.read_text(encoding="utf-8") != svg:
            print(f"{name} is not what the code says; run scripts/docs_pictures.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
