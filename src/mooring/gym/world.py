"""The cluster of an episode: pods come, wait, are placed by somebody else, run and end, in the episode's own time.

Filters, scores, reservations and preemption are those of a profile of the ordinary engine. A pod that fits nowhere may
evict others, as the profile's PostFilter says; otherwise it waits until a pod ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.clock import VirtualClock
from mooring.config.load import config_from_dict
from mooring.engine.attempt import Attempt
from mooring.engine.build import Built, build
from mooring.engine.choose import choose
from mooring.engine.in_tree import in_tree_registry
from mooring.engine.search import SearchResult
from mooring.framework.guarded import CycleError
from mooring.framework.runtime import Profile
from mooring.gym.episodes import Episode
from mooring.importing.imported import Arrival
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo

Offer = tuple[Attempt, SearchResult]
NO_ROWS: NDArray[np.int64] = np.zeros(0, np.int64)


class World:
    """``pod`` is the one to be placed next, ``rows`` are its feasible nodes; None at the end."""

    def __init__(self, episode: Episode, config: Mapping[str, Any] | None, plugins: Iterable[type] = ()) -> None:
        """``plugins`` are classes beside the in-tree ones."""
        self.clock = VirtualClock()
        self.cluster = Cluster()
        for obj in episode.objects:
            self.cluster.put(obj)
        registry = in_tree_registry()
        for plugin in plugins:
            registry.register(plugin)
        self.built: Built = build(config_from_dict(config), self.cluster, clock=self.clock, registry=registry)
        self.profile: Profile = next(iter(self.built.profiles.values()))
        self.pod: PodInfo | None = None
        self.offer: Offer | None = None
        self.placed = self.refused = self.evicted = 0
        self.waited_s = 0.0  # the time that all pods have waited, so far
        self._arrivals = episode.arrivals
        self._next = 0  # of the arrivals
        self._arrival: Arrival | None = None  # of the pod to be placed
        self._ends: list[tuple[float, int, str]] = []  # (time, number, uid)
        self._waiting: list[Arrival] = []
        self._again: list[Arrival] = []  # of those that wait, to be tried now, the last first
        self._infos: dict[str, PodInfo] = {each.pod.uid: self.cluster.info(each.pod) for each in episode.arrivals}
        self._come: set[str] = set()  # uids of those that have come
        self.advance()

    # ---- the pod to be placed ------------------------------------------------------------------------------------

    @property
    def rows(self) -> NDArray[np.int64]:
        return NO_ROWS if self.offer is None else self.offer[1].rows

    def pods(self) -> Iterable[PodInfo]:
        """The pods of the episode, also those that have not come yet."""
        return self._infos.values()

    def best_row(self) -> int:
        """The node that the profile's own score plugins choose."""
        assert self.offer is not None
        attempt, result = self.offer
        if len(result.rows) == 1:
            return int(result.rows[0])
        kept = self.built.engine.search.kept_for(self.profile)
        return int(result.rows[choose(attempt, result, kept, None).position])

    def place(self, row: int) -> bool:
        """Place the pod; false if a plugin keeps it off the node at the last moment."""
        assert self.pod is not None and self._arrival is not None and self.offer is not None
        node, state = self.cluster.table.infos[row].name, self.offer[0].state
        assumed = self.cluster.assume(self.pod, node)
        if not self.profile.run_reserve(state, assumed, node).is_success:
            self.profile.run_unreserve(state, assumed, node)
            self.cluster.forget(assumed.uid)
            self.drop()
            return False
        self.placed += 1
        if self._arrival.run_s is not None:
            heapq.heappush(self._ends, (self.clock.now() + self._arrival.run_s, self.placed, assumed.uid))
        return True

    def drop(self) -> None:
        """Leave the pod without a node for good."""
        self.refused += 1

    # ---- time ----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Let time pass until there is a pod with a feasible node, or until nothing is left to happen."""
        self.pod = self.offer = None
        while True:
            if self._again:
                arrival, is_new = self._again.pop(), False
            elif self._next_is_arrival():
                arrival, is_new = self._arrivals[self._next], True
                self._next += 1
                self._pass(arrival.at_s)
            elif self._ends:
                self._end_next()
                continue
            else:
                return
            if self._try(arrival, is_new):
                return

    def _next_is_arrival(self) -> bool:
        if self._next >= len(self._arrivals):
            return False
        return not self._ends or self._arrivals[self._next].at_s < self._ends[0][0]

    def _pass(self, until_s: float) -> None:
        self.waited_s += max(0.0, until_s - self.clock.now()) * len(self._waiting)
        self.clock.advance_to(until_s)

    def _end_next(self) -> None:
        at_s, _, uid = heapq.heappop(self._ends)
        self._pass(at_s)
        self.cluster.remove_pod(uid)
        self._again, self._waiting = self._waiting[::-1], []

    def _try(self, arrival: Arrival, is_new: bool) -> bool:
        info = self._info(arrival.pod)
        offer = self._look(info)
        if offer is None and info.priority > 0 and self._make_room(info):
            offer = self._look(info)
        if offer is None:
            self._waiting.append(arrival)
            return False
        self.pod, self.offer, self._arrival = info, offer, arrival
        return True

    def _info(self, pod: Pod) -> PodInfo:
        info = self._infos[pod.uid]
        if pod.uid in self._come and self.cluster.pod(pod.uid) is not None:  # drawn once more: another pod like it
            again = copy(pod)
            again.metadata = copy(pod.metadata)
            again.metadata.uid = f"{pod.uid}/{self._next}"
            info = PodInfo(again, info.shape, info.cls)
        self._come.add(pod.uid)
        return info

    def _look(self, info: PodInfo) -> Offer | None:
        try:
            offer = self.built.engine.look(info, self.profile)
        except CycleError:
            return None
        return offer if len(offer[1].rows) else None

    def _make_room(self, info: PodInfo) -> bool:
        """Evict the victims that preemption finds; they do not come again."""
        victims = self.built.engine.decide(info, self.profile, detail=False).victims
        for victim in victims:
            self.cluster.remove_pod(victim.uid)
        self.evicted += len(victims)
        return bool(victims)

    # ---- copies --------------------------------------------------------------------------------------------------

    def clone(self) -> World:
        """A world that goes on from here by itself. The two share what neither has changed."""
        other = copy(self)
        other.cluster = self.cluster.fork()
        other.clock = VirtualClock(self.clock.now())
        other.built = self.built.on(other.cluster)
        other.built.engine.clock = other.clock
        other.profile = other.built.profiles[self.profile.scheduler_name]
        other._ends, other._waiting, other._again = list(self._ends), list(self._waiting), list(self._again)
        other._come = set(self._come)
        other.offer = None if self.pod is None else other._look(self.pod)
        return other
