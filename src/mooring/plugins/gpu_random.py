"""GpuRandom: any node, and any GPU of it, by lot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from mooring.framework.cycle_state import CycleState
from mooring.framework.interfaces import MAX_NODE_SCORE, PreFilterResult, Scores
from mooring.framework.status import SKIP, Status
from mooring.gpus.placing import CHOICE, fitting
from mooring.gpus.requests import GpuRequest
from mooring.gpus.scoring import GpuScore, one_of
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


class GpuRandom(GpuScore):
    """Gives 100 to one node that is drawn by lot: what every other policy must beat."""

    name: ClassVar[str] = "GpuRandom"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        state.write(CHOICE, self._choose)
        return SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        scores = np.zeros(len(nodes), np.int64)
        scores[self._handle.pick(len(nodes))] = MAX_NODE_SCORE
        return scores

    def _choose(self, node_name: str, left: Sequence[int], request: GpuRequest) -> int:
        return one_of(fitting(left, request), self._handle)
