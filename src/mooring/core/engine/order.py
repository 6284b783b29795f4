"""The winning node: the root of the heap that kube-scheduler builds of the feasible nodes, cached between pods.

Building a binary heap moves a larger child up, prefers the left of two equal children, and leaves a parent where it is
when its children are only equal. The root is therefore the maximum that comes first in pre-order of the implicit tree
(parent, left subtree, right subtree) over the positions of the list.

Positions 2^k - 1 to 2^(k+1) - 2 are one *level* of the tree. Within a level, pre-order is the order of positions. So
the winner is the first maximum of one of the levels, and a list of a million nodes has only 20 of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Set
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mooring.core.engine.derived import Derived, are_many
from mooring.core.state.node_table import NodeTable
from mooring.core.state.sharing import holds_everywhere

Totals = NDArray[np.int64]

_BITS = 40  # deeper than any list of nodes
_SHORT = 4096


def _place(level: int, offset: int) -> int:
    """Return a number that orders positions by pre-order.

    A position is a path from the root: a 1, and then a bit for each turn. Paths are compared as left-aligned strings,
    the shorter first where one begins the other.
    """
    return ((1 << level) + offset << (_BITS - level)) * 64 + level


@cache
def _places() -> NDArray[np.int64]:
    """Return the places of the positions of a short list."""
    levels = [(position + 1).bit_length() - 1 for position in range(_SHORT)]
    return np.array([_place(level, position + 1 - (1 << level)) for position, level in enumerate(levels)])


def places_of(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same for many positions."""
    levels = np.frexp(positions + 1.0)[1].astype(np.int64) - 1
    places: NDArray[np.int64] = (positions + 1 << _BITS - levels) * 64 + levels
    return places


def heap_winner(totals: Totals) -> int:
    """Return the position that kube-scheduler takes from a list with these totals."""
    n = len(totals)
    if n <= _SHORT:  # a few checks of all positions are faster than one per level
        equals = (totals == totals[totals.argmax()]).nonzero()[0]
        return int(equals[0 if len(equals) == 1 else _places().take(equals).argmin()])
    winner, best, place = 0, totals.item(0), _place(0, 0)
    level, start = 1, 1
    while start < n:
        offset = int(totals[start : 2 * start + 1].argmax())
        total = totals.item(start + offset)
        if total > best or (total == best and _place(level, offset) < place):
            winner, best, place = start + offset, total, _place(level, offset)
        level, start = level + 1, 2 * start + 1
    return winner


# ---- the same for the feasible nodes of a template, kept from one pod to the next -----------------------------------
# ---- the winner among the feasible nodes of a template, cached between pods
# ---------------------------------------------
#
# Rows keep their order in the feasible list, so each level is a range of rows. It begins at the row that has 2^k - 1
# feasible rows before it, and so moves only when a node becomes feasible or stops being so. The first maximum of each
# level is cached. A changed row causes one level to be searched again, by the maxima of blocks of rows: at most a few
# thousand numbers, however many nodes there are.

_SHIFT = 10
_BLOCK = 1 << _SHIFT  # rows
_FEW_BLOCKS = 2  # are searched row by row
_FEW = 8  # more rows than these are updated together
_TINY = 2048  # up to this many rows, a full pass is as fast as one update
_SMALL = 1 << 14  # up to this many rows, a full pass is as fast as a few updates
_NEVER = np.iinfo(np.int64).min  # the total of an infeasible node


