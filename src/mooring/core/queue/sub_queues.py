"""The parts of the scheduling queue: active (ready), backoff (ready soon), unschedulable (waits for an event).

In backoff, a rejected pod waits so that others get their turn; it may be tried early when no other pod is ready. A pod
whose attempt failed (an error, no nodes at all) always waits, because an immediate retry would only add to the trouble.
The two kinds are kept apart.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mooring.api.clock import Clock
from mooring.core.queue.queued_pod import QueuedEntity, QueuedPodInfo

# ---- a heap of pods with removal by key
# ---------------------------------------------------------------------------------

Entry = tuple[Any, int, int, QueuedEntity]  # order, the pod's sequence, serial number of the entry, pod
_SLACK = 64


class PodHeap:
    """Smallest order first; equal orders by the pods' sequence. Removed entries stay until they surface."""

    __slots__ = ("_entries", "_serial", "by_key")

    def __init__(self) -> None:
        self.by_key: dict[str, Entry] = {}  # by key; read-only for others, who save a call
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
        """Add a pod, or update its position."""
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


# ---- the active queue: pods that are ready to be tried -------------------------------------------------------------

SortKey = Callable[[int, float], Any]  # (priority, timestamp) -> what to order by, smallest first


def priority_sort(priority: int, timestamp: float) -> Any:
    """The order of upstream's only QueueSort plugin: by priority, then the pod that has waited longest."""
    return (-priority, timestamp)


class ActiveQueue(PodHeap):
    """A heap in the order of the first profile's QueueSort plugin."""

    __slots__ = ("_sort_key",)

    def __init__(self, sort_key: SortKey) -> None:
        super().__init__()
        self._sort_key = sort_key

    def add(self, info: QueuedEntity) -> None:
        """Add a pod, or update its position."""
        self.put(self._sort_key(info.priority, info.timestamp), info)


NEVER = float("-inf")
_MAX_SHIFT = 62  # a larger count makes no difference


class BackoffQueue:
    """Two heaps by the time their pods' backoff ends.

    With ``aligned`` (upstream's SchedulerPopFromBackoffQ) ends are truncated to whole seconds, and within a second the
    pod of higher priority comes first. A pod still backs off during the whole second of its end.
    """

    def __init__(
        self, clock: Clock, sort_key: SortKey, initial_s: float, max_s: float, *, aligned: bool = True
    ) -> None:
        self._clock = clock
        self._sort_key = sort_key
        self._initial_s = initial_s
        self._max_s = max_s
        self._aligned = aligned
        self.rejected = PodHeap()  # the owner may take the first of them early
        self._failed = PodHeap()

    # ---- duration -------------------------------------------------------------------------------------------------

    def duration(self, count: int) -> float:
        """Return seconds of backoff after this many rejections, or consecutive errors: 1, 2, 4, 8, 10, 10, …"""
        if count <= 0:
            return 0.0
        doubled: int = 1 << min(count - 1, _MAX_SHIFT)
        if self._initial_s > self._max_s / doubled:
            return self._max_s
        return self._initial_s * doubled

    def expiration(self, info: QueuedEntity) -> float:
        """Return when the pod's backoff ends; a pod without failures has none."""
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

    # ---- pods -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.rejected) + len(self._failed)

    def __contains__(self, key: str) -> bool:
        return key in self.rejected.by_key or key in self._failed.by_key

    @property
    def by_key(self) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """The pods by key, for membership tests; always current."""
        return self.rejected.by_key, self._failed.by_key

    def put(self, info: QueuedEntity) -> None:
        """Add a pod, or update its position."""
        if info.rejectors:
            if info.key in self._failed.by_key:
                self._failed.remove(info.key)
            self._put_rejected(info)
        else:
            self.rejected.remove(info.key)
            self._failed.put((self.expiration(info),), info)

    def refresh(self, key: str) -> None:
        """Update the position of a changed pod; it stays among the rejected, or among the failed."""
        info = self.rejected.get(key)
        if info is not None:
            self._put_rejected(info)

    def _put_rejected(self, info: QueuedEntity) -> None:
        order = self._sort_key(info.priority, info.timestamp) if self._aligned else ()
        self.rejected.put((self.expiration(info), order), info)

    def get(self, key: str) -> QueuedEntity | None:
        return self.rejected.get(key) or self._failed.get(key)

    def remove(self, key: str) -> QueuedEntity | None:
        return self.rejected.remove(key) or self._failed.remove(key)

    def pop_early(self) -> QueuedEntity | None:
        """Return the next of the rejected pods, even if its backoff has not ended."""
        return self.rejected.pop()

    def pop_completed(self) -> list[QueuedEntity]:
        """Remove and return all pods whose backoff has ended, the rejected ones first."""
        completed = []
        for heap in (self.rejected, self._failed):
            while (info := heap.peek()) is not None and not self.is_backing_off(info):
                heap.pop()
                completed.append(info)
        return completed

    def next_completion(self) -> float | None:
        """Return the whole second at which the next backoff ends, if there is a pod."""
        if not self:
            return None
        heads = [info for heap in (self.rejected, self._failed) if (info := heap.peek()) is not None]
        return min((math.floor(self.expiration(info)) + 1.0 for info in heads), default=None)

    def pods(self) -> list[QueuedEntity]:
        return [*self.rejected.in_order(), *self._failed.in_order()]


