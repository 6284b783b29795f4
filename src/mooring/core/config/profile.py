"""A profile's effective plugins: multiPoint expanded into every extension point, with kube-scheduler's order rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mooring.api.errors import ConfigError
from mooring.api.text import hint
from mooring.core.config.defaults import default_args
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.types import (
    ARGS_TYPES,
    EXTENSION_POINTS,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    NodeResourcesFitArgs,
    Plugin,
    PluginConfig,
    enabled_names,
    plugin_set,
)
from mooring.core.config.validation import validate_args
from mooring.core.config.versions import DEFAULT_VERSION, KubernetesVersion
from mooring.core.framework.extension_points import EXTENSION_POINTS as POINTS

# Where the plugins that come with kube-scheduler can run, in its newest version. A test compares this with the plugins
# themselves. With this table a configuration can be checked without building anything.
IN_TREE_POINTS: Mapping[str, frozenset[str]] = {
    name: frozenset(points.split())
    for name, points in {
        "SchedulingGates": "preEnqueue",
        "PrioritySort": "queueSort",
        "NodeUnschedulable": "preFilter filter",
        "NodeName": "preFilter filter",
        "TaintToleration": "preFilter filter preScore score",
        "NodeAffinity": "preFilter filter preScore score",
        "NodePorts": "preFilter filter",
        "NodeResourcesFit": "preFilter filter preScore score placementScore",
        "VolumeRestrictions": "preFilter filter",
        "NodeVolumeLimits": "preFilter filter",
        "VolumeBinding": "preFilter filter preScore score reserve preBind",
        "VolumeZone": "preFilter filter",
        "PodTopologySpread": "preFilter filter preScore score",
        "InterPodAffinity": "preFilter filter preScore score",
        "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind podGroupPostFilter",
        "DefaultPreemption": "preEnqueue postFilter podGroupPostFilter",
        "NodeResourcesBalancedAllocation": "preScore score",
        "ImageLocality": "score",
        "DefaultBinder": "bind",
        "NodeDeclaredFeatures": "preFilter filter",
        "GangScheduling": "preEnqueue permit placementFeasible",
        "TopologyPlacementGenerator": "placementGenerate",
        "PodGroupPodsCount": "placementScore",
    }.items()
}


def points_in(version: KubernetesVersion, points: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Leave out the points at which plugins cannot run in this version."""
    return {name: there - version.other_points(name) for name, there in points.items()}


_MAX_SCORE = 100
_MAX_TOTAL_SCORE = 2**63 - 1
_SCORING = tuple(point.name for point in POINTS if point.is_scored)
_CHECK_ORDER = tuple(point.name for point in sorted(POINTS, key=lambda point: point.checked))

Expanded = dict[str, list[tuple[str, int]]]


def expand(
    profile: KubeSchedulerProfile,
    registry_points: Mapping[str, frozenset[str]],
    *,
    version: KubernetesVersion = DEFAULT_VERSION,
) -> Expanded:
    """Return, for each extension point, its plugins in order with their weights.

    ``profile`` has its defaults set; ``registry_points`` says which points each registered plugin implements. The
    weight is 0 at points that do not score. Raises ConfigError with kube-scheduler's texts for all mistakes, of which
    it would report the first.
    """
    plugins = profile.plugins
    registry_points = points_in(version, registry_points)
    problems = _Problems(registry_points)
    problems.add_arguments(profile, version)
    expanded = {
        point: _explicit(point, plugin_set(plugins, point).enabled, registry_points, problems) for point in _CHECK_ORDER
    }
    if plugins.multi_point.enabled:
        for point in _CHECK_ORDER:
            expanded[point] = _with_multi_point(profile, point, expanded[point], registry_points, problems)
    problems.raise_if_any()
    name = profile.scheduler_name
    if len(expanded["queueSort"]) != 1:
        raise ConfigError(
            f'only one queue sort plugin required for profile with scheduler name "{name}", '
            f"but got {len(expanded['queueSort'])}"
        )
    if not expanded["bind"]:
        raise ConfigError(f'at least one bind plugin is needed for profile with scheduler name "{name}"')
    if len(expanded["placementGenerate"]) > 1:
        raise ConfigError(f'at most one placement generate plugin is allowed for profile with scheduler name "{name}"')
    weights = {point: _weights(profile, point, registry_points) for point in _SCORING}
    return {
        point: [(plugin, weights[point][plugin] if point in _SCORING else 0) for plugin in expanded[point]]
        for point in EXTENSION_POINTS
    }


def expand_all(
    config: KubeSchedulerConfiguration,
    registry_points: Mapping[str, frozenset[str]] = IN_TREE_POINTS,
    *,
    version: KubernetesVersion = DEFAULT_VERSION,
) -> dict[str, Expanded]:
    """Expand every profile by scheduler name; ConfigError has the mistakes of all, with upstream's prefix."""
    expanded: dict[str, Expanded] = {}
    problems: list[str] = []
    first_sort: str | None = None
    for profile in config.profiles:
        name = profile.scheduler_name
        try:
            expanded[name] = expand(profile, registry_points, version=version)
        except ConfigError as e:
            problems += [f"initializing profiles: creating profile for scheduler name {name}: {p}" for p in e.problems]
            continue
        sort = expanded[name]["queueSort"][0][0]
        first_sort = first_sort or sort
        if sort != first_sort:
            problems.append(
                f'initializing profiles: different queue sort plugins for profile "{name}": '
                f'"{sort}", first: "{first_sort}"'
            )
    if problems:
        raise ConfigError(*problems)
    return expanded


