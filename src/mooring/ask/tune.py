"""Tune: searches a space of configurations, and tests the best points on a hold-out part.

A point is a configuration with its measurements. The default configuration is always one of the points. The space says
which fields of a configuration may take which values::

    weights:
      NodeResourcesFit: [1, 10]                                  # whole numbers between these
      NodeResourcesBalancedAllocation: [0, 10]                   # 0: it does not score
    strategies: [LeastAllocated, MostAllocated]                  # of NodeResourcesFit
    arguments:
      InterPodAffinity.hardPodAffinityWeight: [0, 100]
      PodTopologySpread.defaultingType: {choices: [System, List]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from mooring.api import yaml
from mooring.api.errors import InputError, MooringError, UsageError
from mooring.api.manifests import read_bytes
from mooring.api.text import hint
from mooring.ask.pareto import DEFAULT, YOURS, Objective, Point, Tuning, choose, mark_best, parse_objective
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict, enabling, load_config_file
from mooring.core.config.plugin_loading import load_plugins
from mooring.core.config.profile import expand_all
from mooring.core.config.versions import DEFAULT_VERSION, parse_version
from mooring.core.config.wire import to_wire
from mooring.core.engine.in_tree import in_tree_registry
from mooring.sim.library import find
from mooring.sim.scenario import Play
from mooring.sim.simulate import run_scenario
from mooring.sim.workload import Arrival, Setting, Workload

FIT = "NodeResourcesFit"
_FIELDS = ("weights", "strategies", "arguments")
_STRATEGY = "strategy"
Document = dict[str, Any]

DEFAULT_SPACE: Mapping[str, Any] = {
    "weights": {FIT: [1, 10], "NodeResourcesBalancedAllocation": [0, 10], "PodTopologySpread": [0, 10]},
    "strategies": ["LeastAllocated", "MostAllocated"],
    "arguments": {"PodTopologySpread.defaultingType": {"choices": ["System", "List"]}},
}
"""The default space: how full nodes become, independently of the pods' requests."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One field: choices, or numbers from ``low`` to ``high``."""

    name: str
    choices: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


def load_space(path: str | Path | None) -> list[Dimension]:
    """Read the space in a file, or return the default one."""
    if path is None:
        return read_space(DEFAULT_SPACE)
    document = yaml.load(read_bytes(Path(path)), str(path))
    try:
        return read_space(document)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_space(document: Any) -> list[Dimension]:
    if not isinstance(document, Mapping) or not document:
        raise InputError(f"expected a space with the fields {', '.join(_FIELDS)}")
    for name in document:
        if name not in _FIELDS:
            raise InputError(f"{name}: no such field; expected {', '.join(_FIELDS)}")
    weights, arguments = (_mapping(document.get(name), name) for name in ("weights", "arguments"))
    found = [_dimension(f"weights.{name}", each) for name, each in weights.items()]
    for dimension in found:
        if dimension.choices or not dimension.is_whole or dimension.low < 0 or dimension.high > 100:
            raise InputError(f"{dimension.name}: expected [LOW, HIGH], whole numbers from 0 to 100")
    strategies = document.get("strategies")
    if strategies is not None:
        found.append(_dimension(_STRATEGY, {"choices": strategies}))
    for name, each in arguments.items():
        if "." not in name:
            raise InputError(f"arguments.{name}: expected Plugin.field, such as InterPodAffinity.hardPodAffinityWeight")
        found.append(_dimension(f"arguments.{name}", each))
    return found


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: expected names with ranges")
    return value


def _dimension(name: str, given: Any) -> Dimension:
    match given:
        case [int() | float() as low, int() | float() as high] if low < high and not isinstance(low, bool):
            return Dimension(name, low=low, high=high)
        case {"choices": [*choices]} if choices and len(given) == 1:
            return Dimension(name, tuple(choices))
    raise InputError(f"{name}: found {given!r}, expected [LOW, HIGH] or choices: with a list")


# ---- a point as a configuration
# ----------------------------------------------------------------------------------------


