"""The winning node where rules that read the whole cluster treat most nodes alike.

"Spread over zones" gives one answer to all nodes of a zone. Nodes that agree in everything that such rules look at are
of one *kind*, and the rules are asked about one node of each kind. The score of a node is the sum that is kept of it
(``ScoreColumns``) plus what its kind adds. The winner is found among the maxima of blocks of rows by kind. So a
decision costs what changed since the last one, and a look at every block.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from mooring.core.engine.derived import Derived
from mooring.core.engine.order import heap_winner, places_of
from mooring.core.state.facets import Facet
from mooring.core.state.node_rows import KindRows
from mooring.core.state.node_table import NodeTable

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

FEW_NODES = 10_000  # up to this many, rules are asked about all nodes as quickly
MAX_KINDS = 256  # with more than half of that many to begin with, asking about all nodes is as good
REFUSED = 0  # the kind of all nodes that a kept filter refuses
_NEVER = -(1 << 62)  # stands for the total of a node that is not feasible
_SHIFT = 6
_BLOCK = 1 << _SHIFT  # rows
_LAST = np.iinfo(np.int64).max
_ROWS = np.arange(128)
_TINY = 2048  # up to this many rows, a full pass is as fast
_FEW = 64  # if more than one row in 64 has changed, all are sorted again


class Kinds(Derived):
    """The kinds of nodes for the rules of one template, and the best nodes of each."""

    __slots__ = (
        *("_bits", "_counts", "_dirty", "_facets", "_kinds", "_maxima", "_numbers", "_representatives", "_sizes"),
        *("_stale", "_table", "_totals_version", "_values", "are_too_many", "kind_of"),
        *("_asked", "_begin_blocks", "_begins", "_bests", "_chosen", "_ends", "_feasible"),
    )

    def __init__(self, table: NodeTable, facets: Sequence[Facet]) -> None:
        super().__init__(table.node_log, table.pod_log)
        self._table = table
        self._facets = tuple(facets)
        self._bits = 62 // max(len(facets), 1)  # of each facet in the number that stands for all of them
        self._numbers: dict[int, int] = {}  # what the facets say together -> kind
        self.kind_of: NDArray[np.int16] = np.zeros(0, np.int16)  # [node]
        self._sizes: list[int] = []  # [kind]: nodes
        self._representatives: list[int] = []  # [kind]: a row of it, if there is one
        self._kinds = self.kind_of.reshape(0, _BLOCK)  # [block, row in it], the same
        self._values: Ints = np.zeros((0, _BLOCK), np.int64)  # [block, row in it]: the sum that is kept
        self._counts: Ints = np.zeros((0, 0), np.int64)  # [kind, block]: rows
        self._maxima: Ints = np.zeros((0, 0), np.int64)  # [kind, block]: the largest sum
        self._stale: set[int] = set()  # rows whose sum may have changed since the maxima were found
        self._dirty: set[tuple[int, int]] = set()  # (kind, block) where a maximum has to be found again
        self._totals_version = -1
        # The last question and its results.
        self._asked: tuple[list[int], list[int]] = ([], [])  # kinds, what they add
        self._chosen = self._bests = self._feasible = np.zeros(0, np.int64)  # kinds; [block]: best total; feasible rows
        self._ends: Ints | None = None  # [block]: feasible rows up to its end
        self._begins = self._begin_blocks = self._chosen  # by level of the heap: first position, and its block
        self.are_too_many = False  # which they remain until all rows are sorted anew

    # ---- updates --------------------------------------------------------------------------------------------------

    def follow(self, version: int, feasible: Mask) -> bool:
        """Update the kinds. ``feasible`` by the cached filters. False: there are too many kinds."""
        token: Hashable = (version, self._table.generation, *[facet.token(self._table) for facet in self._facets])
        changes = self.changes(token)
        if changes is None:
            self._sort(feasible)
        elif (changes[0] or changes[1]) and not self.are_too_many:
            rows = changes[0] | changes[1] if changes[0] else changes[1]
            if _FEW * len(rows) > len(feasible):
                self._sort(feasible)
            else:
                self._move(rows, feasible)
        self.settle(token)
        return not self.are_too_many

    def _sort(self, feasible: Mask) -> None:
        """Sort all rows into kinds."""
        table, n = self._table, len(feasible)
        self._totals_version, self._asked = -1, ([], [])
        self._stale, self._dirty = set(), set()
        self.are_too_many = True
        code = np.zeros(n, np.int64)
        for facet in self._facets:
            column = facet.column(table)
            if n and column.max() >> self._bits:
                return
            code = (code << self._bits) | column
        found, kinds = np.unique(code[feasible], return_inverse=True)
        if len(found) > MAX_KINDS // 2:
            return
        self.are_too_many = False
        blocks = -(-n // _BLOCK)
        self._kinds = np.zeros((blocks, _BLOCK), np.int16)
        self.kind_of = self._kinds.reshape(-1)[:n]
        self.kind_of[feasible] = kinds + 1
        self._numbers = {number: kind for kind, number in enumerate(found.tolist(), 1)}
        self._values = np.full((blocks, _BLOCK), _NEVER, np.int64)
        size = len(found) + 1
        per_kind = np.bincount(self.kind_of, minlength=size)
        self._sizes = per_kind.tolist()
        first = np.zeros(size, np.int64)
        first[self.kind_of[::-1]] = np.arange(n - 1, -1, -1)
        self._representatives = first.tolist()
        block_of = np.arange(n) >> _SHIFT
        cells = self.kind_of.astype(np.int64) * blocks + block_of
        self._counts = np.bincount(cells, minlength=size * blocks).reshape(size, blocks)
        self._maxima = np.full((size, blocks), _NEVER, np.int64)

    def _move(self, rows: Set[int], feasible: Mask) -> None:
        """Move a few rows to their current kinds."""
        kinds, sizes, counts, table = self.kind_of, self._sizes, self._counts, self._table
        for row in rows:
            old, new, block = kinds.item(row), REFUSED, row >> _SHIFT
            if feasible.item(row):
                code = 0
                for facet in self._facets:
                    value = facet.at(table, row)
                    if value >> self._bits:
                        self.are_too_many = True
                        return
                    code = (code << self._bits) | value
                found = self._numbers.get(code)
                if found is None:
                    if len(sizes) >= MAX_KINDS:
                        self._sort(feasible)  # many have become empty, perhaps
                        return
                    found = self._numbers[code] = self._add_kind()
                    counts = self._counts
                new = found
            self._stale.add(row)
            self._dirty.add((new, block))
            if old != new:
                kinds[row] = new
                sizes[old] -= 1
                sizes[new] += 1
                counts[old, block] -= 1
                counts[new, block] += 1
                self._representatives[new] = row
                self._dirty.add((old, block))
                if sizes[old] and self._representatives[old] == row:
                    filled = int(self._counts[old].argmax())
                    self._representatives[old] = (filled << _SHIFT) + int((self._kinds[filled] == old).argmax())

    def _add_kind(self) -> int:
        kind = len(self._sizes)
        self._sizes.append(0)
        self._representatives.append(0)
        if kind >= len(self._counts):
            more = max(4, kind)
            self._counts = np.concatenate((self._counts, np.zeros((more, self._counts.shape[1]), np.int64)))
            self._maxima = np.concatenate((self._maxima, np.full((more, self._maxima.shape[1]), _NEVER, np.int64)))
        return kind

    # ---- queries --------------------------------------------------------------------------------------------------

    def present(self) -> list[int]:
        """Return the kinds with a feasible node."""
        return [kind for kind, size in enumerate(self._sizes) if size and kind != REFUSED]

    def size_of(self, kinds: list[int]) -> int:
        """Return the number of nodes of these kinds."""
        return sum(map(self._sizes.__getitem__, kinds))

    def rows_of(self, kinds: list[int]) -> KindRows:
        """Return one row of each of these kinds."""
        rows = np.array([self._representatives[kind] for kind in kinds], np.int64)
        return KindRows(self._table, rows, np.array([self._sizes[kind] for kind in kinds], np.int64))

    def mask_of(self, kinds: list[int]) -> Mask:
        """Return the nodes of these kinds."""
        mask = np.zeros(len(self._sizes), np.bool_)
        mask[kinds] = True
        return mask.take(self.kind_of)

    def numbers_of(self, kinds: list[int], numbers: Ints) -> Ints:
        """Return the kinds' numbers for every node; 0 for other nodes."""
        return self._by_kind(kinds, numbers, 0).take(self.kind_of)

    def added_to(self, totals: Ints, kinds: list[int], added: Ints) -> Ints:
        """Return the totals of the nodes of these kinds, in row order, with their kinds' additions."""
        rows = self.mask_of(kinds).nonzero()[0]
        by_kind = self._by_kind(kinds, added, 0)
        return totals.take(rows) + by_kind.take(self.kind_of.take(rows))

    def _by_kind(self, kinds: list[int], values: Ints, otherwise: int) -> Ints:
        by_kind = np.full(len(self._sizes), otherwise, np.int64)
        by_kind[kinds] = values
        return by_kind

    # ---- the winner --------------------------------------------------------------------------------------------

    def find(self, version: int, totals: Ints, kinds: list[int], added: Ints) -> tuple[int, int]:
        """Return the row that kube-scheduler takes from the nodes of these kinds, and its total.

        ``totals`` are the sums that are kept, ``added`` what each kind adds. A version is another number when all
        totals are new.
        """
        n = len(totals)
        if n <= _TINY:
            rows = self.mask_of(kinds).nonzero()[0]
            sums = totals.take(rows) + self._by_kind(kinds, added, 0).take(self.kind_of.take(rows))
            position = heap_winner(sums)
            return rows.item(position), sums.item(position)
        blocks = self._repair(version, totals)
        asked = (kinds, added.tolist())
        if blocks is not None and asked == self._asked:
            for block in blocks:
                self._bests[block] = (self._maxima[self._chosen, block] + added).max()
                count = self._counts[self._chosen, block].sum()
                if count != self._feasible[block]:
                    self._feasible[block], self._ends = count, None
        else:
            self._asked, self._chosen = asked, np.array(kinds)
            self._bests = (self._maxima.take(self._chosen, 0) + added[:, None]).max(axis=0)
            self._feasible = self._counts.take(self._chosen, 0).sum(axis=0)
            self._ends = None
        best = self._bests.item(self._bests.argmax())
        hits = (self._bests == best).nonzero()[0]
        return self._first(hits, best, self._by_kind(kinds, added, _NEVER)), best

    def _first(self, hits: Ints, best: int, by_kind: Ints) -> int:
        """Return the first row in pre-order with the best total; all are in the blocks ``hits``."""
        if len(hits) == 1:
            block = hits.item()
            equals = (self._values[block] + by_kind.take(self._kinds[block]) == best).nonzero()[0]
            if len(equals) == 1:
                return int((block << _SHIFT) + equals.item())
        if self._ends is None:
            self._ends = self._feasible.cumsum()
            self._begins = (1 << np.arange(self._ends.item(-1).bit_length())) - 1  # the first position of each level
            self._begin_blocks = self._ends.searchsorted(self._begins, "right")
        # The first of the best in a level is in the block where the level begins, or in the next one with a best row.
        later = hits.take(hits.searchsorted(self._begin_blocks, "right"), mode="clip")
        blocks = np.concatenate((self._begin_blocks, later))
        least = np.concatenate((self._begins, np.zeros(len(later), np.int64)))
        sums = by_kind.take(self._kinds.take(blocks, 0))  # [candidate, row in it]: what the kind adds
        positions = (sums > _NEVER).cumsum(axis=1)
        positions += (self._ends - self._feasible - 1).take(blocks)[:, None]
        sums += self._values.take(blocks, 0)
        is_best = sums == best
        is_best &= positions >= least[:, None]
        inside = is_best.argmax(axis=1)
        places = places_of(positions[_ROWS[: len(blocks)], inside])
        first = int(np.where(is_best[_ROWS[: len(blocks)], inside], places, _LAST).argmin())
        return int((blocks.item(first) << _SHIFT) + inside.item(first))

    def _repair(self, version: int, totals: Ints) -> set[int] | None:
        """Find the maxima again where something changed; return the blocks, None for all."""
        blocks: set[int] | None = None
        values = self._values.reshape(-1)
        if version != self._totals_version:
            self._totals_version = version
            values[: len(totals)] = totals
            self._maxima.fill(_NEVER)
            for kind in self.present():
                self._maxima[kind] = self._values.max(axis=1, where=self._kinds == kind, initial=_NEVER)
        else:
            for row in self._stale:
                values[row] = totals.item(row)
            blocks = {block for _, block in self._dirty}
            for kind, block in self._dirty:
                if kind != REFUSED:
                    sums = self._values[block][self._kinds[block] == kind]
                    self._maxima[kind, block] = sums.item(sums.argmax()) if len(sums) else _NEVER
        self._stale.clear()
        self._dirty.clear()
        return blocks
