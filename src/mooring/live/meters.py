"""Counters and timers of the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mooring.api.clock import Clock, SystemClock
from mooring.core.engine.decision import ScheduleResult
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.framework.cycle_state import PluginTimer
from mooring.core.framework.extension_points import METRIC_NAMES
from mooring.core.framework.handle import PluginMeters
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import CODE_NAMES, Code
from mooring.core.queue.profile import QueueRecorder
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.state.cluster import ClusterState
from mooring.live.failure import UNSCHEDULABLE
from mooring.live.metrics import SchedulerMetrics
from mooring.live.observer import Room, SchedulerObserver

SAMPLED = 10
"""Plugins are timed in one of ten attempts; upstream samples the same share at random."""


class _Evaluated:
    """Number of evaluations of a list of plugins at a point; distributed over the plugins before a scrape.

    Holding the list keeps its identity from being reused.
    """

    __slots__ = ("plugins", "point", "times")

    def __init__(self, point: str, plugins: Sequence[Any]) -> None:
        self.point, self.plugins, self.times = point, plugins, 0


class ProfileMeters(PluginMeters):
    """The metrics of one profile."""

    __slots__ = ("_begun", "_evaluated", "_metrics", "_name", "_points", "timer")

    def __init__(self, metrics: SchedulerMetrics, name: str, clock: Clock | None = None) -> None:
        self._metrics = metrics
        self._name = name
        self._begun = 0
        self._points = metrics.framework_extension_point_duration
        self.timer = PluginTimer((clock or SystemClock()).monotonic, self._plugin)
        self._evaluated: dict[int, _Evaluated] = {}  # by the identity of the list of plugins

    def attempt(self, result: str, seconds: float) -> None:
        """Count an attempt that ended as ``scheduled``, ``unschedulable`` or ``error``."""
        self._metrics.schedule_attempts[result, self._name].value += 1
        self._metrics.scheduling_attempt_duration[result, self._name].later(seconds)
        self._metrics.noted()

    def extension_point(self, point: str, status: str, seconds: float) -> None:
        self._points[point, status, self._name].later(seconds)

    def forget(self) -> None:
        self._evaluated.clear()

    def evaluated(self, point: str, plugins: Sequence[Any], times: int) -> None:
        known = self._evaluated.get(id(plugins))
        if known is None:
            known = self._evaluated[id(plugins)] = _Evaluated(point, plugins)
        known.times += times

    def plugin_timer(self) -> PluginTimer | None:
        self._begun += 1
        return self.timer if self._begun % SAMPLED == 1 else None

    def _plugin(self, plugin: str, method: str, code: Code, seconds: float) -> None:
        point = METRIC_NAMES.get(method, method)
        self._metrics.plugin_execution_duration[plugin, point, CODE_NAMES[code]].later(seconds)

    def node_hint(self, *, is_hinted: bool, flushed: str, seconds: float) -> None:
        hinted = "hint" if is_hinted else "no_hint"
        self._metrics.get_node_hint_duration[hinted, self._name].later(seconds)
        if not is_hinted:
            self._metrics.batch_attempts[self._name, "no_hint"].value += 1
        if flushed:
            self._metrics.batch_cache_flushed[self._name, flushed].value += 1

    def batch_rescored(self, seconds: float) -> None:
        self._metrics.versioned.batch_rescore_attempts.labels(self._name).inc()
        self._metrics.versioned.batch_rescore_duration.labels(self._name).observe(seconds)

    def batch_stored(self, hint: bool | None, flushed: str, seconds: float) -> None:
        self._metrics.store_schedule_results_duration[self._name,].later(seconds)
        if hint is not None:
            self._metrics.batch_attempts[self._name, "hint_used" if hint else "hint_not_used"].value += 1
        if flushed:
            self._metrics.batch_cache_flushed[self._name, flushed].value += 1

    # ---- what plugins count ------------------------------------------------------------------------------------

    def claim_created(self, *, is_created: bool) -> None:
        self._metrics.versioned.claim_created(is_created=is_created)

    def devices_waited_for(
        self, drivers: Iterable[str], conditional: Iterable[str], status: str, seconds: float
    ) -> None:
        for driver in drivers:
            self._metrics.dra_bindingconditions_wait_duration.labels(self._name, driver, status).observe(seconds)
        for driver in conditional:
            self._metrics.dra_bindingconditions_allocations.labels(self._name, driver, status).inc()

    def preemption_attempted(self) -> None:
        self._metrics.preemption_attempts.inc()

    def group_preemption_attempted(self, code: Code) -> None:
        self._metrics.versioned.groups.preemption_attempts.labels(CODE_NAMES[code]).inc()

    def preemption_evaluated(self, preemptor: str, code: Code, seconds: float) -> None:
        self._metrics.versioned.groups.preemption_evaluation.labels(preemptor, CODE_NAMES[code]).observe(seconds)

    def group_tried(self, seconds: float) -> None:
        self._metrics.versioned.groups.algorithm.observe(seconds)

    def placements_generated(self, count: int) -> None:
        self._metrics.versioned.placements.generated.labels(self._name).inc(count)

    def placement_evaluated(self, *, is_feasible: bool, seconds: float) -> None:
        placements, result = self._metrics.versioned.placements, "feasible" if is_feasible else "infeasible"
        placements.evaluations.labels(result, self._name).inc()
        placements.evaluation_duration.labels(result, self._name).observe(seconds)

    def volume_stage_failed(self, operation: str) -> None:
        self._metrics.volume_scheduling_stage_error.labels(operation).inc()

    # ---- before a scrape ---------------------------------------------------------------------------------------

    def spread_evaluations(self) -> None:
        """Add each plugin's share of the evaluations since the last call."""
        for counted in self._evaluated.values():
            for entry in counted.plugins if counted.times else ():
                plugin = entry[0] if isinstance(entry, tuple) else entry
                self._metrics.plugin_evaluation.labels(plugin.name, counted.point, self._name).inc(counted.times)
            counted.times = 0