def configured(base: Mapping[str, Any] | None, values: Mapping[str, Any]) -> Document:
    """Return a copy of the configuration with these values, in every profile."""
    document: Document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **deepcopy(dict(base or {})),
    }
    document["profiles"] = [dict(profile) for profile in document.get("profiles") or [{}]]
    for profile in document["profiles"]:
        for name, value in values.items():
            kind, _, rest = name.partition(".")
            if kind == "weights":
                _set_weight(profile, rest, value)
            elif kind == _STRATEGY:
                _set_argument(profile, FIT, ["scoringStrategy", "type"], value)
            else:
                plugin, _, path = rest.partition(".")
                _set_argument(profile, plugin, path.split("."), value)
    return document


def _set_weight(profile: Document, plugin: str, weight: int) -> None:
    """Set a weight; 0 disables the score. A plugin that the profile names at the point is changed there."""
    plugins = profile["plugins"] = dict(profile.get("plugins") or {})
    score = plugins["score"] = dict(plugins.get("score") or {})
    everywhere = plugins["multiPoint"] = dict(plugins.get("multiPoint") or {})
    named = {each["name"] for each in score.get("enabled") or ()}
    for points in (score, everywhere):
        points["enabled"] = [each for each in points.get("enabled") or () if each["name"] != plugin]
    score["disabled"] = [each for each in score.get("disabled") or () if each["name"] != plugin]
    if weight == 0:
        score["disabled"].append({"name": plugin})
    else:
        (score if plugin in named else everywhere)["enabled"].append({"name": plugin, "weight": weight})
    for point, chosen in (("score", score), ("multiPoint", everywhere)):
        plugins[point] = {key: value for key, value in chosen.items() if value}
        if not plugins[point]:
            del plugins[point]


def _set_argument(profile: Document, plugin: str, path: list[str], value: Any) -> None:
    entries = profile["pluginConfig"] = [dict(each) for each in profile.get("pluginConfig") or ()]
    entry = next((each for each in entries if each.get("name") == plugin), None)
    if entry is None:
        entry = {"name": plugin}
        entries.append(entry)
    inside = entry["args"] = deepcopy(dict(entry.get("args") or {}))
    for step in path[:-1]:
        inside = inside.setdefault(step, {})
    inside[path[-1]] = value


# --------------------------------------------------------------------------------------------------------------------
# One trial: a story simulated under a configuration, on a part of its trace, with measurements.

Part = tuple[float, float]
WHOLE: Part = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class TrialTask:
    """Input of a simulation, apart from the configuration. It can be sent to another process."""

    story: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    part: Part = WHOLE  # of every workload's pods, in order of arrival
    seeds: tuple[int, ...] = (0,)
    plugins: tuple[str, ...] = ()
    kubernetes_version: str | None = None
    until_s: float | None = None


