"""From a configuration to profiles that decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from mooring.api.clock import Clock, SystemClock
from mooring.api.core import Pod
from mooring.api.errors import ConfigError, InputError, MooringError, warn
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.load import config_from_dict, enabling, examine, load_config_file, unused
from mooring.core.config.plugin_loading import load_installed, load_plugins
from mooring.core.config.profile import IN_TREE_POINTS, Expanded, effective_args, expand_all, with_ignored_resources
from mooring.core.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from mooring.core.engine.cycle import Engine
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.extenders import Extenders
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.engine.pod_groups import GroupCycle, GroupPreemption
from mooring.core.engine.preemption import Evaluator
from mooring.core.framework.extender import AskAll, ExtenderClient, ask_in_turn
from mooring.core.framework.handle import Devices, Handle, NoDevices, Nominations, Nominator
from mooring.core.framework.registry import Registry, ResolvedPlugin
from mooring.core.framework.runtime import Profile, run_pre_enqueue
from mooring.core.state.cluster import ClusterState


def decide(engine: Engine, profile: Profile, pod: Pod, *, detail: bool = True) -> ScheduleResult:
    """Decide about a pod that is new. One that a PreEnqueue plugin holds back is gated: it is not tried."""
    info = engine.cluster.info(pod)
    held = run_pre_enqueue(profile.pre_enqueue, pod)
    if held.is_success:
        return engine.decide(info, profile, detail=detail)
    return ScheduleResult(info, Outcome.GATED, status=held, num_nodes=len(engine.cluster.nodes()))


@dataclass(slots=True)
class Built:
    """An engine with its profiles by scheduler name."""

    engine: Engine
    profiles: dict[str, Profile]
    handle: Handle
    features: Features
    _on: Callable[[ClusterState, Nominator, Devices], Built]

    def on(self, cluster: ClusterState, nominator: Nominator | None = None) -> Built:
        """Build the same for another cluster, such as a fork: plugins belong to the cluster they are made for."""
        return self._on(cluster, nominator or self.handle.nominator, self.handle.devices)

    def groups(self, profile: Profile) -> GroupCycle:
        """Decides about pod groups with this profile."""
        return GroupCycle(
            self.engine, profile, self.handle, by_placement=self.features["TopologyAwareWorkloadScheduling"]
        )

    def decide(self, pod: Pod, *, detail: bool = True) -> ScheduleResult:
        """Decide about a pod that is new, with the profile that it asks for."""
        return decide(self.engine, self.profile_of(pod), pod, detail=detail)

    def profile_of(self, pod: Pod) -> Profile:
        """The profile that the pod asks for, or InputError where there is none."""
        profile = self.profiles.get(pod.spec.scheduler_name)
        if profile is None:
            raise InputError(
                f"Pod {pod.key}: spec.schedulerName: no profile for {pod.spec.scheduler_name!r}; "
                f"the configuration has {', '.join(self.profiles)}"
            )
        return profile


def build(
    config: KubeSchedulerConfiguration,
    cluster: ClusterState,
    *,
    clock: Clock | None = None,
    nominator: Nominator | None = None,
    registry: Registry | None = None,
    features: Features = DEFAULT_FEATURES,
    prepare: Callable[[Handle], None] | None = None,
    extenders: Sequence[ExtenderClient] = (),
    ask_all: AskAll = ask_in_turn,
) -> Built:
    """Build every profile, or raise ConfigError with upstream's words for what is wrong.

    ``extenders`` are what the configuration's entries stand for, made by the caller; without them
    only ``ignoredByScheduler`` is heeded.
    """
    registry = registry or in_tree_registry()
    clock = clock or SystemClock()
    config = with_ignored_resources(config)
    expanded = expand_all(config, registry.points(), version=features.version)

    cluster.count_resizes(whole=features["ResizesCountWholePods"])

    def on(cluster: ClusterState, nominator: Nominator, devices: Devices) -> Built:
        handle = Handle(cluster, clock, nominator, features, devices=devices)
        handle.extenders = tuple(extenders)
        if prepare is not None:
            prepare(handle)
        registry.prepare(handle)
        engine = Engine(
            cluster,
            nominator,
            clock=clock,
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            extenders=_extenders(handle, ask_all),
            batches=features["OpportunisticBatching"],
            rescores=features["BatchingRescoresTheLastNode"],
        )

        def again(fork: ClusterState) -> Built:
            return on(fork, nominator, handle.devices)

        profiles = {
            profile.scheduler_name: build_profile(
                profile, expanded[profile.scheduler_name], registry, handle, engine, features, again
            )
            for profile in config.profiles
        }
        return Built(engine, profiles, handle, features, on)

    return on(cluster, nominator or Nominations(), NoDevices())


def _extenders(handle: Handle, ask_all: AskAll) -> Extenders | None:
    if not handle.extenders:
        return None
    return Extenders(handle.extenders, pick=handle.pick, ask_all=ask_all)


def build_profile(
    profile: KubeSchedulerProfile,
    points: Mapping[str, list[tuple[str, int]]],
    registry: Registry,
    handle: Handle,
    engine: Engine,
    features: Features,
    on: Callable[[ClusterState], Built],
) -> Profile:
    handle = replace(handle)  # each profile's plugins share one; preemption needs its own profile's filters
    handle.points = {point: frozenset(name for name, _ in enabled) for point, enabled in points.items()}
    names = dict.fromkeys(name for enabled in points.values() for name, _ in enabled)
    plugins = {name: _make(profile, name, registry, handle, features) for name in names}
    built = Profile(profile.scheduler_name, profile.percentage_of_nodes_to_score, plugins, points)
    by_placement = features["TopologyAwareWorkloadScheduling"]

    def on_fork(cluster: ClusterState) -> GroupCycle:
        made = on(cluster)
        return GroupCycle(made.engine, made.profiles[profile.scheduler_name], handle, by_placement=by_placement)

    handle.preemption = Evaluator(built, engine, handle, GroupPreemption(handle, on_fork))
    return built


def _make(
    profile: KubeSchedulerProfile, name: str, registry: Registry, handle: Handle, features: Features
) -> ResolvedPlugin:
    try:
        return registry.make(name, effective_args(profile, name, features), handle)
    except MooringError as error:
        problems = error.problems if isinstance(error, ConfigError) else (str(error),)
        prefix = f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}: "
        raise ConfigError(*(f'{prefix}initializing plugin "{name}": {problem}' for problem in problems)) from None


# --------------------------------------------------------------------------------------------------------------------
# Checks a configuration document with all that can be known about it: ``mooring config check``, and the page.


@dataclass(slots=True)
class Checked:
    """What was found. Without problems there is a configuration that can be used."""

    config: KubeSchedulerConfiguration | None = None
    expanded: dict[str, Expanded] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: tuple[str, ...] = ()


def check_configuration(
    document: dict[str, Any],
    have: Registry,
    features: Features,
    *,
    assumed: Mapping[str, frozenset[str]] | None = None,
    makes_plugins: bool = False,
) -> Checked:
    """Find every mistake. ``assumed`` plugins run at these points; with ``makes_plugins`` all are made once, because
    only a user's own plugins can check their arguments."""
    found = Checked()
    registry = {**_points(have), **(assumed or {})}
    try:
        loaded, found.problems = examine(document, features)
        found.config, found.warnings = loaded.config, loaded.warnings
        found.expanded = expand_all(loaded.config, registry, version=features.version)
        if makes_plugins and not found.problems:
            build(loaded.config, ClusterState(), registry=have, features=features)
    except ConfigError as error:
        found.problems += error.problems
    except MooringError as error:
        found.problems.append(str(error))
    return found


