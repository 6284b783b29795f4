"""What can be taken away from a record: its decisions as a table, and a trace that Perfetto opens."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

from mooring.errors import UsageError
from mooring.ui.timeline import NOBODY, OUTCOMES, PLACES, Kind, Timeline

COLUMNS = ("number", "time_s", "pod", "attempt", "outcome", "node", "plugins", "message")
QUEUE, FIRST_NODE = 1, 2  # the trace's processes
ATTEMPTS = 1  # a thread of the queue


def decisions(timeline: Timeline) -> Iterator[tuple[Any, ...]]:
    """Every attempt: its number in the record, when, which pod, how it ended, where, and why not."""
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


def decisions_csv(timeline: Timeline) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in decisions(timeline):
        writer.writerow([_harmless(value) if isinstance(value, str) else value for value in row])
    return text.getvalue().encode()


def decisions_parquet(timeline: Timeline) -> bytes:
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


def trace(timeline: Timeline) -> bytes:
    """Chrome's JSON trace format: where each pod waits and runs, attempts and evictions, and how many wait."""
    return json.dumps({"traceEvents": list(_trace(timeline)), "displayTimeUnit": "ms"}, ensure_ascii=False).encode()


def _trace(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """The queue has a track per pod. A node is a process, and its pods lie on as many threads as there are at once."""
    yield _named("process_name", QUEUE, 0, "queue")
    yield _named("thread_name", QUEUE, ATTEMPTS, "attempts")
    for row, node in enumerate(timeline.nodes.values):
        yield _named("process_name", FIRST_NODE + row, 0, node)
    waits: dict[int, str] = {}  # by pod: in which part of the queue; empty while an attempt is made
    counts = dict.fromkeys(PLACES, 0)
    lanes = _Lanes()
    columns = timeline.events.columns.values()
    for time, kind, pod, node, aux, text, by in zip(*columns, strict=True):
        name = timeline.pod_names.values[timeline.pods.columns["name"][pod]] if pod != NOBODY else ""
        at = {"ts": round(time * 1e6)}
        waited = {"cat": "queue", "id2": {"local": f"{pod:#x}"}, "pid": QUEUE, "tid": 0, **at}
        moves = kind in (Kind.PLACE, Kind.ATTEMPT, Kind.ON, Kind.POD_GONE)
        before = waits.get(pod, "") if moves else ""
        if before:
            counts[before] -= 1
            waits[pod] = ""
            yield {"ph": "e", "name": before, **waited}
        if kind in (Kind.PLACE, Kind.ATTEMPT) and pod not in waits:
            waits[pod] = ""
            yield {"ph": "b", "name": name, **waited}
        elif kind in (Kind.ON, Kind.POD_GONE) and waits.pop(pod, None) is not None:
            yield {"ph": "e", "name": name, **waited}
        if kind == Kind.PLACE:
            place = waits[pod] = PLACES[aux & 7]
            counts[place] += 1
            yield {"ph": "b", "name": place, **waited}
        elif kind == Kind.ATTEMPT:
            shown = {"pod": name, "attempt": aux >> 3, "by": timeline.texts.values[by]}
            shown |= {"message": timeline.texts.values[text]} if text else {}
            shown |= {"node": timeline.nodes.values[node]} if node != NOBODY else {}
            outcome = OUTCOMES[aux & 7]
            yield {"ph": "i", "s": "t", "name": outcome, "pid": QUEUE, "tid": ATTEMPTS, **at, "args": shown}
        elif kind == Kind.ON:
            yield {"ph": "B", "name": name, "pid": FIRST_NODE + node, "tid": lanes.take(node, pod), **at}
        elif kind == Kind.OFF:
            yield {"ph": "E", "name": name, "pid": FIRST_NODE + node, "tid": lanes.give_back(node, pod), **at}
        elif kind == Kind.EVICTED:
            evicted = {"pod": name, "for": timeline.texts.values[text]}
            yield {"ph": "i", "s": "p", "name": "evicted", "pid": FIRST_NODE + node, "tid": 0, **at, "args": evicted}
        if before or kind == Kind.PLACE:
            yield {"ph": "C", "name": "waiting", "pid": QUEUE, "tid": 0, **at, "args": dict(counts)}


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


class _Lanes:
    """Threads of a node: slices of one thread must not overlap, so a pod gets the lowest one that is free."""

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


def _harmless(text: str) -> str:
    """A spreadsheet takes what begins like this for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


EXPORTS = {
    ".csv": (decisions_csv, "text/csv; charset=utf-8"),
    ".parquet": (decisions_parquet, "application/vnd.apache.parquet"),
    ".json": (trace, "application/json"),
}
