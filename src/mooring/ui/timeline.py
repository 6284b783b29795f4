"""Everything that happened in a cluster, as columns that the page can read forwards and backwards.

It hears objects as the scheduler does (``put``, ``delete``) and what the scheduler did as an observer. Each event is
one row of numbers; the page keeps all of them, so that any instant can be shown without asking the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.quantity import milli_value_of, value_of
from mooring.engine.decision import Decision, Outcome
from mooring.errors import ParseError
from mooring.framework.runtime import Profile
from mooring.observe.observer import SchedulerObserver
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.state.pod_info import PodShape
from mooring.ui.columns import Table, Tables, Texts

NOBODY = -1
PLACES = ("active", "backoff", "unschedulable", "gated", "permit", "in flight")
OUTCOMES = (Outcome.SCHEDULED, Outcome.UNSCHEDULABLE, Outcome.GATED, Outcome.ERROR)
IN_FLIGHT, PERMIT = PLACES.index("in flight"), PLACES.index("permit")


class Kind(IntEnum):
    """What an event says; ``aux`` and the texts mean something else for each."""

    NODE = 0  # a node comes or changes; aux: its version
    NODE_GONE = 1
    POD = 2  # a pod comes, without a node
    PLACE = 3  # a pod enters a part of the queue; aux: which; text: because of which event
    ATTEMPT = 4  # aux: outcome + 8 * number of the attempt; text: message; by: who refused; node: chosen or nominated
    ON = 5  # a pod counts on a node from now on
    OFF = 6  # and no more
    EVICTED = 7  # aux: the pod for which it has to go
    POD_GONE = 8
    BOUND = 9
    SAID = 10  # text: what a story tells its audience; by: who speaks


@dataclass(slots=True)
class _KnownPod:
    """A pod of the timeline: its row, and where it counts now."""

    row: int
    pod: Pod
    node: int = NOBODY
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """An object that came, changed or went, and how many events there were before."""

    event: int
    obj: Object
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a pod: the event, the pod as it was, and what came of it."""

    event: int
    pod: Pod
    outcome: Outcome
    node: str | None


