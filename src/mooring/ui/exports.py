"""What can be taken away from a record: its decisions as a table, and a trace that Perfetto opens."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from mooring.errors import UsageError
from mooring.ui.timeline import NOBODY, OUTCOMES, PLACES, Kind, Timeline

COLUMNS = ("number", "time_s", "pod", "attempt", "outcome", "node", "plugins", "message")
QUEUE, NODES, COUNTS = 1, 2, 3  # the trace's processes


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
    for process, name in ((QUEUE, "queue"), (NODES, "nodes"), (COUNTS, "counts")):
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    for row, node in enumerate(timeline.nodes.values):
        yield {"ph": "M", "name": "thread_name", "pid": NODES, "tid": row + 1, "args": {"name": node}}
    waits: dict[int, str] = {}  # by pod: in which part of the queue
    counts = dict.fromkeys(PLACES[:4], 0)
    columns = timeline.events.columns.values()
    for time, kind, pod, node, aux, text, by in zip(*columns, strict=True):
        stamp = round(time * 1e6)
        name = timeline.pod_names.values[timeline.pods.columns["name"][pod]] if pod != NOBODY else ""
        waited = {"cat": "queue", "id": pod, "pid": QUEUE, "tid": 1, "ts": stamp, "args": {"pod": name}}
        runs = {"cat": "pod", "id": pod, "pid": NODES, "tid": node + 1, "ts": stamp, "name": name}
        leaves = kind in (Kind.PLACE, Kind.ATTEMPT, Kind.ON, Kind.POD_GONE) and pod in waits
        if leaves:
            place = waits.pop(pod)
            yield {"ph": "e", "name": f"{name}: {place}", **waited}
            counts[place] = counts.get(place, 0) - 1
        if kind == Kind.PLACE:
            place = waits[pod] = PLACES[aux & 7]
            yield {"ph": "b", "name": f"{name}: {place}", **waited}
            counts[place] = counts.get(place, 0) + 1
        elif kind == Kind.ATTEMPT:
            shown = {"pod": name, "attempt": aux >> 3, "by": timeline.texts.values[by]}
            outcome = OUTCOMES[aux & 7]
            shown |= {"message": timeline.texts.values[text]} if text else {}
            shown |= {"node": timeline.nodes.values[node]} if node != NOBODY else {}
            yield {"ph": "i", "s": "t", "name": outcome, "pid": QUEUE, "tid": 2, "ts": stamp, "args": shown}
        elif kind == Kind.ON:
            yield {"ph": "b", **runs}
        elif kind == Kind.OFF:
            yield {"ph": "e", **runs}
        elif kind == Kind.EVICTED:
            evicted = {"pod": name, "for": timeline.texts.values[text]}
            yield {"ph": "i", "s": "t", "name": "evicted", "pid": NODES, "tid": node + 1, "ts": stamp, "args": evicted}
        if leaves or kind == Kind.PLACE:
            yield {"ph": "C", "name": "waiting", "pid": COUNTS, "tid": 0, "ts": stamp, "args": dict(counts)}


def _harmless(text: str) -> str:
    """A spreadsheet takes what begins like this for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


EXPORTS = {
    ".csv": (decisions_csv, "text/csv; charset=utf-8"),
    ".parquet": (decisions_parquet, "application/vnd.apache.parquet"),
    ".json": (trace, "application/json"),
}
