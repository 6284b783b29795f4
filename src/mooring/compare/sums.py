"""A placement in figures: how much of the cluster is used, how evenly, and who waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mooring.surface.cluster import Cluster

_NAMED = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Sum:
    """What became of the pods on one side."""

    placed: int
    waiting: int
    evicted: int
    nodes_in_use: int
    use: dict[str, float] = field(default_factory=dict)  # requested / allocatable of all nodes, by resource
    spread: dict[str, float] = field(default_factory=dict)  # standard deviation of that share between nodes
    measures: dict[str, float] = field(default_factory=dict)  # of a run: waiting times, attempts, use over time …

    def to_dict(self) -> dict[str, Any]:
        return {
            "placed": self.placed,
            "waiting": self.waiting,
            "evicted": self.evicted,
            "nodesInUse": self.nodes_in_use,
            "use": {name: round(share, 4) for name, share in self.use.items()},
            "spread": {name: round(share, 4) for name, share in self.spread.items()},
            "measures": {name: round(value, 6) for name, value in self.measures.items()},
        }


def sum_of(cluster: Cluster, *, placed: int, waiting: int, evicted: int) -> Sum:
    """The figures of a cluster. Other resources than CPU and memory count where pods ask for them."""
    rows = cluster.state.nodes()
    use: dict[str, float] = {}
    spread: dict[str, float] = {}
    for name in (*_NAMED, *(each for each in cluster.state.table.resources if each not in _NAMED)):
        requested, allocatable = rows.requested(name), rows.allocatable(name)
        has = allocatable > 0
        if has.any() and (name in _NAMED or requested.any()):
            use[name] = float(requested.sum() / allocatable.sum())
            spread[name] = float(np.std(requested[has] / allocatable[has]))
    in_use = int(np.count_nonzero(rows.pod_count))
    return Sum(placed, waiting, evicted, in_use, use, spread)
