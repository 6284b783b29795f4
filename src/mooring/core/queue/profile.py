"""The queue's view of a profile: its PreEnqueue plugins, and the events with hints that its plugins register."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.core.config.profile import IN_TREE_POINTS
from mooring.core.framework.cluster_event import (
    ActionType,
    ClusterEvent,
    EventRegistration,
    EventResource,
    Hint,
    QueueingHint,
    on,
)
from mooring.core.framework.cycle_state import PluginTimer
from mooring.core.framework.extender import EXTENDER_PLUGIN
from mooring.core.framework.extension_points import EXTENSION_POINTS
from mooring.core.framework.registry import ResolvedPlugin
from mooring.core.framework.runtime import Profile
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.queue.sub_queues import SortKey, priority_sort

EVERYTHING = tuple(
    on(resource, ActionType.ALL)
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    )
)
"""Registered for extenders, and for plugins without ``events_to_register``."""

NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
_REFUSING_POINTS = frozenset(point.name for point in EXTENSION_POINTS if point.can_refuse)


class PluginHint(msgspec.Struct, frozen=True):
    """An event that a plugin registers for; without a hint every such event justifies another attempt."""

    plugin: str
    event: ClusterEvent
    hint: QueueingHint | None = None


class QueueProfile(msgspec.Struct, frozen=True):
    """A profile's data for the queue. The sort key of the first profile orders the pods of all."""

    scheduler_name: str
    pre_enqueue: tuple[ResolvedPlugin, ...] = ()
    hints: tuple[PluginHint, ...] = ()
    sort_key: SortKey = priority_sort


ABOUT_OTHERS = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCALE_DOWN


def split_pod_event(event: ClusterEvent) -> list[ClusterEvent]:
    """Split a registration for events of pods, as since 1.37: of pods with a node, of the pending pod itself, or of
    both.

    Other pods matter when they are added, deleted, shrink or change their labels. Other changes matter to the pod
    itself.
    """
    if event.resource is not EventResource.POD or event.action == ActionType.ALL:
        return [event]
    parts = [(EventResource.TARGET_POD, event.action & ActionType.UPDATE)]
    if event.action & ActionType.UPDATE != ActionType.UPDATE:  # one for any update includes its own
        parts.insert(0, (EventResource.ASSIGNED_POD, event.action & ABOUT_OTHERS))
    return [ClusterEvent(resource, action) for resource, action in parts if action]


def registered_hints(
    plugin: str,
    registrations: Iterable[EventRegistration],
    *,
    implies_taints: bool = True,
    splits_pod_events: bool = False,
) -> list[PluginHint]:
    """Return a plugin's registrations, and until 1.36 (``implies_taints``) the implied one.

    ``splits_pod_events``: events of pods are those of assigned pods or of the pod itself, as since 1.37.

    A plugin that waits for new nodes also waits for changed taints: upstream added this because a tainted node that was
    added may have been overlooked.
    """
    hints = [
        PluginHint(plugin, event, each.hint)
        for each in registrations
        for event in (split_pod_event(each.event) if splits_pod_events else (each.event,))
    ]
    if not implies_taints:
        return hints
    about_nodes = [hint.event.action for hint in hints if hint.event.resource is EventResource.NODE]
    hears_of_new_nodes = any(action & ActionType.ADD for action in about_nodes)
    hears_of_taints = any(action & ActionType.UPDATE_NODE_TAINT for action in about_nodes)
    if hears_of_new_nodes and not hears_of_taints:
        hints.append(PluginHint(plugin, NODE_TAINT))
    return hints


def queue_profile(
    scheduler_name: str,
    plugins: Iterable[ResolvedPlugin],
    *,
    pre_enqueue: Iterable[ResolvedPlugin] = (),
    sort_key: SortKey = priority_sort,
    has_extenders: bool = False,
    implies_taints: bool = True,
    splits_pod_events: bool = False,
) -> QueueProfile:
    """Ask every plugin of a profile which events it registers for.

    ``plugins`` are all plugin instances of the profile, each once; ``pre_enqueue`` those of that extension point, in
    configured order. Plugins that cannot reject a pod are not asked.
    """
    hints = registered_hints(EXTENDER_PLUGIN, EVERYTHING) if has_extenders else []
    for plugin in plugins:
        if plugin.points & _REFUSING_POINTS:
            wanted = EVERYTHING if plugin.events_to_register is None else plugin.events_to_register()
            hints += registered_hints(
                plugin.name,
                wanted,
                implies_taints=implies_taints,
                splits_pod_events=splits_pod_events and plugin.name in IN_TREE_POINTS,  # others may mean any pod
            )
    return QueueProfile(scheduler_name, tuple(pre_enqueue), tuple(hints), sort_key)


def from_runtime(
    profile: Profile, *, has_extenders: bool = False, implies_taints: bool = True, splits_pod_events: bool = False
) -> QueueProfile:
    """Return the queue's view of a profile that the engine uses."""
    return queue_profile(
        profile.scheduler_name,
        profile.plugins.values(),
        pre_enqueue=profile.pre_enqueue,
        sort_key=profile.queue_sort[0].sort_key,
        has_extenders=has_extenders,
        implies_taints=implies_taints,
        splits_pod_events=splits_pod_events,
    )


# ---- metrics of the queue. The counts of pending pods are computed by ``SchedulingQueue.counts``
# ----------------------


