"""The meter: receives events in order of time, and keeps every measure of a run up to date.

A simulation may have a million pods, so the code paths for arrival, placement and end of a pod are short.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from mooring.api.budgets import budget_selector
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.selectors import Selector
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.runtime import Profile
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.live.observer import Observed, SchedulerObserver
from mooring.record.entries import ERROR, Attempt, BindingFailed, Deleted, Entry, Evicted, Failed, Put
from mooring.record.measures import Measures, Timeline, assemble
from mooring.record.node_measures import Gauges, Moment, Nodes, NodeUse, Resources, Shape, Shapes
from mooring.record.reader import Record

# --------------------------------------------------------------------------------------------------------------------
# Preemptions: their number, the length of cascades, and violated disruption budgets.
#
# An evicted pod is recreated by its controller, and may evict others in turn. A preemption by a pod whose controller
# has lost a pod to a preemption of depth ``d`` has depth ``d + 1``; any other has depth 1.


@dataclass(slots=True)
class _Budget:
    selector: Selector
    allowed: int


class PreemptionMeasures:
    """Counts evictions as they happen."""

    def __init__(self) -> None:
        self.preemptions = 0
        self.victims = 0
        self.cascades = 0  # preemptions of depth 2 or more
        self.longest_cascade = 0
        self.budget_breaches = 0
        self._depths: dict[str, int] = {}  # by the controller of an evicted pod, or the pod itself
        self._budgets: dict[str, dict[str, _Budget]] = {}  # by namespace and name

    def put_budget(self, budget: PodDisruptionBudget) -> None:
        selector = budget_selector(budget)
        if selector is None:
            self.remove_budget(budget.key)
        else:
            known = self._budgets.setdefault(budget.namespace, {})
            known[budget.name] = _Budget(selector, budget.status.disruptions_allowed)

    def remove_budget(self, key: str) -> None:
        namespace, _, name = key.rpartition("/")
        self._budgets.get(namespace, {}).pop(name, None)

    def preempted(self, preemptor: Pod | None) -> None:
        """Count a preemption; its victims follow one by one."""
        self.preemptions += 1
        depth = self._depth_of(preemptor)
        self.cascades += depth > 1
        self.longest_cascade = max(self.longest_cascade, depth)

    def evicted(self, preemptor: Pod | None, victim: Pod | None) -> None:
        """Count a victim. None stands for an unknown pod."""
        self.victims += 1
        if victim is None:
            return
        identity = _identity(victim)
        self._depths[identity] = max(self._depths.get(identity, 0), self._depth_of(preemptor))
        breaks = False
        for budget in self._budgets.get(victim.namespace, {}).values():
            if budget.selector.matches(victim.labels):
                breaks |= budget.allowed <= 0
                budget.allowed -= 1  # until its controller recounts
        self.budget_breaches += breaks

    def _depth_of(self, preemptor: Pod | None) -> int:
        return 1 if preemptor is None else 1 + self._depths.get(_identity(preemptor), 0)


def _identity(pod: Pod) -> str:
    """Return the controller of a pod; without one its name, under which it may be recreated."""
    owner = pod.metadata.controller()
    return f"{pod.namespace}/{owner.kind}/{owner.name}" if owner is not None else pod.key


QUEUED, GATED, NOMINATED, OTHER = "in the queue", "SchedulingGates", "nominated", "other causes"
MOST_CAUSES = 32
FINISHED = ("Succeeded", "Failed")


class _PodState(msgspec.Struct, eq=False):
    """An existing pod. The struct is created without Python code."""

    pod: Pod  # as it arrived, or as it was bound
    shape: Shape
    came_s: float
    cause: int  # why it has no node; -1 if it has one
    use: NodeUse | None


@dataclass(eq=False, slots=True)
class _Refused:
    """What is known about the attempts of a pending pod."""

    failures: int = 0
    message: str = ""


class State(NamedTuple):
    """The state that a sample stores."""

    zones: list[tuple[str, Moment, Moment]]  # name, used and allocatable by resource
    nodes: Moment  # nodes, nodes with pods, price in an hour
    pending: Moment  # by cause
    stranded: list[float]  # by resource
    counts: tuple[int, int, int, int]  # attempts, placed, ended, victims; all since the start


class Meter:
    """Times are in seconds, of any clock; the first one is the start."""

    def __init__(self) -> None:
        self.resources = Resources()
        self.shapes = Shapes(self.resources)
        self.nodes = Nodes(self.resources, self.shapes)
        self.preemptions = PreemptionMeasures()
        self._started_at, self._has_started = 0.0, False
        self._now_s = 0.0
        self._due_s = -1.0  # when the next sample is due; nothing is due before the start
        self._pods: dict[str, _PodState] = {}  # by uid
        self._uids: dict[tuple[str, str], str] = {}  # by namespace and name
        self._refused: dict[str, _Refused] = {}  # by uid
        self.causes = [QUEUED, GATED, NOMINATED, OTHER]
        self._cause_of: dict[Collection[str], int] = {}
        self._pending = Gauges([0.0] * 4, [0.0] * 4)
        self._num_pending = self._peak = 0
        self.waits: dict[int, array[float]] = {}  # from arrival to placement, by priority
        self.arrived = self.placed = self.ended = 0
        self.attempts = self.unschedulable = self.errors = self.binding_failures = self.most_attempts = 0
        self._timeline = Timeline[State](self._state, self._take_peak)
        self._is_last = False

    # ---- inputs --------------------------------------------------------------------------------------------------

    def put(self, at: float, obj: Object) -> None:
        """Add or update an object."""
        at_s = at - self._started_at
        if not self._now_s <= at_s <= self._due_s:
            at_s = self._pass_to(at)
        self._now_s = at_s
        if type(obj) is Pod:
            known = self._pods.get(obj.metadata.uid)
            if known is None:
                self._come(at_s, obj)
            else:
                self._change(at_s, known, obj)
        elif isinstance(obj, Node):
            self.nodes.put(obj, at_s)
        elif isinstance(obj, PodDisruptionBudget):
            self.preemptions.put_budget(obj)

    def deleted(self, at: float, kind: str, key: str, uid: str = "") -> None:
        """Remove an object."""
        at_s = self._pass_to(at)
        if kind == "Pod":
            self._remove_pod(at_s, uid or self._uid_of(key))
        elif kind == "Node":
            self.nodes.remove(key, at_s)
        elif kind == "PodDisruptionBudget":
            self.preemptions.remove_budget(key)

    def _come(self, at_s: float, pod: Pod) -> None:
        if pod.status.phase in FINISHED:
            return
        meta, spec = pod.metadata, pod.spec
        key = (meta.namespace, meta.name)
        before = self._uids.get(key)
        if before is not None:
            self._remove_pod(at_s, before)  # its deletion was not seen
        uid = self._uids[key] = meta.uid
        self.arrived += 1
        shape = self.shapes.of(pod)
        if spec.node_name:
            use = self.nodes.place(spec.node_name, shape.amounts, at_s)
            self._pods[uid] = _PodState(pod, shape, at_s, -1, use)
            return
        cause = 1 if spec.scheduling_gates else 0
        self._pods[uid] = _PodState(pod, shape, at_s, cause, None)
        pending = self._pending
        pending.values[cause] += 1
        pending.moments[cause] += at_s
        self._num_pending += 1
        if self._num_pending > self._peak:
            self._peak = self._num_pending

    def _change(self, at_s: float, known: _PodState, pod: Pod) -> None:
        node_name = pod.spec.node_name
        if pod.spec.containers is not known.pod.spec.containers or pod.spec.resources is not known.pod.spec.resources:
            self._resize(at_s, known, pod)
        if known.use is None:
            if node_name:
                known.pod = pod
                self._waited(at_s, known)
                known.use = self.nodes.place(node_name, known.shape.amounts, at_s)
            else:
                self._wait_on(at_s, known, pod)
        if pod.status.phase in FINISHED:
            self._remove_pod(at_s, pod.metadata.uid)

    def _resize(self, at_s: float, known: _PodState, pod: Pod) -> None:
        """Process changed requests: those of a pod can be resized in place."""
        shape = self.shapes.now(pod)
        if shape is known.shape:
            return
        if known.use is not None:
            self.nodes.release(known.pod.spec.node_name, known.use, known.shape.amounts, at_s)
            known.use = self.nodes.place(known.pod.spec.node_name, shape.amounts, at_s)
        known.shape = shape

    def _wait_on(self, at_s: float, known: _PodState, pod: Pod) -> None:
        """Process a changed pending pod. If attempts are not recorded, its condition has the result."""
        if known.cause == 1 and not pod.spec.scheduling_gates:
            self._set_cause(known, 0, at_s)
        if self.attempts:
            return
        said = pod.scheduled_condition
        if said is not None and said.status == "False" and said.reason != "SchedulingGated":
            self._refused.setdefault(pod.metadata.uid, _Refused()).message = said.message
            self._set_cause(known, self._cause((said.reason or "Unschedulable",)), at_s)

    def _remove_pod(self, at_s: float, uid: str) -> None:
        known = self._pods.pop(uid, None)
        if known is None:
            return
        pod = known.pod
        meta = pod.metadata
        key = (meta.namespace, meta.name)
        if self._uids.get(key) == uid:
            del self._uids[key]
        if known.use is not None:
            self.nodes.release(pod.spec.node_name, known.use, known.shape.amounts, at_s)
            self.ended += 1
        else:
            self._pending.add(known.cause, -1, at_s)
            self._num_pending -= 1
            self._refused.pop(uid, None)

    def _waited(self, at_s: float, known: _PodState) -> None:
        pending, cause = self._pending, known.cause
        pending.values[cause] -= 1
        pending.moments[cause] -= at_s
        if cause:
            self._refused.pop(known.pod.metadata.uid, None)
        known.cause = -1
        self._num_pending -= 1
        self.placed += 1
        priority = known.pod.spec.priority or 0
        waits = self.waits.get(priority)
        if waits is None:
            waits = self.waits[priority] = array("d")
        waits.append(at_s - known.came_s)

    # ---- outcomes ------------------------------------------------------------------------------------------------

    def scheduled(self) -> None:
        """Count an attempt that found a node; the placement itself is reported with the pod."""
        self.attempts += 1

    def refused(
        self, at: float, uid: str, plugins: Collection[str], *, is_error: bool = False, makes_room: bool = False
    ) -> None:
        """Count an attempt without a node; ``makes_room``: victims are chosen, and the pod waits for them."""
        at_s = self._pass_to(at)
        self.attempts += 1
        if is_error:
            self.errors += 1
        else:
            self.unschedulable += 1
        known = self._pods.get(uid)
        if makes_room:
            self.preemptions.preempted(None if known is None else known.pod)
        if known is None or known.use is not None:
            return
        refused = self._refused.get(uid)
        if refused is None:
            refused = self._refused[uid] = _Refused()
        refused.failures += 1
        self.most_attempts = max(self.most_attempts, refused.failures)
        cause = 2 if makes_room else self._cause(plugins)
        if cause != known.cause:
            self._set_cause(known, cause, at_s)

    def explained(self, uid: str, message: str) -> None:
        """Set the message of a pod's last failed attempt."""
        refused = self._refused.get(uid)
        if refused is not None:
            refused.message = message

    def binding_failed(self, at: float) -> None:
        self._pass_to(at)
        self.binding_failures += 1

    def evicted(self, at: float, victim_uid: str, preemptor_key: str) -> None:
        """Count a victim of the preemptor."""
        self._pass_to(at)
        victim = self._pods.get(victim_uid)
        preemptor = self._pods.get(self._uid_of(preemptor_key))
        self.preemptions.evicted(None if preemptor is None else preemptor.pod, None if victim is None else victim.pod)

    def _uid_of(self, key: str) -> str:
        namespace, _, name = key.rpartition("/")
        return self._uids.get((namespace, name), "")

    def _cause(self, plugins: Collection[str]) -> int:
        found = self._cause_of.get(plugins)
        if found is None:
            name = ", ".join(sorted(plugins)) or "an error"
            if name in self.causes:
                found = self.causes.index(name)
            elif len(self.causes) >= MOST_CAUSES:
                found = 3
            else:
                found = len(self.causes)
                self.causes.append(name)
                self._pending.grow(len(self.causes))
            self._cause_of[plugins] = found
        return found

    def _set_cause(self, known: _PodState, cause: int, at_s: float) -> None:
        self._pending.add(known.cause, -1, at_s)
        self._pending.add(cause, 1, at_s)
        known.cause = cause

    # ---- time ----------------------------------------------------------------------------------------------------

    def _pass_to(self, at: float) -> float:
        """Return seconds from the start, after taking due samples. Time never decreases: a late entry counts as now."""
        if not self._has_started:
            self._started_at, self._has_started = at, True
            self._due_s = self._timeline.due_s
        at_s = at - self._started_at
        if at_s > self._due_s:
            self._timeline.pass_to(at_s)
            self._due_s = self._timeline.due_s
        if at_s > self._now_s:
            self._now_s = at_s
        return self._now_s

    def _state(self) -> State:
        return State(
            [(zone.name, zone.used.snapshot(), zone.allocatable.snapshot()) for zone in self.nodes.zones.values()],
            self.nodes.counts.snapshot(),
            self._pending.snapshot(),
            self.nodes.stranded(is_last=self._is_last),
            (self.attempts, self.placed, self.ended, self.preemptions.victims),
        )

    def _take_peak(self) -> float:
        peak, self._peak = self._peak, self._num_pending
        return float(peak)

    def finish(self, at: float | None = None) -> Measures:
        """Return the measures up to ``at``, or up to the last event. May be called again later."""
        end_s = self._now_s if at is None else self._pass_to(at)
        self._is_last = True
        samples = self._timeline.finish(end_s)
        self._is_last, self._peak = False, int(samples[-1].peak)  # the run may continue
        waiting = [known for known in self._pods.values() if known.use is None]
        nothing = _Refused()
        still = [
            (
                self.causes[known.cause],
                known.pod.key,
                self._refused.get(known.pod.metadata.uid, nothing).message,
                end_s - known.came_s,
            )
            for known in waiting
        ]
        return assemble(self, samples, still, self._started_at)


