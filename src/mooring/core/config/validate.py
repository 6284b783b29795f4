"""Validation with upstream's rules, texts and paths; every mistake is reported, each once."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.core.config.args_validation import validate_args
from mooring.core.config.decode import DurationValue, duplicate, invalid, qualified_name, required
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.types import (
    API_VERSION,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    NodeResourcesFitArgs,
    PluginArgs,
    PluginSet,
    plugin_set,
)
from mooring.core.framework.extension_points import EXTENSION_POINTS

# Gone since the volume limits of all cloud providers moved to CSI.
REMOVED_PLUGINS = frozenset(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"))

# The points that upstream checks for removed plugins; at multiPoint they fail later, as plugins that do not exist.
_CHECKED_POINTS = tuple(point.name for point in EXTENSION_POINTS if point.checks_removed)


def validate(config: KubeSchedulerConfiguration, features: Features = DEFAULT_FEATURES) -> list[str]:
    """Return what is wrong with a configuration whose defaults are set, in upstream's words and order."""
    return list(dict.fromkeys(_problems(config, features)))


def _problems(config: KubeSchedulerConfiguration, features: Features) -> Iterator[str]:
    if config.client_connection.burst < 0:
        yield invalid("clientConnection.burst", config.client_connection.burst, "must be non-negative")
    if config.leader_election.leader_elect:
        yield from _leader_election(config.leader_election)
    if config.parallelism <= 0:
        yield invalid("parallelism", config.parallelism, "should be an integer value greater than zero")
    yield from _profiles(config.profiles, features)
    yield from _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    if config.pod_initial_backoff_seconds <= 0:
        yield invalid("podInitialBackoffSeconds", config.pod_initial_backoff_seconds, "must be greater than 0")
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        yield invalid(
            "podMaxBackoffSeconds",
            config.pod_max_backoff_seconds,
            "must be greater than or equal to PodInitialBackoffSeconds",
        )
    yield from _extenders(config.extenders)


def _leader_election(election: LeaderElectionConfiguration) -> Iterator[str]:
    at = "leaderElection"
    for name, seconds in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if seconds <= 0:
            yield invalid(f"{at}.{name}", DurationValue(seconds), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        # Upstream shows the renew deadline here, not the lease duration.
        yield invalid(
            f"{at}.leaseDuration", DurationValue(election.renew_deadline), "must be greater than `RenewDeadline`"
        )
    if election.resource_lock != "leases":
        yield invalid(f"{at}.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')


def _profiles(profiles: list[KubeSchedulerProfile], features: Features) -> Iterator[str]:
    if not profiles:
        yield required("profiles")
        return
    first_at: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        at = f"profiles[{i}]"
        yield from _profile(at, profile, features)
        if profile.scheduler_name in first_at:
            other = f"profiles[{first_at[profile.scheduler_name]}].schedulerName"
            yield f"{at}.schedulerName: Duplicate value: {other}"
        first_at[profile.scheduler_name] = i
    yield from _common_queue_sort(profiles)


def _profile(at: str, profile: KubeSchedulerProfile, features: Features) -> Iterator[str]:
    if not profile.scheduler_name:
        yield required(f"{at}.schedulerName")
    yield from _percentage(f"{at}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    for point in _CHECKED_POINTS:
        for i, plugin in enumerate(plugin_set(profile.plugins, point).enabled):
            if plugin.name in REMOVED_PLUGINS:
                yield _removed(f"{at}.plugins.{point}.enabled[{i}]", plugin.name)
    seen: set[str] = set()
    for i, entry in enumerate(profile.plugin_config):
        path = f"{at}.pluginConfig[{i}]"
        if entry.name in seen:
            yield duplicate(path, entry.name)
        seen.add(entry.name)
        if entry.name in REMOVED_PLUGINS:
            yield _removed(path, entry.name)
        elif isinstance(entry.args, PluginArgs) and not isinstance(entry.args, NodeResourcesFitArgs):
            # NodeResourcesFit's arguments are only checked when the plugin is built, as upstream does.
            yield from validate_args(entry.args, f"{path}.args", features)


def _percentage(path: str, percentage: int | None) -> Iterator[str]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _removed(path: str, name: str) -> str:
    return invalid(path, name, f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")')


def _common_queue_sort(profiles: list[KubeSchedulerProfile]) -> Iterator[str]:
    """All profiles share one queue, so they must sort it alike."""
    canon = profiles[0].plugins.queue_sort
    name = canon.enabled[0].name if canon.enabled else ""
    if len(canon.enabled) > 1:
        yield invalid(
            "profiles[0].plugins.queueSort.Enabled", len(canon.enabled), "only one queue sort plugin can be enabled"
        )
    args = {entry.name: entry.args for entry in profiles[0].plugin_config}.get(name)
    for i, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != canon:
            yield invalid(f"profiles[{i}].plugins.queueSort", _as_value(profile.plugins.queue_sort), _SAME)
        for entry in profile.plugin_config:
            if entry.name == name and entry.args != args:
                yield invalid(
                    f"profiles[{i}].pluginConfig.args", entry.args, "queueSort must be the same for all profiles"
                )


_SAME = "must be the same for all profiles"


def _as_value(plugins: PluginSet) -> dict[str, list[str]]:
    shown = {"enabled": [p.name for p in plugins.enabled], "disabled": [p.name for p in plugins.disabled]}
    return {key: names for key, names in shown.items() if names}


def _extenders(extenders: list[Extender]) -> Iterator[str]:
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        at = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{at}.weight", extender.weight, "must have a positive weight applied to it")
        for j, resource in enumerate(extender.managed_resources):
            path = f"{at}.managedResources[{j}].name"
            yield from _extended_resource_name(path, resource.name)
            if resource.name in managed:
                yield invalid(path, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        yield invalid(
            "extenders", f"found {binders} extenders implementing bind", "only one extender can implement bind"
        )


def _extended_resource_name(path: str, name: str) -> Iterator[str]:
    mistakes = qualified_name(name)
    for mistake in mistakes:
        yield invalid(path, name, mistake)
    if mistakes:
        return
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith("requests.") or qualified_name(f"requests.{name}"):
        yield invalid(path, name, "is an invalid extended resource name")
