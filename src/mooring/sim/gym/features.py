"""Input of a learned policy: columns of numbers from 0 to 1 about every node, and a few about the pod.

The environment and the score plugin use the same functions, so that a learned policy works in a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mooring.api.errors import UsageError
from mooring.api.text import hint
from mooring.core.plugins.gpus.columns import GpuColumns, safe_request_of
from mooring.core.plugins.gpus.fragmentation import Fragmentation, TypicalPods, count_kinds, typical_pods
from mooring.core.plugins.gpus.openb import kind_of
from mooring.core.plugins.gpus.requests import WHOLE
from mooring.core.plugins.gpus.scoring import LARGEST_CPU, cpu_left
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import CPU, MEMORY
from mooring.core.state.sharing import EVERYTHING, Cursor
from mooring.sim.gym.world import GymWorld

Matrix = NDArray[np.float32]

NODE_FEATURES = (
    "cpu free",  # relative to the node
    "memory free",  # relative to the node
    "pods free",  # relative to the node
    "cpu free of the largest",  # relative to a node with 128 cores
    "gpu free",  # relative to the node
    "gpu free of the largest",  # relative to a node with 8 GPUs
    "largest gpu free",  # relative to one GPU
    "idle gpus",  # relative to 8
)
POD_FEATURES = ("cpu", "memory", "gpu share", "gpus", "shares a gpu", "priority")
LARGEST_MEMORY, LARGEST_GPUS, LARGEST_PRIORITY = 1 << 40, 8, 1_000_000


def node_features(nodes: NodeRows, base: NodeTable) -> Matrix:
    """[node, feature] of these rows; ``base`` is the table of the plugin's own cluster."""
    if nodes.table is base:
        kept = _KEPT.get(base)
        if kept is None:
            kept = _KEPT[base] = NodeFeatures(base)
        matrix = kept.matrix(base)
        return matrix.copy() if nodes.index is None else matrix[nodes.index]
    gpus = GpuColumns.of(base).on(nodes, base)
    rows = range(len(nodes)) if nodes.index is None else nodes.index.tolist()
    each = zip(rows, gpus.left.tolist(), gpus.capacity.tolist(), strict=True)
    found = [_features(nodes.table, *node) for node in each]
    return np.array(found, np.float32).reshape(len(nodes), len(NODE_FEATURES))


class NodeFeatures:
    """The features of all nodes of a table, recomputed where a node or its pods have changed."""

    def __init__(self, table: NodeTable) -> None:
        self._matrix: Matrix = np.zeros((0, len(NODE_FEATURES)), np.float32)
        self._generation = -1  # of the table that the rows belong to
        self._cursors: tuple[Cursor[int], ...] = (table.node_log.cursor(), table.pod_log.cursor())

    def matrix(self, table: NodeTable) -> Matrix:
        """Return [node, feature], to be read only."""
        changes = [cursor.take() for cursor in self._cursors]
        gpus = GpuColumns.of(table)
        rows: Iterable[int]
        if table.generation != self._generation or EVERYTHING in changes:
            self._matrix = np.zeros((len(table), len(NODE_FEATURES)), np.float32)
            self._generation = table.generation
            rows = range(len(table))
        else:
            rows = {row for each in changes if each is not EVERYTHING for row in each}
        for row in rows:
            self._matrix[row] = _features(table, row, gpus.left[row].tolist(), int(gpus.capacity[row]))
        return self._matrix


_KEPT: WeakKeyDictionary[NodeTable, NodeFeatures] = WeakKeyDictionary()


def _features(table: NodeTable, row: int, left: list[int], gpus: int) -> tuple[float, ...]:
    """Return the features of one node with these amounts left on its GPUs, clipped to 0 and 1."""
    cpus, memory = table.allocatable[:2, row].tolist()
    cpus_used, memory_used = table.requested[:2, row].tolist()
    pods = int(table.allowed_pods[row])
    total = sum(left)
    return (
        _part(cpus - cpus_used, cpus),
        _part(memory - memory_used, memory),
        _part(pods - int(table.pod_count[row]), pods),
        _part(cpus - cpus_used, LARGEST_CPU),
        _part(total, gpus * WHOLE),
        _part(total, LARGEST_GPUS * WHOLE),
        _part(max(left, default=0), WHOLE),
        _part(left.count(WHOLE), LARGEST_GPUS),
    )


