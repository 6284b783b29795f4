"""Validation with upstream's rules, texts, paths and order; every mistake is reported once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mooring.api.core import NodeSelectorRequirement, NodeSelectorTerm, TopologySpreadConstraint
from mooring.api.times import format_duration
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.types import (
    API_VERSION,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    Extender,
    InterPodAffinityArgs,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PluginSet,
    PodTopologySpreadArgs,
    UtilizationShapePoint,
    VolumeBindingArgs,
    plugin_set,
)
from mooring.core.config.wire import show
from mooring.core.framework.extension_points import EXTENSION_POINTS

# Removed since the volume limits of all cloud providers moved to CSI.
REMOVED_PLUGINS = frozenset(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"))

# The points that upstream checks for removed plugins; at multiPoint they fail later, as plugins that do not exist.
_CHECKED_POINTS = tuple(point.name for point in EXTENSION_POINTS if point.checks_removed)


def validate(config: KubeSchedulerConfiguration, features: Features = DEFAULT_FEATURES) -> list[str]:
    """Return the mistakes of a configuration with defaults set, in upstream's texts and order."""
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
    """Check that all profiles share a queueSort plugin, because they share one queue."""
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


# ---- arguments of the in-tree plugins ------------------------------------------------------------------------------

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)


def validate_args(args: PluginArgs, path: str = "", features: Mapping[str, bool] = DEFAULT_FEATURES) -> list[str]:
    """Return the mistakes in a plugin's arguments; ``path`` is their position, empty when a plugin asks itself."""
    return list(dict.fromkeys(_args_problems(args, path + "." if path else "", features)))


def _args_problems(args: PluginArgs, at: str, features: Mapping[str, bool]) -> Iterator[str]:
    match args:
        case DefaultPreemptionArgs():
            yield from _default_preemption(args, at)
        case DynamicResourcesArgs():
            yield from _dynamic_resources(args, at, features)
        case InterPodAffinityArgs():
            weight = args.hard_pod_affinity_weight
            if not 0 <= weight <= 100:
                yield invalid(f"{at}hardPodAffinityWeight", weight, "not in valid range [0, 100]")
        case NodeAffinityArgs():
            yield from _node_affinity(args, at)
        case NodeResourcesBalancedAllocationArgs():
            yield from _balanced_allocation(args, at)
        case NodeResourcesFitArgs():
            yield from _fit(args, at, features)
        case PodTopologySpreadArgs():
            yield from _topology_spread(args, at)
        case VolumeBindingArgs():
            yield from _volume_binding(args, at, features)


