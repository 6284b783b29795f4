"""Opportunistic batching: an equal pod right after takes the next best node of the ranking, without a search.

kube-scheduler does this only where the ranking cannot have changed: the pod
has the same signature and comes in the very next cycle and within half a
second. If it still fits on the node that the pod before it took, that node is
scored again and takes part (until 1.36 there is no hint then). With the
default configuration no pod has a signature, because default spreading looks
at other pods; then this is inert.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from mooring.clock import Clock
from mooring.engine.attempt import Attempt
from mooring.engine.ranking import Ranking
from mooring.engine.rescoring import rescored
from mooring.framework.guarded import CycleError, guarded
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
POD_NOMINATED = "pod_nominated"
FILTER_ERROR = "filter_error"
EMPTY_LIST = "empty_list"
EXPIRED = "expired"


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
        last_node: Callable[[Batch], str],
        *,
        is_nominated: bool = False,
    ) -> tuple[int | None, str]:
        """The next best row for an equal pod if the ranking still holds, and if not, what it has become useless by."""
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
        """Why the ranking is not for this pod, in the metrics' words; nothing if it is.

        ``last_node`` looks at the node of the pod before: it says why there is no hint, or puts it into the ranking.
        """
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
    """What all profiles remember. It is upstream's behaviour, not a cache of ours: it changes which node is taken.

    An attempt asks first whether batching concerns its profile at all; with the default plugins it does not.
    """

    def __init__(self, clock: Clock, *, is_enabled: bool, has_extenders: bool, rescores: bool = False) -> None:
        self._clock = clock
        self.rescores = rescores  # whether the last node takes part again if the pod still fits there
        self.is_enabled = is_enabled
        self._can_sign = not has_extenders  # what extenders do with two equal pods is not known
        self._batches: dict[str, Batch] = {}  # by scheduler name
        self._all_sign: dict[str, bool] = {}
        self._cycle = 0

    def begin(self) -> None:
        """An attempt begins: hints are for the very next one."""
        self._cycle += 1

    def concerns(self, profile: Profile) -> bool:
        """Report whether a pod of this profile may have a signature, or somebody counts that none has."""
        return self.is_enabled and (profile.observer is not None or self._signs(profile))

    def _signs(self, profile: Profile) -> bool:
        all_sign = self._all_sign.get(profile.scheduler_name)
        if all_sign is None:
            all_sign = self._all_sign[profile.scheduler_name] = all(plugin.can_sign for plugin in profile.judges)
        return all_sign and self._can_sign

    def sign(self, attempt: Attempt) -> Hashable:
        """The pod's signature; None if the pod, a plugin or an extender cannot be signed for."""
        signed = signature(attempt.profile, attempt.pod) if self._signs(attempt.profile) else None
        attempt.laps.point("Sign", SUCCESS)  # upstream says so of pods that cannot be signed, too
        return signed

    def hint(self, attempt: Attempt, signed: Hashable) -> int | None:
        """The row to try first, or None."""
        batch = self._batch(attempt.profile)
        if batch.ranking is None:  # always, with the default configuration
            attempt.laps.hint(None, "")
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
        attempt.laps.hint(row, flushed)
        return row

    def _last_node(self, attempt: Attempt, batch: Batch) -> str:
        """Look again at the node of the pod before; returns why there is no hint because of it, if so."""
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
        attempt.laps.rescored(self._clock.monotonic() - started)
        if isinstance(ranking, str):
            return ranking
        batch.ranking = ranking
        return ""

    def remember(
        self, attempt: Attempt, signed: Hashable, row: int, hint: int | None, ranking: Ranking | None, num_feasible: int
    ) -> None:
        """The pod goes to this row: the next one like it may have a hint."""
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
