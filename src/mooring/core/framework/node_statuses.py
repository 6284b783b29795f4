"""Why nodes were refused: the filters' columns, read as one status per node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.framework.status import MAX_COUNTED, SUCCESS, Code, Ids, Status, Verdict, counts_in
from mooring.core.state.node_table import NodeTable


class NodeStatuses:
    """Explicit statuses for the nodes that were looked at, and one for all others.

    A node carries the reasons of the first plugin, in filter order, that
    refused it. Statuses are made when they are read.
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
        self._rows = rows  # table rows that were looked at; None: all of them
        self._groups: list[tuple[Status, NDArray[np.int64]]] | None = None
        self._failures: list[tuple[str, Verdict, Ids, dict[int, int]]] | None = None
        self._counts: dict[Status, int] | None = None
        self._summary: str | None = None
        self._rejectors: tuple[frozenset[str], frozenset[str]] | None = None
        self.absent = absent  # what holds for the rows that were not looked at
        self._within = within  # the rows that count at all; None: all of them

    @staticmethod
    def everywhere(table: NodeTable, status: Status) -> NodeStatuses:
        """The same status on every node, none of them looked at."""
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
        """The rows that were looked at."""
        return np.arange(len(self._infos)) if self._rows is None else self._rows

    def first_failures(self) -> list[tuple[str, Verdict, Ids, dict[int, int]]]:
        """Per plugin its verdict, the numbers of those nodes only that no earlier one had refused, and their counts."""
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
        """The status code of every node of the table."""
        codes = np.zeros(len(self._infos), np.int8)  # success where nobody refuses
        if self._rows is not None:
            for status, rows in self.groups():
                codes[rows] = int(status.code)
            return codes
        for _, verdict, ids, counts in self.first_failures():
            of_number = {number: int(verdict.status_of(number).code) for number in counts}
            most = max(counts)
            if min(counts) >= 0 and most < MAX_COUNTED:  # one look at the nodes for all numbers
                table = np.zeros(most + 1, np.int8)
                table[list(of_number)] = list(of_number.values())
                codes += table[ids]
                continue
            for number, code in of_number.items():
                codes[ids == number] = code
        return codes

    def at(self, row: int) -> Status:
        """The status of one row of the table."""
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
        """The names of the nodes in these rows, also after rows have moved."""
        return tuple(self._infos[row].name for row in rows.tolist())

    def get(self, node_name: str) -> Status:
        info = self._table.nodes.get(node_name)
        return self.absent if info is None or info.row < 0 else self.at(info.row)

    def groups(self) -> list[tuple[Status, NDArray[np.int64]]]:
        """(status, table rows) for every distinct refusal; worked out once."""
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
        """How many nodes gave each reason."""
        counts: Counter[str] = Counter()
        for status, count in self.counts().items():
            for reason in status.reasons:
                counts[reason] += count
        return counts

    def summary(self) -> str:
        """The same in words, for a message; worked out once, though a thousand equal pods are refused for it."""
        if self._summary is None:
            self._summary = ", ".join(sorted(f"{count} {reason}" for reason, count in self.histogram().items()))
        return self._summary

    def rejectors(self) -> tuple[frozenset[str], frozenset[str]]:
        """The plugins that refused a node, and those that want the pod to wait for something; worked out once."""
        if self._rejectors is None:
            signed = [status for status in self.counts() if status.plugin]
            pending = frozenset(status.plugin for status in signed if status.code is Code.PENDING)
            refused = frozenset(status.plugin for status in signed if status.code is not Code.PENDING)
            self._rejectors = refused, pending
        return self._rejectors

    def counts(self) -> dict[Status, int]:
        """How many nodes there are for every distinct refusal: the groups, for those who do not ask which nodes."""
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
        """The plugins that refused at least one node."""
        return {status.plugin for status in self.counts() if status.plugin}

    def rows_with(self, code: Code) -> NDArray[np.int64]:
        """The table rows with this code."""
        return np.flatnonzero(self.codes() == int(code))

    def count_with(self, code: Code) -> int:
        """How many nodes have this code, which is not success."""
        return sum(count for status, count in self.counts().items() if status.code is code)


# --------------------------------------------------------------------------------------------------------------------
# What a profile's filters say about some rows, all together.


class FilterOutcome(msgspec.Struct):
    """The filters' verdicts on some rows, in plugin order, without the plugins that let all pass."""

    verdicts: list[tuple[str, Verdict]]
    feasible: NDArray[np.bool_]

    def passed_so_far(self) -> NDArray[np.bool_]:
        """The nodes that none of the verdicts so far refuses."""
        passed = np.ones(len(self.feasible), np.bool_)
        for _, verdict in self.verdicts:
            passed &= verdict.passes()
        return passed

    def status_at(self, i: int) -> Status:
        """The first refusal of the node at this position, signed by its plugin; SUCCESS if there is none."""
        for name, verdict in self.verdicts:
            number = int(verdict.ids[i])
            if number:
                return verdict.status_of(number).by(name)
        return SUCCESS
