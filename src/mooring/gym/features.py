"""What a learned policy sees: columns of numbers from 0 to 1 about every node, and a few about the pod.

The environment and the score plugin make them with the same functions, so that what was learned holds in a cluster.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mooring.gpus.columns import GpuColumns, safe_request_of
from mooring.gpus.requests import WHOLE
from mooring.gpus.scoring import LARGEST_CPU
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable
from mooring.state.pod_info import PodInfo
from mooring.state.requests import CPU, MEMORY

Matrix = NDArray[np.float32]

NODE_FEATURES = (
    "cpu free",  # of the node's own
    "memory free",  # of the node's own
    "pods free",  # of the node's own
    "cpu free of the largest",  # of a node with 128 cores
    "gpu free",  # of the node's own
    "gpu free of the largest",  # of a node with 8 GPUs
    "largest gpu free",  # of one GPU
    "idle gpus",  # of 8
)
POD_FEATURES = ("cpu", "memory", "gpu share", "gpus", "shares a gpu", "priority")
CPU_AND_MEMORY = (CPU, MEMORY)
LARGEST_MEMORY, LARGEST_GPUS, LARGEST_PRIORITY = 1 << 40, 8, 1_000_000


def node_features(nodes: NodeRows, base: NodeTable) -> Matrix:
    """[node, feature] of these rows; ``base`` is the table of the plugin's own cluster."""
    gpus = GpuColumns.of(base).on(nodes, base)
    allocatable = nodes.allocatable_of(CPU_AND_MEMORY)
    parts = np.zeros((len(NODE_FEATURES), len(nodes)), np.float32)
    parts[:2] = allocatable - nodes.requested_of(CPU_AND_MEMORY)
    parts[2] = nodes.allowed_pods - nodes.pod_count
    parts[3] = parts[0]
    parts[4:6] = gpus.total
    if gpus.left.shape[1]:
        gpus.left.max(axis=1, out=parts[6], initial=0)
        (gpus.left == WHOLE).sum(axis=1, out=parts[7])
    wholes = np.empty_like(parts)
    wholes[:2], wholes[2], wholes[4] = allocatable, nodes.allowed_pods, gpus.capacity * WHOLE
    wholes[3], wholes[5], wholes[6], wholes[7] = LARGEST_CPU, LARGEST_GPUS * WHOLE, WHOLE, LARGEST_GPUS
    parts /= np.maximum(wholes, 1, out=wholes)
    return np.ascontiguousarray(np.minimum(np.maximum(parts, 0, out=parts), 1, out=parts).T)


def pod_features(pod: PodInfo) -> Matrix:
    """[feature]"""
    request = safe_request_of(pod)
    requests = pod.shape.requests
    found = np.array(
        [
            requests.get(CPU, 0) / LARGEST_CPU,
            requests.get(MEMORY, 0) / LARGEST_MEMORY,
            request.milli / WHOLE,
            request.count / LARGEST_GPUS,
            float(request.is_share),
            pod.priority / LARGEST_PRIORITY,
        ],
        np.float32,
    )
    return np.minimum(np.maximum(found, 0, out=found), 1, out=found)
