"""The environment for agents that read names and amounts instead of vectors: its observations and answers.

It needs only mooring. :mod:`mooring.sim.gym.openenv` serves it as an OpenEnv environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mooring.api.errors import UsageError
from mooring.core.plugins.gpus.columns import GpuColumns, safe_request_of
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import CPU, MEMORY, written
from mooring.sim.gym.features import Rewards
from mooring.sim.gym.world import Episode, Episodes, GymWorld

DEFAULT_REWARD: Mapping[str, float] = {"allocation": 1.0}
GPU_CONFIG: Mapping[str, Any] = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "GpuShare"}]}}}]}
MOST_NODES = 50  # number of nodes that are shown with their amounts


@dataclass(slots=True)
class Turn:
    """The agent's observation before a choice: the pod, and the nodes that pass the profile's filters."""

    pod: str = ""  # namespace/name; empty at the end of the episode
    requests: dict[str, str] = field(default_factory=dict)
    gpu_milli: int = 0  # thousandths of GPUs, in total
    priority: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    feasible: list[str] = field(default_factory=list)  # nodes to choose from
    nodes: list[dict[str, Any]] = field(default_factory=list)  # the first of them: what is free, and how many pods run
    suggested: str = ""  # the node that the profile's own score plugins choose
    message: str = ""  # about the last choice
    placed: int = 0
    refused: int = 0
    evicted: int = 0
    allocated: float = 0.0  # percent of the cluster's GPUs, or of its CPU if it has none

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class PlacementGame:
    """Plays episodes: each turn is a pod, the answer is the name of a node, or nothing to leave the pod without one."""

    def __init__(
        self,
        episodes: Episodes,
        *,
        config: Mapping[str, Any] | None = GPU_CONFIG,
        plugins: Iterable[type] = (),
        reward: Mapping[str, float] = DEFAULT_REWARD,
    ) -> None:
        self._episodes, self._reward = episodes, dict(reward)
        self._profile = config, tuple(plugins)
        self._world: GymWorld | None = None
        self._rewards: Rewards | None = None

    def reset(self, seed: int | None = None, episode: Episode | None = None) -> Turn:
        """Begin an episode; the same seed gives the same episode."""
        drawn = episode or self._episodes(np.random.default_rng(seed))
        self._world = GymWorld(drawn, *self._profile)
        self._rewards = Rewards(self._reward, self._world)
        return self._turn("")

    def step(self, node: str) -> tuple[Turn, float, bool]:
        """Place the pod; if the node is not feasible, the pod stays without one for good. Return turn, reward and the
        end.
        """
        world, rewards = self._running()
        if world.pod is None:
            raise UsageError("the episode is over: call reset")
        row, pod = self._row(world, node), world.pod.pod.key
        if row is None:
            world.drop()
            said = f"{pod} is left without a node" + (f": {node} is not feasible" if node else "")
        elif world.place(row):
            rewards.placed(world)
            said = f"{pod} runs on {node}"
        else:
            said = f"{pod} is left without a node: a plugin keeps it off {node}"
        world.advance()
        reward, _ = rewards.step(world)
        return self._turn(said), float(reward), world.pod is None

    @property
    def world(self) -> GymWorld:
        return self._running()[0]

    def _running(self) -> tuple[GymWorld, Rewards]:
        if self._world is None or self._rewards is None:
            raise UsageError("call reset first")
        return self._world, self._rewards

    @staticmethod
    def _row(world: GymWorld, node: str) -> int | None:
        rows = (int(row) for row in world.rows if world.cluster.table.infos[int(row)].name == node)
        return next(rows, None)

    def _turn(self, message: str) -> Turn:
        world, rewards = self._running()
        turn = Turn(message=message, placed=world.placed, refused=world.refused, evicted=world.evicted)
        turn.allocated = round(rewards.allocated, 3)
        if world.pod is None:
            return turn
        info, infos = world.pod, world.cluster.table.infos
        turn.pod, turn.priority, turn.labels = info.pod.key, info.priority, dict(info.pod.metadata.labels)
        turn.requests = _requests(info)
        turn.gpu_milli = safe_request_of(info).total
        turn.feasible = [infos[int(row)].name for row in world.rows]
        turn.nodes = _shown(world, world.cluster.nodes().subset(world.rows[:MOST_NODES]))
        turn.suggested = infos[world.best_row()].name
        return turn


def _requests(info: PodInfo) -> dict[str, str]:
    return {name: written(name, amount) for name, amount in info.shape.requests.items() if amount}


def _shown(world: GymWorld, nodes: NodeRows) -> list[dict[str, Any]]:
    gpus = GpuColumns.of(world.cluster.table)
    cpu = nodes.allocatable(CPU) - nodes.requested(CPU)
    memory = nodes.allocatable(MEMORY) - nodes.requested(MEMORY)
    return [
        {
            "name": info.name,
            "freeCpu": written(CPU, int(cpu[i])),
            "freeMemory": written(MEMORY, int(memory[i])),
            "freeGpuMilli": gpus.left[info.row].tolist()[: int(gpus.capacity[info.row])],
            "pods": len(info.pods),
        }
        for i, info in enumerate(nodes.infos)
    ]
