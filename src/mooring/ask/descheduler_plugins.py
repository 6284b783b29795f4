"""The descheduler's rules: which pods an ordinary DeschedulerPolicy would evict.

| plugin | what it evicts | upstream |
|---|---|---|
| RemovePodsViolatingNodeAffinity | pods whose node does not match, or another matches better | node_affinity.go |
| RemovePodsViolatingNodeTaints | pods that do not tolerate a NoSchedule taint of their node | node_taint.go |
| RemovePodsViolatingInterPodAntiAffinity | pods that share a domain with pods that they avoid | pod_antiaffinity.go |
| PodLifeTime | pods that are older than a limit | pod_lifetime.go |
| RemoveDuplicates | pods of one owner on one node, if there are more than an even share | removeduplicates.go |
| RemovePodsViolatingTopologySpreadConstraint | pods of domains that have too many | topologyspreadconstraint.go |
| LowNodeUtilization | pods of nodes above a target, while others are below a threshold | lownodeutilization.go |
| HighNodeUtilization | all pods of nodes below a threshold | highnodeutilization.go |

Usage is what pods request. RemoveFailedPods and RemovePodsHavingTooManyRestarts are left out: they read what containers
did, and a pod that has failed takes no room. Where upstream's order is arbitrary (it iterates over maps), pods go by
name here. An eviction takes effect immediately, as in the descheduler's dry run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from mooring.api.core import Node, Pod, Taint, TopologySpreadConstraint
from mooring.api.errors import ParseError
from mooring.api.meta import LabelSelector
from mooring.api.selectors import compile_selector, first_untolerated, is_tolerated
from mooring.ask.descheduler_policy import (
    DeschedulerEviction,
    EnabledPlugins,
    Evictor,
    EvictorArgs,
    Policy,
    StrategyArgs,
    avoided_by,
    selector_of,
)
from mooring.core.plugins.node_affinity import compile_preferred
from mooring.core.session import Session
from mooring.core.state.node_selector import node_requirements
from mooring.core.state.pod_info import PodInfo

_BASIC = ("cpu", "memory", "pods")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin with its arguments, for one cycle."""

    name: str
    evictor: Evictor
    args: StrategyArgs

    def is_asked(self, info: PodInfo) -> bool:
        """Report whether the plugin's own namespaces and labels select the pod."""
        spaces, selector = self.args.namespaces, self.args.label_selector
        if spaces is not None and spaces.include and info.cls.namespace not in spaces.include:
            return False
        if spaces is not None and info.cls.namespace in spaces.exclude:
            return False
        return selector is None or selector_of(selector).matches(info.cls.labels)

    def evictable(self, node: str) -> list[PodInfo]:
        """Return pods of a node that both the plugin and the evictor allow to evict."""
        found = self.evictor.pods_on(node)
        return [
            pod for pod in found if self.is_asked(pod) and self.evictor.filters(pod) and self.evictor.pre_filters(pod)
        ]

    def evict(self, info: PodInfo) -> bool:
        return self.evictor.evict(info, self.name)


def node_affinity(plugin: Plugin) -> None:
    evictor, nodes = plugin.evictor, plugin.evictor.nodes()
    for kind in plugin.args.node_affinity_type:
        for node in nodes:
            for pod in plugin.evictable(node.name):
                affinity = pod.shape.spec.affinity
                terms = None if affinity is None else affinity.node_affinity
                if terms is None or not evictor.fits_other(pod, nodes, or_its_own=True):
                    continue
                if kind.startswith("required"):
                    is_wrong = terms.required is not None and not node_requirements(pod.shape).matches(
                        node.name, node.labels
                    )
                else:
                    is_wrong = max((_preference(pod, each) for each in nodes), default=0) > _preference(pod, node)
                if is_wrong:
                    plugin.evict(pod)


def _preference(pod: PodInfo, node: Node) -> int:
    affinity = pod.shape.spec.affinity
    terms = [] if affinity is None or affinity.node_affinity is None else affinity.node_affinity.preferred
    return sum(weight for weight, term in compile_preferred(terms) if term.matches(node.name, node.labels))


