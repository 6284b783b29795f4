"""Workload controllers, budgets and priorities: what spreading and preemption read of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.api.core import Pod, ResourceList, Toleration
from mooring.api.errors import ParseError
from mooring.api.meta import LabelSelector, Object, Struct
from mooring.api.selectors import compile_selector


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


# ---- what the disruption controller would write into a budget that was never on a cluster --------------------------


def default_budget(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> None:
    """Count how many disruptions a budget allows, unless it says so itself.

    The controller asks the workloads how many pods there should be; here those that are there are taken for that.
    """
    if budget.status.disruptions_allowed or budget.status.disrupted_pods:
        return
    try:
        selector = compile_selector(budget.spec.selector)
    except ParseError:
        return  # a budget that matches no pod allows nothing
    mine = [
        pod
        for pod in pods
        if (pod.namespace or "default") == budget.namespace and not pod.is_finished and selector.matches(pod.labels)
    ]
    healthy = sum(is_healthy(pod) for pod in mine)
    budget.status.disruptions_allowed = max(0, healthy - _desired(budget, len(mine))) if mine else 0


def is_healthy(pod: Pod) -> bool:
    """Running and, where it says whether it is ready, ready."""
    if not pod.spec.node_name or pod.is_terminating:
        return False
    ready = [condition.status for condition in pod.status.conditions if condition.type == "Ready"]
    return not ready or ready[0] == "True"


def _desired(budget: PodDisruptionBudget, expected: int) -> int:
    spec = budget.spec
    if spec.max_unavailable is not None:
        return max(0, expected - _share(spec.max_unavailable, expected))
    if spec.min_available is not None:
        return _share(spec.min_available, expected)
    return expected


def _share(value: int | str, expected: int) -> int:
    """A number, or a percentage of what is expected, rounded up."""
    text = str(value)
    if text.endswith("%") and text[:-1].isdigit():
        return -(-int(text[:-1]) * expected // 100)
    return int(text) if text.lstrip("-").isdigit() else 0


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
