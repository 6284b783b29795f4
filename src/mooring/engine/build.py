"""From a configuration to profiles that decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from mooring.clock import Clock, SystemClock
from mooring.config.features import DEFAULT_FEATURES, Features
from mooring.config.profile import effective_args, expand_all
from mooring.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile, PluginConfig
from mooring.devices.cluster_devices import ClusterDevices
from mooring.engine.cycle import Engine
from mooring.engine.extenders import Extenders
from mooring.engine.hypothesis import ProfileFilters
from mooring.errors import ConfigError, MooringError
from mooring.framework.extender import AskAll, Extender, ask_in_turn
from mooring.framework.handle import Handle, Nominator, NoNominations
from mooring.framework.registry import Registry
from mooring.framework.runtime import Profile
from mooring.plugins.in_tree import in_tree_registry
from mooring.plugins.node_resources_fit import NodeResourcesFit
from mooring.state.cluster import Cluster


@dataclass(slots=True)
class Built:
    """An engine with its profiles by scheduler name."""

    engine: Engine
    profiles: dict[str, Profile]
    handle: Handle


def build(
    config: KubeSchedulerConfiguration,
    cluster: Cluster,
    *,
    clock: Clock | None = None,
    nominator: Nominator | None = None,
    registry: Registry | None = None,
    features: Features = DEFAULT_FEATURES,
    prepare: Callable[[Handle], None] | None = None,
    extenders: Sequence[Extender] = (),
    ask_all: AskAll = ask_in_turn,
) -> Built:
    """Build every profile, or raise ConfigError with upstream's words for what is wrong.

    ``extenders`` are what the configuration's entries stand for, made by whoever can call them; without them
    only ``ignoredByScheduler`` is heeded.
    """
    registry = registry or in_tree_registry()
    nominator = nominator or NoNominations()
    handle = Handle(cluster, clock or SystemClock(), nominator, features)
    handle.devices = ClusterDevices(cluster)  # one for all profiles, or two could hand out the same device
    handle.extenders = tuple(extenders)
    if prepare is not None:
        prepare(handle)
    config = with_ignored_resources(config)
    expanded = expand_all(config, registry.points(), suggest=registry.nearest)
    engine = Engine(
        cluster,
        nominator,
        clock=handle.clock,
        percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
        extenders=_extenders(handle, ask_all),
        batches=features["OpportunisticBatching"],
    )
    profiles = {
        profile.scheduler_name: build_profile(
            profile, expanded[profile.scheduler_name], registry, handle, engine, features
        )
        for profile in config.profiles
    }
    return Built(engine, profiles, handle)


def _extenders(handle: Handle, ask_all: AskAll) -> Extenders | None:
    if not handle.extenders:
        return None
    return Extenders(handle.extenders, pick=handle.pick, ask_all=ask_all)


def with_ignored_resources(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """What extenders answer for alone replaces NodeResourcesFit's ignoredResources in every profile."""
    ignored = [
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    if not ignored:
        return config
    profiles = []
    for profile in config.profiles:
        args = msgspec.structs.replace(effective_args(profile, NodeResourcesFit.name), ignored_resources=ignored)
        others = [entry for entry in profile.plugin_config if entry.name != NodeResourcesFit.name]
        entry = PluginConfig(name=NodeResourcesFit.name, args=args)
        profiles.append(msgspec.structs.replace(profile, plugin_config=[*others, entry]))
    return msgspec.structs.replace(config, profiles=profiles)


def build_profile(
    profile: KubeSchedulerProfile,
    points: Mapping[str, list[tuple[str, int]]],
    registry: Registry,
    handle: Handle,
    engine: Engine,
    features: Features,
) -> Profile:
    handle = replace(handle)  # each profile's plugins share one; preemption finds its own profile's filters in it
    plugins: dict[str, Any] = {}
    for entries in points.values():
        for name, _ in entries:
            if name not in plugins:
                plugins[name] = _make(profile, name, registry, handle, features)

    def at(point: str) -> list[Any]:
        return [plugins[name] for name, _ in points[point]]

    built = Profile(
        scheduler_name=profile.scheduler_name,
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
        pre_enqueue=at("preEnqueue"),
        queue_sort=at("queueSort")[0],
        pre_filter=at("preFilter"),
        filter=at("filter"),
        post_filter=at("postFilter"),
        pre_score=at("preScore"),
        score=[(plugins[name], weight) for name, weight in points["score"]],
        reserve=at("reserve"),
        permit=at("permit"),
        pre_bind=at("preBind"),
        bind=at("bind"),
        post_bind=at("postBind"),
        plugins=plugins,
    )
    for plugin in plugins.values():
        if hasattr(plugin, "lacks_pre_filter"):
            plugin.lacks_pre_filter = plugin not in at("preFilter")
        if hasattr(plugin, "lacks_pre_score"):
            plugin.lacks_pre_score = plugin not in at("preScore")
    handle.filters = ProfileFilters(built, engine)
    return built


def _make(profile: KubeSchedulerProfile, name: str, registry: Registry, handle: Handle, features: Features) -> Any:
    try:
        return registry.get(name)(effective_args(profile, name, features), handle)
    except MooringError as error:
        problems = error.problems if isinstance(error, ConfigError) else (str(error),)
        prefix = f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}: "
        raise ConfigError(*(f'{prefix}initializing plugin "{name}": {problem}' for problem in problems)) from None
