"""Validation of the in-tree plugins' arguments, with upstream's texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mooring.api.core import NodeSelectorRequirement, NodeSelectorTerm, TopologySpreadConstraint
from mooring.core.config.decode import (
    DurationValue,
    duplicate,
    forbidden,
    invalid,
    label_value,
    not_supported,
    qualified_name,
    required,
)
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.types import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)


def validate_args(args: PluginArgs, path: str = "", features: Features = DEFAULT_FEATURES) -> list[str]:
    """Return what is wrong with a plugin's arguments; ``path`` is where they stand, empty when a plugin asks itself."""
    return list(dict.fromkeys(_problems(args, path + "." if path else "", features)))


def _problems(args: PluginArgs, at: str, features: Features) -> Iterator[str]:
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
            yield from _fit(args, at)
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


def _dynamic_resources(args: DynamicResourcesArgs, at: str, features: Features) -> Iterator[str]:
    """Setting what has no effect because its gate is off is a mistake here."""
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


def _fit(args: NodeResourcesFitArgs, at: str) -> Iterator[str]:
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
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            yield required(
                f"{path}.requestedToCapacityRatio", "must be specified when type is RequestedToCapacityRatio"
            )
        else:
            yield from _shape(ratio.shape, f"{path}.requestedToCapacityRatio.shape")
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


def _volume_binding(args: VolumeBindingArgs, at: str, features: Features) -> Iterator[str]:
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