def node_taints(plugin: Plugin) -> None:
    args = plugin.args
    effects = {"NoSchedule", "PreferNoSchedule"} if args.include_prefer_no_schedule else {"NoSchedule"}

    def names(taint: Taint) -> set[str]:
        return {taint.key, f"{taint.key}={taint.value}"} if taint.value else {taint.key}

    for node in plugin.evictor.nodes():
        taints = [
            taint
            for taint in node.spec.taints
            if taint.effect in effects
            and not names(taint) & set(args.excluded_taints)
            and (not args.included_taints or names(taint) & set(args.included_taints))
        ]
        for pod in plugin.evictable(node.name):
            if any(not is_tolerated(taint, tuple(pod.shape.spec.tolerations)) for taint in taints):
                plugin.evict(pod)


def anti_affinity(plugin: Plugin) -> None:
    evictor = plugin.evictor
    nodes = {node.name: node for node in evictor.nodes()}
    for name, node in nodes.items():
        for pod in sorted(evictor.pods_on(name), key=_low_to_high):
            if not plugin.is_asked(pod) or not _is_too_near(evictor, pod, node, nodes, plugin):
                continue
            if evictor.filters(pod) and evictor.pre_filters(pod):
                plugin.evict(pod)


def _is_too_near(evictor: Evictor, pod: PodInfo, node: Node, nodes: Mapping[str, Node], plugin: Plugin) -> bool:
    for term in avoided_by(pod) or ():
        value = node.labels.get(term.topology_key)
        for other in nodes.values():
            if other.name != node.name and (value is None or other.labels.get(term.topology_key) != value):
                continue
            if any(plugin.is_asked(each) and evictor.is_meant(term, pod, each) for each in evictor.pods_on(other.name)):
                return True
    return False


def pod_life_time(plugin: Plugin) -> None:
    most = plugin.args.max_pod_life_time_seconds
    found = []
    for node in plugin.evictor.nodes():
        for pod in plugin.evictable(node.name):
            age_s = plugin.evictor.age_s(pod.pod)
            if age_s is not None and (most is None or int(age_s) > most):
                found.append((age_s, pod))
    for _, pod in sorted(found, key=lambda each: -each[0]):
        plugin.evict(pod)


def duplicates(plugin: Plugin) -> None:
    Owner = tuple[str, str, str, tuple[str, ...]]
    nodes = plugin.evictor.nodes()
    count: Counter[Owner] = Counter()
    more: dict[Owner, dict[str, list[PodInfo]]] = {}
    for node in nodes:
        seen: set[tuple[Owner, ...]] = set()
        for pod in plugin.evictable(node.name):
            owners = pod.pod.metadata.owner_references
            if not owners or any(each.kind in plugin.args.exclude_owner_kinds for each in owners):
                continue
            images = tuple(sorted(each.image for each in pod.shape.spec.containers))
            keys = tuple((pod.cls.namespace, each.kind, each.name, images) for each in owners)
            count.update(keys)
            if tuple(sorted(keys)) in seen:
                for key in keys:
                    more.setdefault(key, {}).setdefault(node.name, []).append(pod)
            seen.add(tuple(sorted(keys)))
    for key, by_node in more.items():
        targets = _targets([pod for pods in by_node.values() for pod in pods], nodes)
        if len(targets) < 2:
            continue
        share = math.ceil(count[key] / len(targets))
        for pods in by_node.values():
            for pod in pods[share - 1 :] if len(pods) + 1 > share else []:
                plugin.evict(pod)


def _targets(pods: Iterable[PodInfo], nodes: list[Node]) -> set[str]:
    found: set[str] = set()
    for pod in {pod.shape.id: pod for pod in pods}.values():
        mine = {
            node.name
            for node in nodes
            if first_untolerated(node.spec.taints, pod.shape.spec.tolerations) is None
            and node_requirements(pod.shape).matches(node.name, node.labels)
        }
        found |= mine if len(mine) > 1 else set()
    return found


