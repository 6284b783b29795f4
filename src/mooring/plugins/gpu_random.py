"""GpuRandom: any node, and any GPU of it, by lot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Handle
from mooring.framework.interfaces import MAX_NODE_SCORE, PreFilterResult, Scores
from mooring.framework.status import SKIP, SUCCESS, Status
from mooring.gpus.placing import CHOICE, fitting
from mooring.gpus.requests import GpuRequest
from mooring.gpus.scoring import GpuScore, GpuScoreArgs, typed_args
from mooring.gpus.study_lots import StudyLots, StudyLotsArgs
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


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
