"""Opportunistic batching: an equal pod takes the next best node of the previous pod's ranking, without a search.

kube-scheduler does this only where the ranking cannot have changed: the pod has the same signature and arrives in the
very next cycle and within half a second. If it still fits on the node that the previous pod took, that node is scored
again and takes part (until 1.36 there is no hint then). With the default configuration no pod has a signature, because
default spreading looks at other pods; batching then has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.api.clock import Clock
from mooring.core.engine.columns import check_range
from mooring.core.engine.decision import CycleAttempt
from mooring.core.framework.cycle_state import CycleError, guarded
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import SUCCESS
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

# ---- nodes in the order in which kube-scheduler's binary heap returns them
# ---------------------------------------------

Column = NDArray[np.int64]


class Ranking:
    """Nodes by score, best first, popped as from kube-scheduler's heap; built when the first is popped."""

    def __init__(
        self, rows: Column, totals: Column, taken: int | None = None, raw: Mapping[str, Column] | None = None
    ) -> None:
        """``taken`` is the row that the ranking's own pod took, ``raw`` the scores by plugin before normalising."""
        self._rows = rows
        self._totals = totals
        self._taken = taken
        self.raw = raw or {}
        self._heap: list[tuple[int, int]] | None = None  # (total, position in the columns)
        self._left = len(rows) - (taken is not None)
        self._popped: tuple[int, int] | None = None

    def __len__(self) -> int:
        return self._left

    def without(self, row: int) -> Ranking:
        """Return the ranking as if the last pod had taken this row instead of its own."""
        if self._heap is None:
            return Ranking(self._rows, self._totals, row, self.raw)
        entries = self._heap if self._popped is None else [*self._heap, self._popped]
        positions = np.array([position for _, position in entries if self._rows[position] != row], np.int64)
        return self._subset(positions)

    def _subset(self, positions: Column) -> Ranking:
        raw = {name: column[positions] for name, column in self.raw.items()}
        return Ranking(self._rows[positions], self._totals[positions], None, raw)

    def candidates(self) -> tuple[Column, Mapping[str, Column]]:
        """Return (rows, raw scores) of the remaining nodes, in the heap's order."""
        positions = np.array([position for _, position in self._built()], np.int64)
        return self._rows[positions], {name: column[positions] for name, column in self.raw.items()}

    def pop(self) -> int:
        self._built()
        self._left -= 1
        self._popped = self._pop()
        return int(self._rows[self._popped[1]])

    def _built(self) -> list[tuple[int, int]]:
        if self._heap is None:
            self._heap = list(zip(self._totals.tolist(), range(len(self._rows)), strict=True))
            self._init()
            if self._taken is not None:
                self._drop(self._taken)
        return self._heap

    def _init(self) -> None:
        assert self._heap is not None
        for i in range(len(self._heap) // 2 - 1, -1, -1):
            self._sift_down(i, len(self._heap))

    def _pop(self) -> tuple[int, int]:
        heap = self._heap
        assert heap is not None
        last = len(heap) - 1
        heap[0], heap[last] = heap[last], heap[0]
        self._sift_down(0, last)
        return heap.pop()

    def _drop(self, row: int) -> None:
        """Remove the ranking's own node: the root, unless the pod was finally placed elsewhere."""
        assert self._heap is not None
        if self._rows[self._heap[0][1]] == row:
            self._pop()
            return
        self._heap = [entry for entry in self._heap if self._rows[entry[1]] != row]
        self._init()

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


# ---- since 1.37: the node that the previous pod took is scored again and takes part once more
# ----------------------------

# Why a ranking is unusable, with the labels of the metric scheduler_batch_cache_flushed_total.
PRE_SCORE_ERROR = "prescore_error"
RESCORE_ERROR = "rescore_error"
NORMALIZE_ERROR = "normalize_error"


def rescored(attempt: CycleAttempt, ranking: Ranking, row: int) -> Ranking | str:
    """Return the ranking with this row in it, or why that is impossible.

    The other nodes keep the scores from when the ranking was made. All are normalised again, because the row may now be
    the best or the worst of them.
    """
    left, raw = ranking.candidates()
    rows = np.append(left, row)
    nodes, one = NodeRows(attempt.nodes.table, rows), attempt.nodes.subset(np.array([row]))
    state, pod = attempt.state.clone(), attempt.pod
    state.skip_score = set()
    try:
        attempt.profile.run_pre_score(state, pod, nodes)
    except CycleError:
        return PRE_SCORE_ERROR
    plugins = attempt.profile.score_plan(state).active
    scored = {}
    try:
        for plugin, _ in plugins:
            fresh = guarded(plugin.name, 'running Score plugin "{}": {}', plugin.score, state, pod, one)
            before = raw.get(plugin.name, np.zeros(len(left), np.int64))
            scored[plugin.name] = np.append(before, 0 if fresh is None else fresh[0])
    except CycleError:
        return RESCORE_ERROR
    totals = np.zeros(len(rows), np.int64)
    try:
        for plugin, weight in plugins:
            column = scored[plugin.name].copy()
            if plugin.normalize is not None:
                text = 'running NormalizeScore plugin "{}": {}'
                column = guarded(plugin.name, text, plugin.normalize, state, pod, column, nodes)
            check_range(plugin.name, column)
            totals += column * weight
    except CycleError:
        return NORMALIZE_ERROR
    return Ranking(rows, totals, None, scored)


MAX_AGE_S = 0.5
POD_SKIPPED = "pod_skipped"
POD_INCOMPATIBLE = "pod_incompatible"
POD_NOT_BATCHABLE = "pod_not_batchable"
NODE_MISSING = "node_missing"  # or nodes were added or removed: rows have moved
NODE_NOT_FULL = "node_not_full"
POD_NOMINATED = "pod_nominated"
FILTER_ERROR = "filter_error"
EMPTY_LIST = "empty_list"
EXPIRED = "expired"


def signature(profile: Profile, pod: PodInfo) -> Hashable:
    """Return a value that is equal for pods equal to this profile's plugins; None if the pod cannot be signed."""
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
    """State of one profile about its last placement."""

    signature: Hashable = None
    ranking: Ranking | None = None
    generation: int = -1  # the table's layout that the ranking's rows belong to
    created: float = 0.0
    cycle: int = -2
    row: int = -1  # the row of the last pod

    def hint(
        self,
        signed: Hashable,
        cycle: int,
        generation: int,
        now: Callable[[], float],
        last_node: Callable[[Batch], str],
        *,
        is_nominated: bool = False,
    ) -> tuple[int | None, str]:
        """Return the next best row for an equal pod if the ranking still holds, otherwise why it does not."""
        if self.ranking is None or not len(self.ranking):
            return None, ""
        useless = self._useless(signed, cycle, generation, now, last_node, is_nominated)
        return (None, useless) if useless else (self.ranking.pop(), "")

    def _useless(
        self,
        signed: Hashable,
        cycle: int,
        generation: int,
        now: Callable[[], float],
        last_node: Callable[[Batch], str],
        is_nominated: bool,
    ) -> str:
        """Return why the ranking does not apply to this pod, as a metric label, or "".

        ``last_node`` checks the previous pod's node: it returns why there is no hint, or adds the node to the ranking.
        """
        # The ranking is valid only if nothing but the last placement can have changed since. The metric counts the
        # first reason that contradicts it.
        if cycle not in (self.cycle, self.cycle + 1):  # the pods of a group are tried in one cycle
            return POD_SKIPPED
        if is_nominated:
            return POD_NOMINATED
        if signed is None or signed != self.signature:
            return POD_INCOMPATIBLE
        if now() > self.created + MAX_AGE_S:
            return EXPIRED
        if generation != self.generation:
            return NODE_MISSING
        return last_node(self)

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
        """Store a placement that did not come from a hint; return why the next pod cannot use it, if so."""
        self.cycle, self.row = cycle, row
        self.ranking = ranking if signed is not None and ranking is not None and len(ranking) else None
        if self.ranking is None:
            return POD_NOT_BATCHABLE if has_others else EMPTY_LIST
        self.signature, self.generation, self.created = signed, generation, now()
        return ""

    def keep(self, cycle: int, row: int) -> None:
        """Store that a hint was taken: the ranking continues."""
        self.cycle, self.row = cycle, row

    def move(self, row: int) -> None:
        """Move the last pod to another row than was decided: rank the others again."""
        self.row = row
        if self.ranking is not None:
            self.ranking = self.ranking.without(row)


class Batching:
    """State of all profiles. It is upstream's behaviour, not a cache: it changes which node is chosen.

    An attempt first asks whether batching concerns its profile; with the default plugins it does not.
    """

    def __init__(self, clock: Clock, *, is_enabled: bool, has_extenders: bool, rescores: bool = False) -> None:
        self._clock = clock
        self.rescores = rescores  # whether the last node takes part again if the pod still fits there
        self.is_enabled = is_enabled
        self._can_sign = not has_extenders  # an extender's answers for equal pods may differ
        self._batches: dict[str, Batch] = {}  # by scheduler name
        self._all_sign: dict[str, bool] = {}
        self._cycle = 0

    def begin(self) -> None:
        """Begin an attempt: hints are for the very next one."""
        self._cycle += 1

    def concerns(self, profile: Profile) -> bool:
        """Report whether pods of this profile may have a signature, or an observer counts those without one."""
        return self.is_enabled and (profile.observer is not None or self._signs(profile))

    def _signs(self, profile: Profile) -> bool:
        all_sign = self._all_sign.get(profile.scheduler_name)
        if all_sign is None:
            all_sign = self._all_sign[profile.scheduler_name] = all(plugin.can_sign for plugin in profile.judges)
        return all_sign and self._can_sign

    def sign(self, attempt: CycleAttempt) -> Hashable:
        """Return the pod's signature; None if the pod, a plugin or an extender prevents one."""
        signed = signature(attempt.profile, attempt.pod) if self._signs(attempt.profile) else None
        attempt.stopwatch.point("Sign", SUCCESS)  # upstream also reports this for pods without a signature
        return signed

    def hint(self, attempt: CycleAttempt, signed: Hashable) -> int | None:
        """Return the row to try first, or None."""
        batch = self._batch(attempt.profile)
        if batch.ranking is None:  # always, with the default configuration
            attempt.stopwatch.hint(None, "")
            return None
        generation = attempt.nodes.table.generation
        is_nominated = self.rescores and bool(attempt.pod.pod.status.nominated_node_name)
        row, flushed = batch.hint(
            signed,
            self._cycle,
            generation,
            self._clock.now,
            lambda batch: self._last_node(attempt, batch),
            is_nominated=is_nominated,
        )
        attempt.stopwatch.hint(row, flushed)
        return row

    def _last_node(self, attempt: CycleAttempt, batch: Batch) -> str:
        """Check the previous pod's node; return why it prevents a hint, if so."""
        one = attempt.nodes.subset(np.array([batch.row]))
        try:
            fits = bool(attempt.profile.run_filters(attempt.state, attempt.pod, one).feasible[0])
        except CycleError:
            return FILTER_ERROR if self.rescores else NODE_NOT_FULL
        if not self.rescores:
            return NODE_NOT_FULL if fits else ""
        if not fits:
            return ""
        assert batch.ranking is not None
        started = self._clock.monotonic()
        ranking = rescored(attempt, batch.ranking, batch.row)
        attempt.stopwatch.rescored(self._clock.monotonic() - started)
        if isinstance(ranking, str):
            return ranking
        batch.ranking = ranking
        return ""

    def remember(
        self,
        attempt: CycleAttempt,
        signed: Hashable,
        row: int,
        hint: int | None,
        ranking: Ranking | None,
        num_feasible: int,
    ) -> None:
        """Store that the pod goes to this row, for a hint to the next equal one."""
        attempt.stopwatch.restart()
        batch, flushed = self._batch(attempt.profile), ""
        if hint == row:
            batch.keep(self._cycle, row)
        else:
            generation, has_others = attempt.nodes.table.generation, num_feasible > 1
            flushed = batch.store(signed, self._cycle, generation, self._clock.now, row, ranking, has_others=has_others)
        attempt.stopwatch.stored(None if hint is None else hint == row, flushed)

    def adopt(self, profile: Profile, row: int) -> None:
        """Correct the row of the last pod, which a replay knows from its record."""
        batch = self._batches.get(profile.scheduler_name)
        if batch is not None and batch.row != row:
            batch.move(row)

    def _batch(self, profile: Profile) -> Batch:
        batch = self._batches.get(profile.scheduler_name)
        if batch is None:
            batch = self._batches[profile.scheduler_name] = Batch()
        return batch
