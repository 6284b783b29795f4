"""PrioritySort (spec 2.1)."""

from __future__ import annotations

from mooring.core.plugins.priority_sort import PrioritySort
from mooring.testing import make_cluster, make_handle


def test_the_important_come_first_and_then_the_longest_waiting() -> None:
    key = PrioritySort(None, make_handle(make_cluster())).sort_key
    order = [(10, 5.0), (10, 6.0), (0, 1.0), (0, 2.0), (-1, 0.0)]
    mixed = [order[i] for i in (3, 1, 4, 0, 2)]
    assert sorted(mixed, key=lambda pod: key(*pod)) == order
