"""The order of arrivals in the published study of GPU fragmentation (FGD, USENIX ATC'23).

The whole trace comes first, in random order. Then pods of the trace are drawn again until all of them together ask for
130 % of the GPUs.
"""

from __future__ import annotations

import random
from typing import Any

RATIO = 1.3
MILLI = 1000  # of a GPU


def arrivals(rows: list[dict[str, str]], *, seed: int, nodes: list[Any]) -> list[dict[str, str]]:
    """The rows of the trace in the order in which their pods arrive."""
    chance = random.Random(seed)
    gpus = sum(int(node.status.allocatable.get("nvidia.com/gpu", 0)) for node in nodes)
    target = int(RATIO * gpus * MILLI)
    by_name = sorted(map(_cleaned, rows), key=lambda row: row["name"])
    order = by_name[:]
    chance.shuffle(order)
    asked = sum(map(_asked, order))
    while asked > target:
        asked -= _asked(order.pop(chance.randrange(len(order))))
    while True:
        row = chance.choice(by_name)
        if asked + int(row["gpu_milli"] or 0) > target:
            return order
        order.append(row)
        asked += _asked(row)


def _cleaned(row: dict[str, str]) -> dict[str, str]:
    """A pod without a GPU has no share of one and asks for no model."""
    return row if row["num_gpu"] != "0" else {**row, "gpu_milli": "0", "gpu_spec": ""}


def _asked(row: dict[str, str]) -> int:
    return int(row["num_gpu"]) * int(row["gpu_milli"])