def _points(have: Registry) -> dict[str, frozenset[str]]:
    """Return where plugins can run."""
    ours = {name: points for name, points in have.points().items() if name not in IN_TREE_POINTS}
    return {name: points for name, points in IN_TREE_POINTS.items() if name in have} | ours


# --------------------------------------------------------------------------------------------------------------------
# The configuration and the plugins that somebody asks for: paths, dicts, classes, names of modules.

Configuration: TypeAlias = str | Path | Mapping[str, Any] | KubeSchedulerConfiguration | None
"""The path of a KubeSchedulerConfiguration, the same as a dict or as an object; None is the default one."""
PluginReference: TypeAlias = type | str | Path
"""A plugin class, ``file.py``, ``file.py:Class``, ``module:Class`` or the name of an entry point."""


def registry_with(plugins: Iterable[PluginReference]) -> tuple[Registry, list[str]]:
    """The plugins that come with mooring, these, and the installed ones; and the names of these."""
    registry = in_tree_registry()
    own: list[str] = []
    for plugin in plugins:
        if isinstance(plugin, type):
            own.append(registry.register(plugin))
        else:
            own += load_plugins([str(plugin)], registry)
    warn(load_installed(registry))
    return registry, own


def configuration_of(config: Configuration, own: Sequence[str], features: Features) -> KubeSchedulerConfiguration:
    """The configuration that is meant; without one, the default one with these plugins enabled."""
    match config:
        case None:
            return config_from_dict(enabling(None, own), features)
        case str() | Path():
            loaded = load_config_file(config, features)
            where, notes, found = str(config), list(loaded.warnings), loaded.config
        case Mapping():
            where, notes, found = "config", [], config_from_dict(config, features)
        case KubeSchedulerConfiguration():
            where, notes, found = "config", [], config
        case _:
            raise InputError(f"config: found {config!r}; expected a path, a dict or a KubeSchedulerConfiguration")
    notes += unused(found, own, where)
    if found.extenders:
        urls = ", ".join(extender.shown_url for extender in found.extenders)
        notes.append(f"{where}: extenders are not called here, their verdicts are missing: {urls}")
    warn(notes)
    return found
