"""A heap of waiting pods from which any pod can be taken by its key."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from mooring.queue.queued_pod import QueuedEntity

Entry = tuple[Any, int, int, QueuedEntity]  # order, the pod's sequence, serial number of the entry, pod
_SLACK = 64


class PodHeap:
    """Smallest order first; equal orders by the pods' sequence. Removed entries stay until they surface."""

    __slots__ = ("_entries", "_live", "_serial")

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._live: dict[str, Entry] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: str) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[QueuedEntity]:
        """All pods, in no particular order."""
        return (entry[3] for entry in self._live.values())

    def in_order(self) -> list[QueuedEntity]:
        return [entry[3] for entry in sorted(self._live.values())]

    def get(self, key: str) -> QueuedEntity | None:
        entry = self._live.get(key)
        return None if entry is None else entry[3]

    def put(self, order: Any, info: QueuedEntity) -> None:
        """Add a pod, or give one that is here its new place."""
        self._serial += 1
        entry = (order, info.sequence, self._serial, info)
        self._live[info.key] = entry
        heapq.heappush(self._entries, entry)
        if len(self._entries) > 2 * len(self._live) + _SLACK:
            self._entries = list(self._live.values())
            heapq.heapify(self._entries)

    def remove(self, key: str) -> QueuedEntity | None:
        entry = self._live.pop(key, None)
        return None if entry is None else entry[3]

    def peek(self) -> QueuedEntity | None:
        entries, live = self._entries, self._live
        while entries:
            entry = entries[0]
            if live.get(entry[3].key) is entry:
                return entry[3]
            heapq.heappop(entries)
        return None

    def pop(self) -> QueuedEntity | None:
        info = self.peek()
        if info is not None:
            heapq.heappop(self._entries)
            del self._live[info.key]
        return info
