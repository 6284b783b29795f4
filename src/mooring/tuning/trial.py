"""One trial: a story simulated under a configuration, on a part of its trace, and what was measured."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from mooring.errors import InputError, MooringError
from mooring.sim.library import find
from mooring.sim.scenario import Play
from mooring.sim.workload import Arrival, Setting, Workload
from mooring.simulation.simulate import run_scenario

Part = tuple[float, float]
WHOLE: Part = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Task:
    """What is simulated, apart from the configuration. It can be sent to another process."""

    story: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    part: Part = WHOLE  # of every workload's pods, in order of their coming
    seeds: tuple[int, ...] = (0,)
    plugins: tuple[str, ...] = ()
    kubernetes_version: str | None = None
    until_s: float | None = None


def measured(task: Task, config: Mapping[str, Any] | None) -> dict[str, float]:
    """The mean of every measure over the seeds; MooringError if the configuration or the story cannot be used."""
    rows = [_row(task, config, seed) for seed in task.seeds]
    names = [name for name in rows[0] if all(name in row for row in rows)]
    return {name: sum(row[name] for row in rows) / len(rows) for name in names}


def attempted(task: Task, config: Mapping[str, Any] | None) -> dict[str, float] | str:
    """The same for a configuration that may be impossible: then what is wrong with it."""
    try:
        return measured(task, config)
    except MooringError as error:
        return str(error)


def _row(task: Task, config: Mapping[str, Any] | None, seed: int) -> dict[str, float]:
    scenario = find(task.story, task.parameters)
    pods = _Count()
    scenario = replace(
        scenario,
        play=_in_part(scenario.play, task.part, pods),
        config=config,
        plugin_files=(*scenario.plugin_files, *task.plugins),
        kubernetes_version=task.kubernetes_version or scenario.kubernetes_version,
    )
    result = run_scenario(scenario, until_s=task.until_s, seed=seed)
    if result.was_interrupted:
        raise KeyboardInterrupt
    if result.failure:
        raise InputError(f"{task.story}: {result.failure}")
    if task.part != WHOLE and not pods.number:
        raise InputError(
            f"{task.story}: nothing can be held out: no workload of it has pods in this part; "
            "give --hold-out NAME=VALUE with another trace, or --hold-out 0"
        )
    value = result.to_dict()
    return {**_numbers(value.pop("measures", {})), **_numbers(value)}


def _numbers(value: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Every number in it, with dots between the names of nested fields."""
    found: dict[str, float] = {}
    for name, each in value.items():
        if isinstance(each, Mapping):
            found |= _numbers(each, f"{prefix}{name}.")
        elif isinstance(each, int | float) and not isinstance(each, bool):
            found[f"{prefix}{name}"] = float(each)
    return found


@dataclass(slots=True)
class _Count:
    number: int = 0


def _in_part(play: Play, part: Part, pods: _Count) -> Play:
    if part == WHOLE:
        return play

    async def story(cluster: Any) -> None:
        await play(_InPart(cluster, part, pods))  # type: ignore[arg-type]

    return story


class _InPart:
    """A cluster to which only a part of each workload comes."""

    def __init__(self, cluster: Any, part: Part, pods: _Count) -> None:
        self._cluster, self._part, self._pods = cluster, part, pods

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def begin(self, workload: Workload) -> None:
        await self._cluster.begin(_PartOf(workload, self._part, self._pods))


class _PartOf:
    """So many of a workload's pods; the first of them comes at once."""

    def __init__(self, workload: Workload, part: Part, pods: _Count) -> None:
        self._workload, self._part, self._pods = workload, part, pods
        self.total: int | None = None

    def arrivals(self, setting: Setting) -> Generator[Arrival]:
        every = list(self._workload.arrivals(setting))
        first, last = (round(share * len(every)) for share in self._part)
        mine = every[first:last]
        self._pods.number += len(mine)
        for arrival in mine:
            yield msgspec.structs.replace(arrival, at_s=arrival.at_s - mine[0].at_s)
