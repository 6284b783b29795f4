"""``mooring.simulate``: a story, or a cluster and pods that arrive, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mooring.api.errors import InputError
from mooring.core.cluster import Cluster
from mooring.core.config.features import parse_version
from mooring.core.config.load import enabling
from mooring.core.config.wire import to_wire
from mooring.core.session import Configuration, PluginReference, configuration_of, registry_with
from mooring.live.observer import SchedulerObserver
from mooring.record.recorder import Recorder
from mooring.sim.library import find
from mooring.sim.result import Simulation
from mooring.sim.scenario import Scenario
from mooring.sim.scenario_file import scenario_of
from mooring.sim.simulate import run_scenario, story_of
from mooring.sim.step_fields import seconds
from mooring.sim.workload import Arrival

T = TypeVar("T")


def simulate(
    story: str | Path | Mapping[str, Any] | Scenario | Cluster,
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
    """Play a story with its workloads, as ``mooring simulate`` does, and say what became of every pod.

    The story is a scenario file or its content as a dict, or the name of one that comes with mooring. Or it is a
    cluster, on which ``arrivals`` come in the order of their times; what is made while it is read must have that order.
    ``parameters`` are those of the file. ``until`` ends the simulation, such as ``"36h"``; without it, it ends when
    nothing is left to happen. ``record`` names a file to write. A mistake in what was given raises InputError.

    The same arguments give the same result: chance comes from the seed, and time is the simulation's own.
    """
    scenario = _scenario(story, arrivals, parameters)
    scenario = _scheduled(scenario, config, tuple(plugins), kubernetes_version)
    until_s = None if until is None else seconds(until, "until")
    recorder = None if record is None else Recorder.to_file(record, source="simulation", inputs=scenario.records)
    watching = (*observers, *(() if recorder is None else (recorder,)))
    try:
        result = _beside(
            lambda: run_scenario(scenario, until_s=until_s, seed=seed, observers=watching, keeps_placements=True)
        )
    finally:
        if recorder is not None:
            recorder.close()
    if result.is_mistake:
        raise InputError(result.failure)
    return result


def _scenario(story: Any, arrivals: Iterable[Arrival], parameters: Mapping[str, Any] | None) -> Scenario:
    if isinstance(story, Cluster):
        if parameters:
            raise InputError("parameters: a cluster has none; they are those of a scenario file")
        objects = [*story.state.objects, *story.nodes, *story.pods, *story.pending]
        return Scenario("simulation", "", story_of(objects, arrivals), records=story.records)
    if tuple(arrivals):
        raise InputError("arrivals: a story has workloads of its own; arrivals go with a Cluster")
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
    """The story with another configuration, version and plugins of the caller's own."""
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
    """Do some work, also in a notebook, where an event loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