# ---- pods that wait for an event, indexed by the plugins that rejected them
# -------------------------------------------

Drawer = dict[str, QueuedEntity]  # by key


class UnschedulablePods:
    """A map of pods with an index by plugin, so that an event is only shown to pods that it may help.

    A rejected pod is in a drawer per (profile, rejecting plugin). A gated pod is in the drawer of its gating plugin
    alone: nothing else can release it. While the gate is closed, it is in none.
    """

    def __init__(self) -> None:
        self.by_key: Drawer = {}  # all of them; read-only for others
        self._filed: dict[str, tuple[bool, list[Drawer]]] = {}  # whether gated, and the drawers of a pod
        self._rejected: defaultdict[tuple[str, str], Drawer] = defaultdict(dict)
        self._drawers: dict[tuple[str, frozenset[str]], list[Drawer]] = {}  # of pods that these plugins refused
        self._gated: defaultdict[str, Drawer] = defaultdict(dict)
        self._gated_count = 0
        self._oldest: list[tuple[float, int, QueuedEntity]] = []  # by last touch; stale entries are removed on access
        self._serial = 0

    def __len__(self) -> int:
        return len(self.by_key)

    def __contains__(self, key: str) -> bool:
        return key in self.by_key

    def __iter__(self) -> Iterator[QueuedEntity]:
        return iter(self.by_key.values())

    @property
    def gated_count(self) -> int:
        return self._gated_count

    def get(self, key: str) -> QueuedEntity | None:
        return self.by_key.get(key)

    def put(self, info: QueuedEntity, *, is_shut: bool = False) -> bool:
        """Add a pod, or update it after its rejections have changed; report whether it is new here."""
        is_new = info.key not in self.by_key or self.remove(info.key) is None
        drawers = [] if is_shut else self._drawers_for(info)
        for drawer in drawers:
            drawer[info.key] = info
        self._filed[info.key] = (info.is_gated, drawers)
        self.by_key[info.key] = info
        self._gated_count += info.is_gated
        self._remember_age(info)
        return is_new

    def remove(self, key: str) -> QueuedEntity | None:
        info = self.by_key.pop(key, None)
        if info is not None:
            was_gated, drawers = self._filed.pop(key)
            self._gated_count -= was_gated
            for drawer in drawers:
                del drawer[key]
        return info

    def rejected_by(self, scheduler_name: str, plugin: str) -> Drawer:
        """Return pods of a profile that this plugin rejected, without gated ones."""
        return self._rejected.get((scheduler_name, plugin), _EMPTY)

    def gated_by(self, plugin: str) -> Drawer:
        return self._gated.get(plugin, _EMPTY)

    def oldest_touch(self) -> float | None:
        """Return the earliest time at which a pod here was last tried or flushed."""
        oldest = self._oldest
        while oldest:
            touched, _, info = oldest[0]
            if self.by_key.get(info.key) is info and last_touch(info) == touched:
                return touched
            heapq.heappop(oldest)
        return None

    def _drawers_for(self, info: QueuedEntity) -> list[Drawer]:
        if info.gating_plugin:
            return [self._gated[info.gating_plugin]]
        if isinstance(info, QueuedPodInfo):  # thousands may wait for the same event
            key = info.scheduler_name, info.rejectors
            found = self._drawers.get(key)
            if found is None:
                found = [self._rejected[info.scheduler_name, plugin] for plugin in sorted(info.rejectors)]
                self._drawers[key] = found
            return found
        rejected = {(member.scheduler_name, plugin) for member in info.members for plugin in member.rejectors}
        return [self._rejected[key] for key in sorted(rejected)]

    def _remember_age(self, info: QueuedEntity) -> None:
        self._serial += 1
        heapq.heappush(self._oldest, (last_touch(info), self._serial, info))
        if len(self._oldest) > 2 * len(self.by_key) + _SLACK:
            self._oldest = [(last_touch(each), serial, each) for serial, each in enumerate(self.by_key.values())]
            heapq.heapify(self._oldest)
            self._serial = len(self._oldest)


def last_touch(info: QueuedEntity) -> float:
    return max(info.timestamp, info.flush_timestamp)


_EMPTY: Drawer = {}