def measured(task: TrialTask, config: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the mean of every measure over the seeds; raise MooringError for an unusable configuration or story."""
    rows = [_row(task, config, seed) for seed in task.seeds]
    names = [name for name in rows[0] if all(name in row for row in rows)]
    return {name: sum(row[name] for row in rows) / len(rows) for name in names}


def attempted(task: TrialTask, config: Mapping[str, Any] | None) -> dict[str, float] | str:
    """Return the same, or the error of an impossible configuration."""
    try:
        return measured(task, config)
    except MooringError as error:
        return str(error)


def _row(task: TrialTask, config: Mapping[str, Any] | None, seed: int) -> dict[str, float]:
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
    """Return every number in it, with dots between the names of nested fields."""
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
    """A cluster that receives only a part of each workload."""

    def __init__(self, cluster: Any, part: Part, pods: _Count) -> None:
        self._cluster, self._part, self._pods = cluster, part, pods

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def begin(self, workload: Workload) -> None:
        await self._cluster.begin(_PartOf(workload, self._part, self._pods))


class _PartOf:
    """A range of a workload's pods; the first of them arrives immediately."""

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


DEFAULT_OBJECTIVES = ("pending=min", "waitP90=min")
_BATCH = 4  # trials per batch, independent of parallelism: the same points on every machine
_MOST_HELD_OUT = 12


def tune(
    story: str | Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    objectives: Iterable[str] = DEFAULT_OBJECTIVES,
    space: str | Path | None = None,
    trials: int = 40,
    seeds: int = 1,
    hold_out: float | Mapping[str, Any] = 0.3,
    config: str | Path | None = None,
    plugins: Iterable[str] = (),
    kubernetes_version: str | None = None,
    until_s: float | None = None,
    executor: Executor | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tuning:
    """Search weights, strategies and plugin arguments for objectives, on a simulation.

    ``hold_out`` is the share of the trace's last pods that the search does not see, or parameters that name another
    trace. Points are tried ``seeds`` times each. The same arguments give the same points.
    """
    if not isinstance(hold_out, Mapping) and not 0 <= hold_out < 1:
        raise UsageError(f"hold-out: found {hold_out:g}, expected a share from 0 up to 1, or NAME=VALUE")
    wanted = tuple(parse_objective(each) for each in objectives)
    if not wanted:
        raise UsageError("expected at least one objective, such as waitP99=min")
    version = kubernetes_version or find(str(story), parameters or {}).kubernetes_version
    search = _Search(
        TrialTask(
            str(story),
            dict(parameters or {}),
            WHOLE if isinstance(hold_out, Mapping) or not hold_out else (0.0, 1 - hold_out),
            tuple(range(seeds)),
            tuple(plugins),
            version,
            until_s,
        ),
        wanted,
        executor,
        on_progress,
    )
    base, others = _bases(search.task, config)
    search.begin(others, trials)
    search.run(base, load_space(space), trials, seed)
    search.try_on(_held_out(search.task, hold_out))
    return search.result()


def _bases(task: TrialTask, config: str | Path | None) -> tuple[Mapping[str, Any] | None, dict[str, Any]]:
    """Return the configuration that the search changes, and the points that are tried unchanged."""
    features = Features(parse_version(task.kubernetes_version or str(DEFAULT_VERSION)))
    own = load_plugins(task.plugins, in_tree_registry())
    default = enabling(None, own)
    mine: Mapping[str, Any] | None = find(task.story, task.parameters).config
    if config is not None:
        mine = to_wire(load_config_file(config, features).config)
    return mine or default, {DEFAULT: default, **({YOURS: mine} if mine else {})}


def _own_plugins(config: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the plugins that a configuration enables and the default does not: without them the rules differ."""
    (default,) = expand_all(config_from_dict({})).values()
    known = {name for enabled in default.values() for name, _ in enabled}
    profiles = (config or {}).get("profiles") or ()
    sets = [chosen or {} for profile in profiles for chosen in (profile.get("plugins") or {}).values()]
    named = [each["name"] for chosen in sets for each in chosen.get("enabled") or ()]
    return tuple(dict.fromkeys(name for name in named if name not in known))


def _held_out(task: TrialTask, hold_out: float | Mapping[str, Any]) -> TrialTask | None:
    if isinstance(hold_out, Mapping):
        return replace(task, parameters={**task.parameters, **hold_out})
    return replace(task, part=(1 - hold_out, 1.0)) if hold_out else None


class _Search:
    """The points so far, and the search for more."""

    def __init__(
        self,
        task: TrialTask,
        objectives: tuple[Objective, ...],
        executor: Executor | None,
        on_progress: Callable[[int, int], None],
    ) -> None:
        self.task = task
        self._objectives = objectives
        self._executor = executor
        self._tell = on_progress
        self._points: list[Point] = []
        self._failed: list[str] = []
        self._known: dict[str, tuple[float, ...] | None] = {}  # configurations that were tried
        self._done = self._total = 0

    def begin(self, configs: Mapping[str, Any], trials: int) -> None:
        """Try the default and the user's own configuration unchanged. They must work."""
        self._total = len(configs) + trials
        self._tell(0, self._total)
        for name, config in configs.items():
            row = measured(self.task, config)
            missing = [each.name for each in self._objectives if each.name not in row]
            if missing:
                raise InputError(
                    f"--objective: no measure {missing[0]!r} in {self.task.story}; {hint(missing[0], row)}"
                )
            lacks = _own_plugins(configs.get(YOURS)) if name == DEFAULT else ()
            self._points.append(Point(name, {}, config, self._objectives_of(row), lacks=lacks))
            self._step()

    def run(self, base: Mapping[str, Any] | None, space: Sequence[Dimension], trials: int, seed: int) -> None:
        if not trials:
            return
        study, optuna = _study(self._objectives, seed)
        for first in range(0, trials, _BATCH):
            asked = [study.ask() for _ in range(min(_BATCH, trials - first))]
            values = [{each.name: _suggested(trial, each) for each in space} for trial in asked]
            configs = [configured(base, each) for each in values]
            results = self._try(configs)
            for number, (trial, chosen, config, result) in enumerate(zip(asked, values, configs, results, strict=True)):
                if result is None:
                    study.tell(trial, state=optuna.trial.TrialState.FAIL)
                else:
                    study.tell(trial, result)
                    self._points.append(Point(f"trial {first + number + 1}", chosen, config, result))
                self._step()

    def _try(self, configs: Sequence[Mapping[str, Any]]) -> list[tuple[float, ...] | None]:
        """Return the objectives under each configuration; None for an unusable one. None is tried twice."""
        keys = [json.dumps(config, sort_keys=True, default=str) for config in configs]
        new = {key: config for key, config in zip(keys, configs, strict=True) if key not in self._known}
        for key, row in zip(new, self._map(self.task, list(new.values())), strict=True):
            if isinstance(row, str) or any(each.name not in row for each in self._objectives):
                self._failed.append(row if isinstance(row, str) else "a measure is missing")
                self._known[key] = None
            else:
                self._known[key] = self._objectives_of(row)
        return [self._known[key] for key in keys]

    def _map(self, task: TrialTask, configs: Sequence[Any]) -> list[dict[str, float] | str]:
        if self._executor is None:
            return [attempted(task, config) for config in configs]
        return list(self._executor.map(attempted, [task] * len(configs), configs))

    def _objectives_of(self, row: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(row[each.name] for each in self._objectives)

    def _step(self) -> None:
        self._done += 1
        self._tell(self._done, self._total)

    def try_on(self, task: TrialTask | None) -> None:
        """Try the best points, and the existing configurations, on the hold-out part."""
        best = mark_best(self._points, self._objectives)
        if task is None:
            return
        fixed = [point for point in self._points if point.name in (DEFAULT, YOURS)]
        again = list(
            {point.name: point for point in (*fixed, choose(best, self._objectives), *best[:_MOST_HELD_OUT])}.values()
        )
        for point, row in zip(again, self._map(task, [point.config for point in again]), strict=True):
            if isinstance(row, str):
                raise InputError(f"on the hold-out part, {point.name}: {row}")
            missing = [each.name for each in self._objectives if each.name not in row]
            if missing:
                raise InputError(f"on the hold-out part, {point.name}: no measure {missing[0]!r}")
            point.held_out = self._objectives_of(row)

    def result(self) -> Tuning:
        best = [point for point in self._points if point.is_best]
        return Tuning(self.task.story, self._objectives, self._points, choose(best, self._objectives), self._failed)


def _study(objectives: Sequence[Objective], seed: int) -> tuple[Any, Any]:
    try:
        import optuna
    except ImportError:
        raise UsageError("tuning needs Optuna, which is not installed: pip install 'mooring[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions: list[Any] = ["maximize" if each.maximize else "minimize" for each in objectives]
    return optuna.create_study(directions=directions, sampler=optuna.samplers.TPESampler(seed=seed)), optuna


def _suggested(trial: Any, dimension: Dimension) -> Any:
    if dimension.choices:
        return trial.suggest_categorical(dimension.name, list(dimension.choices))
    if dimension.is_whole:
        return trial.suggest_int(dimension.name, int(dimension.low), int(dimension.high))
    return trial.suggest_float(dimension.name, dimension.low, dimension.high)
