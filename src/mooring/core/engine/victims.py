"""Victims of preemption: units of eviction, broken budgets, and results of dry runs by node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.budgets import budget_selector, disrupted, is_healthy
from mooring.api.core import Pod
from mooring.api.pod_groups import PodGroup
from mooring.api.selectors import Selector
from mooring.api.times import parse_time
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.engine.derived import Derived, Kept, Memo
from mooring.core.framework.status import Code, NodeStatuses, PostFilterResult, Status
from mooring.core.state.cluster import ClusterState, Objects, group_of
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import ChangeLog

# ---- what dry runs found: which pods would be evicted, how much that hurts, or why it does not help ----------------
# ---- results of dry runs: the pods to evict, and their harm, or why it does not help
# ------------------------------------
#
# The result of a dry run on a node depends on the pod's template and priority, on the node and its pods, on the pods
# nominated to it and on the budgets. Preemptors of one template arrive in bursts, and between two of them only a few
# nodes change: the columns are cached, and only those nodes are tried again.

MAX_BYTES = 32 << 20
MAX_SEEN = 1024  # kinds of preemptors seen once
BYTES_PER_NODE = 256  # approximately: the columns, and a list of victims
MAX_REFUSED = 1024
UNKNOWN, REFUSED, CANDIDATE = 0, 1, 2

Rows = NDArray[np.int64]


@dataclass(slots=True)
class Candidate:
    """A node and the pods to evict there, the most important first."""

    node: str
    victims: Sequence[PodInfo]
    pdb_violations: int


@dataclass(frozen=True, slots=True)
class Fruitless:
    """A search without a candidate among nodes with these statuses."""

    statuses: NodeStatuses
    num_tried: int
    answer: PostFilterResult


class DryRunColumns(Derived):
    """One entry per node of the table. Without logs to follow they are valid for one preemptor only."""

    __slots__ = (
        *("_earliest", "_harm", "_latest", "_numbers", "_refusal", "_statuses"),
        *("fruitless", "outcome", "refused", "victims"),
    )

    def __init__(self, n: int, *logs: ChangeLog[int]) -> None:
        super().__init__(*logs)
        self.refused: Memo[Status] = Memo(MAX_REFUSED)  # why an equally full node does not help
        self._clear(n)

    def _clear(self, n: int) -> None:
        self.fruitless: Fruitless | None = None  # the last search without a candidate, valid while nothing changes
        self.outcome = np.zeros(n, np.int8)  # UNKNOWN, REFUSED or CANDIDATE
        self.victims: dict[int, Sequence[PodInfo]] = {}  # of candidates, the most important first
        # [broken budgets | first victim's priority | sum of priorities | number of victims, node]
        self._harm = np.zeros((4, n), np.int64)
        # When the first of the most important victims started, in seconds; infinite if none has.
        self._earliest = np.zeros(n, np.float64)
        # The latest relevant start on the node: the result holds from then on. Infinite: it never holds again.
        self._latest = np.zeros(n, np.float64)
        self._refusal = np.zeros(n, np.int64)  # index into the statuses
        self.refused.clear()
        self._statuses: list[Status] = []
        self._numbers: dict[Status, int] = {}

    @property
    def is_kept(self) -> bool:
        return bool(self._cursors)

    def update(self, token: Hashable, n: int, now: float) -> None:
        """Drop what has changed since the last preemptor of the template."""
        changes = self.changes(token)
        if changes is None:
            self._clear(n)
        else:
            rows = set[int]().union(*changes)
            if rows:
                self.forget(np.fromiter(rows, np.int64, len(rows)))
            self.forget_before(now)
        self.settle(token)

    @property
    def breaks_budgets(self) -> NDArray[np.int64]:
        """Return how many budgets evicting the victims would break, per node."""
        violations: NDArray[np.int64] = self._harm[0]
        return violations

    def refuse(self, row: int | Rows, status: Status, latest: float = -np.inf) -> None:
        """Store for one or more nodes why preemption does not help there."""
        number = self._numbers.get(status)
        if number is None:
            number = self._numbers[status] = len(self._statuses)
            self._statuses.append(status)
        self.outcome[row] = REFUSED
        self._refusal[row] = number
        self._latest[row] = latest

    def accept(
        self,
        row: int,
        victims: Sequence[PodInfo],
        violations: int,
        latest: float = -np.inf,
        not_started: float = np.inf,
    ) -> None:
        """Store a candidate."""
        highest = max(pod.priority for pod in victims)
        starts = [start_time(pod.pod, not_started) for pod in victims if pod.priority == highest]
        total = sum(pod.priority + 2**31 for pod in victims)
        self.outcome[row] = CANDIDATE
        self.victims[row] = victims
        self._harm[:, row] = violations, victims[0].priority, total, len(victims)
        self._earliest[row] = min(starts)
        self._latest[row] = latest

    def forget(self, rows: Rows) -> None:
        self.fruitless = None
        self.outcome[rows] = UNKNOWN
        for row in rows.tolist():
            self.victims.pop(row, None)

    def forget_before(self, now: float) -> None:
        """Drop results that do not hold now: pods that have not started count as starting now, and others may start
        later.

        The clock may also have been set back.
        """
        early = self._latest > now
        if early.any():
            self.forget(np.flatnonzero(early))
            self._latest[early] = -np.inf

    def pick_one_node(self, candidates: Rows, now: float) -> int:
        """Choose by: fewest broken budgets; lowest priority of the first victim; smallest sum of priorities; fewest
        victims; latest start of the most important ones; order.
        """
        for column in self._harm:
            harm = column[candidates]
            candidates = candidates[harm == harm.min()]
        starts = self._earliest[candidates]
        starts[np.isinf(starts)] = now
        return int(candidates[np.argmax(starts)])

    def reasons(self, rows: Rows) -> dict[str, int]:
        """Return on how many of these nodes, all of them refused, each reason was given."""
        counts: dict[str, int] = {}
        for number, count in enumerate(np.bincount(self._refusal[rows]).tolist()):
            for reason in self._statuses[number].reasons if count else ():
                counts[reason] = counts.get(reason, 0) + count
        return counts


def pick_one_node(candidates: list[Candidate], now: float) -> Candidate:
    """Choose among the candidates that extenders leave, as :meth:`DryRunColumns.pick_one_node`."""
    columns = DryRunColumns(len(candidates))
    for i, candidate in enumerate(candidates):
        columns.accept(i, candidate.victims, candidate.pdb_violations, not_started=now)
    return candidates[columns.pick_one_node(np.arange(len(candidates)), now)]


def kept_dry_runs() -> Kept[DryRunColumns]:
    """Return an empty cache of columns by template and priority."""
    return Kept(MAX_SEEN)


def max_kept(n: int) -> int:
    """Return how many templates' columns fit into their memory limit at this number of nodes."""
    return max(2, MAX_BYTES // (BYTES_PER_NODE * max(n, 1)))


def start_time(pod: Pod, now: float) -> float:
    """Return when the pod started; one that has not counts as starting now."""
    return now if pod.status.start_time is None else parse_time(pod.status.start_time)


class Unit(msgspec.Struct, frozen=True):
    """One or more pods that are evicted together. A pod of a group has the group's priority, evicted alone or not."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_of_group: bool = False


def units_among(pods: Iterable[PodInfo], cluster: ClusterState) -> list[Unit]:
    """Return the units of these pods, each once; a group's pods on other nodes belong to its unit."""
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
    """Sort the most important first: by priority; groups before pods; large before small; those that started early."""
    return sorted(
        units,
        key=lambda unit: (
            -unit.priority,
            not unit.is_of_group,
            -len(unit.pods),
            min(start_time(pod.pod, now) for pod in unit.pods),
        ),
    )


# ---- which evictions would break a PodDisruptionBudget -------------------------------------------------------------


class Budgets:
    """PodDisruptionBudgets with a selector that can match; others protect no pod."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: list[tuple[PodDisruptionBudget, Selector]] = []
        for budget in budgets:
            selector = budget_selector(budget, empty_counts=False)
            if selector is not None:
                self._budgets.append((budget, selector))

    def partition(self, pods: list[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Return (would break a budget, would not), evicting in this order with what each budget still allows."""
        if not self._budgets:
            return [], pods
        allowed = self._allowed()
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            (violating if self._breaks(pod, allowed) else others).append(pod)
        return violating, others

    def partition_units(self, units: list[Unit]) -> tuple[list[tuple[Unit, int]], list[Unit]]:
        """Do so for units; each unit that breaks budgets has the number of its pods that do."""
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
        """Count one eviction against every budget of the pod; with ``stops`` only up to the first that it breaks."""
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


def count_disruptions(objects: Objects, pods: Iterable[Pod]) -> set[str]:
    """Decrease the allowed disruptions of the pods' budgets, as the disruption controller would.

    Return those that allowed none: they are broken by this. A pod that is not healthy disrupts nothing.
    """
    broken: set[str] = set()
    by_namespace: dict[str, list[tuple[str, Selector]]] = {}
    for pod in pods:
        budgets = by_namespace.get(pod.namespace)
        if budgets is None:
            theirs = objects.in_namespace(PodDisruptionBudget, pod.namespace)
            compiled = [(budget.key, budget_selector(budget, empty_counts=False)) for budget in theirs]
            budgets = [(key, selector) for key, selector in compiled if selector is not None]
            by_namespace[pod.namespace] = budgets
        for key, selector in budgets if budgets and is_healthy(pod) else ():
            if selector.matches(pod.labels):
                budget = objects.get(PodDisruptionBudget, key)
                changed = disrupted(budget) if budget is not None else None
                if changed is None:
                    broken.add(key)
                else:
                    objects.put(changed)
    return broken


# ---- whether a pod may evict others now ----------------------------------------------------------------------------


def objection(pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> str:
    """Return why this pod may not evict others now, or ""."""
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
    """Report whether the pod is terminating because it was preempted."""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False
