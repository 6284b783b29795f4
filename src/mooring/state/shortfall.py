"""How much is missing on nodes that have no room for a pod."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mooring.state.node_rows import NodeRows


def shortfalls(requests: Mapping[str, int], nodes: NodeRows) -> dict[str, NDArray[np.int64]]:
    """For each requested resource, what is missing per node."""
    return {
        name: np.maximum(wanted - (nodes.allocatable(name) - nodes.requested(name)), 0)
        for name, wanted in requests.items()
        if wanted > 0
    }


def distance(requests: Mapping[str, int], nodes: NodeRows) -> NDArray[np.float64]:
    """How far each node is from having room, as shares of the requests; smaller is closer."""
    total = np.zeros(len(nodes), np.float64)
    for name, missing in shortfalls(requests, nodes).items():
        total += missing / requests[name]
    return total + 0.5 * (nodes.pod_count >= nodes.allowed_pods)