def _part(amount: int, whole: int) -> float:
    return 0.0 if amount <= 0 or whole <= 0 else 1.0 if amount >= whole else amount / whole


def pod_features(pod: PodInfo) -> Matrix:
    """[feature]"""
    request = safe_request_of(pod)
    requests = pod.shape.requests
    found = (
        _part(requests.get(CPU, 0), LARGEST_CPU),
        _part(requests.get(MEMORY, 0), LARGEST_MEMORY),
        _part(request.milli, WHOLE),
        _part(request.count, LARGEST_GPUS),
        float(request.is_share),
        _part(pod.priority, LARGEST_PRIORITY),
    )
    return np.array(found, np.float32)


# --------------------------------------------------------------------------------------------------------------------
# Rewards: named terms of which an environment adds up those that it is given weights for.
#
# | term | is, for one step |
# |---|---|
# | allocation | what the placed pod asks for, in percent of the cluster: of its GPUs if it has any, else of its CPU |
# | fragmentation | how much less of the cluster's GPUs is fragmented for the pods of the episode, in percent |
# | waiting | minus the hours that pods have waited since the last step |
# | preemption | minus the number of pods that were evicted since the last step |
# | spread | how much more even the nodes' use of CPU is: minus the change of its standard deviation, in percent |
# | cost | minus the hours since the last step, times the nodes with pods on them, in percent of all nodes |

HOUR_S = 3600.0
Level = Callable[["Rewards", GymWorld], float]


class Rewards:
    """The reward of each step of one episode: the change of every level, times its weight."""

    def __init__(self, weights: Mapping[str, float], world: GymWorld) -> None:
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

    def on(self, world: GymWorld) -> Rewards:
        """Return the same for a clone of the world."""
        other = copy(self)
        other._fragmented = None if self._fragmented is None else self._fragmented.on(world.cluster)
        return other

    def placed(self, world: GymWorld) -> None:
        """Count the pod that was just placed."""
        assert world.pod is not None
        gpu = self._capacity["gpu"]
        wanted = safe_request_of(world.pod).total if gpu else world.pod.shape.requests.get(CPU, 0)
        self.allocated += 100 * wanted / (gpu or self._capacity["cpu"])

    def step(self, world: GymWorld) -> tuple[float, dict[str, float]]:
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

    def _now(self, world: GymWorld) -> dict[str, float]:
        return {name: LEVELS[name](self, world) for name in self._weights}

    def fragmentation(self, world: GymWorld) -> float:
        if self._fragmented is None:
            return 0.0
        return -100 * self._fragmented.milli(world.cluster) / self._capacity["gpu"]

    def spread(self, world: GymWorld) -> float:
        nodes = world.cluster.nodes()
        return -100 * float(np.std(nodes.requested(CPU) / np.maximum(nodes.allocatable(CPU), 1))) if len(nodes) else 0.0

    def cost(self, world: GymWorld) -> float:
        return -self._busy_s / HOUR_S


class FragmentedGpus:
    """The fragmentation of every node, recomputed where a node or its pods have changed."""

    def __init__(self, typical: TypicalPods, cluster: ClusterState) -> None:
        self._typical = typical
        self._measure = Fragmentation(typical, ())
        self._token: object = None
        self._values: NDArray[np.float64] = np.zeros(0)  # [node], milli
        self._cursors = _cursors(cluster)

    def on(self, cluster: ClusterState) -> FragmentedGpus:
        """Return the same for a fork of the cluster, which has its own logs."""
        other = copy(self)
        other._token, other._cursors = None, _cursors(cluster)
        return other

    def milli(self, cluster: ClusterState) -> float:
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


def _cursors(cluster: ClusterState) -> tuple[Cursor[int], ...]:
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
