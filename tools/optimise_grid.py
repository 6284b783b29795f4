"""How often a better placement exists when the default scheduler leaves pods pending, and how soon it is found.

    python tools/optimise_grid.py --seeds 5 --limits 1 10 60

Clusters of equal nodes get pods of random sizes and three priorities up to a share of their CPU. The pods come in the
order of their priority and are placed as kube-scheduler places them. Where some stay pending, ``optimise`` looks for
a placement of more of them, by moving others.

    python tools/optimise_grid.py --free 500 6000 12

asks instead how many nodes 6,000 pods of 12 sizes could free, after the default scheduler has spread them.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence

import mooring
from mooring.ask.optimise import optimise_with
from mooring.ask.placement_options import NODES as FEWER_NODES
from mooring.ask.placement_options import PENDING
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


def free(nodes: int, pods: int, sizes: int, limit_s: float) -> None:
    """Spread pods, and print how many nodes a better placement frees."""
    chance = random.Random(1)
    shapes = [
        (chance.choice((250, 500, 1000, 2000)), chance.choice((512, 1024, 2048, 4096, 8192))) for _ in range(sizes)
    ]
    kinds = [chance.randrange(sizes) for _ in range(pods)]
    cores = round(sum(shapes[kind][0] for kind in kinds) / (700 * nodes))  # about 70 % of the CPU is asked for
    cluster = Cluster(*(make_node(f"n{i:04}", cpu=cores, memory=f"{4 * cores}Gi") for i in range(nodes)))
    made = [
        make_pod(f"p{i}", cpu=f"{shapes[k][0]}m", memory=f"{shapes[k][1]}Mi", labels={"app": f"a{k}"}, metadata=OWNER)
        for i, k in enumerate(kinds)
    ]
    for _ in mooring.Scheduler(cluster).place(made):
        pass
    started = time.process_time()
    found = optimise_with(mooring.Scheduler(cluster), FEWER_NODES, time_limit_s=limit_s)
    cpu_s = time.process_time() - started
    print(f"{found.before.nodes} -> {found.after.nodes} nodes, bound {found.bound}, {cpu_s:.1f} CPU s")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--limits", type=float, nargs="+", default=[1.0, 10.0, 60.0], help="seconds, the last is the judge"
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--free", type=int, nargs=3, metavar=("NODES", "PODS", "SIZES"))
    asked = parser.parse_args(arguments)
    if asked.free:
        free(*asked.free, asked.limits[-1])
        return
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
