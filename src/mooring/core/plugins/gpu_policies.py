"""GpuPacking: fill GPUs that are in use, then idle GPUs of nodes in use, then idle nodes (AntMan, OSDI 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, PreFilterResult, Scores
from mooring.core.framework.status import SKIP, SUCCESS, Status
from mooring.core.plugins.gpus.columns import GpuRows, tag_of
from mooring.core.plugins.gpus.openb import StudyLots, StudyLotsArgs
from mooring.core.plugins.gpus.requests import CHOICE, WHOLE, GpuRequest, fitting
from mooring.core.plugins.gpus.scoring import LARGEST_CPU, LARGEST_GPU, GpuScore, GpuScoreArgs, typed_args
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo


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


# --------------------------------------------------------------------------------------------------------------------
# GpuBestFit: prefer nodes that have the least CPU and GPU left once the pod is there.


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


# --------------------------------------------------------------------------------------------------------------------
# GpuClustering: put pods that ask for the same number of GPUs together (Gandiva, OSDI 2018).


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


# --------------------------------------------------------------------------------------------------------------------
# GpuDotProduct: prefer nodes whose free resources and the pod's request point in different directions.
#
# The policy DotProd of the fragmentation study (Tetris, SIGCOMM 2014, with the sign turned around): the smaller the dot
# product of what is left and what is wanted, the better.


class GpuDotProduct(GpuScore):
    """The score is 100 less the dot product of CPU and GPU, each as a part of the largest node's."""

    name: ClassVar[str] = "GpuDotProduct"

    def _scores(self, cpu: NDArray[np.int64], wanted: int, gpus: GpuRows, request: GpuRequest) -> Scores:
        product = (cpu / LARGEST_CPU) * (wanted / LARGEST_CPU)
        product += (gpus.total / LARGEST_GPU) * (request.total / LARGEST_GPU)
        return np.clip(100 * (1 - product / 2), 0, 100).astype(np.int64)


# --------------------------------------------------------------------------------------------------------------------
# GpuRandom: any node, and any GPU of it, by lot.


class GpuRandomArgs(GpuScoreArgs, frozen=True):
    """``pluginConfig`` of GpuRandom. With ``lots`` they are those of the study's program; else the scheduler draws."""

    lots: StudyLotsArgs | None = None


class GpuRandom(GpuScore):
    """Gives 100 to one node that is drawn by lot: what every other policy must beat."""

    name: ClassVar[str] = "GpuRandom"
    _args_type: ClassVar[type[GpuScoreArgs]] = GpuRandomArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        lots = typed_args(GpuRandomArgs, args).lots
        self._study = None if lots is None else StudyLots(lots, handle.cluster)
        self._pick = handle.pick if self._study is None else self._study.pick

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        if self._study is not None:
            self._study.attempt()
        state.write(CHOICE, self._choose)
        return SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        scores = np.zeros(len(nodes), np.int64)
        scores[self._pick(len(nodes))] = MAX_NODE_SCORE
        return scores

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        if self._study is not None:
            self._study.placed()
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Nothing to undo."""

    def _choose(self, node_name: str, left: Sequence[int], request: GpuRequest) -> int:
        """Each GPU that fits takes the place of the one before by lot: all are equally likely in the end."""
        found = fitting(left, request)
        chosen = found[0]
        for number, gpu in enumerate(found, 1):
            if self._pick(number) == 0:
                chosen = gpu
        return chosen
