"""A record as columns that the page can read forwards and backwards.

Each event is one row of numbers. The page keeps all of them, so that any instant can be shown without a request. A pod
counts on its node from the attempt that chose it, as in the scheduler's cache.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from mooring.api.core import Node, Pod
from mooring.api.errors import InputError, ParseError
from mooring.api.meta import Object
from mooring.api.quantity import milli_value_of, value_of
from mooring.core.state.requests import is_sidecar, pod_requests, rounded_requests
from mooring.record import entries

# --------------------------------------------------------------------------------------------------------------------
# Columns that only grow, and the encoding of their new rows.
#
# A message is a length (4 bytes, little-endian), a JSON header of that length, and one buffer per column, aligned to 8
# bytes. The reader says how many rows of each table it has, and gets new ones, at most ``MAX_ROWS`` of each, which
# bounds the server's memory per reader.

MAX_ROWS = 262_144
ALIGNMENT = 8

TYPES = {"d": "f64", "i": "i32", "B": "u8"}


class Texts:
    """Texts by number; the same text has one number."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.values)
            self.values.append(text)
        return found

    def __len__(self) -> int:
        return len(self.values)

    def part(self, begin: int, end: int) -> dict[str, Any]:
        return {"texts": self.values[begin:end]}


class ColumnTable:
    """Rows in named columns of numbers; types are those of :mod:`array`."""

    def __init__(self, **types: str) -> None:
        self.columns: dict[str, array[Any]] = {name: array(type) for name, type in types.items()}
        self._appends = tuple(column.append for column in self.columns.values())
        # A row is complete when its last column is: another thread may read while rows are added, and the length of the
        # last column never counts an incomplete row.
        self._last = next(reversed(self.columns.values()))

    def add(self, *values: float) -> int:
        """Add a row and return its number."""
        row = len(self)
        for append, value in zip(self._appends, values, strict=True):
            append(value)
        return row

    def __len__(self) -> int:
        return len(self._last)

    def part(self, begin: int, end: int) -> dict[str, Any]:
        return {name: column[begin:end] for name, column in self.columns.items()}


Tables = dict[str, Texts | ColumnTable]


def encode(
    tables: Tables, have: Sequence[int], *, last: str, more: dict[str, Any] | None = None, most: int = 0
) -> bytes:
    """Encode the new rows of each table. Rows of ``last`` refer to the others, and are sent after them."""
    # The length of ``last`` is taken first: what its rows refer to was added before them, so it is already in the other
    # tables, however much those grow in the meantime.
    ends = {last: len(tables[last])}
    ends |= {name: len(table) for name, table in tables.items() if name != last}
    parts: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    is_whole = True
    for (name, table), begin in sorted(zip(tables.items(), have, strict=True), key=lambda each: each[0][0] == last):
        end = min(ends[name], begin + (most or MAX_ROWS))
        if name == last and not is_whole:
            end = begin
        is_whole = is_whole and end == ends[name]
        part: dict[str, Any] = {"table": name, "rows": max(0, end - begin)}
        for column, values in table.part(begin, end).items():
            if isinstance(values, list):
                part[column] = values
            else:
                part.setdefault("columns", []).append([column, TYPES[values.typecode]])
                buffers.append(values.tobytes())
        parts.append(part)
    header = json.dumps({"tables": parts, "whole": is_whole, **(more or {})}, ensure_ascii=False).encode()
    message = bytearray(len(header).to_bytes(4, "little") + header)
    for buffer in buffers:
        message += bytes(-len(message) % ALIGNMENT) + buffer
    return bytes(message)


NOBODY = -1
PLACES = ("active", "backoff", "unschedulable", "gated", "permit", "in-flight")
OUTCOMES = ("scheduled", "unschedulable", "gated", "error")


class EventKind(IntEnum):
    """Kinds of events; the meaning of ``aux`` and the texts depends on the kind."""

    NODE = 0  # a node is added or changed; aux: its version
    NODE_GONE = 1
    POD = 2  # a pod is added, without a node
    PLACE = 3  # a pod enters a part of the queue; aux: which; text: because of which event; by: its cause. One that is
    # found there: aux: which + 8 * number of its attempts so far; by: who refused it
    # aux: outcome + 8 * number of the attempt; text: message; by: rejecting plugins; node: chosen or nominated
    ATTEMPT = 4
    ON = 5  # a pod counts on a node from now on
    OFF = 6  # the node no longer counts it
    EVICTED = 7  # text: the pod that it was evicted for
    POD_GONE = 8
    BOUND = 9
    SAID = 10  # text: narration of a story; by: the speaker


