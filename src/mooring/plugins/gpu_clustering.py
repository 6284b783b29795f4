"""GpuClustering: put pods that ask for the same number of GPUs together (Gandiva, OSDI 2018)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.framework.interfaces import Scores
from mooring.gpus.columns import GpuRows, tag_of
from mooring.gpus.requests import GpuRequest
from mooring.gpus.scoring import LARGEST_GPU, GpuScore


class GpuClustering(GpuScore):
    """Nodes with the same kind of GPU pods only, then with others too, then empty ones; fuller ones first.

    Pods that share a GPU are one kind, pods with n whole GPUs are another for each n.
    """

    name: ClassVar[str] = "GpuClustering"

    def _scores(self, cpu: NDArray[np.int64], wanted: int, gpus: GpuRows, request: GpuRequest) -> Scores:
        if not request.count:
            return np.zeros(len(cpu), np.int64)
        own = tag_of(request)
        fullness = 25 * np.maximum(0, LARGEST_GPU - gpus.total) // LARGEST_GPU
        has_own = (gpus.tags & own) != 0
        return fullness + np.where(gpus.tags == own, 75, np.where(has_own, 50, np.where(gpus.tags == 0, 25, 0)))