class QueueRecorder:
    """Records metrics of the queue; must be fast and must not fail. This base class does nothing."""

    wants_hint_durations = False  # whether hints are timed, which costs as much as a small hint

    def incoming_pod(self, queue: str, event: str) -> None:
        """A pod entered ``active``, ``backoff`` or ``unschedulable`` because of this event."""

    def incoming_group(self, queue: str, event: str, pods: int, *, is_new: bool) -> None:
        """A pod group with this many pods entered a part of the queue; a requeued one is not reported."""

    def unschedulable_pods(self, plugin: str, profile: str, change: int) -> None:
        """The number of pods that this plugin rejected changed."""

    def in_flight_events(self, event: str, change: int) -> None:
        """The number of kept events of this kind changed."""

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A queueing hint returned ``Queue``, ``QueueSkip`` or ``Error``."""

    def pre_enqueue(self, profile: str) -> GateTimes | None:
        """Return an observer of the duration of PreEnqueue plugins for a pod; None: do not measure."""
        return None


class GateTimes(Protocol):
    """Times the PreEnqueue plugins of one profile."""

    def plugin_timer(self) -> PluginTimer | None:
        """Return a timer for the current pod; None for most pods."""

    def extension_point(self, point: str, status: str, seconds: float) -> None: ...


# ---- whether an event justifies another attempt at a rejected pod ----------------------------------------------------

log = logging.getLogger("mooring.core.queue")

HintsOfPlugin = dict[str, tuple[QueueingHint | None, ...]]


class MoveStrategy(IntEnum):
    """Where an event moves a pending pod; more urgent is larger."""

    SKIP = 0  # it keeps waiting
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class HintTable:
    """All profiles' registrations, grouped once per kind of event."""

    def __init__(self, profiles: Sequence[QueueProfile], clock: Clock, recorder: QueueRecorder) -> None:
        self._profiles = {profile.scheduler_name: profile for profile in profiles}
        self._clock = clock
        self._recorder = recorder
        self._listeners: dict[ClusterEvent, dict[str, HintsOfPlugin]] = {}
        self._events_of: dict[tuple[str, frozenset[str]], tuple[ClusterEvent, ...]] = {}
        self._last: tuple[ClusterEvent | None, dict[str, HintsOfPlugin]] = (None, {})

    def listeners(self, event: ClusterEvent) -> dict[str, HintsOfPlugin]:
        """Return, by scheduler name and plugin, the hints to ask about this event; without profiles that have none."""
        if event is self._last[0]:  # one event is shown to many pods
            return self._last[1]
        found = self._listeners.get(event)
        if found is None:
            found = {name: hints for name in self._profiles if (hints := self._listening(name, event))}
            self._listeners[event] = found
        self._last = (event, found)
        return found

    def _listening(self, scheduler_name: str, event: ClusterEvent) -> HintsOfPlugin:
        hints: HintsOfPlugin = {}
        for each in self._profiles[scheduler_name].hints:
            if each.event.covers(event):
                hints[each.plugin] = (*hints.get(each.plugin, ()), each.hint)
        return hints

    def is_of_interest(self, event: ClusterEvent) -> bool:
        return event.is_wildcard or bool(self.listeners(event))

    def events_of(self, scheduler_name: str, plugins: frozenset[str]) -> tuple[ClusterEvent, ...]:
        """The events that these plugins of a profile register for."""
        found = self._events_of.get((scheduler_name, plugins))
        if found is None:
            profile = self._profiles.get(scheduler_name)
            hints = profile.hints if profile is not None else ()
            found = tuple(dict.fromkeys(each.event for each in hints if each.plugin in plugins))
            self._events_of[scheduler_name, plugins] = found
        return found

    def decide(self, info: QueuedPodInfo, event: ClusterEvent, old: Object | None, new: Object | None) -> MoveStrategy:
        """Ask the plugins that rejected the pod; the most urgent answer counts."""
        rejectors = info.rejectors
        if not rejectors:
            return MoveStrategy.AFTER_BACKOFF
        if event.is_wildcard:
            is_meant = new is None or (isinstance(new, Pod) and new.metadata.uid == info.uid)
            return MoveStrategy.AFTER_BACKOFF if is_meant else MoveStrategy.SKIP
        if info.scheduler_name not in self._profiles:
            return MoveStrategy.AFTER_BACKOFF
        pod, pending = info.pod_info.pod, info.pending_plugins
        strategy = MoveStrategy.SKIP
        for plugin, hints in self.listeners(event).get(info.scheduler_name, _NOBODY).items():
            if plugin not in rejectors:
                continue
            for hint in hints:
                if hint is not None and self._ask(hint, plugin, pod, event, old, new) is Hint.SKIP:
                    continue
                if plugin in pending:
                    return MoveStrategy.IMMEDIATELY
                if not pending:
                    return MoveStrategy.AFTER_BACKOFF
                strategy = MoveStrategy.AFTER_BACKOFF
        return strategy

    def _ask(
        self, hint: QueueingHint, plugin: str, pod: Pod, event: ClusterEvent, old: Object | None, new: Object | None
    ) -> Hint:
        """Ask one hint. A failing one counts as Queue: a plugin's bug must not block a pod."""
        started = self._clock.monotonic() if self._recorder.wants_hint_durations else 0.0
        try:
            answer = hint(pod, old, new)
            said = _SKIP if answer is Hint.SKIP else answer.value  # the usual case; enums return their value slowly
        except Exception:
            log.exception("QueueingHintFn returns error event=%s plugin=%s pod=%s", event.label, plugin, pod.key)
            answer, said = Hint.QUEUE, "Error"
        if self._recorder.wants_hint_durations:
            self._recorder.hint_duration(plugin, event.label, said, self._clock.monotonic() - started)
        return answer


_SKIP = Hint.SKIP.value
_NOBODY: HintsOfPlugin = {}
