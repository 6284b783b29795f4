"""A gymnasium environment: one step places one pod.

    from mooring.sim.gym import SchedulingEnv, generated

    env = SchedulingEnv(generated(nodes=100), reward={"allocation": 1, "fragmentation": 0.1})
    seen, info = env.reset(seed=1)
    while True:
        action = rng.choice(np.flatnonzero(env.action_masks()))
        seen, reward, terminated, truncated, info = env.step(action)
        if terminated:
            break

The mask is the result of the profile's real filters. An action that the mask does not allow leaves the pod without a
node for good. Pods for which no node is feasible wait by themselves: they are no steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy, deepcopy
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mooring.api.errors import UsageError
from mooring.core.engine.order import heap_winner
from mooring.core.engine.search import choose
from mooring.sim.gym.features import NODE_FEATURES, POD_FEATURES, Rewards, node_features, pod_features
from mooring.sim.gym.placing import DEFAULT_REWARD, GPU_CONFIG
from mooring.sim.gym.world import Episode, Episodes, GymWorld

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
except ImportError:
    raise ImportError("mooring.sim.gym needs gymnasium, which is not installed: pip install 'mooring[gym]'") from None

Observation = dict[str, NDArray[np.float32]]
Mask = NDArray[np.int8]


class SchedulingEnv(gymnasium.Env[Observation, Any]):
    """Places the pods of an episode one after another.

    ``action`` is ``node``: the number of a node, of ``max_nodes`` with those that do not exist masked; or ``weights``:
    a weight from 0 to 1 for each score plugin of the profile, which then choose the node. ``plugins`` are classes
    beside the in-tree ones.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        episodes: Episodes,
        *,
        config: Mapping[str, Any] | None = GPU_CONFIG,
        plugins: Iterable[type] = (),
        action: Literal["node", "weights"] = "node",
        reward: Mapping[str, float] = DEFAULT_REWARD,
        max_nodes: int | None = None,
    ) -> None:
        if action not in ("node", "weights"):
            raise UsageError(f"action: found {action!r}; expected node or weights")
        self._episodes, self._action, self._reward = episodes, action, dict(reward)
        self._profile = config, tuple(plugins)
        first = GymWorld(episodes(np.random.default_rng(0)), *self._profile)
        Rewards(reward, first)  # reports a term that does not exist now, not in the first step
        self.max_nodes = max_nodes or len(first.cluster.nodes())
        self.score_plugins = [plugin.name for plugin, _ in first.profile.score]
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            {
                "nodes": spaces.Box(0.0, 1.0, (self.max_nodes, len(NODE_FEATURES)), np.float32),
                "pod": spaces.Box(0.0, 1.0, (len(POD_FEATURES),), np.float32),
            }
        )
        self.action_space = (
            spaces.Discrete(self.max_nodes)
            if action == "node"
            else spaces.Box(0.0, 1.0, (len(self.score_plugins),), np.float32)
        )
        self._world: GymWorld | None = None
        self._rewards: Rewards | None = None

    # ---- gymnasium's own -----------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw another episode. ``options={"episode": …}`` plays the given one."""
        super().reset(seed=seed)
        given = (options or {}).get("episode")
        episode = given if isinstance(given, Episode) else self._episodes(self.np_random)
        self._world = world = GymWorld(episode, *self._profile)
        if len(world.cluster.nodes()) > self.max_nodes:
            raise UsageError(f"the episode has {len(world.cluster.nodes())} nodes; max_nodes is {self.max_nodes}")
        self._rewards = Rewards(self._reward, world)
        return self._seen(), self._info({})

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        world, rewards = self._running()
        if world.pod is None:
            raise UsageError("the episode is over: call reset")
        row = self._row(action)
        if row is None:
            world.drop()
        elif world.place(row):
            rewards.placed(world)
        world.advance()
        reward, terms = rewards.step(world)
        return self._seen(), float(reward), world.pod is None, False, self._info(terms)

    # ---- for learners ---------------------------------------------------------------------------------------------

    def action_masks(self) -> NDArray[np.bool_]:
        """[node]: whether the filters let the pod run there; at the end of an episode every action is allowed."""
        world, _ = self._running()
        if world.pod is None:
            return np.ones(self.max_nodes, np.bool_)
        mask = np.zeros(self.max_nodes, np.bool_)
        mask[world.rows] = True
        return mask

    def clone(self) -> SchedulingEnv:
        """Return an independent copy of the environment, for tree search."""
        other = copy(self)
        if self._world is not None:
            assert self._rewards is not None
            other._world = self._world.clone()
            other._rewards = self._rewards.on(other._world)
        other._np_random = deepcopy(self._np_random)
        return other

    @property
    def world(self) -> GymWorld:
        """Return the cluster, the pod to be placed and its feasible nodes, for policies that use more than numbers."""
        return self._running()[0]

    def _running(self) -> tuple[GymWorld, Rewards]:
        if self._world is None or self._rewards is None:
            raise UsageError("call reset first")
        return self._world, self._rewards

    def _row(self, action: Any) -> int | None:
        """Return the row that the action selects, or None if the pod cannot go there."""
        world, _ = self._running()
        rows = world.rows
        if self._action == "node":
            return int(action) if bool((rows == int(action)).any()) else None
        if len(rows) == 1:
            return int(rows[0])
        assert world.offer is not None
        attempt, result = world.offer
        attempt.detail = True
        scores = choose(attempt, result, world.session.engine.search.kept_for(world.profile), None).scores.by_plugin
        total = np.zeros(len(rows))
        for (plugin, weight), wanted in zip(world.profile.score, np.asarray(action, np.float64).tolist(), strict=True):
            if plugin.name in scores:
                total += scores[plugin.name] / weight * wanted
        return int(rows[heap_winner(np.round(total * 1000).astype(np.int64))])

    def _seen(self) -> Observation:
        world, _ = self._running()
        nodes = node_features(world.cluster.nodes(), world.cluster.table)  # a copy: the caller owns it
        if len(nodes) < self.max_nodes:
            nodes = np.concatenate((nodes, np.zeros((self.max_nodes - len(nodes), len(NODE_FEATURES)), np.float32)))
        pod = np.zeros(len(POD_FEATURES), np.float32) if world.pod is None else pod_features(world.pod)
        return {"nodes": nodes, "pod": pod}

    def _info(self, terms: Mapping[str, float]) -> dict[str, Any]:
        world, rewards = self._running()
        return {
            "action_mask": self.action_masks().view(np.int8),
            "placed": world.placed,
            "refused": world.refused,
            "evicted": world.evicted,
            "allocated": rewards.allocated,
            "reward_terms": dict(terms),
        }


def vector_env(make: Callable[[], SchedulingEnv], count: int) -> SyncVectorEnv:
    """Return several environments as one. After its episode ends, an environment begins the next one in the same step.

    ``metadata["autoreset_mode"]`` says so.
    """
    return SyncVectorEnv([make] * count, autoreset_mode=AutoresetMode.SAME_STEP)
