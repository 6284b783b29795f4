"""GpuPacking: fill GPUs that are in use, then idle GPUs of nodes in use, then idle nodes (AntMan, OSDI 2020)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.framework.interfaces import Scores
from mooring.gpus.columns import GpuRows
from mooring.gpus.requests import WHOLE, GpuRequest
from mooring.gpus.scoring import GpuScore


class GpuPacking(GpuScore):
    """It gives 50 to 100 where the pod fits on GPUs in use, 33 to 49 where it opens idle ones, 0 to 32 elsewhere."""

    name: ClassVar[str] = "GpuPacking"

    def _scores(self, cpu: NDArray[np.int64], wanted: int, gpus: GpuRows, request: GpuRequest) -> Scores:
        if not request.count:
            return np.zeros(len(cpu), np.int64)
        capacity = gpus.capacity
        is_idle = gpus.total == capacity * WHOLE
        room = np.where(gpus.left >= request.milli, gpus.left, WHOLE + 1)  # what is too small comes last
        chosen = np.sort(room, axis=1)[:, : request.count]
        opened = (chosen == WHOLE).sum(axis=1)
        in_use = np.maximum(100 - (chosen.sum(axis=1) * 100 // WHOLE) // 10, 50)
        on_idle_node = np.maximum(33 - capacity, capacity)
        scores = np.where(is_idle, on_idle_node, np.where(opened > 0, np.maximum(50 - opened, 33), in_use))
        return np.minimum(scores, 100)
