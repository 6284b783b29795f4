"""Simulate: nodes, pods that arrive and end, and a configuration in; what became of every pod out."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.clock import Clock
from mooring.config.features import DEFAULT_FEATURES, Features
from mooring.config.load import config_from_dict
from mooring.config.types import KubeSchedulerConfiguration
from mooring.framework.registry import Registry
from mooring.framework.runtime import Profile
from mooring.observe.observer import SchedulerObserver
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.scheduler.assembly import Options, Scheduler
from mooring.sim.virtual_time import LoopClock, run_virtual
from mooring.simulation.world import World

REST_S = 0.001  # how long the end waits for what the last event set off
Happening = Callable[[World], None]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that comes at a time, in seconds from the start, and runs for so long once it is bound; None: for ever."""

    at_s: float
    pod: Pod
    run_s: float | None = None


@dataclass(slots=True)
class Placed:
    """A pod that was bound."""

    node: str
    at_s: float
    attempts: int


@dataclass(slots=True)
class Outcome:
    """What became of every pod, by ``namespace/name``; times are seconds from the start."""

    placed: dict[str, Placed] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)  # why each pod that is still pending has no node
    evicted: dict[str, float] = field(default_factory=dict)
    attempts: int = 0
    ended_at_s: float = 0.0


def simulate(
    objects: Iterable[Object],
    arrivals: Iterable[Arrival] = (),
    *,
    config: KubeSchedulerConfiguration | None = None,
    registry: Registry | None = None,
    happenings: Sequence[tuple[float, Happening]] = (),
    until_s: float | None = None,
    seed: int = 0,
    observers: Sequence[SchedulerObserver] = (),
    features: Features = DEFAULT_FEATURES,
) -> Outcome:
    """Play everything that happens, to ``until_s`` or until nothing is left to happen.

    ``features`` say which version of Kubernetes decides; ``config`` must have been read for the same.

    The same arguments give the same outcome: random choices come from the seed, and time is the simulation's own.
    """
    agenda = _agenda(arrivals, happenings)
    return run_virtual(_play(list(objects), agenda, config, registry, until_s, seed, observers, features))


Agenda = list[tuple[float, int, Happening]]


def _agenda(arrivals: Iterable[Arrival], happenings: Iterable[tuple[float, Happening]]) -> Agenda:
    """What happens when, in order; at one time, in the order given, happenings first."""
    agenda: Agenda = [(at_s, i, happening) for i, (at_s, happening) in enumerate(happenings)]
    first = len(agenda)
    for i, arrival in enumerate(arrivals, first):
        agenda.append((arrival.at_s, i, _arriving(arrival)))
    heapq.heapify(agenda)
    return agenda


def _arriving(arrival: Arrival) -> Happening:
    return lambda world: world.arrive(arrival.pod, arrival.run_s)


async def _play(
    objects: list[Object],
    agenda: Agenda,
    config: KubeSchedulerConfiguration | None,
    registry: Registry | None,
    until_s: float | None,
    seed: int,
    observers: Sequence[SchedulerObserver],
    features: Features,
) -> Outcome:
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    world, witness = World(clock), _Witness(clock)
    # A simulation ends when it ends: no attempt is cut off by a clock on the wall.
    options = Options(
        features=features,
        registry=registry,
        clock=clock,
        rng=random.Random(seed),
        observers=(witness, *observers),
        plugin_timeout_s=0,
        attempt_timeout_s=0,
    )
    scheduler = Scheduler(config or config_from_dict(None, features), lambda pods: world, _NoEvents(), options)
    world.connect(scheduler.put, scheduler.delete)
    for obj in objects:
        world.put(obj)
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    try:
        await _happen(world, agenda, until_s)
        await _run_out(world, scheduler, until_s)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await scheduler.abort()
    outcome = witness.outcome
    outcome.ended_at_s = loop.time()
    outcome.pending = {f"{each.namespace}/{each.name}": each.message for each in scheduler.queue.pending_pods()}
    return outcome


async def _happen(world: World, agenda: Agenda, until_s: float | None) -> None:
    loop = asyncio.get_running_loop()
    while agenda:
        at_s = agenda[0][0]
        if until_s is not None and at_s > until_s:
            return
        await asyncio.sleep(max(0.0, at_s - loop.time()))
        while agenda and agenda[0][0] <= at_s:
            heapq.heappop(agenda)[2](world)


async def _run_out(world: World, scheduler: Scheduler, until_s: float | None) -> None:
    """Let time pass until the end, or until no pod can be placed any more and none is left to end."""
    loop = asyncio.get_running_loop()
    if until_s is not None:
        await asyncio.sleep(max(0.0, until_s - loop.time()))
        return
    while True:
        await asyncio.sleep(REST_S)
        counts = scheduler.queue.counts()
        if not world.ahead and not scheduler.in_flight and not counts["active"] and not counts["backoff"]:
            return
        await asyncio.sleep(0.1)


class _Witness(SchedulerObserver):
    """Notes what becomes of pods."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.outcome = Outcome()

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        self.outcome.placed[info.key] = Placed(node_name, self._clock.monotonic(), info.attempts)
        self.outcome.attempts += info.attempts

    def evicted(self, preemptor: Pod, victim: Pod, node_name: str) -> None:
        self.outcome.evicted[victim.key] = self._clock.monotonic()


class _NoEvents:
    """Events about pods are not written: nobody could read them."""

    observers: Sequence[Callable[..., None]] = ()

    def record(self, *_: object, **__: object) -> None:
        pass