class Role(IntEnum):
    """What a container is for."""

    CONTAINER = 0
    SIDECAR = 1
    INIT = 2


@dataclass(slots=True)
class _KnownPod:
    """A pod of the timeline: its row, and where it counts."""

    row: int
    node: int = NOBODY
    is_bound: bool = False
    place: str = ""  # in the queue, as last reported


class PageTimeline:
    """The columns of one record; ``take`` adds the next event. Times are seconds from ``started``."""

    def __init__(self, started: float) -> None:
        self._started = started
        self.now = 0.0  # time of the last event
        self.texts = Texts()
        self.nodes = Texts()
        self.pod_names = Texts()
        self.resources = Texts()
        self.versions = ColumnTable(node="i", is_cordoned="B", taints="i")
        self.labels = ColumnTable(version="i", key="i", value="i")
        self.allocatable = ColumnTable(version="i", resource="i", amount="d")
        self.pods = ColumnTable(name="i", priority="i", owner="i", shape="i")
        # Pods of one template have one shape: its containers, a row for each resource, and one where there is none.
        self.containers = ColumnTable(shape="i", at="i", name="i", role="B", resource="i", amount="d")
        self.requests = ColumnTable(pod="i", resource="i", amount="d")
        self.events = ColumnTable(time="d", kind="B", pod="i", node="i", aux="i", text="i", by="i")
        self.tables: Tables = {
            "texts": self.texts,
            "nodes": self.nodes,
            "podNames": self.pod_names,
            "resources": self.resources,
            "versions": self.versions,
            "labels": self.labels,
            "allocatable": self.allocatable,
            "pods": self.pods,
            "containers": self.containers,
            "requests": self.requests,
            "events": self.events,
        }
        self.attempt_events: array[int] = array("q")  # events that are attempts, in order
        self._attempt_numbers: array[int] = array("q")
        self._pods: dict[str, _KnownPod] = {}  # by uid
        self._node_keys: dict[str, tuple[Any, ...]] = {}  # last known state of each node
        self._shapes: dict[tuple[Any, ...], int] = {}
        for name in ("cpu", "memory", "pods"):
            self.resources.number(name)
        self.texts.number("")

    def attempt_number(self, event: int) -> int:
        """Return the record's number of the attempt at this event."""
        at = bisect_left(self.attempt_events, event)
        if at == len(self.attempt_events) or self.attempt_events[at] != event:
            raise InputError(f"event {event} is not an attempt")
        return self._attempt_numbers[at]

    def take(self, time: float, entry: entries.Happened) -> None:
        """Add the next event; ``time`` is in seconds since the epoch."""
        self.now = time - self._started
        match entry:
            case entries.Put(object=obj):
                self._put(obj)
            case entries.Deleted(kind="Pod", uid=uid):
                self._end(uid)
            case entries.Deleted(kind="Node", key=name):
                if self._node_keys.pop(name, None) is not None:
                    self.happen(EventKind.NODE_GONE, node=self.nodes.number(name))
            case entries.Attempt():
                self._attempted(entry)
            case entries.Moved(uid=uid, place=place, event=event, cause=cause):
                self._enter(uid, place, event, cause)
            case entries.Queued(uid=uid, place=place, event=event) if not self._is_in(uid, place):
                self._enter(uid, place, event, ", ".join(entry.plugins), entry.tries)
            case entries.Waiting(uid=uid, node=node, plugins=plugins):
                self._enter(uid, "permit", node, ", ".join(plugins))
            case entries.Assumed(uid=uid, node=node) if uid in self._pods:
                self._count(self._pods[uid], self.nodes.number(node))
            case entries.Failed(uid=uid) if uid in self._pods:
                if not self._pods[uid].is_bound:
                    self._count_no_more(self._pods[uid])
            case entries.Evicted(uid=uid, node=node, preemptor=preemptor) if uid in self._pods:
                self.happen(EventKind.EVICTED, pod=self._pods[uid].row, node=self.nodes.number(node), text=preemptor)
            case entries.Note(text=text, kind=kind):
                self.happen(EventKind.SAID, text=text, by=kind)

    # ---- objects ---------------------------------------------------------------------------------------------------

    def _put(self, obj: Object) -> None:
        if isinstance(obj, Pod):
            self._put_pod(obj)
        elif isinstance(obj, Node):
            self._put_node(obj)

    def _put_node(self, node: Node) -> None:
        taints = ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in node.spec.taints)
        amounts = tuple((node.status.allocatable or node.status.capacity).items())
        key = (bool(node.spec.unschedulable), taints, amounts, tuple(node.metadata.labels.items()))
        if self._node_keys.get(node.name) == key:
            return
        self._node_keys[node.name] = key
        row = self.nodes.number(node.name)
        version = self.versions.add(row, key[0], self.texts.number(taints))
        for name, value in node.metadata.labels.items():
            self.labels.add(version, self.texts.number(name), self.texts.number(value))
        for name, amount in amounts:
            self.allocatable.add(version, self.resources.number(name), _amount(name, amount))
        self.happen(EventKind.NODE, node=row, aux=version)

    def _put_pod(self, pod: Pod) -> None:
        if pod.is_finished:
            self._end(pod.uid)
            return
        known = self._pods.get(pod.uid)
        if known is None:
            known = self._pods[pod.uid] = _KnownPod(self._new_row(pod))
            if not pod.spec.node_name:
                self.happen(EventKind.POD, pod=known.row)
        if pod.spec.node_name and not known.is_bound:
            known.is_bound = True
            self._count(known, self.nodes.number(pod.spec.node_name))
            self.happen(EventKind.BOUND, pod=known.row, node=known.node)

    def _new_row(self, pod: Pod) -> int:
        owner = pod.metadata.controller()
        named = self.texts.number(f"{owner.kind}/{owner.name}" if owner is not None else "")
        row = self.pods.add(self.pod_names.number(pod.key), pod.spec.priority or 0, named, self._shape(pod))
        try:
            requests = rounded_requests(pod_requests(pod))
        except ParseError:
            requests = {}  # it is pending for ever, with a reason
        for name, amount in requests.items():
            self.requests.add(row, self.resources.number(name), amount)
        return row

    def _shape(self, pod: Pod) -> int:
        """The number of what the pod's containers are called and ask for."""
        roles = [(each, Role.CONTAINER) for each in pod.spec.containers]
        roles += [(each, Role.SIDECAR if is_sidecar(each) else Role.INIT) for each in pod.spec.init_containers]
        key = tuple((each.name, role, tuple(each.resources.requests.items())) for each, role in roles)
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = len(self._shapes)
            for at, (name, role, requests) in enumerate(key):
                text = self.texts.number(name)
                for resource, amount in requests or (("", 0),):
                    number = self.resources.number(resource) if resource else NOBODY
                    self.containers.add(found, at, text, role, number, _amount(resource, amount))
        return found

    def _count(self, known: _KnownPod, node: int) -> None:
        if known.node == node:
            return
        self._count_no_more(known)
        known.node = node
        self.happen(EventKind.ON, pod=known.row, node=node)

    def _count_no_more(self, known: _KnownPod) -> None:
        if known.node != NOBODY:
            self.happen(EventKind.OFF, pod=known.row, node=known.node)
            known.node = NOBODY

    def _end(self, uid: str) -> None:
        known = self._pods.pop(uid, None)
        if known is not None:
            self._count_no_more(known)
            self.happen(EventKind.POD_GONE, pod=known.row)

    # ---- actions of the scheduler ------------------------------------------------------------------------------------

    def _attempted(self, attempt: entries.Attempt) -> None:
        known = self._pods.get(attempt.uid)
        if known is None:
            return
        at = attempt.node or attempt.nominated or ""
        event = self.happen(
            EventKind.ATTEMPT,
            pod=known.row,
            node=self.nodes.number(at) if at else NOBODY,
            aux=OUTCOMES.index(attempt.outcome) + 8 * attempt.tries,
            text=attempt.message,
            by=", ".join(attempt.plugins),
        )
        known.place = ""
        self.attempt_events.append(event)
        self._attempt_numbers.append(attempt.number)
        if attempt.is_scheduled:
            self._count(known, self.nodes.number(attempt.node))

    def _enter(self, uid: str, place: str, because: str, by: str, tries: int = 0) -> None:
        known = self._pods.get(uid)
        if known is not None and place in PLACES:
            known.place = place
            self.happen(EventKind.PLACE, pod=known.row, aux=PLACES.index(place) + 8 * tries, text=because, by=by)

    def _is_in(self, uid: str, place: str) -> bool:
        """Report whether this is known: a new part of a record repeats the place of every pod."""
        known = self._pods.get(uid)
        return known is not None and known.place == place

    def happen(
        self, kind: EventKind, *, pod: int = NOBODY, node: int = NOBODY, aux: int = 0, text: str = "", by: str = ""
    ) -> int:
        """Add an event; return its number."""
        number = self.texts.number
        return self.events.add(self.now, kind, pod, node, aux, number(text), number(by))


def _amount(name: str, quantity: str | int | float) -> float:
    """Return CPU in thousandths, everything else in whole units; 0 for invalid amounts."""
    try:
        return milli_value_of(quantity) if name == "cpu" else value_of(quantity)
    except ParseError:
        return 0