def topology_spread(plugin: Plugin) -> None:
    evictor, nodes = plugin.evictor, plugin.evictor.nodes()
    by_space: dict[str, list[PodInfo]] = {}
    for node in nodes:
        for pod in evictor.pods_on(node.name):
            if plugin.is_asked(pod) and evictor.filters(pod):
                by_space.setdefault(pod.cls.namespace, []).append(pod)
    leaving: dict[str, PodInfo] = {}
    for _, pods in sorted(by_space.items()):
        constraints: dict[str, tuple[TopologySpreadConstraint, dict[str, str], PodInfo]] = {}
        for pod in pods:
            for each in pod.shape.spec.topology_spread_constraints:
                if each.when_unsatisfiable in plugin.args.constraints:
                    own = {key: pod.cls.labels[key] for key in each.match_label_keys if key in pod.cls.labels}
                    constraints.setdefault(repr((each, own, pod.shape.placement_id)), (each, own, pod))
        for constraint, own, like in constraints.values():
            try:
                selector = compile_selector(constraint.label_selector or LabelSelector())
            except ParseError:
                continue  # upstream, too, skips an unreadable constraint
            eligible = [node for node in nodes if _takes_part(node, constraint, like)]
            domains: dict[str, list[PodInfo]] = {
                node.labels[constraint.topology_key]: [] for node in eligible if constraint.topology_key in node.labels
            }
            labels = {node.name: node.labels.get(constraint.topology_key) for node in nodes}
            for pod in pods:
                value = labels.get(pod.pod.spec.node_name)
                if value is not None and own.items() <= pod.cls.labels.items() and selector.matches(pod.cls.labels):
                    domains.setdefault(value, []).append(pod)
            sizes = [len(each) for each in domains.values()]
            if sizes and max(sizes) - min(sizes) > constraint.max_skew:
                leaving |= _balance(plugin, constraint.topology_key, constraint.max_skew, domains, eligible)
    for pod in leaving.values():
        if evictor.pre_filters(pod):
            plugin.evict(pod)


def _takes_part(node: Node, constraint: TopologySpreadConstraint, like: PodInfo) -> bool:
    is_heeded = (constraint.node_affinity_policy or "Honor") == "Honor"
    if is_heeded and not node_requirements(like.shape).matches(node.name, node.labels):
        return False
    if (constraint.node_taints_policy or "Ignore") == "Honor":
        return first_untolerated(node.spec.taints, like.shape.spec.tolerations) is None
    return True


def _balance(
    plugin: Plugin, key: str, max_skew: int, domains: Mapping[str, list[PodInfo]], nodes: list[Node]
) -> dict[str, PodInfo]:
    """Evict pods of the largest domains until the skew is small enough; return the evicted ones."""
    leaving: dict[str, PodInfo] = {}
    ideal = sum(map(len, domains.values())) / len(domains)
    ordered = sorted(
        ((value, sorted(pods, key=_last_to_leave)) for value, pods in domains.items()), key=lambda d: len(d[1])
    )
    below = {value for value, pods in ordered if len(pods) < ideal}
    there = [node for node in nodes if node.labels.get(key) in below]
    i, j = 0, len(ordered) - 1
    while i < j:
        if len(ordered[j][1]) <= ideal:
            j -= 1
        large, small = ordered[j][1], ordered[i][1]
        skew = len(large) - len(small)
        number = min(math.ceil(len(large) - ideal), math.ceil(ideal - len(small)), math.ceil((skew - max_skew) / 2))
        if skew <= max_skew or number <= 0:
            i += 1
            continue
        large.sort(key=lambda pod: plugin.evictor.fits_other(pod, there))
        moved = large[-number:]
        for pod in moved:
            if not plugin.args.topology_balance_node_fit or plugin.evictor.fits_other(pod, there):
                leaving[pod.uid] = pod
        del large[-number:]
        small.extend(moved)
    return leaving


def _last_to_leave(pod: PodInfo) -> tuple[bool, int]:
    spec = pod.shape.spec
    is_bound_to_nodes = spec.node_selector is not None or (
        spec.affinity is not None and spec.affinity.node_affinity is not None
    )
    return not is_bound_to_nodes, -pod.priority