class Timeline(SchedulerObserver):
    """The columns of one record, while it grows. ``now`` gives the time of what happens, in seconds from the start."""

    def __init__(self, now: Callable[[], float], *, keeps_objects: bool = True) -> None:
        self._now = now
        self.texts = Texts()
        self.nodes = Texts()
        self.pod_names = Texts()
        self.resources = Texts()
        self.versions = Table(node="i", is_cordoned="B", taints="i")
        self.labels = Table(version="i", key="i", value="i")
        self.allocatable = Table(version="i", resource="i", amount="d")
        self.pods = Table(name="i", priority="i")
        self.requests = Table(pod="i", resource="i", amount="d")
        self.events = Table(time="d", kind="B", pod="i", node="i", aux="i", text="i", by="i")
        self.tables: Tables = {
            "texts": self.texts,
            "nodes": self.nodes,
            "podNames": self.pod_names,
            "resources": self.resources,
            "versions": self.versions,
            "labels": self.labels,
            "allocatable": self.allocatable,
            "pods": self.pods,
            "requests": self.requests,
            "events": self.events,
        }
        self.changes: list[Change] = []  # of all objects, for those who want to see the cluster as it was
        self.attempts: dict[int, Attempt] = {}  # by event
        self.is_ended = False
        self.on_growth: Callable[[], None] = lambda: None
        self._keeps_objects = keeps_objects
        self._pods: dict[str, _KnownPod] = {}  # by uid
        self._node_keys: dict[str, tuple[Any, ...]] = {}  # what was last said of each node
        for name in ("cpu", "memory", "pods"):
            self.resources.number(name)
        self.texts.number("")

    # ---- objects ---------------------------------------------------------------------------------------------------

    def put(self, obj: Object) -> None:
        """An object comes or changes."""
        if self._keeps_objects:
            self.changes.append(Change(len(self.events), obj))
        if isinstance(obj, Pod):
            self._put_pod(obj)
        elif isinstance(obj, Node):
            self._put_node(obj)

    def delete(self, obj: Object) -> None:
        """An object is gone."""
        if self._keeps_objects:
            self.changes.append(Change(len(self.events), obj, is_gone=True))
        if isinstance(obj, Pod):
            self._end(obj)
        elif isinstance(obj, Node) and self._node_keys.pop(obj.name, None) is not None:
            self._happen(Kind.NODE_GONE, node=self.nodes.number(obj.name))

    def _put_node(self, node: Node) -> None:
        taints = ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in node.spec.taints)
        amounts = tuple((node.status.allocatable or node.status.capacity or {}).items())
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
        self._happen(Kind.NODE, node=row, aux=version)

    def _put_pod(self, pod: Pod) -> None:
        if pod.is_finished:
            self._end(pod)
            return
        known = self._known(pod)
        known.pod = pod
        if pod.spec.node_name:
            self._count(known, self.nodes.number(pod.spec.node_name))
            if not known.is_bound:
                known.is_bound = True
                self._happen(Kind.BOUND, pod=known.row, node=known.node)

    def _known(self, pod: Pod) -> _KnownPod:
        known = self._pods.get(pod.uid)
        if known is None:
            row = self.pods.add(self.pod_names.number(pod.key), pod.spec.priority or 0)
            for name, amount in PodShape(pod).requests.items():
                self.requests.add(row, self.resources.number(name), amount)
            known = self._pods[pod.uid] = _KnownPod(row, pod)
            if not pod.spec.node_name:
                self._happen(Kind.POD, pod=row)
        return known

    def _count(self, known: _KnownPod, node: int) -> None:
        if known.node == node:
            return
        self._count_no_more(known)
        known.node = node
        self._happen(Kind.ON, pod=known.row, node=node)

    def _count_no_more(self, known: _KnownPod) -> None:
        if known.node != NOBODY:
            self._happen(Kind.OFF, pod=known.row, node=known.node)
            known.node = NOBODY

    def _end(self, pod: Pod) -> None:
        known = self._pods.pop(pod.uid, None)
        if known is not None:
            self._count_no_more(known)
            self._happen(Kind.POD_GONE, pod=known.row)

    def _happen(
        self, kind: Kind, *, pod: int = NOBODY, node: int = NOBODY, aux: int = 0, text: str = "", by: str = ""
    ) -> int:
        number = self.texts.number
        event = self.events.add(self._now(), kind, pod, node, aux, number(text), number(by))
        self.on_growth()
        return event

    # ---- what the scheduler does -----------------------------------------------------------------------------------

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: Decision, seconds: float) -> None:
        pod = info.pod_info.pod
        plugins = ", ".join(sorted(decision.unschedulable_plugins))
        nominated = decision.nominated_node or None
        self.attempted(pod, decision.outcome, decision.node, nominated, info.attempts, decision.message, plugins)

    def attempted(
        self, pod: Pod, outcome: Outcome, node: str | None, nominated: str | None, attempt: int, message: str, by: str
    ) -> None:
        """An attempt at a pod was made. A pod that got a node counts there at once."""
        known = self._known(pod)
        aux = OUTCOMES.index(outcome) + 8 * attempt
        at = node or nominated
        event = self._happen(
            Kind.ATTEMPT,
            pod=known.row,
            node=NOBODY if at is None else self.nodes.number(at),
            aux=aux,
            text="" if outcome is Outcome.SCHEDULED else message,
            by=by,
        )
        if self._keeps_objects:
            self.attempts[event] = Attempt(event, pod, outcome, node)
        if outcome is Outcome.SCHEDULED and node is not None:
            self._count(known, self.nodes.number(node))

    def moved(self, info: QueuedPodInfo, place: str, event: str, cause: Object | None) -> None:
        because = "" if cause is None else f"{type(cause).__name__} {cause.name}"
        self.entered(info.pod_info.pod, place, event, because)

    def entered(self, pod: Pod, place: str, event: str, cause: str = "") -> None:
        """A pod entered a part of the queue."""
        if place in PLACES:
            self._happen(Kind.PLACE, pod=self._known(pod).row, aux=PLACES.index(place), text=event, by=cause)

    def waiting(self, info: QueuedPodInfo, node_name: str, plugins: Sequence[str]) -> None:
        known = self._known(info.pod_info.pod)
        self._happen(Kind.PLACE, pod=known.row, aux=PERMIT, text=node_name, by=", ".join(plugins))

    def failed(self, info: QueuedPodInfo, profile: Profile, reason: str, message: str, seconds: float) -> None:
        self.let_go(info.pod_info.pod)

    def let_go(self, pod: Pod) -> None:
        """A pod that had been given a node could not be bound."""
        known = self._pods.get(pod.uid)
        if known is not None and not known.is_bound and known.node != NOBODY:
            self._count_no_more(known)
            if self._keeps_objects:  # the pod goes, and comes again without its node
                self.changes += (Change(len(self.events), pod, is_gone=True), Change(len(self.events), pod))

    def evicted(self, preemptor: Pod, victim: Pod, node_name: str) -> None:
        row, cause = self._known(victim).row, self._known(preemptor).row
        self._happen(Kind.EVICTED, pod=row, node=self.nodes.number(node_name), aux=cause)

    def said(self, who: str, text: str) -> None:
        """A story says something to its audience."""
        self._happen(Kind.SAID, text=text, by=who)


def _amount(name: str, quantity: str | int | float) -> float:
    """CPU in thousandths, everything else in whole units; 0 for what cannot be read."""
    try:
        return milli_value_of(quantity) if name == "cpu" else value_of(quantity)
    except ParseError:
        return 0
