"""What is evicted as one: a pod, or all pods of a group that asks for it (``disruptionMode: all``)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.api.core import Pod
from mooring.api.errors import ParseError
from mooring.api.pod_groups import PodGroup
from mooring.api.selectors import Selector, compile_selector
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.engine.dry_run_columns import start_time
from mooring.core.framework.node_statuses import NodeStatuses
from mooring.core.framework.status import Code
from mooring.core.state.cluster import ClusterState, group_of
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo


class Unit(msgspec.Struct, frozen=True):
    """One or more pods that go together. A pod of a group has the group's priority, evicted alone or not."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_of_group: bool = False


def units_among(pods: Iterable[PodInfo], cluster: ClusterState) -> list[Unit]:
    """The units that these pods belong to, each once; a group's pods on other nodes are part of its unit."""
    units: list[Unit] = []
    seen: set[str] = set()
    for pod in pods:
        key = group_of(pod.pod)
        group = cluster.objects.get(PodGroup, key) if key else None
        if group is None:
            units.append(Unit((pod,), pod.priority, bool(key)))
        elif not group.is_evicted_as_one:
            units.append(Unit((pod,), group.priority, True))
        elif key not in seen:
            seen.add(key)
            members = tuple(cluster.groups.placed(key).values()) or (pod,)
            units.append(Unit(members, group.priority, True))
    return units


def by_importance(units: Iterable[Unit], now: float) -> list[Unit]:
    """The most important first: by priority; groups before pods; large before small; those that started early."""
    return sorted(
        units,
        key=lambda unit: (
            -unit.priority,
            not unit.is_of_group,
            -len(unit.pods),
            min(start_time(pod.pod, now) for pod in unit.pods),
        ),
    )


# --------------------------------------------------------------------------------------------------------------------
# Which evictions would break a PodDisruptionBudget.


class Budgets:
    """PodDisruptionBudgets with a selector that can match; others protect no pod."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: list[tuple[PodDisruptionBudget, Selector]] = []
        for budget in budgets:
            try:
                selector = compile_selector(budget.spec.selector)
            except ParseError:
                continue  # a budget with a nonsense selector matches no pod, as upstream has it
            if not selector.is_empty and not selector.matches_nothing:
                self._budgets.append((budget, selector))

    def partition(self, pods: list[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """(would break a budget, would not), evicting in this order with what each budget still allows."""
        if not self._budgets:
            return [], pods
        allowed = self._allowed()
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            (violating if self._breaks(pod, allowed) else others).append(pod)
        return violating, others

    def partition_units(self, units: list[Unit]) -> tuple[list[tuple[Unit, int]], list[Unit]]:
        """The same for what is evicted as one; with each unit that breaks budgets, how many of its pods do."""
        allowed = self._allowed()
        violating: list[tuple[Unit, int]] = []
        others: list[Unit] = []
        for unit in units:
            count = sum(self._breaks(pod, allowed, stops=True) for pod in unit.pods)
            if count:
                violating.append((unit, count))
            else:
                others.append(unit)
        return violating, others

    def _allowed(self) -> list[int]:
        return [budget.status.disruptions_allowed for budget, _ in self._budgets]

    def _breaks(self, pod: PodInfo, allowed: list[int], *, stops: bool = False) -> bool:
        """Take one eviction off every budget of the pod; with ``stops`` only up to the first that it breaks."""
        meta = pod.pod.metadata
        breaks = False
        for i, (budget, selector) in enumerate(self._budgets):
            if (
                not meta.labels
                or budget.metadata.namespace != meta.namespace
                or meta.name in budget.status.disrupted_pods
                or not selector.matches(meta.labels)
            ):
                continue
            allowed[i] -= 1
            breaks = breaks or allowed[i] < 0
            if breaks and stops:
                break
        return breaks


# --------------------------------------------------------------------------------------------------------------------
# Whether a pod may evict others now.


def objection(pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> str:
    """Why this pod may not evict others now, or nothing."""
    if pod.pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    name = pod.pod.status.nominated_node_name
    if name and statuses.get(name).code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        info = nodes.table.nodes.get(name)
        if info is not None and any(
            other.priority < pod.priority and goes_for_preemption(other.pod) for other in info.pods.values()
        ):
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def goes_for_preemption(pod: Pod) -> bool:
    """Whether the pod is going because it was evicted for another."""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False
