"""Pods that wait for something to happen, filed by whose refusal they wait to be lifted."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator

from mooring.queue.queued_pod import QueuedEntity, QueuedPodInfo

Drawer = dict[str, QueuedEntity]  # by key
_SLACK = 64


class UnschedulablePods:
    """A map of pods with drawers, so that an event is only shown to pods whose plugins care.

    A rejected pod lies in a drawer per (profile, plugin that refused it). A
    gated pod lies in the drawer of its gating plugin alone: nothing else can
    free it. While the gate is shut, it lies in none.
    """

    def __init__(self) -> None:
        self.by_key: Drawer = {}  # all of them; others may look, and only look
        self._filed: dict[str, tuple[bool, list[Drawer]]] = {}  # whether gated, and in which drawers a pod lies
        self._rejected: defaultdict[tuple[str, str], Drawer] = defaultdict(dict)
        self._drawers: dict[tuple[str, frozenset[str]], list[Drawer]] = {}  # of pods that these plugins refused
        self._gated: defaultdict[str, Drawer] = defaultdict(dict)
        self._gated_count = 0
        self._oldest: list[tuple[float, int, QueuedEntity]] = []  # by last touch; stale entries go when they surface
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
        """File a pod, or file it anew after its refusals have changed; report whether it was not here."""
        is_new = self.remove(info.key) is None
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
        """Pods of a profile that wait, among others, for this plugin; gated ones not included."""
        return self._rejected.get((scheduler_name, plugin), _EMPTY)

    def gated_by(self, plugin: str) -> Drawer:
        return self._gated.get(plugin, _EMPTY)

    def oldest_touch(self) -> float | None:
        """The earliest time at which a pod here was last tried or flushed."""
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
        if isinstance(info, QueuedPodInfo):  # thousands that wait for the same, again and again
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
