"""Workload controllers, budgets and priorities: the fields that spreading and preemption read."""

from __future__ import annotations

import msgspec

from mooring.api.core import ResourceList, Toleration
from mooring.api.meta import LabelSelector, Object, Struct


class SelectorSpec(Struct):
    """The spec of a ReplicaSet or StatefulSet, as far as spreading reads it."""

    selector: LabelSelector | None = None


class ReplicaSet(Object, kw_only=True):
    spec: SelectorSpec = msgspec.field(default_factory=SelectorSpec)


class StatefulSet(Object, kw_only=True):
    spec: SelectorSpec = msgspec.field(default_factory=SelectorSpec)


class PodDisruptionBudgetSpec(Struct):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Struct):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object, kw_only=True):
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class PriorityClass(Object, kw_only=True):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


# ---- ResourceQuota: admission reads it; explanations say what it would refuse --------------------------------------


class ScopedSelectorRequirement(Struct):
    scope_name: str = ""
    operator: str = ""
    values: list[str] = []


class ScopeSelector(Struct):
    match_expressions: list[ScopedSelectorRequirement] = []


class ResourceQuotaSpec(Struct):
    hard: ResourceList = {}
    scopes: list[str] = []
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct):
    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(Object, kw_only=True):
    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = msgspec.field(default_factory=ResourceQuotaStatus)


# ---- RuntimeClass: admission reads it, scheduling only sees what it left in the pod --------------------------------


class Overhead(Struct):
    pod_fixed: ResourceList = {}


class Scheduling(Struct):
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


class RuntimeClass(Object, kw_only=True):
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None