class ProfileGates:
    """Meters of the queue's PreEnqueue plugins, with samples of their own."""

    __slots__ = ("_asked", "_noted", "_profile", "extension_point")

    def __init__(self, profile: ProfileMeters, noted: Callable[[], None]) -> None:
        self._asked = 0
        self._noted = noted
        self._profile = profile
        self.extension_point = profile.extension_point

    def plugin_timer(self) -> PluginTimer | None:
        self._asked += 1
        self._noted()  # gates may be evaluated repeatedly without an attempt
        return self._profile.timer if self._asked % SAMPLED == 1 else None


class Meters(SchedulerObserver, QueueRecorder):
    """All metrics of a scheduler, as an observer and as the queue's metrics recorder."""

    wants_hint_durations = True

    def __init__(self, metrics: SchedulerMetrics, clock: Clock | None = None) -> None:
        self.metrics = metrics
        self._clock = clock or SystemClock()
        self._profiles: dict[str, ProfileMeters] = {}
        self._gates: dict[str, ProfileGates] = {}

    def profile(self, name: str) -> ProfileMeters:
        meters = self._profiles.get(name)
        if meters is None:
            meters = self._profiles[name] = ProfileMeters(self.metrics, name, self._clock)
        return meters

    # ---- from the scheduler ----------------------------------------------------------------------------------

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        self.metrics.scheduling_algorithm_duration[()].later(seconds)

    def waited(self, info: QueuedPodInfo, code: Code, seconds: float) -> None:
        self.metrics.permit_wait_duration.labels(CODE_NAMES[code]).observe(seconds)

    def binding(self, info: QueuedPodInfo) -> None:
        self.metrics.goroutines["binding",].inc()

    def binding_ended(self, info: QueuedPodInfo) -> None:
        self.metrics.goroutines["binding",].dec()

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        self.profile(profile.scheduler_name).attempt("scheduled", seconds)
        self.metrics.pod_scheduling_attempts[()].later(info.attempts)
        if info.initial_attempt_timestamp is not None:
            label = str(info.attempts) if info.attempts < 15 else "15+"
            took_s = self._clock.monotonic() - info.initial_attempt_timestamp
            self.metrics.pod_scheduling_sli_duration[label,].later(took_s)
        if info.was_flushed:
            self.metrics.pod_scheduled_after_flush.inc()

    def failed(self, info: QueuedPodInfo, profile: Profile, reason: str, message: str, seconds: float) -> None:
        result = "unschedulable" if reason == UNSCHEDULABLE else "error"
        self.profile(profile.scheduler_name).attempt(result, seconds)

    def preempting(self, room: Room) -> None:
        groups = self.metrics.versioned.groups
        is_of_pod = room.kind == "pod"
        (self.metrics.preemption_victims if is_of_pod else groups.preemption_victims).observe(room.victims)
        if room.disruptions:
            groups.disruptions.labels(room.kind).observe(room.disruptions)
        if room.pdb_violations:
            groups.pdb_violations.labels(room.kind).inc(room.pdb_violations)

    def group_decided(
        self, pods: Sequence[QueuedPodInfo], profile: Profile, decision: GroupDecision, seconds: float
    ) -> None:
        result = "scheduled" if decision.status.is_success else "unschedulable"
        if not decision.status.is_success and not decision.status.is_rejected:
            result = "error"
        elif decision.victims:
            result = "waiting_on_preemption"
        groups = self.metrics.versioned.groups
        groups.attempts.labels(result, profile.scheduler_name).inc()
        groups.attempt_duration.labels(result, profile.scheduler_name).observe(seconds)

    def preempted(self, room: Room, seconds: float, is_done: bool, in_background: bool) -> None:
        result = self.metrics.versioned.eviction(is_done=is_done)
        self.metrics.versioned.groups.preemption_execution.labels(room.kind, result).observe(seconds)
        if in_background:
            self.metrics.preemption_goroutines_duration.labels(result).observe(seconds)
            self.metrics.preemption_goroutines_execution.labels(result).inc()

    def timed_out(self, what: str) -> None:
        """Count an attempt or a plugin call that did not end in time."""
        self.metrics.timeouts.labels(what).inc()

    def follow(self, queue: SchedulingQueue, cluster: ClusterState, hanging: Callable[[], int] = lambda: 0) -> None:
        """Update the gauges before every scrape."""

        def refresh() -> None:
            for name, count in queue.counts().items():
                self.metrics.pending_pods.labels(name).set(count)
            for name, kinds in queue.entity_counts().items():
                for kind, count in kinds.items():
                    self.metrics.versioned.queued_entities.labels(name, kind).set(count)
            pods = cluster.pods()
            nodes = sum(info.node is not None for info in cluster.table.nodes.values())
            for kind, count in (("nodes", nodes), ("pods", len(pods)), ("assumed_pods", cluster.num_assumed)):
                self.metrics.cache_size.labels(kind).set(count)
            self.metrics.hanging_decisions.set(hanging())
            for profile in self._profiles.values():
                profile.spread_evaluations()

        self.metrics.on_render(refresh)

    # ---- for /metrics ------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Bring the gauges up to date."""
        self.metrics.refresh()

    def exposition(self) -> bytes:
        """Render all metrics as they are; callable in any thread."""
        return self.metrics.exposition()

    def render(self) -> bytes:
        return self.metrics.render()

    def reset(self) -> None:
        """Reset all counts."""
        self.metrics.reset()
        for profile in self._profiles.values():  # engines keep references to them
            profile.forget()

    # ---- from the event handlers ------------------------------------------------------------------------------

    def event_handled(self, event: str, seconds: float) -> None:
        self.metrics.event_handling_duration[self.metrics.versioned.event(event),].later(seconds)
        self.metrics.noted()  # a standby receives events for weeks without an attempt

    # ---- from the queue ----------------------------------------------------------------------------------------

    def incoming_group(self, queue: str, event: str, pods: int, *, is_new: bool) -> None:
        label = self.metrics.versioned.event(event)
        self.metrics.queue_incoming_pods.labels(queue, label).inc(pods)
        if is_new:
            self.metrics.versioned.queue_incoming_entities.labels(queue, label, "podgroup").inc()

    def incoming_pod(self, queue: str, event: str) -> None:
        label = self.metrics.versioned.event(event)
        self.metrics.queue_incoming_pods[queue, label].value += 1
        self.metrics.versioned.queue_incoming_entities[queue, label, "pod"].value += 1

    def unschedulable_pods(self, plugin: str, profile: str, change: int) -> None:
        self.metrics.unschedulable_pods[plugin, profile].inc(change)

    def in_flight_events(self, event: str, change: int) -> None:
        self.metrics.inflight_events[self.metrics.versioned.event(event),].inc(change)

    def pre_enqueue(self, profile: str) -> ProfileGates:
        gates = self._gates.get(profile)
        if gates is None:
            gates = self._gates[profile] = ProfileGates(self.profile(profile), self.metrics.noted)
        return gates

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        label = self.metrics.versioned.event(event)
        self.metrics.queueing_hint_execution_duration[plugin, label, hint].later(seconds)
        self.metrics.noted()
