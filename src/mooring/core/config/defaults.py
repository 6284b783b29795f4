"""Upstream's defaults: plugins, their arguments, and every other omitted field."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec.structs import replace

from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.types import (
    ARGS_TYPES,
    DEFAULT_SCHEDULER_NAME,
    ClientConnectionConfiguration,
    DynamicResourcesArgs,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    Plugin,
    PluginArgs,
    PluginConfig,
    PluginSet,
    PodTopologySpreadArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
    enabled_names,
)

T = TypeVar("T", bound=msgspec.Struct)


def default_plugins(features: Features = DEFAULT_FEATURES) -> list[Plugin]:
    """Return the default multiPoint list, in order; weight 0 means that none is set."""
    first = ("NodeName", "NodeUnschedulable") if features["NodeNameComesFirst"] else ("NodeUnschedulable", "NodeName")
    plugins = [
        Plugin("SchedulingGates"),
        Plugin("PrioritySort"),
        *map(Plugin, first),
        Plugin("TaintToleration", 3),
        Plugin("NodeAffinity", 2),
        Plugin("NodePorts"),
        Plugin("NodeResourcesFit", 1),
        Plugin("VolumeRestrictions"),
        Plugin("NodeVolumeLimits"),
        Plugin("VolumeBinding"),
        Plugin("VolumeZone"),
        Plugin("PodTopologySpread", 2),
        Plugin("InterPodAffinity", 2),
    ]
    if features["DynamicResourceAllocation"]:
        # Before DefaultPreemption: releasing an idle claim is better than evicting a pod.
        plugins.append(Plugin("DynamicResources", 2 if features["DevicesAreScored"] else 0))
    plugins += [
        Plugin("DefaultPreemption"),
        Plugin("NodeResourcesBalancedAllocation", 1),
        Plugin("ImageLocality", 1),
        Plugin("DefaultBinder"),
    ]
    if features["NodeDeclaredFeatures"]:
        plugins.append(Plugin("NodeDeclaredFeatures"))
    if features["GangScheduling"]:
        plugins.append(Plugin("GangScheduling"))
    if features["TopologyAwareWorkloadScheduling"]:
        plugins += [Plugin("TopologyPlacementGenerator"), Plugin("PodGroupPodsCount", 1)]
    return plugins


def set_defaults(
    config: KubeSchedulerConfiguration, features: Features = DEFAULT_FEATURES
) -> KubeSchedulerConfiguration:
    """Return the configuration with all defaults, as ``--write-config-to`` shows it."""
    profiles = config.profiles or [KubeSchedulerProfile()]
    # With several profiles a missing name is a mistake for validation to report.
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        profiles = [replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME)]
    contention = config.enable_contention_profiling
    return replace(
        config,
        profiles=[_profile(profile, features) for profile in profiles],
        leader_election=_where_empty(config.leader_election, LeaderElectionConfiguration(), "leader_elect"),
        client_connection=_where_empty(
            config.client_connection, ClientConnectionConfiguration(), "kubeconfig", "accept_content_types"
        ),
        enable_contention_profiling=config.enable_profiling if contention is None else contention,
    )


def default_args(args: PluginArgs, features: Features = DEFAULT_FEATURES) -> PluginArgs:
    """Return a plugin's arguments with defaults for empty and zero values."""
    match args:
        case NodeResourcesFitArgs():
            strategy = args.scoring_strategy
            return replace(args, scoring_strategy=replace(strategy, resources=_resources(strategy.resources)))
        case NodeResourcesBalancedAllocationArgs():
            return replace(args, resources=_resources(args.resources))
        case PodTopologySpreadArgs(defaulting_type=""):
            return replace(args, defaulting_type="System")
        case DynamicResourcesArgs():
            return _dynamic_resources(args, features)
        case VolumeBindingArgs() if not args.shape and features["StorageCapacityScoring"]:
            return replace(args, shape=[UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)])
    return args


def _profile(profile: KubeSchedulerProfile, features: Features) -> KubeSchedulerProfile:
    # Only multiPoint has defaults; every other set stays as written.
    multi_point = _merge_set(default_plugins(features), profile.plugins.multi_point)
    plugins = replace(profile.plugins, multi_point=multi_point)
    configured = [
        replace(entry, args=default_args(entry.args, features)) if isinstance(entry.args, PluginArgs) else entry
        for entry in profile.plugin_config
    ]
    have = {entry.name for entry in configured}
    configured += [
        PluginConfig(name, default_args(ARGS_TYPES[name](), features))
        for name in sorted(enabled_names(plugins) & ARGS_TYPES.keys() - have)
    ]
    return replace(profile, plugins=plugins, plugin_config=configured)


def _merge_set(defaults: list[Plugin], custom: PluginSet) -> PluginSet:
    """Merge sets: a default that is listed again keeps its position and takes the new weight; new ones follow."""
    disabled = {plugin.name for plugin in custom.disabled}
    last_at = {plugin.name: i for i, plugin in enumerate(custom.enabled)}
    replaced: set[int] = set()
    enabled = []
    for plugin in [] if "*" in disabled else defaults:
        if plugin.name in disabled:
            continue
        if plugin.name in last_at:
            replaced.add(last_at[plugin.name])
            plugin = custom.enabled[last_at[plugin.name]]
        enabled.append(plugin)
    enabled += [plugin for i, plugin in enumerate(custom.enabled) if i not in replaced]
    return PluginSet(enabled=enabled, disabled=[Plugin(plugin.name) for plugin in custom.disabled])


def _resources(resources: list[ResourceSpec]) -> list[ResourceSpec]:
    if not resources:
        return [ResourceSpec("cpu"), ResourceSpec("memory")]
    return [replace(resource, weight=resource.weight or 1) for resource in resources]


def _dynamic_resources(args: DynamicResourcesArgs, features: Features) -> DynamicResourcesArgs:
    if args.filter_timeout is None and features["DRASchedulerFilterTimeout"]:
        args = replace(args, filter_timeout=10.0)
    conditions = features["DRADeviceBindingConditions"] and features["DRAResourceClaimDeviceStatus"]
    if args.binding_timeout is None and conditions:
        args = replace(args, binding_timeout=600.0)
    return args


def _where_empty(said: T, usual: T, *as_said: str) -> T:
    """Return ``said`` with the usual value for every zero or empty field, except these."""
    names = [name for name in said.__struct_fields__ if name not in as_said]
    return replace(said, **{name: getattr(said, name) or getattr(usual, name) for name in names})