class KeptOrder(Derived):
    """The winner of one template among all nodes, in time proportional to changed rows."""

    __slots__ = (
        *("_asked_at", "_blocks", "_counts", "_feasible", "_logs", "_maxima", "_values", "size"),
        *("_bests", "_firsts", "_places", "_starts"),
    )

    def __init__(self, table: NodeTable) -> None:
        super().__init__(table.node_log, table.pod_log)
        self._logs = table.node_log, table.pod_log
        self._asked_at = 0  # position of the logs at the last question
        self.size = 0  # of the feasible list
        self._feasible: NDArray[np.bool_] = np.zeros(0, np.bool_)  # [node]
        self._blocks = np.full((0, _BLOCK), _NEVER)  # [block, row in it]: the total, or _NEVER
        self._values = self._blocks.reshape(-1)  # the same by row
        self._maxima: Totals = np.zeros(0, np.int64)  # [block]
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)  # [block]: feasible rows
        # By level: where it begins, its first maximum, the total there, and its place in pre-order once it is needed.
        self._starts: list[int] = []
        self._firsts: list[int] = []
        self._bests: list[int] = []
        self._places: list[int | None] = []

    def find(self, versions: tuple[int, int], feasible: NDArray[np.bool_], totals: Totals) -> tuple[int, int]:
        """Return the row that kube-scheduler takes by these columns, which are up to date, and its total.

        A version changes when all rows of a column are new. At least one row must be feasible.
        """
        n, end = len(totals), self._logs[0].end + self._logs[1].end
        num_changes, self._asked_at = end - self._asked_at, end
        if n <= _TINY or (num_changes > _FEW and n <= _SMALL):  # many changes: templates alternate
            return _look_at_all(feasible, totals)
        self._update(versions, feasible, totals)
        return self._winner()

    def _update(self, versions: tuple[int, int], feasible: NDArray[np.bool_], totals: Totals) -> None:
        changes = self.changes(versions)
        self._feasible = feasible
        if changes is None or are_many(changes, totals):
            self._build(feasible, totals)
        elif changes[0] or changes[1]:
            rows = changes[0] | changes[1] if changes[0] else changes[1]
            if len(rows) <= _FEW:
                self._repair(rows, feasible, totals)
            else:
                self._repair_many(np.fromiter(rows, np.int64, len(rows)), feasible, totals)
        self.settle(versions)

    def _winner(self) -> tuple[int, int]:
        bests, places = self._bests, self._places
        best = max(bests)
        winner, lowest = bests.index(best), None
        if bests.count(best) > 1:
            for level, its_best in enumerate(bests):
                if its_best == best:
                    place = places[level]
                    if place is None:
                        place = places[level] = _place(level, self._count(self._starts[level], self._firsts[level]))
                    if lowest is None or place < lowest:
                        winner, lowest = level, place
        return self._firsts[winner], best

    # ---- changes ----------------------------------------------------------------------------------------------

    def _build(self, feasible: NDArray[np.bool_], totals: Totals) -> None:
        n = len(totals)
        self._blocks = np.full((-(-n // _BLOCK), min(n, _BLOCK)), _NEVER)
        self._values = self._blocks.reshape(-1)
        np.copyto(self._values[:n], totals, where=feasible)
        self._maxima = self._blocks.max(axis=1)
        self._counts = np.count_nonzero(self._blocks != _NEVER, axis=1)
        self._find_levels()

    def _repair(self, rows: Set[int], feasible: NDArray[np.bool_], totals: Totals) -> None:
        values, maxima = self._values, self._maxima
        has_moved = False
        for row in rows:
            value, before = totals.item(row) if feasible.item(row) else _NEVER, values.item(row)
            if value == before:
                continue
            values[row] = value
            block = row >> _SHIFT
            if len(maxima) > _FEW_BLOCKS:
                best = maxima.item(block)
                if value >= best:
                    maxima[block] = value
                elif before == best:
                    maxima[block] = values.item(_first_maximum(values, block << _SHIFT, block + 1 << _SHIFT))
            if before == _NEVER or value == _NEVER:
                self._counts[block] += 1 if before == _NEVER else -1
                has_moved = True
            elif not has_moved:
                level = bisect_right(self._starts, row) - 1
                if value >= self._bests[level] or row == self._firsts[level]:
                    self._look_through(level)
        if has_moved:
            self._find_levels()

    def _repair_many(self, rows: NDArray[np.int64], feasible: NDArray[np.bool_], totals: Totals) -> None:
        self._values[rows] = np.where(feasible[rows], totals[rows], _NEVER)
        blocks = np.unique(rows >> _SHIFT)
        changed = self._blocks[blocks]
        self._maxima[blocks] = changed.max(axis=1)
        self._counts[blocks] = np.count_nonzero(changed != _NEVER, axis=1)
        self._find_levels()

    # ---- levels ------------------------------------------------------------------------------------------------

    def _find_levels(self) -> None:
        """Compute where every level begins, and its first maximum."""
        ends = self._counts.cumsum()  # [block]: feasible rows up to its end
        self.size = size = ends.item(-1) if len(ends) else 0
        positions = [(1 << level) - 1 for level in range(size.bit_length())]
        self._starts, at, inside = [], -1, ends
        for position, block in zip(positions, ends.searchsorted(positions, "right").tolist(), strict=True):
            if block != at:
                at, inside = block, (self._blocks[block] != _NEVER).nonzero()[0]
            before = ends.item(block) - len(inside)
            self._starts.append((block << _SHIFT) + inside.item(position - before))
        self._firsts, self._bests = [0] * len(positions), [0] * len(positions)
        self._places = [None] * len(positions)
        for level in range(len(positions)):
            self._look_through(level)

    def _look_through(self, level: int) -> None:
        """Find the first maximum of a level."""
        values, maxima, starts = self._values, self._maxima, self._starts
        start, end = starts[level], starts[level + 1] if level + 1 < len(starts) else len(values)
        head, tail = (start + _BLOCK - 1) >> _SHIFT, end >> _SHIFT  # blocks that belong to it entirely
        if tail - head <= _FEW_BLOCKS:
            row = _first_maximum(values, start, end)
        else:
            block = _first_maximum(maxima, head, tail)
            row, best = -1, maxima.item(block)
            if start < head << _SHIFT:
                row = _first_maximum(values, start, head << _SHIFT)
            if row < 0 or values.item(row) < best:
                row = _first_maximum(values, block << _SHIFT, block + 1 << _SHIFT)
            if tail << _SHIFT < end:
                last = _first_maximum(values, tail << _SHIFT, end)
                row = last if values.item(last) > values.item(row) else row
        self._firsts[level], self._bests[level], self._places[level] = row, values.item(row), None

    def _count(self, start: int, end: int) -> int:
        """Count feasible rows in a range."""
        feasible, head, tail = self._feasible, (start >> _SHIFT) + 1, end >> _SHIFT
        if self.size == len(feasible):
            return end - start
        if tail < head:
            return int(np.count_nonzero(feasible[start:end]))
        partial = np.count_nonzero(feasible[start : head << _SHIFT]) + np.count_nonzero(feasible[tail << _SHIFT : end])
        return int(partial) + int(self._counts[head:tail].sum())


def _look_at_all(feasible: NDArray[np.bool_], totals: Totals) -> tuple[int, int]:
    if holds_everywhere(feasible):
        row = heap_winner(totals)
    else:
        rows = feasible.nonzero()[0]
        row = int(rows[heap_winner(totals.take(rows))])
    return row, totals.item(row)


def _first_maximum(numbers: NDArray[np.int64], start: int, end: int) -> int:
    return start + int(numbers[start:end].argmax())
