"""The scheduling queue: which pod is tried next, which pods wait, and which events wake them.

A pod is in exactly one place: **active** (ready), **backoff** (ready soon), **unschedulable** (waits for an event;
gated pods are here as well), or **in flight** (popped, and not yet done). The queue is a state machine without threads
or sleep: its owner reports events, pops pods, and runs its timers when ``next_wakeup`` says so.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.pod_groups import PodGroup
from mooring.core.framework.cluster_event import ClusterEvent
from mooring.core.framework.cycle_state import PluginTimer
from mooring.core.framework.handle import Preemptions
from mooring.core.framework.registry import ResolvedPlugin
from mooring.core.framework.runtime import run_pre_enqueue
from mooring.core.framework.status import CODE_NAMES, SUCCESS, Code, Status
from mooring.core.queue import events
from mooring.core.queue.events import InFlight
from mooring.core.queue.nominator import QueueNominator
from mooring.core.queue.pending import PendingPod, describe
from mooring.core.queue.profile import HintTable, MoveStrategy, QueueProfile, QueueRecorder
from mooring.core.queue.queued_pod import NO_PLUGINS, History, QueuedEntity, QueuedPodInfo
from mooring.core.queue.sub_queues import (
    ActiveQueue,
    BackoffQueue,
    PodHeap,
    UnschedulablePods,
    last_touch,
    priority_sort,
)
from mooring.core.state.pod_info import PodInfo

log = logging.getLogger("mooring.core.queue")

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED = "active", "backoff", "unschedulable", "gated"
LEFT_OVER_PERIOD_S = 30.0

PreCheck = Callable[[Pod], bool]
OnMove = Callable[[QueuedPodInfo, str, str, Object | None], None]
"""The pod, the part of the queue it entered, the label of the event that moved it, and the object of that event."""


class QueueOptions(msgspec.Struct, frozen=True):
    """Settings of the queue, and its feature gates."""

    pod_initial_backoff_s: float = 1.0
    pod_max_backoff_s: float = 10.0
    pod_max_in_unschedulable_pods_s: float = 300.0
    pop_from_backoff: bool = True  # SchedulerPopFromBackoffQ
    whole_resizes: bool = False  # whether a pod that is being resized counts as a whole, as since 1.37
    tells_growth: bool = False  # whether a pod that requests more has its own event, since 1.37
    gated_hold_nomination: bool = False  # whether a nomination counts before the pod has passed its gates


class SchedulingQueue:
    """The queue. ``known_pods`` looks up pods as the API server last sent them (for nominations)."""

    def __init__(
        self,
        profiles: Sequence[QueueProfile],
        clock: Clock,
        *,
        options: QueueOptions | None = None,
        recorder: QueueRecorder | None = None,
        nominator: QueueNominator | None = None,
    ) -> None:
        self.options = options or QueueOptions()
        self.on_ready: Callable[[], None] | None = None  # called when a pod was added that ``pop`` returns, now or soon
        self.on_move: OnMove | None = None  # called when a pod has entered a part of the queue
        self.preemptions: Preemptions | None = None  # holds preemptors back: they are shown no events
        self._cause: Object | None = None  # the object of the current event
        self._clock = clock
        self._recorder: QueueRecorder = recorder or QueueRecorder()
        self._is_recorded = recorder is not None
        self._pre_enqueue = {profile.scheduler_name: profile.pre_enqueue for profile in profiles}
        self._hints = HintTable(profiles, clock, self._recorder)
        sort_key = profiles[0].sort_key if profiles else priority_sort
        self._active = ActiveQueue(sort_key)
        self._backoff = BackoffQueue(
            clock,
            sort_key,
            self.options.pod_initial_backoff_s,
            self.options.pod_max_backoff_s,
            aligned=self.options.pop_from_backoff,
        )
        self._unschedulable = UnschedulablePods()
        # By key: every pending pod is in one of them.
        self._parts = (self._active.by_key, *self._backoff.by_key, self._unschedulable.by_key)
        self._in_flight = InFlight(recorder)
        self.nominator = nominator or QueueNominator()
        self.nominator.waiting = self._waiting_info
        self._started = clock.monotonic()
        self._left_over_round = self._started
        self._sequence = 0

    # ---- changes of pods ------------------------------------------------------------------------------------------

    def handles(self, scheduler_name: str) -> bool:
        """Report whether there is a profile of this name."""
        return scheduler_name in self._pre_enqueue

    def replace_profiles(self, profiles: Sequence[QueueProfile], *, wake: bool = True) -> None:
        """Switch to another configuration: pods without a profile leave, and all others may be tried.

        The order of the queue stays that of the first configuration. ``wake`` is false if only the plugins were
        rebuilt.
        """
        self._pre_enqueue = {profile.scheduler_name: profile.pre_enqueue for profile in profiles}
        self._hints = HintTable(profiles, self._clock, self._recorder)
        for info in [*self._active.in_order(), *self._backoff.pods(), *self._unschedulable]:
            for member in [] if self.handles(info.scheduler_name) else [*info.members]:
                self.delete(member.pod_info.pod)
        if wake:
            self.move_all(events.CONFIGURATION_CHANGE)

    def add(self, pod: PodInfo) -> None:
        """Add a new pod; an existing one is updated, so that no pod waits in two places."""
        if self._holds(pod.pod.key) or self._in_flight.get(pod.uid) is not None:
            self.update(None, pod)
        else:
            self._to_active(self._new(pod), events.UNSCHEDULED_POD_ADD.label)

    def update(self, old: Pod | None, new: PodInfo) -> None:
        """Update a pending pod; an unknown one is added.

        Without the old version, the queue's own is compared.
        """
        pod = new.pod
        key = pod.key
        if (trying := self._in_flight.get(pod.metadata.uid)) is not None:
            old = old or trying.pod_info.pod
            for event in self.pod_changes(old, pod):
                self._in_flight.note(event, old, pod)
        elif (info := self.get(key)) is None:
            self._to_active(self._new(new), events.UNSCHEDULED_POD_UPDATE.label)
        else:
            self._update_waiting(info, self._replace(info, old, new), pod)

    def _update_waiting(self, info: QueuedPodInfo, old: Pod, new: Pod) -> None:
        """Update a waiting pod, whose place may change."""
        if info.key in self._active:
            self._active.add(info)
        elif info.key in self._backoff:
            self._backoff.refresh(info.key)
        else:
            for event in self.pod_changes(old, new):
                strategy = self._worth(info, event, old, new)
                if strategy is not MoveStrategy.SKIP and self._requeue(info, strategy, event.label) != UNSCHEDULABLE:
                    break

    def delete(self, pod: Pod) -> None:
        """Remove a pod that was deleted, or bound by others. One in flight is removed when it is done."""
        key = pod.key
        self.nominator.withdraw(pod.metadata.uid)
        self.nominator.touch(key)
        if self._is_filed(key):
            info, _ = self._take(key)
            if info is not None:
                self._count_rejectors(info, -1)

    def restore(self, key: str, history: History) -> None:
        """Give a new pod the place and history that it had in another queue. A gated one stays gated."""
        if not self._holds(key) or (info := self.get(key)) is None or info.is_gated:
            return
        self._take(key)
        now = self._clock.monotonic()
        info.attempts, info.message = history.attempts, history.message
        info.added_timestamp, info.timestamp = now - history.added_s_ago, now - history.entered_s_ago
        info.unschedulable_plugins = frozenset(history.plugins)
        if history.plugins:
            info.unschedulable_count = history.attempts
        else:
            info.consecutive_errors_count = history.attempts
        self._count_rejectors(info, 1)
        if history.place == BACKOFF:
            self._to_backoff(info, events.RESTORED)
        elif history.place == UNSCHEDULABLE:
            self._to_unschedulable(info, events.RESTORED)
        else:
            self._to_active(info, events.RESTORED)

    def _take(self, key: str) -> tuple[QueuedEntity | None, MoveStrategy]:
        """Remove an entry from its part, and return it with the strategy for requeueing it."""
        if (info := self._active.remove(key)) is not None:
            return info, MoveStrategy.IMMEDIATELY
        if (info := self._backoff.remove(key)) is not None:
            return info, MoveStrategy.AFTER_BACKOFF
        return self._unschedulable.remove(key), MoveStrategy.SKIP

    def pod_changes(self, old: Pod, new: Pod) -> list[ClusterEvent]:
        """Return the events of a pod's update in this Kubernetes version."""
        options = self.options
        return events.pod_changes(old, new, whole_resizes=options.whole_resizes, tells_growth=options.tells_growth)

    def put_group(self, group: PodGroup) -> None:
        """Ignore pod groups; see :mod:`mooring.core.queue.pod_group_queue`."""

    def delete_group(self, group: PodGroup) -> None:
        """Ignore pod groups."""

    def _new(self, pod: PodInfo) -> QueuedPodInfo:
        self._sequence += 1
        self.nominator.touch(pod.pod.key)
        if self.options.gated_hold_nomination:
            self.nominator.add(pod.pod)
        return QueuedPodInfo(pod, self._clock.monotonic(), self._sequence)

    def _replace(self, info: QueuedPodInfo, old: Pod | None, new: PodInfo) -> Pod:
        """Replace a waiting pod by its new version; return the old one."""
        before = old or info.pod_info.pod
        info.pod_info = new
        self.nominator.update(before, new.pod)
        self.nominator.touch(info.key)
        return before

    # ---- attempts ----------------------------------------------------------------------------------------------

    def pop(self) -> QueuedEntity | None:
        """Return the next pod to try, or None. With nothing else ready, rejected pods skip their backoff.

        The caller must call ``done`` or ``add_unschedulable_if_not_present``.
        """
        while True:
            info = self._active.pop()
            if info is None:
                info = self._backoff.pop_early() if self._parts[1] and self.options.pop_from_backoff else None
                if info is None:
                    return None
                self._recorder.incoming_pod(ACTIVE, events.POP_FROM_BACKOFF)
            if self._begin(info):
                return info
            log.error("Discarding the popped pod: the same pod is tracked in multiple places pod=%s", info.key)

    def _begin(self, info: QueuedEntity) -> bool:
        """Note the start of an attempt; false if a pod of that uid is already in flight."""
        assert isinstance(info, QueuedPodInfo)
        info.attempts += 1
        if not self._in_flight.start(info):
            return False
        self.nominator.touch(info.key)  # while it is tried, its nomination does not count
        if self._is_recorded:
            self._count_rejectors(info, -1)
        return True

    # The next two make an attempt cheap that is known to be refused as one was a moment ago: nothing happens between
    # them that the queue hears of, so no event was missed, and no plugin has to be asked.

    def pop_if(self, is_wanted: Callable[[QueuedEntity], bool]) -> QueuedPodInfo | None:
        """What ``pop`` would return, if it is wanted; otherwise it stays where it is. ``refuse_again`` follows."""
        heap: PodHeap = self._active
        if not heap.by_key and self.options.pop_from_backoff:
            heap = self._backoff.rejected
        info = heap.peek()
        if info is None or self._is_recorded or not is_wanted(info):
            return None
        assert isinstance(info, QueuedPodInfo), "no group is wanted"
        if not self._in_flight.start(info):
            return None
        heap.pop()
        info.attempts += 1
        return info

    def refuse_again(
        self, info: QueuedPodInfo, unschedulable_plugins: frozenset[str], pending_plugins: frozenset[str], message: str
    ) -> None:
        """Move a pod that was rejected just now back to the queue."""
        info.unschedulable_plugins, info.pending_plugins = unschedulable_plugins, pending_plugins
        info.gating_plugin, info.message = "", message
        self._note_failure(info)
        self._unschedulable.put(info)
        if self.on_move is not None:
            self._entered(info, UNSCHEDULABLE, UNSCHEDULABLE, events.SCHEDULE_ATTEMPT_FAILURE)
        self._in_flight.done(info.uid)

    def done(self, uid: str) -> None:
        """Note that a popped pod is bound, or no longer needed."""
        self._in_flight.done(uid)

    def add_unschedulable_if_not_present(
        self,
        info: QueuedPodInfo,
        *,
        unschedulable_plugins: Iterable[str] = (),
        pending_plugins: Iterable[str] = (),
        pod: PodInfo | None = None,
        message: str = "",
    ) -> None:
        """Requeue a popped pod after a failed attempt, which also ends the attempt.

        ``plugins`` are those that rejected the pod; none means that an error occurred. ``pod`` is the newest version,
        if the caller knows it; ``message`` is shown to users. Events that the pod missed while it was in flight are
        considered now. A pod that is already in a queue stays there.
        """
        uid = info.uid
        try:
            if pod is not None:
                info.pod_info = pod
            if self._holds(info.key):
                log.error("Pod is already present in a queue pod=%s", info.key)
                return
            self.nominator.touch(info.key)
            info.unschedulable_plugins = frozenset(unschedulable_plugins)
            info.pending_plugins = frozenset(pending_plugins)
            info.gating_plugin = ""
            info.message = message
            self._note_failure(info)
            self._count_rejectors(info, 1)
            self._come_back(info)
        finally:
            self.done(uid)

    def _come_back(self, info: QueuedPodInfo) -> None:
        """Put a pod whose attempt failed into its part."""
        self._requeue(info, self._strategy_after_attempt(info, info.uid), events.SCHEDULE_ATTEMPT_FAILURE)

    def _note_failure(self, info: QueuedEntity) -> None:
        if info.rejectors:
            info.unschedulable_count += 1
            info.consecutive_errors_count = 0
        else:
            info.consecutive_errors_count += 1
        self._sequence += 1
        info.timestamp, info.sequence = self._clock.monotonic(), self._sequence
        info.backoff_expiration = None
        info.was_flushed = False
        info.flush_timestamp = float("-inf")

    def _strategy_after_attempt(self, info: QueuedPodInfo, uid: str) -> MoveStrategy:
        if not info.rejectors:
            return MoveStrategy.AFTER_BACKOFF
        missed = self._in_flight.since(uid)
        if missed is None:  # missed events are unknown, so the pod does not wait for one
            return MoveStrategy.AFTER_BACKOFF
        urgent_enough = MoveStrategy.IMMEDIATELY if info.pending_plugins else MoveStrategy.AFTER_BACKOFF
        strategy = MoveStrategy.SKIP
        for event, old, new in missed:
            strategy = max(strategy, self._hints.decide(info, event, old, new))
            if strategy >= urgent_enough:
                break
        return strategy

    # ---- events ---------------------------------------------------------------------------------------------------

    def move_all(
        self,
        event: ClusterEvent,
        old: Object | None = None,
        new: Object | None = None,
        pre_check: PreCheck | None = None,
    ) -> None:
        """Show an event to the waiting pods whose plugins registered for it, and keep it for those in flight."""
        if not self._hints.is_of_interest(event):
            return
        if len(self._unschedulable):
            found = self._concerned(event)
            if pre_check is not None:
                found = [info for info in found if any(pre_check(each.pod_info.pod) for each in info.members)]
            self._move(found, event, old, new)
        self._in_flight.note(event, old, new)

    def _concerned(self, event: ClusterEvent) -> list[QueuedEntity]:
        """Return the waiting pods that a plugin with this event has rejected or gates."""
        if event.is_wildcard:
            return list(self._unschedulable)
        found: dict[str, QueuedEntity] = {}
        for scheduler_name, plugins in self._hints.listeners(event).items():
            for plugin in plugins:
                found |= self._unschedulable.rejected_by(scheduler_name, plugin)
                found |= self._unschedulable.gated_by(plugin)
        return list(found.values())

    def _move(self, pods: Iterable[QueuedEntity], event: ClusterEvent, old: Object | None, new: Object | None) -> None:
        self._cause = new or old
        for info in pods:
            # A gated pod moves if its gate opens and a hint agrees. One hint is asked before the gate, several after
            # it.
            is_gated = bool(info.gating_plugin) and not event.is_wildcard
            asks_gate_first = is_gated and len(info.rejectors) > 1
            if asks_gate_first and self._is_still_gated(info):
                continue
            strategy = self._worth(info, event, old, new)
            if strategy is MoveStrategy.SKIP or (is_gated and not asks_gate_first and self._is_still_gated(info)):
                continue
            self._unschedulable.remove(info.key)
            self._requeue(info, strategy, event.label)
        self._cause = None

    def _worth(self, info: QueuedEntity, event: ClusterEvent, old: Object | None, new: Object | None) -> MoveStrategy:
        """Return the strategy for an entry because of this event."""
        assert isinstance(info, QueuedPodInfo)
        return self._hints.decide(info, event, old, new)

    def opened(self, plugin: str, key: str) -> None:
        """Note that this plugin no longer gates the pod: events are considered for it again."""
        info = self._unschedulable.get(key)
        if info is not None and info.gating_plugin == plugin:
            self._unschedulable.put(info)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Make pods ready without backoff, on behalf of a plugin. One in flight is retried afterwards."""
        for pod in pods:
            key = pod.key
            if (info := self._unschedulable.get(key)) is not None:
                self._to_active(info, events.FORCE_ACTIVATE.label)
            elif (info := self._backoff.remove(key)) is not None:
                self._to_active(info, events.FORCE_ACTIVATE.label, from_backoff=True)
            elif pod.metadata.uid in self._in_flight:
                self._in_flight.note(events.FORCE_ACTIVATE, None, pod)

    def set_back(self, pod: Pod) -> None:
        """Let a waiting pod back off as after an error, because making room for it failed."""
        key = self._key_of(pod)
        if (info := self._unschedulable.remove(key) or self._backoff.remove(key)) is not None:
            self._count_rejectors(info, -1)
            for member in info.members:
                member.unschedulable_plugins = member.pending_plugins = NO_PLUGINS
            info.gating_plugin = ""
            self._note_failure(info)
            self._requeue(info, MoveStrategy.AFTER_BACKOFF, events.PREEMPTION_BROKE.label)
        elif pod.metadata.uid in self._in_flight:
            self._in_flight.note(events.PREEMPTION_BROKE, None, pod)

    def _key_of(self, pod: Pod) -> str:
        """Return the key of the entry of a pod."""
        return pod.key

    # ---- timers ------------------------------------------------------------------------------------------------

    def flush_backoff_completed(self) -> None:
        """Make pods ready whose backoff has ended."""
        _, rejected, failed, _ = self._parts
        if not (rejected or failed):
            return
        for info in self._backoff.pop_completed():
            self._to_active(info, events.BACKOFF_COMPLETE, from_backoff=True)

    def flush_unschedulable_left_over(self) -> None:
        """Retry pods that have waited very long: an event may have been missed, or a hint be wrong."""
        now = self._clock.monotonic()
        limit = self.options.pod_max_in_unschedulable_pods_s
        oldest = self._unschedulable.oldest_touch()
        if oldest is None or oldest + limit >= now:
            return
        left_over = [info for info in self._unschedulable if last_touch(info) + limit < now]
        for info in left_over:
            info.was_flushed = True
            info.flush_timestamp = now
        self._move(left_over, events.UNSCHEDULABLE_TIMEOUT, None, None)
        self._in_flight.note(events.UNSCHEDULABLE_TIMEOUT, None, None)

    def run_timers(self) -> None:
        """Process due timers. Calling it too early or too often does no harm."""
        self.flush_backoff_completed()
        now = self._clock.monotonic()
        if now >= self._left_over_round:
            self.flush_unschedulable_left_over()
            self._left_over_round = self._first_round_after(now)

    def next_wakeup(self) -> float | None:
        """Return the monotonic time of the next timer, or None.

        Backoff is checked every whole second, long waiters every 30 seconds, as upstream.
        """
        _, rejected, failed, unschedulable = self._parts
        backoff = self._backoff.next_completion() if rejected or failed else None
        left_over = self._next_left_over() if unschedulable else None
        if backoff is None or left_over is None:
            return left_over if backoff is None else backoff
        return min(backoff, left_over)

    def _next_left_over(self) -> float | None:
        oldest = self._unschedulable.oldest_touch()
        if oldest is None:
            return None
        overdue = oldest + self.options.pod_max_in_unschedulable_pods_s
        return max(self._left_over_round, self._first_round_after(overdue))

    def _first_round_after(self, when: float) -> float:
        """Return the next check of long waiters after ``when``."""
        rounds = max(0, math.floor((when - self._started) / LEFT_OVER_PERIOD_S) - 1)
        start = self._started + rounds * LEFT_OVER_PERIOD_S
        while start <= when:
            start += LEFT_OVER_PERIOD_S
        return start

    # ---- moves ----------------------------------------------------------------------------------------------------

    def _requeue(self, info: QueuedEntity, strategy: MoveStrategy, label: str) -> str:
        """Put a pod into its part, and return that part's name."""
        if strategy is MoveStrategy.SKIP:
            self._to_unschedulable(info, label)
            return UNSCHEDULABLE
        if strategy is MoveStrategy.AFTER_BACKOFF and self._backoff.is_backing_off(info):
            return BACKOFF if self._to_backoff(info, label) else UNSCHEDULABLE
        return ACTIVE if self._to_active(info, label) else UNSCHEDULABLE

    def _to_active(self, info: QueuedEntity, label: str, *, from_backoff: bool = False) -> bool:
        """Make a pod ready, unless it is gated. A pod from backoff has already passed the gates."""
        if not (from_backoff and self.options.pop_from_backoff) and not self._passes_gates(info):
            self._to_unschedulable(info, label)
            return False
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self._clock.monotonic()
        if info.key in self._unschedulable.by_key:
            self._unschedulable.remove(info.key)
        self._active.add(info)
        self._entered(info, ACTIVE, ACTIVE, label)
        if label in _NOMINATING and isinstance(info, QueuedPodInfo):
            self.nominator.add(info.pod_info.pod)
        if self.on_ready is not None:
            self.on_ready()
        return True

    def _to_backoff(self, info: QueuedEntity, label: str) -> bool:
        if self.options.pop_from_backoff and not self._passes_gates(info):
            self._to_unschedulable(info, label)
            return False
        if info.key in self._unschedulable.by_key:
            self._unschedulable.remove(info.key)
        self._backoff.put(info)
        self._entered(info, BACKOFF, BACKOFF, label)
        if self.on_ready is not None:  # also for a pod that has to wait: the owner's timer may have to fire sooner
            self.on_ready()
        return True

    def _to_unschedulable(self, info: QueuedEntity, label: str) -> None:
        if info.is_gated:
            info.was_flushed = False  # it will not be tried, so the flush led to nothing
        # Every victim's end concerns all preemptors, and most of them still wait for theirs.
        held_by = self.preemptions if info.is_gated else None
        is_shut = held_by is not None and held_by.holds_back(info.gating_plugin, info.key)
        if self._unschedulable.put(info, is_shut=is_shut):
            self._entered(info, UNSCHEDULABLE, GATED if info.is_gated else UNSCHEDULABLE, label)

    def _entered(self, info: QueuedEntity, queue: str, place: str, label: str) -> None:
        """Report that every pod of the entry is in another part of the queue now."""
        if not self._is_recorded and self.on_move is None:
            return
        for member in info.members:
            self._recorder.incoming_pod(queue, label)
            if self.on_move is not None:
                self.on_move(member, place, label, self._cause)

    def _passes_gates(self, info: QueuedEntity) -> bool:
        """Run the PreEnqueue plugins, the one that gated the pod first; the first rejection counts.

        Upstream's order is random; here it is the configured one.
        """
        assert isinstance(info, QueuedPodInfo)
        plugins = self._pre_enqueue.get(info.scheduler_name, ())
        if info.gating_plugin:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != info.gating_plugin))
        times = self._recorder.pre_enqueue(info.scheduler_name) if self._is_recorded else None
        if times is None:
            status = self._ask(info, plugins)
        else:
            started = self._clock.monotonic()
            status = self._ask(info, plugins, times.plugin_timer())
            times.extension_point("PreEnqueue", CODE_NAMES[status.code], self._clock.monotonic() - started)
        if status is SUCCESS:
            info.gating_plugin = ""
            return True
        self._gate(info, status.plugin, status)
        return False

    @staticmethod
    def _ask(info: QueuedPodInfo, plugins: Iterable[ResolvedPlugin], timer: PluginTimer | None = None) -> Status:
        """Run the plugins; a failing one keeps only its own pod back."""
        status = run_pre_enqueue(plugins, info.pod_info.pod, timer)
        if status is not SUCCESS and status.code is Code.ERROR:
            log.error("%s pod=%s", status.message, info.key)
        return status

    def _is_still_gated(self, info: QueuedEntity) -> bool:
        """Ask the gating plugin first: no other plugin matters while it rejects."""
        assert isinstance(info, QueuedPodInfo)
        for plugin in self._pre_enqueue.get(info.scheduler_name, ()):
            if plugin.name == info.gating_plugin:
                status = self._ask(info, (plugin,))
                if status.is_success:
                    return False
                info.message = status.reasons[0] if len(status.reasons) == 1 else status.message
                return True
        return False

    def _gate(self, info: QueuedPodInfo, plugin: str, status: Status) -> None:
        if plugin not in info.rejectors:
            self._recorder.unschedulable_pods(plugin, info.scheduler_name, 1)
        info.unschedulable_plugins |= {plugin}
        info.gating_plugin = plugin
        info.message = status.message

    def _count_rejectors(self, info: QueuedEntity, change: int) -> None:
        for plugin in info.rejectors:
            self._recorder.unschedulable_pods(plugin, info.scheduler_name, change)

    # ---- queries --------------------------------------------------------------------------------------------------

    def _holds(self, key: str) -> bool:
        """Report whether a pod of this name waits here."""
        return self._is_filed(key)

    def _is_filed(self, key: str) -> bool:
        """Report whether one of the parts has this key."""
        active, rejected, failed, unschedulable = self._parts
        return key in active or key in rejected or key in failed or key in unschedulable

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return the waiting pod ``namespace/name``; None if it is in flight or unknown."""
        if not self._is_filed(key):
            return None
        found = self._active.get(key) or self._backoff.get(key) or self._unschedulable.get(key)
        assert found is None or isinstance(found, QueuedPodInfo), "the key is a pod's"
        return found

    def _waiting_info(self, key: str) -> PodInfo | None:
        info = self.get(key)
        return None if info is None else info.pod_info

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    @property
    def in_flight_event_count(self) -> int:
        """Number of events kept for pods in flight."""
        return self._in_flight.event_count

    @property
    def has_ready(self) -> bool:
        """Report whether ``pop`` would return a pod."""
        active, rejected, _, _ = self._parts
        return bool(active) or (self.options.pop_from_backoff and bool(rejected))

    @property
    def is_quiet(self) -> bool:
        """Report whether no pod will be tried again unless an event occurs."""
        return not len(self._active) and not len(self._backoff)

    def counts(self) -> dict[str, int]:
        """Count waiting pods by part: upstream's metric ``pending_pods``."""
        gated = self._unschedulable.gated_count
        return {
            ACTIVE: len(self._active),
            BACKOFF: len(self._backoff),
            UNSCHEDULABLE: len(self._unschedulable) - gated,
            GATED: gated,
        }

    def entity_counts(self) -> dict[str, dict[str, int]]:
        """Count waiting pods without a group, and groups, by part: ``queued_entities``."""
        return {place: {"pod": count} for place, count in self.counts().items()}

    def pending_pods(self) -> list[PendingPod]:
        """Return all pending pods: since when they wait, why, and which events would wake them, in queue order."""
        now, wall = self._clock.monotonic(), self._clock.now()
        return [describe(info, place, self._hints, now, wall) for info, place in self.places()]

    def places(self) -> list[tuple[QueuedPodInfo, str]]:
        """Return every pod with the part of the queue that it is in."""
        waiting: list[tuple[QueuedEntity, str]] = [(info, ACTIVE) for info in self._active.in_order()]
        waiting += [(info, BACKOFF) for info in self._backoff.pods()]
        waiting += [(info, GATED if info.is_gated else UNSCHEDULABLE) for info in self._unschedulable]
        waiting += [(info, "in-flight") for info in self._in_flight.pods()]
        return [(member, place) for info, place in waiting for member in info.members]


_NOMINATING = frozenset((events.UNSCHEDULED_POD_ADD.label, events.UNSCHEDULED_POD_UPDATE.label))
