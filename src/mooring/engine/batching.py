"""Opportunistic batching: an equal pod right after takes the next best node of the ranking, without a search.

kube-scheduler does this only where the ranking cannot have changed: the pod
has the same signature, comes in the very next cycle and within half a second,
and no longer fits on the node that the pod before it took. With the default
configuration no pod has a signature, because default spreading looks at other
pods; then this is inert.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.clock import Clock
from mooring.engine.attempt import Attempt
from mooring.framework.guarded import guarded
from mooring.framework.runtime import Profile
from mooring.framework.status import SUCCESS
from mooring.state.pod_info import PodInfo

MAX_AGE_S = 0.5

# Why a ranking is of no use, as the metric scheduler_batch_cache_flushed_total has it.
POD_SKIPPED = "pod_skipped"
POD_INCOMPATIBLE = "pod_incompatible"
POD_NOT_BATCHABLE = "pod_not_batchable"
NODE_MISSING = "node_missing"  # or others have come or gone: rows have moved
NODE_NOT_FULL = "node_not_full"
EMPTY_LIST = "empty_list"
EXPIRED = "expired"


class Ranking:
    """Nodes by score, best first, popped as from kube-scheduler's binary heap; built when the first is popped."""

    def __init__(self, rows: NDArray[np.int64], totals: NDArray[np.int64], taken: int) -> None:
        self._rows = rows
        self._totals = totals
        self._taken = taken  # the row that the ranking's own pod took
        self._heap: list[tuple[int, int]] | None = None  # (total, row)
        self._left = len(rows) - 1

    def __len__(self) -> int:
        return self._left

    def without(self, row: int) -> Ranking:
        """The same ranking, had its own pod taken this row."""
        return Ranking(self._rows, self._totals, row)

    def pop(self) -> int:
        if self._heap is None:
            self._heap = list(zip(self._totals.tolist(), self._rows.tolist(), strict=True))
            for i in range(len(self._heap) // 2 - 1, -1, -1):
                self._sift_down(i, len(self._heap))
            self._drop(self._taken)
        self._left -= 1
        return self._pop()

    def _pop(self) -> int:
        heap = self._heap
        assert heap is not None
        last = len(heap) - 1
        heap[0], heap[last] = heap[last], heap[0]
        self._sift_down(0, last)
        return heap.pop()[1]

    def _drop(self, row: int) -> None:
        """Take the ranking's own node out: the root, unless the pod ended up elsewhere after all."""
        assert self._heap is not None
        if self._heap[0][1] == row:
            self._pop()
            return
        self._heap = [entry for entry in self._heap if entry[1] != row]
        for i in range(len(self._heap) // 2 - 1, -1, -1):
            self._sift_down(i, len(self._heap))

    def _sift_down(self, i: int, n: int) -> None:
        heap = self._heap
        assert heap is not None
        while (child := 2 * i + 1) < n:
            if child + 1 < n and heap[child + 1][0] > heap[child][0]:
                child += 1
            if heap[child][0] <= heap[i][0]:
                return
            heap[i], heap[child] = heap[child], heap[i]
            i = child


def signature(profile: Profile, pod: PodInfo) -> Hashable:
    """What makes two pods equal to this profile's plugins; None if the pod is like no other."""
    parts: dict[str, Hashable] = {}
    for plugin in profile.judges:
        assert plugin.sign is not None, "asked only where all can sign"
        part: Hashable = guarded(plugin.name, 'running Sign plugin "{}": {}', plugin.sign, pod)
        if part is None:
            return None
        parts[plugin.name] = part
    return (profile.scheduler_name, tuple(parts.items()))


@dataclass(slots=True)
class Batch:
    """What one profile remembers of its last placement."""

    signature: Hashable = None
    ranking: Ranking | None = None
    generation: int = -1  # the table's layout that the ranking's rows belong to
    created: float = 0.0
    cycle: int = -2
    row: int = -1  # where the last pod went

    def hint(
        self,
        signed: Hashable,
        cycle: int,
        generation: int,
        now: Callable[[], float],
        still_fits: Callable[[int], bool],
    ) -> tuple[int | None, str]:
        """The next best row for an equal pod if the ranking still holds, and if not, what it has become useless by."""
        if self.ranking is None or not len(self.ranking):
            return None, ""
        useless = self._useless(signed, cycle, generation, now, still_fits)
        return (None, useless) if useless else (self.ranking.pop(), "")

    def _useless(
        self,
        signed: Hashable,
        cycle: int,
        generation: int,
        now: Callable[[], float],
        still_fits: Callable[[int], bool],
    ) -> str:
        """Why the ranking is not for this pod, in the metrics' words; nothing if it is."""
        if cycle != self.cycle + 1:
            return POD_SKIPPED
        if signed is None or signed != self.signature:
            return POD_INCOMPATIBLE
        if now() > self.created + MAX_AGE_S:
            return EXPIRED
        if generation != self.generation:
            return NODE_MISSING
        return NODE_NOT_FULL if still_fits(self.row) else ""

    def store(
        self,
        signed: Hashable,
        cycle: int,
        generation: int,
        now: Callable[[], float],
        row: int,
        ranking: Ranking | None,
        *,
        has_others: bool = True,  # whether there were other nodes to choose from
    ) -> str:
        """Remember a placement that did not come from a hint; returns why the next pod cannot profit, if it cannot."""
        self.cycle, self.row = cycle, row
        self.ranking = ranking if signed is not None and ranking is not None and len(ranking) else None
        if self.ranking is None:
            return POD_NOT_BATCHABLE if has_others else EMPTY_LIST
        self.signature, self.generation, self.created = signed, generation, now()
        return ""

    def keep(self, cycle: int, row: int) -> None:
        """Remember that a hint was taken: the ranking goes on."""
        self.cycle, self.row = cycle, row

    def move(self, row: int) -> None:
        """The last pod is on another row than was decided: rank the others anew."""
        self.row = row
        if self.ranking is not None:
            self.ranking = self.ranking.without(row)


class Batching:
    """What all profiles remember. It is upstream's behaviour, not a cache of ours: it changes which node is taken."""

    def __init__(self, clock: Clock, *, is_enabled: bool, has_extenders: bool) -> None:
        self._clock = clock
        self.is_enabled = is_enabled
        self._can_sign = not has_extenders  # what extenders do with two equal pods is not known
        self._batches: dict[str, Batch] = {}  # by scheduler name
        self._all_sign: dict[str, bool] = {}
        self._cycle = 0

    def begin(self) -> None:
        """An attempt begins: hints are for the very next one."""
        self._cycle += 1

    def sign(self, attempt: Attempt) -> Hashable:
        """The pod's signature; None if the pod, a plugin or an extender cannot be signed for."""
        if not self.is_enabled:
            return None
        signed = self._signature(attempt.profile, attempt.pod) if self._can_sign else None
        attempt.laps.point("Sign", SUCCESS)  # upstream says so of pods that cannot be signed, too
        return signed

    def _signature(self, profile: Profile, pod: PodInfo) -> Hashable:
        all_sign = self._all_sign.get(profile.scheduler_name)
        if all_sign is None:
            all_sign = self._all_sign[profile.scheduler_name] = all(plugin.can_sign for plugin in profile.judges)
        return signature(profile, pod) if all_sign else None

    def hint(self, attempt: Attempt, signed: Hashable) -> int | None:
        """The row to try first, or None."""
        if not self.is_enabled:
            return None

        def still_fits(row: int) -> bool:
            one = attempt.nodes.subset(np.array([row]))
            return bool(attempt.profile.run_filters(attempt.state, attempt.pod, one).feasible[0])

        batch = self._batch(attempt.profile)
        generation = attempt.nodes.table.generation
        row, flushed = batch.hint(signed, self._cycle, generation, self._clock.now, still_fits)
        attempt.laps.hint(row, flushed)
        return row

    def remember(
        self, attempt: Attempt, signed: Hashable, row: int, hint: int | None, ranking: Ranking | None, num_feasible: int
    ) -> None:
        """The pod goes to this row: the next one like it may have a hint."""
        if not self.is_enabled:
            return
        attempt.laps.restart()
        batch, flushed = self._batch(attempt.profile), ""
        if hint == row:
            batch.keep(self._cycle, row)
        else:
            generation, has_others = attempt.nodes.table.generation, num_feasible > 1
            flushed = batch.store(signed, self._cycle, generation, self._clock.now, row, ranking, has_others=has_others)
        attempt.laps.stored(None if hint is None else hint == row, flushed)

    def adopt(self, profile: Profile, row: int) -> None:
        """The last pod went to this row in the end, not to the one decided on: a replay knows better."""
        batch = self._batches.get(profile.scheduler_name)
        if batch is not None and batch.row != row:
            batch.move(row)

    def _batch(self, profile: Profile) -> Batch:
        batch = self._batches.get(profile.scheduler_name)
        if batch is None:
            batch = self._batches[profile.scheduler_name] = Batch()
        return batch