# --------------------------------------------------------------------------------------------------------------------
# Measures of a running scheduler: an observer that feeds a meter.


class MeasuringObserver(SchedulerObserver):
    """An observer of one scheduler; ``measures`` are those up to now."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._now: Callable[[], float] = lambda: 0.0
        self._offset_s = 0.0  # from the clock's own zero to 1970

    def measures(self) -> Measures:
        result = self._meter.finish(self._now())
        result.started_at += self._offset_s
        return result

    def configured(self, scheduler: Observed) -> None:
        self._now = scheduler.clock.monotonic
        self._offset_s = scheduler.clock.now() - self._now()

    def put(self, obj: Object) -> None:
        self._meter.put(self._now(), obj)

    def delete(self, obj: Object) -> None:
        self._meter.deleted(self._now(), type(obj).__name__, "" if type(obj) is Pod else obj.key, obj.metadata.uid)

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        if decision.outcome is Outcome.SCHEDULED:
            self._meter.scheduled()
            return
        self._meter.refused(
            self._now(),
            info.uid,
            decision.rejectors,
            is_error=decision.outcome is Outcome.ERROR,
            makes_room=bool(decision.victims),
        )

    def failed(self, info: QueuedPodInfo, profile: Profile, reason: str, message: str, seconds: float) -> None:
        self._meter.explained(info.uid, message)

    def binding_failed(self, info: QueuedPodInfo, message: str) -> None:
        self._meter.binding_failed(self._now())

    def evicted(self, preemptor: Pod, victim: Pod, node_name: str) -> None:
        self._meter.evicted(self._now(), victim.metadata.uid, preemptor.key)


# --------------------------------------------------------------------------------------------------------------------
# Measures of a record: its entries feed a meter, up to the time at which it was closed.


def measure_record(record: Record) -> Measures:
    """Return the measures of a whole record."""
    return measure_entries(record.entries(), record.last_time)


def measure_entries(entries: Iterable[tuple[float, Entry]], end: float) -> Measures:
    """Return the measures of entries in order of time; nothing happens between the last one and ``end``."""
    meter = Meter()
    for at, entry in entries:
        match entry:
            case Put():
                meter.put(at, entry.object)
            case Deleted():
                meter.deleted(at, entry.kind, entry.key, entry.uid)
            case Attempt(is_scheduled=True):
                meter.scheduled()
            case Attempt():
                meter.refused(
                    at,
                    entry.uid,
                    entry.plugins,
                    is_error=entry.outcome == ERROR,
                    makes_room=bool(entry.victims),
                )
                meter.explained(entry.uid, entry.message)
            case Failed():
                meter.explained(entry.uid, entry.message)
            case BindingFailed():
                meter.binding_failed(at)
            case Evicted():
                meter.evicted(at, entry.uid, entry.preemptor)
    return meter.finish(end)
