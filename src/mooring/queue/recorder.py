"""What the queue tells a meter. The counts of waiting pods are asked for instead: ``SchedulingQueue.counts``."""

from __future__ import annotations

from typing import Protocol

from mooring.framework.plugin_timing import PluginTimer


class QueueRecorder(Protocol):
    """Called as things happen; must be quick and must not fail."""

    def incoming_pod(self, queue: str, event: str) -> None:
        """A pod entered ``active``, ``backoff`` or ``unschedulable`` because of this event."""

    def incoming_group(self, queue: str, event: str, pods: int, *, is_new: bool) -> None:
        """A pod group with so many pods entered a part of the queue; one that was only put back is not new there."""

    def unschedulable_pods(self, plugin: str, profile: str, change: int) -> None:
        """The number of pods that this plugin keeps waiting went up or down."""

    def in_flight_events(self, event: str, change: int) -> None:
        """The number of remembered events of this kind went up or down."""

    @property
    def wants_hint_durations(self) -> bool:
        """Whether hints are to be timed; it costs as much as a small hint."""

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A queueing hint took this long to say ``Queue``, ``QueueSkip`` or ``Error``."""

    def pre_enqueue(self, profile: str) -> GateTimes | None:
        """Who wants to know how long the profile's gatekeepers take to decide on a pod; None: do not tell."""


class GateTimes(Protocol):
    """Told about the PreEnqueue plugins of one profile."""

    def plugin_timer(self) -> PluginTimer | None:
        """Who times the plugins of the pod at hand, each by itself; None for most pods."""

    def extension_point(self, point: str, status: str, seconds: float) -> None: ...


class NoRecorder:
    """Nobody counts."""

    wants_hint_durations = False

    def incoming_pod(self, queue: str, event: str) -> None:
        pass

    def incoming_group(self, queue: str, event: str, pods: int, *, is_new: bool) -> None:
        pass

    def unschedulable_pods(self, plugin: str, profile: str, change: int) -> None:
        pass

    def in_flight_events(self, event: str, change: int) -> None:
        pass

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        pass

    def pre_enqueue(self, profile: str) -> GateTimes | None:
        return None
