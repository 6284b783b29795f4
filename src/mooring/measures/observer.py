"""Measures of a scheduler while it runs: an observer that tells a meter what it hears."""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.engine.decision import Decision, Outcome
from mooring.framework.runtime import Profile
from mooring.measures.meter import Meter
from mooring.measures.results import Measures
from mooring.observe.observer import Observed, SchedulerObserver
from mooring.queue.queued_pod import QueuedPodInfo


class MeasuringObserver(SchedulerObserver):
    """Give it to one scheduler; ``measures`` are those up to now."""

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

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: Decision, seconds: float) -> None:
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
