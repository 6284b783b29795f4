"""What preemption's dry runs found, node by node: who would have to go, how much that hurts, or why it is no use.

What a dry run finds on a node depends on the pod's template and priority, on the node and the pods on it, on whom the
node is promised to and on the budgets. Preemptors of one template come in bursts, and between two of them only a few
nodes change: ``DryRuns`` keeps the columns and forgets only those. A property test compares decisions with and without.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.api.times import parse_time
from mooring.framework.status import Status
from mooring.state.change_log import EVERYTHING, ChangeLog
from mooring.state.node_table import NodeTable
from mooring.state.pod_info import PodInfo

MAX_BYTES = 32 << 20
MAX_SEEN = 1024  # kinds of preemptors whose coming is remembered
BYTES_PER_NODE = 256  # about: the columns, and a list of victims
MAX_REFUSED = 1024
UNKNOWN, REFUSED, CANDIDATE = 0, 1, 2

Rows = NDArray[np.int64]


class TrialColumns:
    """One entry per node of the table."""

    def __init__(self, n: int, *, is_kept: bool = False) -> None:
        self.is_kept = is_kept
        self.outcome = np.zeros(n, np.int8)  # UNKNOWN, REFUSED or CANDIDATE
        self.victims: dict[int, Sequence[PodInfo]] = {}  # of candidates, the most important first
        # [broken budgets | first victim's priority | sum of priorities | number of victims, node]
        self._harm = np.zeros((4, n), np.int64)
        # When the first of the most important victims started, in seconds; infinite: none of them has.
        self._earliest = np.zeros(n, np.float64)
        # The latest start on the node that mattered: what was found holds from then on. Infinite: it never holds again.
        self._latest = np.zeros(n, np.float64)
        self._refusal = np.zeros(n, np.int64)  # index into the statuses
        self.refused: dict[Hashable, Status] = {}  # by how full a node is, why it is no use
        self._statuses: list[Status] = []
        self._numbers: dict[Status, int] = {}

    @property
    def breaks_budgets(self) -> NDArray[np.int64]:
        """How many budgets' promises evicting the victims would break, per node."""
        violations: NDArray[np.int64] = self._harm[0]
        return violations

    def refuse(self, row: int | Rows, status: Status, latest: float = -np.inf) -> None:
        """Note for a node, or for many, why it is no use."""
        number = self._numbers.get(status)
        if number is None:
            number = self._numbers[status] = len(self._statuses)
            self._statuses.append(status)
        self.outcome[row] = REFUSED
        self._refusal[row] = number
        self._latest[row] = latest

    def remember(self, fullness: Hashable, status: Status) -> None:
        if len(self.refused) >= MAX_REFUSED:
            self.refused.clear()
        self.refused[fullness] = status

    def accept(
        self,
        row: int,
        victims: Sequence[PodInfo],
        violations: int,
        latest: float = -np.inf,
        not_started: float = np.inf,
    ) -> None:
        highest = max(pod.priority for pod in victims)
        starts = [start_time(pod.pod, not_started) for pod in victims if pod.priority == highest]
        total = sum(pod.priority + 2**31 for pod in victims)
        self.outcome[row] = CANDIDATE
        self.victims[row] = victims
        self._harm[:, row] = violations, victims[0].priority, total, len(victims)
        self._earliest[row] = min(starts)
        self._latest[row] = latest

    def forget(self, rows: Rows) -> None:
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


class DryRuns:
    """Columns by what dry runs depend on besides the node, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    def columns(
        self, key: Hashable | None, token: Hashable, table: NodeTable, nominated: ChangeLog[int], now: float
    ) -> TrialColumns:
        """What is known and still holds. Without a key nothing is kept; nor is what comes only once.

        Columns are kept under the key and begun anew when the token is another one.
        """
        if key is None or not self._admits(key):
            return TrialColumns(len(table))
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept(table, nominated)
            while len(self._kept) > max(2, MAX_BYTES // (BYTES_PER_NODE * max(len(table), 1))):
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return kept.follow(token, len(table), now)

    def _admits(self, key: Hashable) -> bool:
        known = key in self._seen
        self._seen[key] = None
        if known:
            self._seen.move_to_end(key)
        elif len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return known


class _Kept:
    """Columns, and how far they have followed the logs of rows that change."""

    def __init__(self, table: NodeTable, nominated: ChangeLog[int]) -> None:
        self._columns = TrialColumns(0)
        self._token: Hashable = None
        logs = (table.node_log, table.pod_log, table.start_log, nominated)
        self._cursors = [log.cursor() for log in logs]

    def follow(self, token: Hashable, n: int, now: float) -> TrialColumns:
        changes = [cursor.take() for cursor in self._cursors]
        rows = {row for each in changes if each is not EVERYTHING for row in each}
        if token != self._token or EVERYTHING in changes:
            self._columns = TrialColumns(n, is_kept=True)
            self._token = token
        else:
            if rows:
                self._columns.forget(np.fromiter(rows, np.int64, len(rows)))
            self._columns.forget_before(now)
        return self._columns


def start_time(pod: Pod, now: float) -> float:
    """When the pod started; one that has not counts as starting now."""
    return now if pod.status.start_time is None else parse_time(pod.status.start_time)
