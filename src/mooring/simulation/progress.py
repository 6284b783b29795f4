"""How far a simulation is, told now and then while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from mooring.config.duration import format_duration
from mooring.engine.decision import Decision
from mooring.framework.runtime import Profile
from mooring.observe.observer import SchedulerObserver
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.simulation.world import SimulatedWorld

Show = Callable[[int, int, str], None]
"""Called with what is done, how much there is in all, and a word for where the simulation is."""
EVERY = 128  # attempts between two looks at the clock
PAUSE_S = 0.1


class Progress(SchedulerObserver):
    """Counts pods that have come, or seconds until a given end."""

    def __init__(self, show: Show, until_s: float | None) -> None:
        self._show, self._until_s = show, until_s
        self._world: SimulatedWorld | None = None
        self._attempts = 0
        self._next = 0.0

    def follow(self, world: SimulatedWorld) -> None:
        self._world = world

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: Decision, seconds: float) -> None:
        self._attempts += 1
        if self._attempts % EVERY == 0 and self._world is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + PAUSE_S
            self._tell(self._world)

    def _tell(self, world: SimulatedWorld) -> None:
        now_s, arrived = world.clock.monotonic(), world.streamed.arrived
        stage = f"at {format_duration(round(now_s))}"
        if self._until_s is not None:
            self._show(int(now_s), int(self._until_s), f"{stage}, {arrived:,} pods")
        else:
            self._show(arrived, max(arrived, world.cluster.expected_arrivals), stage)
