"""How often a better placement exists when the default scheduler leaves pods pending, and how soon it is found.

    python tools/optimise_grid.py --seeds 5 --limits 1 10 60

Clusters of equal nodes get pods of random sizes and three priorities up to a share of their CPU. The pods come in the
order of their priority and are placed as kube-scheduler places them. Where some stay pending, ``optimise`` looks for
a placement of more of them, by moving others.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

import mooring
from mooring.ask.optimise import PENDING, optimise_with
from mooring.core.cluster import Cluster
from mooring.testing import make_node, make_pod

OWNER = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}]
}
NODES = (4, 8, 16, 32)
LOADS = (0.90, 0.95, 1.00, 1.05)
PODS_PER_NODE = 8
MILLICPU = 8_000


def cluster_of(nodes: int, load: float, seed: int) -> Cluster:
    """A cluster after the default scheduler has placed what it could."""
    chance = random.Random(f"{nodes} {load} {seed}")
    cluster = Cluster(*(make_node(f"n{i}", cpu=f"{MILLICPU}m", memory="64Gi") for i in range(nodes)))
    shares = [chance.uniform(0.3, 1.7) for _ in range(nodes * PODS_PER_NODE)]
    whole = load * nodes * MILLICPU / sum(shares)
    pods = [
        make_pod(
            f"p{i}", cpu=f"{round(whole * share)}m", memory="1Gi", priority=chance.choice((0, 10, 20)), metadata=OWNER
        )
        for i, share in enumerate(shares)
    ]
    pods.sort(key=lambda pod: -(pod.spec.priority or 0))
    for _ in mooring.Scheduler(cluster).place(pods):
        pass
    return cluster


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--limits", type=float, nargs="+", default=[1.0, 10.0, 60.0], help="seconds, the last is the judge"
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    asked = parser.parse_args(arguments)
    found: dict[float, int] = dict.fromkeys(asked.limits, 0)
    fails = exists = 0
    for nodes in asked.nodes:
        for load in LOADS:
            for seed in range(asked.seeds):
                cluster = cluster_of(nodes, load, seed)
                if not cluster.pending:
                    continue
                fails += 1
                better = [
                    optimise_with(mooring.Scheduler(cluster), PENDING, time_limit_s=limit).is_better
                    for limit in asked.limits
                ]
                exists += any(better)
                for limit, is_better in zip(asked.limits, better, strict=True):
                    found[limit] += is_better
                print(
                    f"{nodes:3} nodes  {load:.0%}  seed {seed}: {len(cluster.pending):3} pending  better: {better}",
                    flush=True,
                )
    print(f"the default scheduler leaves pods pending in {fails} cases; a better placement is known for {exists}")
    for limit, number in found.items():
        print(f"found within {limit:g} s: {number} ({number / max(1, exists):.0%})")


if __name__ == "__main__":
    main()
