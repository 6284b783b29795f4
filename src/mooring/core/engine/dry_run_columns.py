"""What dry runs found, node by node: which pods would be evicted, how much that hurts, or why it does not help.

What a dry run finds on a node depends on the pod's template and priority, on
the node and the pods on it, on the pods that are nominated to it and on the
budgets. Preemptors of one template come in bursts, and between two of them
only a few nodes change: the columns are kept, and only those are tried again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.api.times import parse_time
from mooring.core.engine.derived import Derived, Kept, Memo
from mooring.core.framework.node_statuses import NodeStatuses
from mooring.core.framework.status import PostFilterResult, Status
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import ChangeLog

MAX_BYTES = 32 << 20
MAX_SEEN = 1024  # kinds of preemptors that have come once
BYTES_PER_NODE = 256  # about: the columns, and a list of victims
MAX_REFUSED = 1024
UNKNOWN, REFUSED, CANDIDATE = 0, 1, 2

Rows = NDArray[np.int64]


@dataclass(slots=True)
class Candidate:
    """A node, and the pods to evict there, the most important first."""

    node: str
    victims: Sequence[PodInfo]
    pdb_violations: int


@dataclass(frozen=True, slots=True)
class Fruitless:
    """A search among the nodes that had these statuses, without a candidate."""

    statuses: NodeStatuses
    num_tried: int
    answer: PostFilterResult


class DryRunColumns(Derived):
    """One entry per node of the table. Without logs to follow they are good for one preemptor only."""

    __slots__ = (
        *("_earliest", "_harm", "_latest", "_numbers", "_refusal", "_statuses"),
        *("fruitless", "outcome", "refused", "victims"),
    )

    def __init__(self, n: int, *logs: ChangeLog[int]) -> None:
        super().__init__(*logs)
        self.refused: Memo[Status] = Memo(MAX_REFUSED)  # why an equally full node does not help
        self._clear(n)

    def _clear(self, n: int) -> None:
        self.fruitless: Fruitless | None = None  # the last search without a candidate, while nothing has changed
        self.outcome = np.zeros(n, np.int8)  # UNKNOWN, REFUSED or CANDIDATE
        self.victims: dict[int, Sequence[PodInfo]] = {}  # of candidates, the most important first
        # [broken budgets | first victim's priority | sum of priorities | number of victims, node]
        self._harm = np.zeros((4, n), np.int64)
        # When the first of the most important victims started, in seconds; infinite: none of them has.
        self._earliest = np.zeros(n, np.float64)
        # The latest start on the node that mattered: what was found holds from then on. Infinite: it never holds again.
        self._latest = np.zeros(n, np.float64)
        self._refusal = np.zeros(n, np.int64)  # index into the statuses
        self.refused.clear()
        self._statuses: list[Status] = []
        self._numbers: dict[Status, int] = {}

    @property
    def is_kept(self) -> bool:
        return bool(self._cursors)

    def update(self, token: Hashable, n: int, now: float) -> None:
        """Forget what has changed since the last preemptor of the template."""
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
        """How many budgets evicting the victims would break, per node."""
        violations: NDArray[np.int64] = self._harm[0]
        return violations

    def refuse(self, row: int | Rows, status: Status, latest: float = -np.inf) -> None:
        """Note for a node, or for many, why preemption does not help there."""
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
        """Note a candidate."""
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
        """Forget what does not hold now: pods that have not started count as starting now, and others may come later.

        A clock may also have been set back.
        """
        early = self._latest > now
        if early.any():
            self.forget(np.flatnonzero(early))
            self._latest[early] = -np.inf

    def least_harm(self, candidates: Rows, now: float) -> int:
        """Fewest broken budgets; then the least important first victim; the smallest sum of priorities; the fewest
        victims; the latest start of the most important ones. What is still equal is taken in order."""
        for column in self._harm:
            harm = column[candidates]
            candidates = candidates[harm == harm.min()]
        starts = self._earliest[candidates]
        starts[np.isinf(starts)] = now
        return int(candidates[np.argmax(starts)])

    def reasons(self, rows: Rows) -> dict[str, int]:
        """On how many of these nodes, all of them refused, each reason was given."""
        counts: dict[str, int] = {}
        for number, count in enumerate(np.bincount(self._refusal[rows]).tolist()):
            for reason in self._statuses[number].reasons if count else ():
                counts[reason] = counts.get(reason, 0) + count
        return counts


def least_harm(candidates: list[Candidate], now: float) -> Candidate:
    """The candidate to take, of those that extenders leave; see :meth:`DryRunColumns.least_harm`."""
    columns = DryRunColumns(len(candidates))
    for i, candidate in enumerate(candidates):
        columns.accept(i, candidate.victims, candidate.pdb_violations, not_started=now)
    return candidates[columns.least_harm(np.arange(len(candidates)), now)]


def kept_dry_runs() -> Kept[DryRunColumns]:
    """An empty collection of columns by template and priority."""
    return Kept(MAX_SEEN)


def max_kept(n: int) -> int:
    """How many templates' columns fit into the memory that they may take on so many nodes."""
    return max(2, MAX_BYTES // (BYTES_PER_NODE * max(n, 1)))


def start_time(pod: Pod, now: float) -> float:
    """When the pod started; one that has not counts as starting now."""
    return now if pod.status.start_time is None else parse_time(pod.status.start_time)
