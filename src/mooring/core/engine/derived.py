"""Columns that are derived from the cluster and cached between pods.

They have a *key*, which says for which pods they hold: a template, and possibly a priority. *Logs* name the rows that
changed since the columns were last used, so that only those rows are computed again. A *token* covers everything else
they depend on: when it differs, all rows are computed again. :class:`Kept` bounds their number. None of this may ever
change a decision: property tests compare histories with and without it.

docs/architecture/kept.md lists all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Set, Sized, ValuesView
from typing import Generic, TypeVar

from mooring.core.state.node_table import NodeTable
from mooring.core.state.sharing import EVERYTHING, ChangeLog

V = TypeVar("V")
MEMO_TRIAL = 32  # number of lookups after which at least half must have hit
MEMO_ROWS = 6  # more rows than these are computed together, which is faster than a lookup each


class Derived:
    """Base class of derived columns: their position in the logs, and the token that they were computed with."""

    __slots__ = ("_cursors", "_token", "revision")

    def __init__(self, *logs: ChangeLog[int]) -> None:
        self._cursors = tuple(log.cursor() for log in logs)
        self._token: Hashable = None
        self.revision = 0  # number of updates

    def changes(self, token: Hashable) -> list[Set[int]] | None:
        """Return for each log the rows to compute again; None: all rows. Call ``settle`` when that is done.

        If a plugin fails before that, the columns are not settled, and the next call returns None.
        """
        # No token until ``settle``: the cursors advance here, and if a plugin raises before all rows are computed, the
        # rows taken from the logs would be lost otherwise.
        is_known, self._token = token == self._token, None
        rows: list[Set[int]] = []
        for cursor in self._cursors:
            changes = cursor.take_distinct()
            if changes is EVERYTHING:
                is_known = False
            else:
                rows.append(changes)
                if changes:
                    self.revision += 1
        if is_known:
            return rows
        self.revision += 1
        return None

    def settle(self, token: Hashable) -> None:
        """Mark the columns as up to date."""
        self._token = token


def are_many(changes: list[Set[int]], column: Sized) -> bool:
    """Report whether computing a whole column at once is cheaper than these rows one by one."""
    return 4 * (len(changes[0]) + len(changes[1])) > len(column)


class Kept(Generic[V]):
    """A bounded number of derived columns by key, with least-recently-used eviction."""

    def __init__(self, max_seen: int) -> None:
        self._columns: OrderedDict[Hashable, V] = OrderedDict()
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._max_seen = max_seen  # number of keys remembered that were seen once

    def __len__(self) -> int:
        return len(self._columns)

    def values(self) -> ValuesView[V]:
        return self._columns.values()

    def was_seen_before(self, key: Hashable) -> bool:
        """Report whether the key has been seen before: columns for a single use are not cached."""
        known = key in self._seen
        self._seen[key] = None
        if known:
            self._seen.move_to_end(key)
        elif len(self._seen) > self._max_seen:
            self._seen.popitem(last=False)
        return known

    def get(self, key: Hashable) -> V | None:
        """Return the columns under this key, marked as used."""
        columns = self._columns.get(key)
        if columns is not None:
            self._columns.move_to_end(key)
        return columns

    def put(self, key: Hashable, columns: V, most: int) -> V:
        """Store columns, up to a total number."""
        self._columns[key] = columns
        while len(self._columns) > most:
            self._columns.popitem(last=False)
        return columns


class Memo(Generic[V]):
    """Answers by resource figures: equally full nodes share one. Cleared when there are too many."""

    __slots__ = ("_answers", "_asked", "_found", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._answers: dict[Hashable, V] = {}
        self._asked = self._found = 0

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def pays(self) -> bool:
        """Report whether lookups hit often enough: on a mixed cluster nodes are hardly ever equally full."""
        return self._asked < MEMO_TRIAL or 2 * self._found >= self._asked

    def get(self, fullness: Hashable) -> V | None:
        answer = self._answers.get(fullness)
        self._asked += 1
        if answer is not None:
            self._found += 1
        return answer

    def put(self, fullness: Hashable, answer: V) -> None:
        if len(self._answers) >= self.most:
            self._answers.clear()
        self._answers[fullness] = answer

    def clear(self) -> None:
        self._answers.clear()
        self._asked = self._found = 0


class Figures:
    """Each row's resource figures as one value, computed once per state of the table."""

    __slots__ = ("_at", "_by_row")

    def __init__(self) -> None:
        self._by_row: dict[int, bytes] = {}
        self._at = (-1, -1)

    def of(self, table: NodeTable, row: int) -> bytes:
        now = (table.node_version, table.pod_log.end)
        if now != self._at:
            self._by_row.clear()
            self._at = now
        figures = self._by_row.get(row)
        if figures is None:
            figures = self._by_row[row] = table.resource_key(row)
        return figures
