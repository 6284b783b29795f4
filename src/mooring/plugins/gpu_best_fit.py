"""GpuBestFit: prefer nodes that have the least CPU and GPU left once the pod is there."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.framework.cycle_state import CycleState
from mooring.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.gpus.columns import GpuRows
from mooring.gpus.requests import GpuRequest
from mooring.gpus.scoring import LARGEST_CPU, LARGEST_GPU, GpuScore
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


class GpuBestFit(GpuScore):
    """The mean of CPU and GPU left, as parts of the largest node's; the best node gets 100, the worst 0."""

    name: ClassVar[str] = "GpuBestFit"

    def _scores(self, cpu: NDArray[np.int64], wanted: int, gpus: GpuRows, request: GpuRequest) -> Scores:
        left = 0.5 * (cpu - wanted) / LARGEST_CPU + 0.5 * (gpus.total - request.total) / LARGEST_GPU
        return ((1 - left) * 100).astype(np.int64)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        low, high = int(scores.min()), int(scores.max())
        if low == high:
            scores = np.zeros_like(scores)
        else:
            scores = (scores - low) * MAX_NODE_SCORE // (high - low)
        return super().normalize(state, pod, scores, nodes)
