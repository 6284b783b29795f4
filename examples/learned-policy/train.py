"""Learn a placement policy with nothing but NumPy, and compare it with policies that people wrote.

    python examples/learned-policy/train.py --policy policy.json

The method is cross-entropy search: draw weights, play episodes, keep the best, draw around them again.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from mooring.sim.gym import LinearPolicy, SchedulingEnv, generated
from mooring.sim.gym.policy import SIZE, LearnedScore
from mooring.sim.gym.world import Episode

FILTERS = ("PrioritySort", "NodeResourcesFit", "GpuShare", "DefaultBinder")
EPISODES = generated(nodes=24, pods=260, gpus=4, cores=44, load=1.3)
TRAINED_ON, TESTED_ON = range(3), range(100, 110)


def profile(*plugins: str, args: dict[str, Any] | None = None) -> dict[str, Any]:
    """The filters of the example, and these score plugins."""
    enabled = {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in (*FILTERS, *plugins)]}
    chosen = {"multiPoint": enabled, "score": {"disabled": [{"name": "NodeResourcesFit"}]}}
    return {"profiles": [{"plugins": chosen, "pluginConfig": [{"name": plugins[0], "args": args}] if args else []}]}


DEFAULT = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "GpuShare"}]}}}]}


def allocated(env: SchedulingEnv, policy: LinearPolicy, seed: int) -> float:
    """The GPU allocation at the end of an episode, in percent."""
    seen, info = env.reset(seed=seed)
    is_over = env.world.pod is None
    while not is_over:
        seen, _, is_over, _, info = env.step(policy.action(seen, info["action_mask"]))
    return float(info["allocated"])


def allocated_by(episode: Episode, config: dict[str, Any], *plugins: type) -> float:
    """The same if the score plugins of a profile choose: as the live scheduler does."""
    env = SchedulingEnv(lambda rng: episode, config=config, plugins=plugins)
    _, info = env.reset()
    is_over = env.world.pod is None
    while not is_over:
        _, _, is_over, _, info = env.step(env.world.best_row())
    return float(info["allocated"])


def train(generations: int, population: int) -> LinearPolicy:
    env = SchedulingEnv(EPISODES, config=profile("GpuBestFit"))
    rng = np.random.default_rng(0)
    mean, deviation = np.zeros(SIZE), np.ones(SIZE)
    for generation in range(generations):
        drawn = mean + deviation * rng.normal(size=(population, SIZE))
        drawn[0] = mean
        scores = [np.mean([allocated(env, LinearPolicy(each), seed) for seed in TRAINED_ON]) for each in drawn]
        best = drawn[np.argsort(scores)[-max(2, population // 5) :]]
        mean, deviation = best.mean(axis=0), best.std(axis=0) + 0.3 / (1 + generation)
        print(f"generation {generation + 1}: best {max(scores):.2f} %, mean {np.mean(scores):.2f} %", flush=True)
    return LinearPolicy(mean)


def compare(policy_file: str) -> None:
    """Play the same episodes, which nobody was trained on, with every policy."""
    drawn = [EPISODES(np.random.default_rng(seed)) for seed in TESTED_ON]
    learned = profile("LearnedScore", args={"policy": policy_file})
    rows: dict[str, tuple[dict[str, Any], tuple[type, ...]]] = {
        "kube-scheduler's default": (DEFAULT, ()),
        "BestFit": (profile("GpuBestFit"), ()),
        "FGD": (profile("GpuFragmentation", args={"tieBreak": "FirstByName"}), ()),
        "learned": (learned, (LearnedScore,)),
    }
    print(f"\nGPU allocation on {len(drawn)} other episodes, in percent")
    for name, (config, plugins) in rows.items():
        found = [allocated_by(episode, config, *plugins) for episode in drawn]
        print(f"{name:<26}{np.mean(found):6.2f} ± {np.std(found, ddof=1):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--policy", default="policy.json", help="where to write the policy")
    given = parser.parse_args()
    train(given.generations, given.population).save(given.policy)
    compare(given.policy)


if __name__ == "__main__":
    main()
