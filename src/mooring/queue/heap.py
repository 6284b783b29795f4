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

    __slots__ = ("_entries", "_serial", "by_key")

    def __init__(self) -> None:
        self.by_key: dict[str, Entry] = {}  # by key; others may look, and only look: asking a dict takes no call
        self._entries: list[Entry] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self.by_key)

    def __contains__(self, key: str) -> bool:
        return key in self.by_key

    def __iter__(self) -> Iterator[QueuedEntity]:
        """All pods, in no particular order."""
        return (entry[3] for entry in self.by_key.values())

    def in_order(self) -> list[QueuedEntity]:
        return [entry[3] for entry in sorted(self.by_key.values())]

    def get(self, key: str) -> QueuedEntity | None:
        entry = self.by_key.get(key)
        return None if entry is None else entry[3]

    def put(self, order: Any, info: QueuedEntity) -> None:
        """Add a pod, or give one that is here its new place."""
        self._serial += 1
        entry = (order, info.sequence, self._serial, info)
        self.by_key[info.key] = entry
        heapq.heappush(self._entries, entry)
        if len(self._entries) > 2 * len(self.by_key) + _SLACK:
            self._entries = list(self.by_key.values())
            heapq.heapify(self._entries)

    def remove(self, key: str) -> QueuedEntity | None:
        entry = self.by_key.pop(key, None)
        return None if entry is None else entry[3]

    def peek(self) -> QueuedEntity | None:
        entries, by_key = self._entries, self.by_key
        while entries:
            entry = entries[0]
            if by_key.get(entry[3].key) is entry:
                return entry[3]
            heapq.heappop(entries)
        return None

    def pop(self) -> QueuedEntity | None:
        entries, by_key = self._entries, self.by_key
        while entries:
            entry = heapq.heappop(entries)
            info = entry[3]
            if by_key.get(info.key) is entry:
                del by_key[info.key]
                return info
        return None
