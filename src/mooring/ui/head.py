"""The last instant of a record alone: what the page shows first, while it reads the rest.

It has the form of a record. On each node one pod stands for all of its pods; pods that wait are there by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.ui.timeline import NOBODY, PLACES, Kind, Timeline

MAX_WAITING = 1_000  # pods that wait, by name
IN_FLIGHT = PLACES.index("in-flight")
NOWHERE = 255
PODS = 2  # among the resources


@dataclass(frozen=True, slots=True)
class Head:
    """A small record, and the counts that it cannot have by itself."""

    timeline: Timeline
    running: int  # pods on nodes
    waiting: list[int]  # pods by their place in the queue


def head_of(timeline: Timeline) -> Head:
    """The instant after everything that has happened so far."""
    events = {name: np.array(column) for name, column in timeline.events.columns.items()}
    is_on = _last(events, (Kind.ON, Kind.OFF), len(timeline.pods), events["kind"]) == Kind.ON
    on_node = np.where(is_on, _last(events, (Kind.ON,), len(timeline.pods), events["node"]), NOBODY)
    kinds = (Kind.NODE, Kind.NODE_GONE)
    is_there = _last(events, kinds, len(timeline.nodes), events["kind"], by="node") == Kind.NODE
    version = _last(events, (Kind.NODE,), len(timeline.nodes), events["aux"], by="node")
    small = Timeline(0.0)
    small.now = float(events["time"][0]) if len(timeline.events) else 0.0  # it begins when the record begins
    _put_nodes(small, timeline, np.where(is_there, version, NOBODY))
    _put_used(small, timeline, on_node)
    waiting = _put_waiting(small, timeline, events)
    small.now = timeline.now
    small.happen(Kind.BOUND)  # nobody: it says how late it is
    return Head(small, int(is_on.sum()), waiting)


def _last(
    events: dict[str, NDArray[Any]], kinds: tuple[Kind, ...], rows: int, value: NDArray[Any], by: str = "pod"
) -> NDArray[np.int64]:
    """For each pod (or node) what its last event of these kinds says; -1 where there is none."""
    found = np.full(rows, NOBODY, np.int64)
    which = np.isin(events["kind"], kinds)
    found[events[by][which]] = value[which]  # of several the last one stays
    return found


def _put_nodes(found: Timeline, timeline: Timeline, versions: NDArray[np.int64]) -> None:
    texts = timeline.texts.values
    for name in timeline.nodes.values:
        found.nodes.number(name)  # the same numbers as in the whole record
    for name in timeline.resources.values:
        found.resources.number(name)
    labels, allocatable, known = timeline.labels.columns, timeline.allocatable.columns, timeline.versions.columns
    starts = {
        name: np.searchsorted(np.array(table["version"]), np.arange(len(timeline.versions) + 1)).tolist()
        for name, table in (("labels", labels), ("allocatable", allocatable))
    }
    for node, version in enumerate(versions.tolist()):
        if version == NOBODY:
            continue
        row = found.versions.add(
            node, known["is_cordoned"][version], found.texts.number(texts[known["taints"][version]])
        )
        for i in range(starts["labels"][version], starts["labels"][version + 1]):
            key, value = texts[labels["key"][i]], texts[labels["value"][i]]
            found.labels.add(row, found.texts.number(key), found.texts.number(value))
        for i in range(starts["allocatable"][version], starts["allocatable"][version + 1]):
            found.allocatable.add(row, allocatable["resource"][i], allocatable["amount"][i])
        found.happen(Kind.NODE, node=node, aux=row)


def _put_used(found: Timeline, timeline: Timeline, on_node: NDArray[np.int64]) -> None:
    """One pod per node that requests as much as all of its pods."""
    pod, resource, amount = (np.array(column) for column in timeline.requests.columns.values())
    at = on_node[pod]
    is_there = at != NOBODY
    resources, nodes = len(timeline.resources), len(timeline.nodes)
    used = np.bincount(at[is_there] * resources + resource[is_there], amount[is_there], nodes * resources)
    used = used.reshape(nodes, resources)
    pods = np.bincount(on_node[on_node != NOBODY], minlength=nodes)
    for node in np.flatnonzero(pods).tolist():
        row = found.pods.add(found.pod_names.number(""), 0)
        for each, value in enumerate(used[node].tolist()):
            if value or each == PODS:
                found.requests.add(row, each, value if each != PODS else int(pods[node]) - 1)  # it counts by itself
        found.happen(Kind.ON, pod=row, node=node)


def _put_waiting(found: Timeline, timeline: Timeline, events: dict[str, NDArray[Any]]) -> list[int]:
    """The pods that wait, with their last attempts; returns how many are in each place."""
    kinds = (Kind.PLACE, Kind.ATTEMPT, Kind.ON, Kind.POD_GONE)
    last = _last(events, kinds, len(timeline.pods), np.arange(len(events["kind"])))
    kind, aux = events["kind"][last], events["aux"][last]
    place = np.where(kind == Kind.PLACE, aux & 7, np.where(kind == Kind.ATTEMPT, IN_FLIGHT, NOWHERE))
    place[last == NOBODY] = NOWHERE
    attempt = _last(events, (Kind.ATTEMPT,), len(timeline.pods), np.arange(len(events["kind"])))
    shown = np.flatnonzero(place < IN_FLIGHT)[:MAX_WAITING].tolist()
    if timeline.attempt_events:  # the pod of the last attempt comes last, whether it waits or not
        latest = int(events["pod"][timeline.attempt_events[-1]])
        shown = [*(pod for pod in shown if pod != latest), latest]
    for pod in shown:
        row = _row(found, timeline, pod)
        for event in dict.fromkeys((int(attempt[pod]), int(last[pod]))):
            if event != NOBODY and events["kind"][event] in (Kind.ATTEMPT, Kind.PLACE):
                _copy(found, timeline, events, event, row)
    return [int((place == each).sum()) for each in range(len(PLACES))]


def _row(found: Timeline, timeline: Timeline, pod: int) -> int:
    name = timeline.pod_names.values[timeline.pods.columns["name"][pod]]
    return found.pods.add(found.pod_names.number(name), timeline.pods.columns["priority"][pod])


def _copy(found: Timeline, timeline: Timeline, events: dict[str, NDArray[Any]], event: int, row: int) -> None:
    """The same event, about the same pod under its number here."""
    texts = timeline.texts.values
    kind, node, aux, text, by = (int(events[name][event]) for name in ("kind", "node", "aux", "text", "by"))
    found.now = float(events["time"][event])
    found.happen(Kind(kind), pod=row, node=node, aux=aux, text=texts[text], by=texts[by])
