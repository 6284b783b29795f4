"""The backoff queue: pods that may be worth another attempt, but not too soon.

A pod that plugins refused waits so that others get their turn; it may be tried
early when no other pod is ready. A pod whose attempt broke (an error,
no nodes at all) really waits, because trying again at once would only add to
the trouble. The two kinds are kept apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from mooring.clock import Clock
from mooring.queue.active import SortKey
from mooring.queue.heap import PodHeap
from mooring.queue.queued_pod import QueuedEntity

NEVER = float("-inf")
_MAX_SHIFT = 62  # a larger count changes nothing: the maximum has long been reached


class BackoffQueue:
    """Two heaps by the time their pods' backoff ends.

    With ``aligned`` (upstream's SchedulerPopFromBackoffQ) ends are cut to whole
    seconds, and within a second the more important pod comes first. A pod
    still backs off during the whole second of its end.
    """

    def __init__(
        self, clock: Clock, sort_key: SortKey, initial_s: float, max_s: float, *, aligned: bool = True
    ) -> None:
        self._clock = clock
        self._sort_key = sort_key
        self._initial_s = initial_s
        self._max_s = max_s
        self._aligned = aligned
        self._rejected = PodHeap()
        self._failed = PodHeap()

    # ---- how long ----------------------------------------------------------------------------------------------

    def duration(self, count: int) -> float:
        """Seconds of backoff after so many rejections, or so many errors in a row: 1, 2, 4, 8, 10, 10, …"""
        if count <= 0:
            return 0.0
        doubled: int = 1 << min(count - 1, _MAX_SHIFT)
        if self._initial_s > self._max_s / doubled:
            return self._max_s
        return self._initial_s * doubled

    def expiration(self, info: QueuedEntity) -> float:
        """When the pod's backoff ends; a pod without failures has none."""
        count = info.consecutive_errors_count or info.unschedulable_count
        if self._max_s == 0 or count == 0:
            return NEVER
        if info.backoff_expiration is None:
            info.backoff_expiration = self._align(info.timestamp + self.duration(count))
        return info.backoff_expiration

    def is_backing_off(self, info: QueuedEntity) -> bool:
        return self.expiration(info) >= self._align(self._clock.monotonic())

    def _align(self, when: float) -> float:
        return math.floor(when) if self._aligned else when

    # ---- who ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, key: str) -> bool:
        return key in self._rejected.by_key or key in self._failed.by_key

    @property
    def by_key(self) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """The pods by key, for those who ask whether one is here; the two stay the same for ever."""
        return self._rejected.by_key, self._failed.by_key

    @property
    def has_early(self) -> bool:
        """Report whether a pod could be popped before its backoff ends."""
        return len(self._rejected) > 0

    def put(self, info: QueuedEntity) -> None:
        """Add a pod, or give one that is here its new place."""
        if info.rejectors:
            self._failed.remove(info.key)
            self._put_rejected(info)
        else:
            self._rejected.remove(info.key)
            self._failed.put((self.expiration(info),), info)

    def refresh(self, key: str) -> None:
        """Give a pod that has changed its new place; it stays among the rejected, or among the failed."""
        info = self._rejected.get(key)
        if info is not None:
            self._put_rejected(info)

    def _put_rejected(self, info: QueuedEntity) -> None:
        order = self._sort_key(info.priority, info.timestamp) if self._aligned else ()
        self._rejected.put((self.expiration(info), order), info)

    def get(self, key: str) -> QueuedEntity | None:
        return self._rejected.get(key) or self._failed.get(key)

    def remove(self, key: str) -> QueuedEntity | None:
        return self._rejected.remove(key) or self._failed.remove(key)

    def pop_early(self) -> QueuedEntity | None:
        """The next of the rejected pods, whether or not its backoff has ended."""
        return self._rejected.pop()

    def pop_completed(self) -> list[QueuedEntity]:
        """Take out all pods whose backoff has ended, the rejected ones first."""
        completed = []
        for heap in (self._rejected, self._failed):
            while (info := heap.peek()) is not None and not self.is_backing_off(info):
                heap.pop()
                completed.append(info)
        return completed

    def next_completion(self) -> float | None:
        """The whole second at which the next backoff will be seen to have ended, if any pod is here."""
        if not self:
            return None
        heads = [info for heap in (self._rejected, self._failed) if (info := heap.peek()) is not None]
        return min((math.floor(self.expiration(info)) + 1.0 for info in heads), default=None)

    def pods(self) -> list[QueuedEntity]:
        return [*self._rejected.in_order(), *self._failed.in_order()]
