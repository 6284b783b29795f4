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


class ActiveQueue(PodHeap):
    """A heap in the order of the first profile's QueueSort plugin."""

    __slots__ = ("_sort_key",)

    def __init__(self, sort_key: SortKey) -> None:
        super().__init__()
        self._sort_key = sort_key

    def add(self, info: QueuedEntity) -> None:
        """Add a pod, or give one that is here its new place."""
        self.put(self._sort_key(info.priority, info.timestamp), info)
