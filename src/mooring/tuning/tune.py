"""Tune: search a space of configurations, and try the best points on what the search has not seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from mooring.config.features import Features
from mooring.config.load import config_from_dict, load_config_file
from mooring.config.own_plugins import enabling
from mooring.config.profile import expand_all
from mooring.config.versions import DEFAULT_VERSION, parse_version
from mooring.config.wire import to_wire
from mooring.engine.in_tree import in_tree_registry
from mooring.errors import InputError, UsageError
from mooring.loading.plugins import load_plugins
from mooring.meant import hint
from mooring.sim.library import find
from mooring.tuning.points import DEFAULT, YOURS, Objective, Point, Tuning, choose, mark_best, parse_objective
from mooring.tuning.space import Dimension, configured, load_space
from mooring.tuning.trial import WHOLE, Task, attempted, measured

DEFAULT_OBJECTIVES = ("pending=min", "waitP90=min")
_BATCH = 4  # trials that are asked for at a time, however many run at once: the same points on every machine
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
        Task(
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


def _bases(task: Task, config: str | Path | None) -> tuple[Mapping[str, Any] | None, dict[str, Any]]:
    """The configuration that the search changes, and the points that are tried as they stand."""
    features = Features(parse_version(task.kubernetes_version or str(DEFAULT_VERSION)))
    own = load_plugins(task.plugins, in_tree_registry())
    default = enabling(None, own)
    mine: Mapping[str, Any] | None = find(task.story, task.parameters).config
    if config is not None:
        mine = to_wire(load_config_file(config, features).config)
    return mine or default, {DEFAULT: default, **({YOURS: mine} if mine else {})}


def _own_plugins(config: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The plugins that a configuration enables and the default does not: without them the rules are others."""
    (default,) = expand_all(config_from_dict({})).values()
    known = {name for enabled in default.values() for name, _ in enabled}
    profiles = (config or {}).get("profiles") or ()
    sets = [chosen or {} for profile in profiles for chosen in (profile.get("plugins") or {}).values()]
    named = [each["name"] for chosen in sets for each in chosen.get("enabled") or ()]
    return tuple(dict.fromkeys(name for name in named if name not in known))


def _held_out(task: Task, hold_out: float | Mapping[str, Any]) -> Task | None:
    if isinstance(hold_out, Mapping):
        return replace(task, parameters={**task.parameters, **hold_out})
    return replace(task, part=(1 - hold_out, 1.0)) if hold_out else None


class _Search:
    """The points so far, and how more are found."""

    def __init__(
        self,
        task: Task,
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
        """Try the default and the user's own configuration as they stand. They must work."""
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
        """The objectives under each configuration; None for one that cannot be used. None is tried twice."""
        keys = [json.dumps(config, sort_keys=True, default=str) for config in configs]
        new = {key: config for key, config in zip(keys, configs, strict=True) if key not in self._known}
        for key, row in zip(new, self._map(self.task, list(new.values())), strict=True):
            if isinstance(row, str) or any(each.name not in row for each in self._objectives):
                self._failed.append(row if isinstance(row, str) else "a measure is missing")
                self._known[key] = None
            else:
                self._known[key] = self._objectives_of(row)
        return [self._known[key] for key in keys]

    def _map(self, task: Task, configs: Sequence[Any]) -> list[dict[str, float] | str]:
        if self._executor is None:
            return [attempted(task, config) for config in configs]
        return list(self._executor.map(attempted, [task] * len(configs), configs))

    def _objectives_of(self, row: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(row[each.name] for each in self._objectives)

    def _step(self) -> None:
        self._done += 1
        self._tell(self._done, self._total)

    def try_on(self, task: Task | None) -> None:
        """Try the best points, and those that were there before, on what the search has not seen."""
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
