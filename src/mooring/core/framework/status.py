"""Results of plugins: a status for one node or pod, a verdict on many nodes, and the reasons of a whole search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import constant


class Code(IntEnum):
    """Codes of statuses; the numbers are upstream's."""

    SUCCESS = 0
    ERROR = 1  # an error: the attempt fails and is retried after backoff
    UNSCHEDULABLE = 2  # rejected, but evicting pods might help
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3  # rejected, and evicting pods cannot help
    WAIT = 4  # Permit only
    SKIP = 5  # the plugin does not apply: PreFilter, PreScore, PreBindPreFlight, Bind
    PENDING = 6  # rejected, and retried without backoff


CODE_NAMES = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.SKIP: "Skip",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.PENDING: "Pending",
}
"""Names of codes in metrics and texts."""

REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons shown to users, and the plugin."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def is_skip(self) -> bool:
        return self.code is Code.SKIP

    @property
    def is_rejected(self) -> bool:
        return self.code in REJECTED

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """Return the status with a plugin's name."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)

    @staticmethod
    def unschedulable(*reasons: str) -> Status:
        return Status(Code.UNSCHEDULABLE, reasons)

    @staticmethod
    def unresolvable(*reasons: str) -> Status:
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @staticmethod
    def error(*reasons: str) -> Status:
        return Status(Code.ERROR, reasons)

    @staticmethod
    def wait(*reasons: str) -> Status:
        return Status(Code.WAIT, reasons)

    @staticmethod
    def pending(*reasons: str) -> Status:
        return Status(Code.PENDING, reasons)


SUCCESS = Status()
SKIP = Status(Code.SKIP)

# PreFilter and PreScore may answer for the pod's whole template, if they read nothing but its shape and leave nothing
# in the attempt's state. They are then not called for other pods of that shape.
SUCCESS_FOR_TEMPLATE = Status()
SKIP_FOR_TEMPLATE = Status(Code.SKIP)


# ---- a filter's answer for many nodes: a small number per node, and the meaning of each number
# -------------------------

Ids = NDArray[np.int64]
MAX_COUNTED = 1024
PASSES = constant(0)


class Verdict:
    """``ids[i]`` is 0 where the node passes; any other number is a status that ``status_of`` returns.

    Texts are made on access.
    """

    __slots__ = ("_phrase", "ids", "only_refuses")

    def __init__(self, ids: Ids, phrase: Callable[[int], Status], *, only_refuses: bool = False) -> None:
        self.ids = ids
        self._phrase = phrase
        self.only_refuses = only_refuses  # no number is an error, so none has to be searched for

    def status_of(self, number: int) -> Status:
        return SUCCESS if number == 0 else self._phrase(number)

    def passes(self) -> NDArray[np.bool_]:
        """Report, by node, whether it passes."""
        passes: NDArray[np.bool_] = self.ids == PASSES
        return passes

    def copy(self) -> Verdict:
        """Return a copy that later changes of this one do not affect."""
        return Verdict(self.ids.copy(), self._phrase, only_refuses=self.only_refuses)

    def put(self, rows: NDArray[np.int64], fresh: Verdict | None) -> None:
        """Replace the answers for these rows; numbers keep their meaning."""
        if fresh is None:
            self.ids[rows] = 0
        else:
            self.ids[rows] = fresh.ids
            self._phrase = fresh._phrase

    @staticmethod
    def where(rejected: NDArray[np.bool_], status: Status) -> Verdict:
        """Return a verdict with one status for all rejected nodes."""
        return Verdict(rejected.astype(np.int64), lambda _: status, only_refuses=status.is_rejected)

    @staticmethod
    def choose(ids: Ids, statuses: Sequence[Status] | Mapping[int, Status]) -> Verdict:
        """``ids`` are 1-based positions in ``statuses`` (or keys of a mapping); 0 passes."""
        if isinstance(statuses, Mapping):
            return Verdict(ids, statuses.__getitem__)
        only_refuses = all(status.is_rejected for status in statuses)
        return Verdict(ids, lambda number: statuses[number - 1], only_refuses=only_refuses)


class LateVerdict(Verdict):
    """A verdict that knows which nodes pass, and computes on demand why the others do not.

    For filters that run on all nodes for every pod: usually some node passes, and no reason is needed.
    """

    __slots__ = ("_found", "_ids_of", "_passes")

    def __init__(self, passes: NDArray[np.bool_], ids_of: Callable[[], Ids], phrase: Callable[[int], Status]) -> None:
        """``phrase`` has only rejections. ``ids_of`` must not read anything that changes later."""
        self._passes = passes
        self._ids_of = ids_of
        self._found: Ids | None = None
        self._phrase = phrase
        self.only_refuses = True

    @property
    def ids(self) -> Ids:  # type: ignore[override]
        if self._found is None:
            self._found = self._ids_of()
        return self._found

    def passes(self) -> NDArray[np.bool_]:
        return self._passes

    def put(self, rows: NDArray[np.int64], fresh: Verdict | None) -> None:
        super().put(rows, fresh)
        self._passes = super().passes()


def numbers_in(ids: Ids) -> list[int]:
    """Return the distinct numbers other than 0."""
    return list(counts_in(ids))


def counts_in(ids: Ids) -> dict[int, int]:
    """Count each number other than 0, in order. They are mostly small: counting is faster than sorting."""
    if not len(ids):
        return {}
    unsigned = ids.view(np.uint64)  # in which what is negative is large
    if unsigned.item(unsigned.argmax()) < MAX_COUNTED:  # faster than max()
        return {number: count for number, count in enumerate(np.bincount(ids).tolist()) if number and count}
    numbers, counts = np.unique(ids, return_counts=True)
    return {number: count for number, count in zip(numbers.tolist(), counts.tolist(), strict=True) if number}


# ---- the result of a PostFilter plugin
# ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """Result of a PostFilter plugin. ``nominated_node`` None: keep the pod's nomination; "": clear it."""

    status: Status
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0  # evictions that break a budget


