"""Rewards: named terms of which an environment adds up those that it is given weights for.

| term | is, for one step |
|---|---|
| allocation | what the placed pod asks for, in percent of the cluster: of its GPUs if it has any, else of its CPU |
| fragmentation | how much less of the cluster's GPUs is fragmented for the pods of the episode, in percent |
| waiting | minus the hours that pods have waited since the last step |
| preemption | minus the number of pods that were evicted since the last step |
| spread | how much more even the nodes' use of CPU is: minus the change of its standard deviation, in percent |
| cost | minus the hours since the last step, times the nodes with pods on them, in percent of all nodes |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy

import numpy as np
from numpy.typing import NDArray

from mooring.errors import UsageError
from mooring.gpus.columns import GpuColumns, safe_request_of
from mooring.gpus.fragmentation import Fragmentation, TypicalPods, count_kinds, typical_pods
from mooring.gpus.requests import WHOLE
from mooring.gpus.scoring import cpu_left
from mooring.gpus.typical import kind_of
from mooring.gym.world import World
from mooring.meant import hint
from mooring.state.change_log import EVERYTHING, Cursor
from mooring.state.cluster import Cluster
from mooring.state.requests import CPU

HOUR_S = 3600.0
Level = Callable[["Rewards", World], float]


class Rewards:
    """The reward of each step of one episode: the change of every level, times its weight."""

    def __init__(self, weights: Mapping[str, float], world: World) -> None:
        unknown = next((name for name in weights if name not in LEVELS), None)
        if unknown is not None:
            raise UsageError(f"reward: no term {unknown!r}; {hint(unknown, LEVELS)}")
        self._weights = {name: float(weight) for name, weight in weights.items() if weight}
        self.allocated = 0.0  # percent
        self._busy_s = 0.0
        self._then_s = world.clock.now()
        nodes = world.cluster.nodes()
        self._capacity = {
            "cpu": max(1, int(nodes.allocatable(CPU).sum())),
            "gpu": int(GpuColumns.of(world.cluster.table).capacity.sum()) * WHOLE,
        }
        self._fragmented: FragmentedGpus | None = None
        if "fragmentation" in self._weights and self._capacity["gpu"]:
            typical = typical_pods(count_kinds(kind_of(pod) for pod in world.pods()))
            self._fragmented = FragmentedGpus(typical, world.cluster)
        self._levels = self._now(world)

    def on(self, world: World) -> Rewards:
        """The same for a clone of the world."""
        other = copy(self)
        other._fragmented = None if self._fragmented is None else self._fragmented.on(world.cluster)
        return other

    def placed(self, world: World) -> None:
        """Count the pod that has just been placed."""
        assert world.pod is not None
        gpu = self._capacity["gpu"]
        wanted = safe_request_of(world.pod).total if gpu else world.pod.shape.requests.get(CPU, 0)
        self.allocated += 100 * wanted / (gpu or self._capacity["cpu"])

    def step(self, world: World) -> tuple[float, dict[str, float]]:
        """(the reward since the last call, its terms before weights)"""
        if "cost" in self._weights:
            now, nodes = world.clock.now(), world.cluster.nodes()
            busy = 100 * float((nodes.pod_count > 0).mean()) if len(nodes) else 0.0
            self._busy_s += busy * (now - self._then_s)
            self._then_s = now
        levels = self._now(world)
        terms = {name: level - self._levels[name] for name, level in levels.items()}
        self._levels = levels
        return sum(self._weights[name] * term for name, term in terms.items()), terms

    def _now(self, world: World) -> dict[str, float]:
        return {name: LEVELS[name](self, world) for name in self._weights}

    def fragmentation(self, world: World) -> float:
        if self._fragmented is None:
            return 0.0
        return -100 * self._fragmented.milli(world.cluster) / self._capacity["gpu"]

    def spread(self, world: World) -> float:
        nodes = world.cluster.nodes()
        return -100 * float(np.std(nodes.requested(CPU) / np.maximum(nodes.allocatable(CPU), 1))) if len(nodes) else 0.0

    def cost(self, world: World) -> float:
        return -self._busy_s / HOUR_S


class FragmentedGpus:
    """The fragmentation of every node, computed again where a node or its pods have changed."""

    def __init__(self, typical: TypicalPods, cluster: Cluster) -> None:
        self._typical = typical
        self._measure = Fragmentation(typical, ())
        self._token: object = None
        self._values: NDArray[np.float64] = np.zeros(0)  # [node], milli
        self._cursors = _cursors(cluster)

    def on(self, cluster: Cluster) -> FragmentedGpus:
        """The same for a fork of the cluster, which has logs of its own."""
        other = copy(self)
        other._token, other._cursors = None, _cursors(cluster)
        return other

    def milli(self, cluster: Cluster) -> float:
        nodes = cluster.nodes()
        gpus = GpuColumns.of(nodes.table)
        changes = [cursor.take() for cursor in self._cursors]
        token = (nodes.table.generation, tuple(gpus.models))
        if token != self._token or EVERYTHING in changes:
            self._measure, self._token = Fragmentation(self._typical, gpus.models), token
            self._values = self._measure.of(gpus.left, cpu_left(nodes), gpus.model)
        else:
            cpu = cpu_left(nodes)
            for row in {row for each in changes if each is not EVERYTHING for row in each}:
                left = gpus.left[row].tolist()
                self._values[row] = self._measure.of_one(left, int(cpu[row]), int(gpus.model[row]))
        return float(self._values.sum())


def _cursors(cluster: Cluster) -> tuple[Cursor[int], ...]:
    return cluster.table.node_log.cursor(), cluster.table.pod_log.cursor()


LEVELS: Mapping[str, Level] = {
    "allocation": lambda rewards, world: rewards.allocated,
    "fragmentation": Rewards.fragmentation,
    "waiting": lambda rewards, world: -world.waited_s / HOUR_S,
    "preemption": lambda rewards, world: -float(world.evicted),
    "spread": Rewards.spread,
    "cost": Rewards.cost,
}
"""A reward is the change of a level from one step to the next."""
