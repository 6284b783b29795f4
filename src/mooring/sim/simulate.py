"""Simulations: play a story with its workloads, and report the outcome of every pod.

``mooring.simulate`` is the front door, :func:`run_scenario` what it and ``mooring simulate`` share.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mooring.api.core import Namespace
from mooring.api.errors import InputError
from mooring.api.memory import seldom_collecting
from mooring.api.meta import Object
from mooring.api.times import format_duration
from mooring.core.cluster import Cluster
from mooring.core.config.load import enabling
from mooring.core.config.versions import parse_version
from mooring.core.config.wire import to_wire
from mooring.core.engine.decision import ScheduleResult
from mooring.core.framework.runtime import Profile
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.session import Configuration, PluginReference, configuration_of, registry_with
from mooring.live.observer import SchedulerObserver
from mooring.sim.backend import IDENTITY, manifest_of
from mooring.sim.library import find
from mooring.sim.narration import QUIET
from mooring.sim.player import PlayResult, play
from mooring.sim.result import Simulation
from mooring.sim.scenario import Play, Scenario, ScenarioCluster
from mooring.sim.scenario_file import scenario_of
from mooring.sim.simulated_world import SimulatedWorld
from mooring.sim.step_fields import seconds
from mooring.sim.virtual_time import run_virtual
from mooring.sim.workload import Arrival, Setting
from mooring.sim.worlds import PlaySettings

T = TypeVar("T")


def simulate(
    story: str | Path | Mapping[str, Any] | Scenario | Cluster | Sequence[Object],
    arrivals: Iterable[Arrival] = (),
    *,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    until: str | float | None = None,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
    record: str | Path | None = None,
    observers: Sequence[SchedulerObserver] = (),
) -> Simulation:
    """Play a story with its workloads, as ``mooring simulate`` does, and return the outcome of every pod.

    The story is a scenario file or its content as a dict, or the name of one that comes with mooring. Or it is a
    cluster, or the objects of one, on which ``arrivals`` come in the order of their times. Arrivals that are made while
    they are read must have that order. ``parameters`` are those of the file. ``until`` ends the simulation, such as
    ``"36h"``; without it, it ends when nothing is left to happen. ``record`` names a file to write. A mistake in what
    was given raises InputError.

    The same arguments give the same result: chance comes from the seed, and time is the simulation's own.
    """
    scenario = _scenario(story, arrivals, parameters)
    scenario = _scheduled(scenario, config, tuple(plugins), kubernetes_version)
    until_s = None if until is None else seconds(until, "until")
    with contextlib.ExitStack() as stack:
        if record is not None:
            from mooring.record.recorder import Recorder  # slow to import

            recorder = Recorder.to_file(record, source="simulation", inputs=scenario.records)
            stack.callback(recorder.close)
            observers = (*observers, recorder)
        result = _beside(
            lambda: run_scenario(scenario, until_s=until_s, seed=seed, observers=observers, keeps_placements=True)
        )
    if result.is_mistake:
        raise InputError(result.failure)
    return result


def _scenario(story: Any, arrivals: Iterable[Arrival], parameters: Mapping[str, Any] | None) -> Scenario:
    if isinstance(story, Cluster):
        if parameters:
            raise InputError("parameters: a cluster has none; they are those of a scenario file")
        objects = [*story.state.objects, *story.nodes, *story.pods, *story.pending]
        return Scenario("simulation", "", story_of(objects, arrivals), records=story.records)
    if isinstance(story, list | tuple):
        return Scenario("simulation", "", story_of(story, arrivals))
    if tuple(arrivals):
        raise InputError("arrivals: a story has its own workloads; use arrivals with a Cluster")
    match story:
        case str() | Path():
            return find(str(story), parameters)
        case Mapping():
            return scenario_of(story, source="the given story", folder=Path(), name="simulation", given=parameters)
        case Scenario():
            return story
        case _:
            raise InputError(f"found {story!r}; expected a scenario file, its content as a dict, or a Cluster")


def _scheduled(
    scenario: Scenario, config: Configuration, plugins: tuple[PluginReference, ...], version: str | None
) -> Scenario:
    """Return the story with the caller's configuration, version and plugins."""
    decided = parse_version(version or scenario.kubernetes_version, "kubernetes_version")
    features = replace(scenario, kubernetes_version=str(decided)).features
    _, own = registry_with(plugins)
    if config is not None:
        scenario = replace(scenario, config=to_wire(configuration_of(config, own, features)))
    else:
        scenario = replace(scenario, config=enabling(scenario.config, own))
    return replace(
        scenario,
        plugins=(*scenario.plugins, *(each for each in plugins if isinstance(each, type))),
        plugin_files=(*scenario.plugin_files, *(str(each) for each in plugins if not isinstance(each, type))),
        kubernetes_version=str(features.version),
    )