# ---- rejections of nodes: the filters' columns, read as one status per node
# --------------------------------------------


class NodeStatuses:
    """Explicit statuses for the nodes that were searched, and one for all others.

    A node has the reasons of the first plugin, in filter order, that rejected it. Statuses are made on access.
    """

    def __init__(
        self,
        table: NodeTable,
        verdicts: Sequence[tuple[str, Verdict]] = (),
        rows: NDArray[np.int64] | None = None,
        absent: Status = SUCCESS,
        within: NDArray[np.int64] | None = None,
    ) -> None:
        self._table = table
        self._infos = table.infos
        self._verdicts = tuple(verdicts)  # each as long as ``rows``
        self._rows = rows  # table rows that were searched; None: all of them
        self._groups: list[tuple[Status, NDArray[np.int64]]] | None = None
        self._failures: list[tuple[str, Verdict, Ids, dict[int, int]]] | None = None
        self._counts: dict[Status, int] | None = None
        self._summary: str | None = None
        self._rejectors: tuple[frozenset[str], frozenset[str]] | None = None
        self.absent = absent  # status of the rows that were not searched
        self._within = within  # the rows that count at all; None: all of them

    @staticmethod
    def everywhere(table: NodeTable, status: Status) -> NodeStatuses:
        """Return the same status for every node, none of them searched."""
        return NodeStatuses(table, (), np.zeros(0, np.int64), status)

    def __repr__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.histogram().items()))
        refused = sum(len(rows) for _, rows in self.groups())
        return f"NodeStatuses({refused} of {len(self)} nodes refused{': ' + reasons if reasons else ''})"

    def __len__(self) -> int:
        return len(self._infos)

    @property
    def num_looked_at(self) -> int:
        return len(self._infos) if self._rows is None else len(self._rows)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows that were searched."""
        return np.arange(len(self._infos)) if self._rows is None else self._rows

    def first_failures(self) -> list[tuple[str, Verdict, Ids, dict[int, int]]]:
        """Per plugin its verdict, the numbers of nodes that no earlier one had rejected, and their counts."""
        if self._failures is None:
            self._failures = found = []
            taken: NDArray[np.bool_] | None = None
            for name, verdict in self._verdicts:
                ids = verdict.ids if taken is None else np.where(taken, 0, verdict.ids)
                counts = counts_in(ids)
                if counts:
                    refused = ids != 0
                    taken = refused if taken is None else taken | refused
                    found.append((name, verdict, ids, counts))
        return self._failures

    def codes(self) -> NDArray[np.int8]:
        """Return the status code of every node of the table."""
        codes = np.zeros(len(self._infos), np.int8)  # success where no plugin rejects
        if self._rows is not None:
            for status, rows in self.groups():
                codes[rows] = int(status.code)
            return codes
        for _, verdict, ids, counts in self.first_failures():
            of_number = {number: int(verdict.status_of(number).code) for number in counts}
            most = max(counts)
            if min(counts) >= 0 and most < MAX_COUNTED:  # one pass over the nodes for all numbers
                table = np.zeros(most + 1, np.int8)
                table[list(of_number)] = list(of_number.values())
                codes += table[ids]
                continue
            for number, code in of_number.items():
                codes[ids == number] = code
        return codes

    def at(self, row: int) -> Status:
        """Return the status of one row of the table."""
        if self._rows is None:
            position = row
        else:
            positions = np.flatnonzero(self._rows == row)
            if not len(positions):
                return self.absent
            position = int(positions[0])
        for name, verdict in self._verdicts:
            number = int(verdict.ids[position])
            if number:
                return verdict.status_of(number).by(name)
        return SUCCESS

    def names(self, rows: NDArray[np.int64]) -> tuple[str, ...]:
        """Return the names of the nodes in these rows, also after rows have moved."""
        return tuple(self._infos[row].name for row in rows.tolist())

    def get(self, node_name: str) -> Status:
        info = self._table.nodes.get(node_name)
        return self.absent if info is None or info.row < 0 else self.at(info.row)

    def groups(self) -> list[tuple[Status, NDArray[np.int64]]]:
        """Return (status, table rows) for every distinct rejection; cached."""
        if self._groups is None:
            self._groups = self._group()
        return self._groups

    def _group(self) -> list[tuple[Status, NDArray[np.int64]]]:
        found: dict[Status, list[NDArray[np.int64]]] = {}
        looked_at = self.rows
        for name, verdict, ids, counts in self.first_failures():
            for number in counts:
                found.setdefault(verdict.status_of(number).by(name), []).append(looked_at[ids == number])
        if len(looked_at) < len(self._infos) and not self.absent.is_success:
            mask = np.full(len(self._infos), self._within is None)
            if self._within is not None:
                mask[self._within] = True
            mask[looked_at] = False
            found.setdefault(self.absent, []).append(np.flatnonzero(mask))
        return [(status, np.concatenate(rows)) for status, rows in found.items()]

    def histogram(self) -> Counter[str]:
        """Count the nodes by reason."""
        counts: Counter[str] = Counter()
        for status, count in self.counts().items():
            for reason in status.reasons:
                counts[reason] += count
        return counts

    def summary(self) -> str:
        """Return the counts as a message; cached, because a thousand equal pods may share it."""
        if self._summary is None:
            self._summary = ", ".join(sorted(f"{count} {reason}" for reason, count in self.histogram().items()))
        return self._summary

    def rejectors(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the plugins that rejected a node, and those that let the pod wait; cached."""
        if self._rejectors is None:
            signed = [status for status in self.counts() if status.plugin]
            pending = frozenset(status.plugin for status in signed if status.code is Code.PENDING)
            refused = frozenset(status.plugin for status in signed if status.code is not Code.PENDING)
            self._rejectors = refused, pending
        return self._rejectors

    def counts(self) -> dict[Status, int]:
        """Count the nodes by distinct rejection, for callers that do not need the names."""
        if self._counts is None:
            if self._rows is None:
                found: dict[Status, int] = {}
                for name, verdict, _, counts in self.first_failures():
                    for number, count in counts.items():
                        status = verdict.status_of(number).by(name)
                        found[status] = found.get(status, 0) + count
                self._counts = found
            else:
                self._counts = {status: len(rows) for status, rows in self.groups()}
        return self._counts

    def plugins(self) -> set[str]:
        """Return the plugins that rejected at least one node."""
        return {status.plugin for status in self.counts() if status.plugin}

    def rows_with(self, code: Code) -> NDArray[np.int64]:
        """Return the table rows with this code."""
        return np.flatnonzero(self.codes() == int(code))

    def count_with(self, code: Code) -> int:
        """Count the nodes with this code, which is not success."""
        return sum(count for status, count in self.counts().items() if status.code is code)


# ---- the combined verdicts of a profile's filters on some rows
# ---------------------------------------------------------


class FilterOutcome(msgspec.Struct):
    """The filters' verdicts on some rows, in plugin order, without the plugins that let all pass."""

    verdicts: list[tuple[str, Verdict]]
    feasible: NDArray[np.bool_]

    def passed_so_far(self) -> NDArray[np.bool_]:
        """Report, by node, whether no verdict so far rejects it."""
        passed = np.ones(len(self.feasible), np.bool_)
        for _, verdict in self.verdicts:
            passed &= verdict.passes()
        return passed

    def status_at(self, i: int) -> Status:
        """Return the first rejection of the node at this position, with its plugin; SUCCESS if there is none."""
        for name, verdict in self.verdicts:
            number = int(verdict.ids[i])
            if number:
                return verdict.status_of(number).by(name)
        return SUCCESS
