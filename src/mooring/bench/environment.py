"""How many steps per second the environment for learned policies makes, on one core."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mooring.sim.gym.environment import SchedulingEnv
from mooring.sim.gym.world import generated

CONFIG: Mapping[str, Any] = {
    "profiles": [
        {
            "plugins": {
                "multiPoint": {
                    "disabled": [{"name": "*"}],
                    "enabled": [
                        {"name": name} for name in ("PrioritySort", "NodeResourcesFit", "GpuShare", "DefaultBinder")
                    ],
                }
            }
        }
    ]
}
"""The profile of the study of GPU fragmentation: resources and GPUs."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Steps of whole episodes: each has an observation, a mask, a reward and a random allowed action."""

    nodes: int
    steps: int
    steps_per_s: float  # of CPU time
    reset_ms: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(nodes: int, steps: int, seed: int = 1) -> Measurement:
    """Play episodes up to this number of steps. Pods end, so that the cluster is about half full."""
    episodes = generated(nodes=nodes, pods=min(steps, 8 * nodes), load=100.0, run_s=2.0 * nodes)
    env, rng = SchedulingEnv(episodes, config=CONFIG), np.random.default_rng(seed)
    made, in_steps, resets, in_resets = 0, 0.0, 0, 0.0
    while made < steps:
        started = time.process_time()
        _, info = env.reset(seed=seed + resets)
        in_resets += time.process_time() - started
        resets += 1
        started = time.process_time()
        is_over = False
        while not is_over and made < steps:
            allowed = np.flatnonzero(info["action_mask"])
            _, _, is_over, _, info = env.step(allowed[rng.integers(len(allowed))])
            made += 1
        in_steps += time.process_time() - started
    return Measurement(nodes, made, round(made / in_steps, 1), round(1000 * in_resets / resets, 1))
