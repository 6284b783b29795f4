"""One label key over all nodes, as a column of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mooring.state.sharing import stamps

MISSING = -1  # the id of a label that a node does not have


class LabelColumn:
    """An id per distinct value of a label, -1 where the label is missing."""

    __slots__ = ("_id_of", "_owns_ids", "_owns_values", "_present", "ids", "values", "version")

    def __init__(self) -> None:
        self.ids: NDArray[np.int32] = np.empty(0, np.int32)  # [node]
        self.values: list[str] = []
        self.version = next(stamps)  # another number when a row's id changes, for those who keep something by id
        self._id_of: dict[str, int] = {}
        self._present: tuple[int, NDArray[np.bool_], bool] | None = None
        self._owns_ids = self._owns_values = True

    def fork(self) -> LabelColumn:
        """The same column for a fork of the table; both copy before they write."""
        fork = LabelColumn.__new__(LabelColumn)
        fork.ids, fork.values, fork._id_of = self.ids, self.values, self._id_of
        fork.version, fork._present = self.version, self._present
        self._owns_ids = self._owns_values = fork._owns_ids = fork._owns_values = False
        return fork

    def put(self, row: int, value: str | None) -> None:
        """Write a row's value."""
        new = self.intern(value)
        if self.ids[row] != new:
            self._own_ids()
            self.ids[row] = new
            self.version = next(stamps)

    def renumber_rows(self, ids: NDArray[np.int32]) -> None:
        """Take a column whose rows have moved."""
        self.ids, self._owns_ids = ids, True
        self.version = next(stamps)

    def _own_ids(self) -> None:
        if not self._owns_ids:
            self.ids, self._owns_ids = self.ids.copy(), True

    def present(self) -> tuple[NDArray[np.bool_], bool]:
        """Which values some node has ([id]), and whether every node has the label."""
        known = self._present
        if known is None or known[0] != self.version or len(known[1]) != len(self.values):
            by_id = np.bincount(self.ids + 1, minlength=len(self.values) + 1)
            known = self._present = (self.version, by_id[1:] > 0, not by_id[0])
        return known[1], known[2]

    def id_of(self, value: str) -> int:
        """The id of a value; one that no node has gets an id that equals none."""
        return self._id_of.get(value, -2)

    def intern(self, value: str | None) -> int:
        if value is None:
            return MISSING
        known = self._id_of.get(value)
        if known is None:
            if not self._owns_values:
                self.values, self._id_of, self._owns_values = list(self.values), dict(self._id_of), True
            known = self._id_of[value] = len(self.values)
            self.values.append(value)
        return known

    def forget_unused(self) -> None:
        """Keep the values that a node has, numbered anew: names of nodes that are gone would pile up for ever."""
        used, ids = np.unique(self.ids[self.ids >= 0], return_inverse=True)
        self._own_ids()
        self.ids[self.ids >= 0] = ids
        self.version = next(stamps)
        self.values = [self.values[i] for i in used.tolist()]
        self._id_of = {value: i for i, value in enumerate(self.values)}
        self._owns_values = True
