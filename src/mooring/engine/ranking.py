"""Nodes in the order in which kube-scheduler's binary heap gives them out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


class Ranking:
    """Nodes by score, best first, popped as from kube-scheduler's heap; built when the first is popped."""

    def __init__(
        self, rows: Column, totals: Column, taken: int | None = None, raw: Mapping[str, Column] | None = None
    ) -> None:
        """``taken``: the row that the ranking's own pod took; ``raw``: scores by plugin before normalising."""
        self._rows = rows
        self._totals = totals
        self._taken = taken
        self.raw = raw or {}
        self._heap: list[tuple[int, int]] | None = None  # (total, position in the columns)
        self._left = len(rows) - (taken is not None)
        self._popped: tuple[int, int] | None = None

    def __len__(self) -> int:
        return self._left

    def without(self, row: int) -> Ranking:
        """The same ranking, had the last pod taken this row instead of the one that it was given."""
        if self._heap is None:
            return Ranking(self._rows, self._totals, row, self.raw)
        entries = self._heap if self._popped is None else [*self._heap, self._popped]
        positions = np.array([position for _, position in entries if self._rows[position] != row], np.int64)
        return self._subset(positions)

    def _subset(self, positions: Column) -> Ranking:
        raw = {name: column[positions] for name, column in self.raw.items()}
        return Ranking(self._rows[positions], self._totals[positions], None, raw)

    def candidates(self) -> tuple[Column, Mapping[str, Column]]:
        """(rows, raw scores) of those that are left, in the heap's own order."""
        positions = np.array([position for _, position in self._built()], np.int64)
        return self._rows[positions], {name: column[positions] for name, column in self.raw.items()}

    def pop(self) -> int:
        self._built()
        self._left -= 1
        self._popped = self._pop()
        return int(self._rows[self._popped[1]])

    def _built(self) -> list[tuple[int, int]]:
        if self._heap is None:
            self._heap = list(zip(self._totals.tolist(), range(len(self._rows)), strict=True))
            self._init()
            if self._taken is not None:
                self._drop(self._taken)
        return self._heap

    def _init(self) -> None:
        assert self._heap is not None
        for i in range(len(self._heap) // 2 - 1, -1, -1):
            self._sift_down(i, len(self._heap))

    def _pop(self) -> tuple[int, int]:
        heap = self._heap
        assert heap is not None
        last = len(heap) - 1
        heap[0], heap[last] = heap[last], heap[0]
        self._sift_down(0, last)
        return heap.pop()

    def _drop(self, row: int) -> None:
        """Take the ranking's own node out: the root, unless the pod ended up elsewhere after all."""
        assert self._heap is not None
        if self._rows[self._heap[0][1]] == row:
            self._pop()
            return
        self._heap = [entry for entry in self._heap if self._rows[entry[1]] != row]
        self._init()

    def _sift_down(self, i: int, n: int) -> None:
        heap = self._heap
        assert heap is not None
        while (child := 2 * i + 1) < n:
            if child + 1 < n and heap[child + 1][0] > heap[child][0]:
                child += 1
            if heap[child][0] <= heap[i][0]:
                return
            heap[i], heap[child] = heap[child], heap[i]
            i = child
