"""GpuDotProduct: prefer nodes whose free resources and the pod's request point in different directions.

The policy DotProd of the fragmentation study (Tetris, SIGCOMM 2014, with the sign turned around): the smaller the dot
product of what is left and what is wanted, the better.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.framework.interfaces import Scores
from mooring.gpus.columns import GpuRows
from mooring.gpus.requests import GpuRequest
from mooring.gpus.scoring import LARGEST_CPU, LARGEST_GPU, GpuScore


class GpuDotProduct(GpuScore):
    """The score is 100 less the dot product of CPU and GPU, each as a part of the largest node's."""

    name: ClassVar[str] = "GpuDotProduct"

    def _scores(self, cpu: NDArray[np.int64], wanted: int, gpus: GpuRows, request: GpuRequest) -> Scores:
        product = (cpu / LARGEST_CPU) * (wanted / LARGEST_CPU)
        product += (gpus.total / LARGEST_GPU) * (request.total / LARGEST_GPU)
        return np.clip(100 * (1 - product / 2), 0, 100).astype(np.int64)
