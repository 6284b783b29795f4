"""A DeschedulerPolicy, and the evictor that applies it: which pods may be evicted, and how many.

Checks, defaults and limits are those of the descheduler's DefaultEvictor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mooring.api import yaml
from mooring.api.budgets import budgets_of
from mooring.api.core import Node, Pod
from mooring.api.errors import InputError, ParseError
from mooring.api.manifests import read_bytes
from mooring.api.meta import LabelSelector, Struct
from mooring.api.selectors import Selector, compile_selector, first_untolerated
from mooring.api.text import hint
from mooring.api.times import parse_time
from mooring.api.well_known import MIRROR
from mooring.api.workloads import PodDisruptionBudget, PriorityClass
from mooring.core.session import Session
from mooring.core.state.node_selector import node_requirements
from mooring.core.state.pod_info import AffinityTerm, PodInfo

EVICT_ANYWAY = "descheduler.alpha.kubernetes.io/evict"
CRITICAL = 2_000_000_000  # the priority of system-cluster-critical


class _Strict(Struct, forbid_unknown_fields=True):
    """Arguments of a plugin; an unknown one is a mistake."""


class Namespaces(_Strict):
    include: list[str] = []
    exclude: list[str] = []


class PriorityThreshold(_Strict):
    value: int | None = None
    name: str = ""


class PodProtections(_Strict):
    extra_enabled: list[str] = []
    default_disabled: list[str] = []


class EvictionLimits(_Strict):
    node: int | None = None


class EvictorArgs(_Strict):
    node_selector: str = ""
    label_selector: LabelSelector | None = None
    namespace_label_selector: LabelSelector | None = None
    priority_threshold: PriorityThreshold | None = None
    node_fit: bool = False
    min_replicas: int = 0
    min_pod_age: str = ""
    no_eviction_policy: str = ""
    pod_protections: PodProtections | None = None
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = msgspec.field(default=False, name="ignorePodsWithoutPDB")
    evict_failed_bare_pods: bool = False


class StrategyArgs(_Strict):
    """Arguments shared by several plugins; each reads its own."""

    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None
    node_affinity_type: list[str] = []
    include_prefer_no_schedule: bool = False
    excluded_taints: list[str] = []
    included_taints: list[str] = []
    max_pod_life_time_seconds: int | None = None
    exclude_owner_kinds: list[str] = []
    constraints: list[str] = msgspec.field(default_factory=lambda: ["DoNotSchedule"])
    topology_balance_node_fit: bool = True
    thresholds: dict[str, float] = {}
    target_thresholds: dict[str, float] = {}
    use_deviation_thresholds: bool = False
    number_of_nodes: int = 0
    evictable_namespaces: Namespaces | None = None
    eviction_limits: EvictionLimits | None = None
    eviction_modes: list[str] = []


class DeschedulerPluginConfig(_Strict):
    name: str
    args: dict[str, Any] = {}


class EnabledPlugins(_Strict):
    enabled: list[str] = []
    disabled: list[str] = []


class DeschedulerProfile(_Strict):
    name: str = ""
    plugin_config: list[DeschedulerPluginConfig] = []
    plugins: dict[str, EnabledPlugins] = {}


class Policy(_Strict):
    """A DeschedulerPolicy of ``descheduler/v1alpha2``."""

    api_version: str = ""
    kind: str = ""
    profiles: list[DeschedulerProfile] = []
    node_selector: str = ""
    max_no_of_pods_to_evict_per_node: int | None = None
    max_no_of_pods_to_evict_per_namespace: int | None = None
    max_no_of_pods_to_evict_total: int | None = None
    eviction_failure_event_notification: bool = False
    grace_period_seconds: int | None = None


def read_policy(source: str | Path | Mapping[str, Any], plugins: Collection[str]) -> Policy:
    """Read the policy of a file or a dict; raise InputError with the place of a mistake."""
    where = "policy" if isinstance(source, Mapping) else str(source)
    raw = source if isinstance(source, Mapping) else yaml.load(read_bytes(Path(source)), where)
    try:
        policy = msgspec.convert(raw, Policy, strict=False)
        if (policy.api_version, policy.kind) != ("descheduler/v1alpha2", "DeschedulerPolicy"):
            found = f"{policy.api_version or 'no apiVersion'}, {policy.kind or 'no kind'}"
            raise InputError(
                f"{where}: found {found}; expected apiVersion descheduler/v1alpha2, kind DeschedulerPolicy"
            )
        for i, profile in enumerate(policy.profiles):
            for j, config in enumerate(profile.plugin_config):
                place = f"{where}: profiles[{i}].pluginConfig[{j}]"
                if config.name != "DefaultEvictor" and config.name not in plugins:
                    raise InputError(f"{place}: no plugin named {config.name!r}; {hint(config.name, plugins)}")
                msgspec.convert(
                    config.args, EvictorArgs if config.name == "DefaultEvictor" else StrategyArgs, strict=False
                )
            for point, names in profile.plugins.items():
                for name in names.enabled:
                    if point in ("deschedule", "balance") and name not in plugins:
                        raise InputError(
                            f"{where}: profiles[{i}].plugins.{point}: no plugin named {name!r}; {hint(name, plugins)}"
                        )
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}") from None
    return policy


# ---- the evictor
# --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeschedulerEviction:
    """A pod that a plugin evicts."""

    pod: PodInfo
    node: str
    plugin: str


@dataclass(slots=True)
class Evictor:
    """Evicts pods on a fork, within the policy's limits and the budgets, as DefaultEvictor allows."""

    session: Session
    policy: Policy
    args: EvictorArgs
    now: float
    evicted: list[DeschedulerEviction] = field(default_factory=list)
    budgets: Counter[str] = field(default_factory=Counter)  # disruptions so far
    refused: dict[str, str] = field(default_factory=dict)  # pods that a budget protects

    def nodes(self) -> list[Node]:
        """Return the ready nodes that the policy selects."""
        wanted = _labels(self.policy.node_selector)
        nodes = [info.node for info in self.session.state.nodes().infos if info.node is not None]
        return [node for node in nodes if _is_ready(node) and wanted.items() <= node.labels.items()]

    def pods_on(self, node: str) -> list[PodInfo]:
        """Return pods by name; upstream's order is arbitrary."""
        return sorted(self.session.state.table.nodes[node].pods.values(), key=lambda pod: pod.pod.key)

    def filters(self, info: PodInfo) -> bool:
        """Report whether the pod may be evicted, as DefaultEvictor's Filter does."""
        pod, args = info.pod, self.args
        owner = pod.metadata.owner_references
        if EVICT_ANYWAY in pod.metadata.annotations:
            return True
        if MIRROR in pod.metadata.annotations or pod.is_terminating or not owner:
            return False
        protects = self._protections()
        volumes = pod.spec.volumes
        if "SystemCriticalPods" in protects and not self._is_below_threshold(info):
            return False
        if "PodsWithLocalStorage" in protects and any(
            v.host_path is not None or v.empty_dir is not None for v in volumes
        ):
            return False
        if "DaemonSetPods" in protects and any(each.kind == "DaemonSet" for each in owner):
            return False
        if "PodsWithPVC" in protects and any(v.persistent_volume_claim is not None for v in volumes):
            return False
        if "PodsWithoutPDB" in protects and not list(self._budgets(pod)):
            return False
        if "PodsWithResourceClaims" in protects and pod.spec.resource_claims:
            return False
        if args.label_selector is not None and not selector_of(args.label_selector).matches(pod.labels):
            return False
        if args.min_replicas > 1 and len(owner) == 1:
            same = [each for each in self.session.state.pods() if owner[0].uid in _owner_uids(each.pod)]
            if len(same) < args.min_replicas:
                return False
        age_s = self._age_s(pod.status.start_time)
        return not args.min_pod_age or (age_s is not None and age_s >= _duration_s(args.min_pod_age))

    def pre_filters(self, info: PodInfo) -> bool:
        """Apply DefaultEvictor's PreEvictionFilter: another node must fit, if the policy requires that."""
        if self.args.node_fit and not self.fits_other(info, self.nodes()):
            return False
        selector = self.args.namespace_label_selector
        return selector is None or selector_of(selector).matches(
            self.session.state.namespace_labels(info.cls.namespace)
        )

    def evict(self, info: PodInfo, plugin: str) -> bool:
        """Evict a pod unless a limit or a budget forbids it."""
        policy, node = self.policy, info.pod.spec.node_name
        limits = (
            (policy.max_no_of_pods_to_evict_per_node, lambda each: each.node == node),
            (policy.max_no_of_pods_to_evict_per_namespace, lambda each: each.pod.cls.namespace == info.cls.namespace),
            (policy.max_no_of_pods_to_evict_total, lambda each: True),
        )
        for limit, counts in limits:
            if limit is not None and sum(map(counts, self.evicted)) >= limit:
                return False
        budgets = list(self._budgets(info.pod))
        for budget in budgets:
            if budget.status.disruptions_allowed <= self.budgets[budget.key]:
                self.refused[info.pod.key] = budget.key
                return False
        self.budgets.update(budget.key for budget in budgets)
        self.session.state.remove_pod(info.uid)
        self.evicted.append(DeschedulerEviction(info, node, plugin))
        return True

    def fits_other(self, info: PodInfo, nodes: Iterable[Node], *, or_its_own: bool = False) -> bool:
        """Report whether another node fits by the descheduler's own, simpler rules."""
        own = info.pod.spec.node_name
        return any(self._fits(info, node) for node in nodes if or_its_own or node.name != own)

    def _fits(self, info: PodInfo, node: Node) -> bool:
        if node.spec.unschedulable or not node_requirements(info.shape).matches(node.name, node.labels):
            return False
        if first_untolerated(node.spec.taints, info.shape.spec.tolerations) is not None:
            return False
        there = self.session.state.table.nodes[node.name]
        terms = avoided_by(info)
        if terms is None:
            return False
        for term in terms:
            if term.topology_key in node.labels and any(
                self.is_meant(term, info, each) for each in there.pods.values()
            ):
                return False
        if node.name == info.pod.spec.node_name:
            return True
        rows, row = self.session.state.nodes(), there.row
        if rows.pod_count[row] >= rows.allowed_pods[row]:
            return False
        return all(
            amount <= rows.allocatable(name)[row] - rows.requested(name)[row]
            for name, amount in info.shape.requests.items()
        )

    def is_meant(self, term: AffinityTerm, info: PodInfo, other: PodInfo) -> bool:
        labels = self.session.state.namespace_labels(other.cls.namespace)
        return other.pod.name != info.pod.name and term.matches(other.cls.namespace, other.cls.labels, labels)

    def _protections(self) -> set[str]:
        args, protections = self.args, self.args.pod_protections
        if protections is not None and (protections.default_disabled or protections.extra_enabled):
            default = {"PodsWithLocalStorage", "SystemCriticalPods", "FailedBarePods", "DaemonSetPods"}
            return (default - set(protections.default_disabled)) | set(protections.extra_enabled)
        switched = (
            ("PodsWithLocalStorage", not args.evict_local_storage_pods),
            ("DaemonSetPods", not args.evict_daemon_set_pods),
            ("SystemCriticalPods", not args.evict_system_critical_pods),
            ("PodsWithPVC", args.ignore_pvc_pods),
            ("PodsWithoutPDB", args.ignore_pods_without_pdb),
        )
        return {name for name, is_on in switched if is_on}

    def _is_below_threshold(self, info: PodInfo) -> bool:
        if info.priority >= CRITICAL:
            return False
        threshold = self.args.priority_threshold
        if threshold is None:
            return True
        value = threshold.value
        if value is None and threshold.name:
            known = self.session.state.objects.get(PriorityClass, threshold.name)
            if known is None:
                raise InputError(f"priorityThreshold: there is no PriorityClass {threshold.name!r} in the cluster")
            value = known.value
        return value is None or info.pod.spec.priority is None or info.priority < value

    def _budgets(self, pod: Pod) -> Iterator[PodDisruptionBudget]:
        return budgets_of(pod, self.session.state.objects.in_namespace(PodDisruptionBudget, pod.namespace))

    def age_s(self, pod: Pod) -> float | None:
        return self._age_s(pod.metadata.creation_timestamp)

    def _age_s(self, time: str | None) -> float | None:
        try:
            return self.now - parse_time(time or "")
        except ParseError:
            return None


def _is_ready(node: Node) -> bool:
    return all(each.status == "True" for each in node.status.conditions if each.type == "Ready")


def _labels(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def avoided_by(info: PodInfo) -> tuple[AffinityTerm, ...] | None:
    """Return the pod's required anti-affinity terms; None if one of them is invalid."""
    try:
        return info.shape.terms(info.cls.namespace).required_anti_affinity
    except ParseError:
        return None


def selector_of(selector: LabelSelector) -> Selector:
    try:
        return compile_selector(selector)
    except ParseError as error:
        raise InputError(f"labelSelector: {error}") from None


def _owner_uids(pod: Pod) -> set[str]:
    return {each.uid for each in pod.metadata.owner_references}


def _duration_s(text: str) -> float:
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        return float(text[:-1]) * units[text[-1]]
    except (KeyError, ValueError, IndexError):
        raise InputError(f"minPodAge: found {text!r}; expected a duration such as 30m") from None