def effective_args(profile: KubeSchedulerProfile, plugin: str, features: Features = DEFAULT_FEATURES) -> Any:
    """Return a plugin's arguments: typed with defaults for in-tree plugins, the plain value (or None) for others."""
    for entry in profile.plugin_config:
        if entry.name == plugin and entry.args is not None:
            return entry.args
    if plugin in ARGS_TYPES:
        return default_args(ARGS_TYPES[plugin](), features)
    return None


class _Problems:
    """Mistakes in one profile, without duplicates."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = known
        self._texts: list[str] = []
        self._named: set[str] = set()

    def add_arguments(self, profile: KubeSchedulerProfile, version: KubernetesVersion) -> None:
        """Add what upstream checks when it builds the plugins."""
        seen: set[str] = set()
        for entry in profile.plugin_config:
            if entry.name in seen:
                self._texts.append(f"repeated config for plugin {entry.name}")
            seen.add(entry.name)
            if isinstance(entry.args, NodeResourcesFitArgs) and entry.name in enabled_names(profile.plugins):
                # Upstream's validation misses these arguments; the plugin itself rejects them.
                problems = validate_args(entry.args, features=Features(version))
                if problems:
                    text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
                    self._texts.append(f'initializing plugin "{entry.name}": {text}')

    def missing(self, point: str, name: str) -> None:
        meant = hint(name, self._known, "if it is your own, say where it is with --plugin")
        self._once(name, f'{_interface(point)} "{name}" does not exist; {meant}')

    def misplaced(self, point: str, name: str) -> None:
        self._texts.append(f'plugin "{name}" does not extend {_interface(point)} plugin')

    def repeated(self, point: str, name: str) -> None:
        self._once(name, f'plugin "{name}" already registered as "{_interface(point)}"')

    def raise_if_any(self) -> None:
        if self._texts:
            raise ConfigError(*self._texts)

    def _once(self, name: str, text: str) -> None:
        if name not in self._named:
            self._named.add(name)
            self._texts.append(text)


def _interface(point: str) -> str:
    return point[0].upper() + point[1:] + "Plugin"


def _explicit(
    point: str, enabled: list[Plugin], registry_points: Mapping[str, frozenset[str]], problems: _Problems
) -> list[str]:
    names: list[str] = []
    for plugin in enabled:
        if plugin.name not in registry_points:
            problems.missing(point, plugin.name)
        elif point not in registry_points[plugin.name]:
            problems.misplaced(point, plugin.name)
        elif plugin.name in names:
            problems.repeated(point, plugin.name)
        else:
            names.append(plugin.name)
    return names


def _with_multi_point(
    profile: KubeSchedulerProfile,
    point: str,
    explicit: list[str],
    registry_points: Mapping[str, frozenset[str]],
    problems: _Problems,
) -> list[str]:
    """Insert multiPoint's plugins between those that it also names and those it does not."""
    disabled = {plugin.name for plugin in plugin_set(profile.plugins, point).disabled}
    if "*" in disabled:
        return explicit
    overrides: set[str] = set()
    brought: list[str] = []
    for plugin in profile.plugins.multi_point.enabled:
        name = plugin.name
        if name not in registry_points:
            problems.missing(point, name)
        elif point not in registry_points[name] or name in disabled:
            continue
        elif name in explicit:
            overrides.add(name)
        elif name in brought:
            problems.repeated(point, name)
        else:
            brought.append(name)
    return [n for n in explicit if n in overrides] + brought + [n for n in explicit if n not in overrides]


def _weights(
    profile: KubeSchedulerProfile, point: str, registry_points: Mapping[str, frozenset[str]]
) -> dict[str, int]:
    """Return the weight of every plugin that could score; the explicit entry wins, none or 0 counts as 1."""
    weights: dict[str, int] = {}
    total = 0
    for plugin in (*plugin_set(profile.plugins, point).enabled, *profile.plugins.multi_point.enabled):
        if point not in registry_points.get(plugin.name, ()) or plugin.name in weights:
            continue
        weight = plugin.weight or 1
        weights[plugin.name] = weight
        if weight * _MAX_SCORE > _MAX_TOTAL_SCORE - total:
            what = "score plugins" if point == "score" else "placement score plugins"
            raise ConfigError(f"{what}: total score of Score plugins could overflow")
        total += weight * _MAX_SCORE
    return weights


def with_ignored_resources(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Replace NodeResourcesFit's ignoredResources by resources that only extenders check, in every profile."""
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
        args = msgspec.structs.replace(effective_args(profile, NodeResourcesFitArgs.plugin), ignored_resources=ignored)
        others = [entry for entry in profile.plugin_config if entry.name != NodeResourcesFitArgs.plugin]
        entry = PluginConfig(name=NodeResourcesFitArgs.plugin, args=args)
        profiles.append(msgspec.structs.replace(profile, plugin_config=[*others, entry]))
    return msgspec.structs.replace(config, profiles=profiles)