def _low_to_high(pod: PodInfo) -> tuple[bool, int, int]:
    """Sort by priority, then by quality of service: BestEffort pods first."""
    return pod.pod.spec.priority is not None, pod.priority, _quality(pod.pod)


def _quality(pod: Pod) -> int:
    """Return 0 for BestEffort, 1 for Burstable, 2 for Guaranteed."""
    containers = [*pod.spec.containers, *pod.spec.init_containers]
    asks = [(each.resources.requests, each.resources.limits) for each in containers]
    if not any(requests or limits for requests, limits in asks):
        return 0
    is_guaranteed = all(
        limits.keys() >= {"cpu", "memory"} and all(requests.get(name, limits[name]) == limits[name] for name in limits)
        for requests, limits in asks
    )
    return 2 if is_guaranteed else 1


# ---- node utilization ----------------------------------------------------------------------------------------------


def low_utilization(plugin: Plugin) -> None:
    usage, nodes = _Usage(plugin), {node.name: node for node in plugin.evictor.nodes()}
    low, high = dict(plugin.args.thresholds), dict(plugin.args.target_thresholds)
    shares = {name: usage.shares(name) for name in nodes}
    if plugin.args.use_deviation_thresholds and nodes:
        average = {k: sum(each[k] for each in shares.values()) / len(nodes) for k in low}
        low = {k: min(100.0, max(0.0, average[k] - span)) for k, span in low.items()}
        high = {k: min(100.0, max(0.0, average[k] + span)) for k, span in high.items()}
    under = [
        name
        for name, node in nodes.items()
        if not node.spec.unschedulable and all(shares[name][k] <= limit for k, limit in low.items())
    ]
    over = [n for n in nodes if n not in under and any(shares[n][k] > limit for k, limit in high.items())]
    if not under or len(under) <= plugin.args.number_of_nodes or len(under) == len(nodes) or not over:
        return
    room = usage.room(under, high)

    def goes_on(name: str) -> bool:
        limits = usage.capped(name, high)
        is_above = any(usage.used[name][k] > limits[k] for k in usage.names)
        return is_above and all(amount > 0 for amount in room.values())

    limit = None if plugin.args.eviction_limits is None else plugin.args.eviction_limits.node
    for name in sorted(over, key=lambda name: -usage.total(name)):
        _drain(plugin, usage, name, [nodes[each] for each in under], room, goes_on, limit)


def high_utilization(plugin: Plugin) -> None:
    usage, nodes = _Usage(plugin), {node.name: node for node in plugin.evictor.nodes()}
    low = plugin.args.thresholds
    under = [n for n in nodes if all(usage.shares(n)[k] <= limit for k, limit in low.items())]
    others = [n for n, node in nodes.items() if n not in under and not node.spec.unschedulable]
    if not under or len(under) <= plugin.args.number_of_nodes or len(under) == len(nodes) or not others:
        return
    room = usage.room(others, dict.fromkeys(low, 100.0))

    def goes_on(name: str) -> bool:
        return all(amount > 0 for amount in room.values())

    for name in sorted(under, key=usage.total):
        _drain(plugin, usage, name, [nodes[each] for each in others], room, goes_on, None)


class _Usage:
    """Requests of pods on each node, for the resources of thresholds and the basic ones."""

    def __init__(self, plugin: Plugin) -> None:
        self.names = list(dict.fromkeys((*_BASIC, *plugin.args.thresholds)))
        rows = plugin.evictor.session.state.nodes()
        self.whole: dict[str, dict[str, int]] = {}
        self.used: dict[str, dict[str, int]] = {}
        for row, info in enumerate(rows.infos):
            self.whole[info.name] = {
                k: int(rows.allowed_pods[row] if k == "pods" else rows.allocatable(k)[row]) for k in self.names
            }
            self.used[info.name] = {
                k: int(rows.pod_count[row] if k == "pods" else rows.requested(k)[row]) for k in self.names
            }

    def shares(self, name: str) -> dict[str, float]:
        whole, used = self.whole[name], self.used[name]
        return {k: 100 * used[k] / whole[k] if whole[k] else 0.0 for k in self.names}

    def capped(self, name: str, limits: Mapping[str, float]) -> dict[str, int]:
        """Return the node's capacity up to the threshold, where there is one."""
        whole = self.whole[name]
        return {k: int(limits[k] * 0.01 * whole[k]) if k in limits else whole[k] for k in self.names}

    def room(self, nodes: Iterable[str], limits: Mapping[str, float]) -> dict[str, int]:
        """Return what is left below the threshold on these nodes together."""
        found = dict.fromkeys(self.names, 0)
        for name in nodes:
            capped = self.capped(name, limits)
            for k in self.names:
                found[k] += capped[k] - self.used[name][k]
        return found

    def total(self, name: str) -> int:
        return sum(self.used[name].values())


