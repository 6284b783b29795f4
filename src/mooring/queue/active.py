"""The active queue: pods that are ready to be tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.queue.heap import PodHeap
from mooring.queue.queued_pod import QueuedEntity

SortKey = Callable[[int, float], Any]  # (priority, timestamp) -> what to order by, smallest first


def priority_sort(priority: int, timestamp: float) -> Any:
    """The order of upstream's only QueueSort plugin: important pods first, then who has waited longest."""
    return (-priority, timestamp)


class ActiveQueue:
    """A heap in the order of the first profile's QueueSort plugin."""

    __slots__ = ("_heap", "_sort_key")

    def __init__(self, sort_key: SortKey) -> None:
        self._heap = PodHeap()
        self._sort_key = sort_key

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, key: str) -> bool:
        return key in self._heap

    def put(self, info: QueuedEntity) -> None:
        self._heap.put(self._sort_key(info.priority, info.timestamp), info)

    def get(self, key: str) -> QueuedEntity | None:
        return self._heap.get(key)

    def remove(self, key: str) -> QueuedEntity | None:
        return self._heap.remove(key)

    def pop(self) -> QueuedEntity | None:
        return self._heap.pop()

    def pods(self) -> list[QueuedEntity]:
        """All of them, in the order in which they would be popped."""
        return self._heap.in_order()
