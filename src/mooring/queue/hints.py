"""Whether an event is worth another attempt at a pod that was refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import IntEnum

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.clock import Clock
from mooring.framework.cluster_event import ClusterEvent, Hint, QueueingHint
from mooring.queue.profile import QueueProfile
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.queue.recorder import QueueRecorder

log = logging.getLogger("mooring.queue")

HintsOfPlugin = dict[str, tuple[QueueingHint | None, ...]]


class Strategy(IntEnum):
    """What becomes of a waiting pod; more urgent is larger."""

    SKIP = 0  # it waits on
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class HintTable:
    """All profiles' registrations, sorted out once per kind of event."""

    def __init__(self, profiles: Sequence[QueueProfile], clock: Clock, recorder: QueueRecorder) -> None:
        self._profiles = {profile.scheduler_name: profile for profile in profiles}
        self._clock = clock
        self._recorder = recorder
        self._listeners: dict[ClusterEvent, dict[str, HintsOfPlugin]] = {}
        self._events_of: dict[tuple[str, frozenset[str]], tuple[ClusterEvent, ...]] = {}
        self._last: tuple[ClusterEvent | None, dict[str, HintsOfPlugin]] = (None, {})

    def listeners(self, event: ClusterEvent) -> dict[str, HintsOfPlugin]:
        """By scheduler name and plugin, the hints to ask about this event; not of profiles without listeners."""
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
        """The events that these plugins of a profile want to hear of."""
        found = self._events_of.get((scheduler_name, plugins))
        if found is None:
            profile = self._profiles.get(scheduler_name)
            hints = profile.hints if profile is not None else ()
            found = tuple(dict.fromkeys(each.event for each in hints if each.plugin in plugins))
            self._events_of[scheduler_name, plugins] = found
        return found

    def decide(self, info: QueuedPodInfo, event: ClusterEvent, old: Object | None, new: Object | None) -> Strategy:
        """Ask the plugins that refused the pod; the most urgent answer counts."""
        rejectors = info.rejectors
        if not rejectors:
            return Strategy.AFTER_BACKOFF
        if event.is_wildcard:
            is_meant = new is None or (isinstance(new, Pod) and new.metadata.uid == info.uid)
            return Strategy.AFTER_BACKOFF if is_meant else Strategy.SKIP
        if info.scheduler_name not in self._profiles:
            return Strategy.AFTER_BACKOFF
        pod, pending = info.pod_info.pod, info.pending_plugins
        strategy = Strategy.SKIP
        for plugin, hints in self.listeners(event).get(info.scheduler_name, _NOBODY).items():
            if plugin not in rejectors:
                continue
            for hint in hints:
                if hint is not None and self._ask(hint, plugin, pod, event, old, new) is Hint.SKIP:
                    continue
                if plugin in pending:
                    return Strategy.IMMEDIATELY
                if not pending:
                    return Strategy.AFTER_BACKOFF
                strategy = Strategy.AFTER_BACKOFF
        return strategy

    def _ask(
        self, hint: QueueingHint, plugin: str, pod: Pod, event: ClusterEvent, old: Object | None, new: Object | None
    ) -> Hint:
        """Ask one hint. One that fails counts as a yes: a pod must not be stuck because a plugin has a bug."""
        started = self._clock.monotonic() if self._recorder.wants_hint_durations else 0.0
        try:
            answer = hint(pod, old, new)
            said = _SKIP if answer is Hint.SKIP else answer.value  # nearly always; enums give their value slowly
        except Exception:
            log.exception("QueueingHintFn returns error event=%s plugin=%s pod=%s", event.label, plugin, pod.key)
            answer, said = Hint.QUEUE, "Error"
        if self._recorder.wants_hint_durations:
            self._recorder.hint_duration(plugin, event.label, said, self._clock.monotonic() - started)
        return answer


_SKIP = Hint.SKIP.value
_NOBODY: HintsOfPlugin = {}