def _default_preemption(args: DefaultPreemptionArgs, at: str) -> Iterator[str]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    if not 0 <= percentage <= 100:
        yield invalid(f"{at}minCandidateNodesPercentage", percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield invalid(f"{at}minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)")
    if percentage == 0 and absolute == 0:
        yield invalid(
            f"{at}minCandidateNodesPercentage",
            percentage,
            "cannot be zero at the same time as minCandidateNodesAbsolute",
        )
        yield invalid(
            f"{at}minCandidateNodesAbsolute", absolute, "cannot be zero at the same time as minCandidateNodesPercentage"
        )


def _dynamic_resources(args: DynamicResourcesArgs, at: str, features: Mapping[str, bool]) -> Iterator[str]:
    """Report a field without effect because its gate is off, which is a mistake here."""
    timeout = args.filter_timeout
    if timeout is not None:
        if not features["DRASchedulerFilterTimeout"]:
            yield forbidden(f"{at}filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled")
        elif timeout < 0:
            yield invalid(f"{at}filterTimeout", DurationValue(timeout), "must be zero or positive")
    timeout = args.binding_timeout
    if timeout is not None:
        if not (features["DRADeviceBindingConditions"] and features["DRAResourceClaimDeviceStatus"]):
            yield forbidden(
                f"{at}bindingTimeout",
                "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled",
            )
        elif timeout < 1:
            yield invalid(f"{at}bindingTimeout", DurationValue(timeout), "must be at least 1 second")


def _node_affinity(args: NodeAffinityArgs, at: str) -> Iterator[str]:
    affinity = args.added_affinity
    if affinity is None:
        return
    if affinity.required is not None:
        path = f"{at}addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for i, term in enumerate(affinity.required.node_selector_terms):
            yield from _term(term, f"{path}[{i}]")
    path = f"{at}addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for i, preferred in enumerate(affinity.preferred):
        if preferred.weight != 0:
            yield from _term(preferred.preference, f"{path}[{i}]")


def _term(term: NodeSelectorTerm, at: str) -> Iterator[str]:
    for i, requirement in enumerate(term.match_expressions):
        yield from _requirement(requirement, f"{at}.matchExpressions[{i}]")
    for i, requirement in enumerate(term.match_fields):
        path = f"{at}.matchFields[{i}]"
        if requirement.operator not in ("In", "NotIn"):
            yield not_supported(f"{path}.operator", requirement.operator, ("In", "NotIn"))
        elif len(requirement.values) != 1:
            yield invalid(f"{path}.values", requirement.values, "must have one element")


def _requirement(requirement: NodeSelectorRequirement, at: str) -> Iterator[str]:
    operator, values = requirement.operator, requirement.values
    if operator not in _OPERATORS:
        yield not_supported(f"{at}.operator", operator, _OPERATORS)
        return
    mistakes = qualified_name(requirement.key)
    if mistakes:
        yield invalid(f"{at}.key", requirement.key, "; ".join(mistakes))
    if operator in ("In", "NotIn") and not values:
        yield invalid(f"{at}.values", values, "for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and values:
        yield invalid(f"{at}.values", values, "values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield invalid(f"{at}.values", values, "for 'Gt', 'Lt' operators, exactly one value is required")
        for i, value in enumerate(values):
            if not _INTEGER.fullmatch(value):
                yield invalid(f"{at}.values[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
    for i, value in enumerate(values):
        mistakes = label_value(value)
        if mistakes:
            yield invalid(f"{at}.values[{i}]", value, "; ".join(mistakes))


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, at: str) -> Iterator[str]:
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        if resource.name in seen:
            yield duplicate(f"{at}resources[{i}].name", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(f"{at}resources[{i}].weight", resource.weight, "must be 1")


def _fit(args: NodeResourcesFitArgs, at: str, features: Mapping[str, bool]) -> Iterator[str]:
    for i, name in enumerate(args.ignored_resources):
        for mistake in qualified_name(name):
            yield invalid(f"{at}ignoredResources[{i}]", name, mistake)
    for i, group in enumerate(args.ignored_resource_groups):
        path = f"{at}ignoredResourceGroups[{i}]"
        if "/" in group:
            yield invalid(path, group, "resource group name can't contain '/'")
        for mistake in qualified_name(group):
            yield invalid(path, group, mistake)
    strategy = args.scoring_strategy
    path = f"{at}scoringStrategy"
    if strategy.type not in _STRATEGIES:
        yield not_supported(f"{path}.type", strategy.type, _STRATEGIES)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            yield invalid(
                f"{path}.resources[{i}].weight",
                resource.weight,
                f"resource weight of {resource.name} not in valid range (0, 100]",
            )
    ratio = strategy.requested_to_capacity_ratio
    needs_its_strategy = features.get("CapacityRatioNeedsItsStrategy", True)
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            yield required(
                f"{path}.requestedToCapacityRatio", "must be specified when type is RequestedToCapacityRatio"
            )
        else:
            yield from _shape(ratio.shape, f"{path}.{'requestedToCapacityRatio.' if needs_its_strategy else ''}shape")
    elif ratio is not None and not needs_its_strategy:
        yield from _shape(ratio.shape, f"{path}.shape")
    elif ratio is not None:
        yield forbidden(f"{path}.requestedToCapacityRatio", "must be nil when type is not RequestedToCapacityRatio")


def _shape(shape: list[UtilizationShapePoint], at: str) -> Iterator[str]:
    if not shape:
        yield required(at, "at least one point must be specified")
        return
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            yield invalid(f"{at}[{i}].utilization", shape[i].utilization, "values must be sorted in increasing order")
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"{at}[{i}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= 10:
            yield invalid(f"{at}[{i}].score", point.score, "not in valid range [0, 10]")


def _topology_spread(args: PodTopologySpreadArgs, at: str) -> Iterator[str]:
    if args.defaulting_type not in ("System", "List"):
        yield not_supported(f"{at}defaultingType", args.defaulting_type, ("System", "List"))
    elif args.defaulting_type == "System" and args.default_constraints:
        yield invalid(f"{at}defaultingType", args.defaulting_type, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(args.default_constraints):
        path = f"{at}defaultConstraints[{i}]"
        yield from _constraint(constraint, path)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            yield duplicate(path, f"{{{key[0]}, {key[1]}}}")
        seen.add(key)


def _constraint(constraint: TopologySpreadConstraint, at: str) -> Iterator[str]:
    if constraint.max_skew <= 0:
        yield invalid(f"{at}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(f"{at}.topologyKey", "can not be empty")
    else:
        for mistake in qualified_name(constraint.topology_key):
            yield invalid(f"{at}.topologyKey", constraint.topology_key, mistake)
    action = constraint.when_unsatisfiable
    if not action:
        yield required(f"{at}.whenUnsatisfiable", "can not be empty")
    elif action not in ("DoNotSchedule", "ScheduleAnyway"):
        yield not_supported(f"{at}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
    if constraint.label_selector is not None:
        yield forbidden(f"{at}.labelSelector", "constraint must not define a selector, as they deduced for each pod")


def _volume_binding(args: VolumeBindingArgs, at: str, features: Mapping[str, bool]) -> Iterator[str]:
    seconds = args.bind_timeout_seconds
    if seconds < 0:
        yield invalid(f"{at}bindTimeoutSeconds", seconds, "invalid BindTimeoutSeconds, should not be a negative value")
    if features["StorageCapacityScoring"]:
        yield from _shape(args.shape or [], f"{at}shape")
    elif args.shape is not None:
        shown = [{"utilization": point.utilization, "score": point.score} for point in args.shape]
        yield invalid(
            f"{at}shape",
            shown,
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
        )


# ---- texts of Kubernetes' field errors, and rules for names
# ------------------------------------------------------------

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_ENDS = "and must start and end with an alphanumeric character"


class DurationValue(float):
    """Seconds, shown as Go shows a metav1.Duration."""


def invalid(path: str, value: Any, detail: str) -> str:
    return f"{path}: Invalid value: {_shown(value)}: {detail}"


def duplicate(path: str, value: Any) -> str:
    return f"{path}: Duplicate value: {_shown(value)}"


def required(path: str, detail: str = "") -> str:
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    allowed = ", ".join(json.dumps(one) for one in supported)
    return f"{path}: Unsupported value: {_shown(value)}: supported values: {allowed}"


def _shown(value: Any) -> str:
    return json.dumps(format_duration(value)) if isinstance(value, DurationValue) else show(value, 200)


def qualified_name(name: str) -> list[str]:
    """Return why ``name`` is not a label key or resource name: ``[prefix/]name``."""
    prefix, slash, bare = name.rpartition("/")
    well_formed = _regex(
        f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}", _NAME, "MyName", "my.name", "123-abc"
    )
    if "/" in prefix:
        return [
            f"a qualified name {well_formed} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    mistakes = []
    if slash and not prefix:
        mistakes.append("prefix part must be non-empty")
    elif slash:
        mistakes += [f"prefix part {mistake}" for mistake in _subdomain(prefix)]
    if not bare:
        mistakes.append("name part must be non-empty")
    elif len(bare) > 63:
        mistakes.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(bare):
        mistakes.append(f"name part {well_formed}")
    return mistakes


def label_value(value: str) -> list[str]:
    """Return why ``value`` is not a label value."""
    rule = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
    mistakes = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if not _LABEL_VALUE.fullmatch(value):
        mistakes.append(_regex(rule, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return mistakes


def _subdomain(text: str) -> list[str]:
    rule = f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"
    mistakes = ["must be no more than 253 bytes"] if len(text) > 253 else []
    if not _SUBDOMAIN.fullmatch(text):
        mistakes.append(_regex(rule, _SUBDOMAIN, "example.com"))
    return mistakes


def _regex(message: str, pattern: re.Pattern[str], *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{message} (e.g. {shown}, regex used for validation is '{pattern.pattern}')"