def _beside(work: Callable[[], T]) -> T:
    """Run some work, also in a notebook, where an event loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def run_scenario(
    scenario: Scenario,
    *,
    until_s: float | None = None,
    seed: int = 0,
    observers: Sequence[SchedulerObserver] = (),
    keeps_placements: bool = False,
    write: Callable[[str], None] = lambda line: None,
    on_progress: Show | None = None,
) -> Simulation:
    """Play a story whose workloads bypass the API server.

    ``write`` gets what the story says and expects; ``on_progress`` is called regularly.
    """
    progress = None if on_progress is None else SimulationProgress(on_progress, until_s)
    watching = (*observers, *(() if progress is None else (progress,)))

    async def main() -> Simulation:
        settings = PlaySettings(level=QUIET, write=write, seed=seed, observers=watching)
        ended: list[float] = []
        story = replace(scenario, play=_to_the_end(scenario.play, until_s, ended.append))
        was_interrupted = False
        async with SimulatedWorld(
            settings, story, keeps_placements=keeps_placements, has_end=until_s is not None
        ) as world:
            if progress is not None:
                progress.follow(world)
            told = PlayResult(scenario.name)
            try:
                told = await play(world, story)
            except asyncio.CancelledError:  # Ctrl-C: keep the result so far
                was_interrupted = True
            result = world.result()
        result.name, result.title, result.seed = scenario.name, scenario.title, seed
        result.ended_at_s = ended[0] if ended else result.ended_at_s
        result.kubernetes_version, result.was_interrupted = scenario.kubernetes_version, was_interrupted
        result.failure, result.expectations, result.is_mistake = told.failure, told.expectations, told.is_mistake
        return result

    with seldom_collecting():
        return run_virtual(main())


def _to_the_end(play: Play, until_s: float | None, ended: Callable[[float], None]) -> Play:
    """Return the story, followed by as much time as it takes until nothing is left to happen, or until the end."""

    async def whole(cluster: ScenarioCluster) -> None:
        limit = asyncio.timeout(until_s)
        try:
            async with limit:
                await play(cluster)
                await (cluster.finish() if until_s is None else asyncio.sleep(until_s))
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            ended(cluster.clock.monotonic())
        cluster.check_workloads()

    return whole


def story_of(objects: Iterable[Object], arrivals: Iterable[Arrival] = (), play: Play | None = None) -> Play:
    """Return the story of a cluster with these objects: pods arrive, and ``play`` runs."""

    async def story(cluster: ScenarioCluster) -> None:
        there = sorted(objects, key=lambda obj: _ORDER.get(type(obj).__name__, 1))
        known = {"", "default", "kube-system", *(obj.name for obj in there if isinstance(obj, Namespace))}
        missing = sorted({obj.namespace for obj in there} - known)
        spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in missing]
        await cluster.apply(*spaces, *(manifest_of(obj, without=IDENTITY) for obj in there))
        # What is made while it is read can only come in its own order.
        in_order = sorted(arrivals, key=lambda each: each.at_s) if isinstance(arrivals, Sequence) else arrivals
        await cluster.begin(Arrivals(in_order))
        if play is not None:
            await play(cluster)

    return story


_ORDER = {"Namespace": 0, "Node": 2, "Pod": 3}


class Arrivals:
    """A workload of existing pods."""

    def __init__(self, arrivals: Iterable[Arrival]) -> None:
        self._arrivals = arrivals
        self.total = len(arrivals) if isinstance(arrivals, Sequence) else None

    def arrivals(self, setting: Setting) -> Generator[Arrival]:
        for arrival in self._arrivals:
            setting.admit(arrival.pod)
            yield arrival


# --------------------------------------------------------------------------------------------------------------------
# Progress of a simulation.

Show = Callable[[int, int, str], None]
"""Called with what is done, the total, and a word for the current position."""
EVERY = 128  # attempts between two looks at the clock
PAUSE_S = 0.1


class SimulationProgress(SchedulerObserver):
    """Counts pods that have come, or seconds until a given end."""

    def __init__(self, show: Show, until_s: float | None) -> None:
        self._show, self._until_s = show, until_s
        self._world: SimulatedWorld | None = None
        self._attempts = 0
        self._next = 0.0

    def follow(self, world: SimulatedWorld) -> None:
        self._world = world

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
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