def _drain(
    plugin: Plugin,
    usage: _Usage,
    name: str,
    targets: list[Node],
    room: dict[str, int],
    goes_on: Callable[[str], bool],
    limit: int | None,
) -> None:
    """Evict pods of a node, the least important first, as long as ``goes_on`` allows."""
    evictor = plugin.evictor
    removable = [pod for pod in evictor.pods_on(name) if evictor.filters(pod)]
    if "OnlyThresholdingResources" in plugin.args.eviction_modes:
        removable = [pod for pod in removable if any(k in pod.shape.requests for k in plugin.args.thresholds)]
    spaces = plugin.args.evictable_namespaces
    evicted = 0
    for pod in sorted(removable, key=_low_to_high):
        if not goes_on(name) or (limit is not None and evicted >= limit):
            return
        if not any(_bears_all(pod, node) for node in targets):
            continue
        if (spaces is not None and pod.cls.namespace in spaces.exclude) or not evictor.pre_filters(pod):
            continue
        if plugin.evict(pod):
            evicted += 1
            for k in usage.names:
                amount = 1 if k == "pods" else pod.shape.requests.get(k, 0)
                usage.used[name][k] -= amount
                room[k] -= amount


def _bears_all(pod: PodInfo, node: Node) -> bool:
    """Report whether the pod tolerates every taint, also those with PreferNoSchedule.

    Upstream's shortcut comes first: a pod with fewer tolerations than the node has taints does not.
    """
    tolerations = tuple(pod.shape.spec.tolerations)
    return len(tolerations) >= len(node.spec.taints) and all(is_tolerated(t, tolerations) for t in node.spec.taints)


PLUGINS: dict[str, Callable[[Plugin], None]] = {
    "RemovePodsViolatingNodeAffinity": node_affinity,
    "RemovePodsViolatingNodeTaints": node_taints,
    "RemovePodsViolatingInterPodAntiAffinity": anti_affinity,
    "PodLifeTime": pod_life_time,
    "RemoveDuplicates": duplicates,
    "RemovePodsViolatingTopologySpreadConstraint": topology_spread,
    "LowNodeUtilization": low_utilization,
    "HighNodeUtilization": high_utilization,
}
LEFT_OUT = ("RemoveFailedPods", "RemovePodsHavingTooManyRestarts")


def run_cycle(
    session: Session, policy: Policy, now: float
) -> tuple[list[DeschedulerEviction], dict[str, str], list[str]]:
    """Run one cycle of the descheduler on this session; return evicted pods, protected pods, and skipped plugins.

    All profiles deschedule first, then all balance.
    """
    evicted: list[DeschedulerEviction] = []
    refused: dict[str, str] = {}
    left_out: list[str] = []
    budgets: Counter[str] = Counter()
    for point in ("deschedule", "balance"):
        for profile in policy.profiles:
            configs = {each.name: each.args for each in profile.plugin_config}
            args = msgspec.convert(configs.get("DefaultEvictor", {}), EvictorArgs, strict=False)
            evictor = Evictor(session, policy, args, now, evicted, budgets, refused)
            for name in profile.plugins.get(point, EnabledPlugins()).enabled:
                if name in LEFT_OUT:
                    left_out.append(name)
                    continue
                own = msgspec.convert(configs.get(name, {}), StrategyArgs, strict=False)
                PLUGINS[name](Plugin(name, evictor, own))
    return evicted, refused, left_out
