"""GpuFragmentation: take the node, and the GPU, where the pod adds the least fragmentation (FGD, USENIX ATC 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import PreFilterResult, Scores
from mooring.core.framework.status import SKIP, Status
from mooring.core.plugins.gpus.columns import GpuColumns
from mooring.core.plugins.gpus.fragmentation import (
    Fragmentation,
    KeptByKind,
    KeptScores,
    PodKind,
    Stranding,
    distinct_rows,
)
from mooring.core.plugins.gpus.openb import TypicalPodArgs, TypicalPodsSource, kind_of
from mooring.core.plugins.gpus.requests import CHOICE, GpuRequest
from mooring.core.plugins.gpus.scoring import (
    GpuScore,
    GpuScoreArgs,
    best_on,
    best_way,
    cpu_left,
    gradient,
    quantised,
    typed_args,
)
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

KEPT = "GpuFragmentation/kept"
FEW = 24  # nodes that are looked at sooner one by one than all at once


class GpuFragmentationArgs(GpuScoreArgs, rename="camel", forbid_unknown_fields=True, frozen=True):
    """``pluginConfig`` of GpuFragmentation.

    Typical pods are listed in ``typicalPods``, or counted in ``typicalPodsFile``, a CSV file with the columns of the
    openb pod lists. Without either they are counted among the pods that the cluster runs.

    ``strandingWeight`` counts GPUs that will lack CPU; 0, the default, is the study's policy. ``strandingCpuShare`` is
    the part of a typical pod's CPU that a GPU is assumed to need.
    """

    typical_pods: tuple[TypicalPodArgs, ...] = ()
    typical_pods_file: str = ""
    stranding_weight: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    stranding_cpu_share: Annotated[float, msgspec.Meta(gt=0)] = 0.8


class GpuFragmentation(GpuScore):
    """Scores the change of a node's fragmentation: 50 for none, more for less fragmentation.

    A pod that shares a GPU gets the GPU that makes the score.
    """

    name: ClassVar[str] = "GpuFragmentation"
    _args_type: ClassVar[type[GpuScoreArgs]] = GpuFragmentationArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        given = typed_args(GpuFragmentationArgs, args)
        self._typical = TypicalPodsSource(given.typical_pods, given.typical_pods_file, handle.cluster)
        self._kept = KeptByKind()
        self._stranding = given.stranding_weight, given.stranding_cpu_share
        self._measures: tuple[object, Fragmentation, Stranding | None] | None = None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        """Offer to choose the GPU; there is nothing to filter."""
        state.write(CHOICE, partial(self._choose, state, pod))
        return SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        base = self._handle.cluster.table
        kind = kind_of(pod)
        if nodes.table is not base:
            return self._evaluated(kind, nodes)[0]
        self._typical.refresh()
        kept = self._kept.of(kind, base, self._typical.version)
        state.write(KEPT, kept)
        rows = np.arange(len(nodes)) if nodes.index is None else nodes.index
        return kept.on(rows, lambda stale: self._evaluated(kind, NodeRows(base, stale)))

    def _choose(self, state: CycleState, pod: PodInfo, node_name: str, left: Sequence[int], request: GpuRequest) -> int:
        """The GPU that made the node's score; with one feasible node there were no scores."""
        kept: KeptScores | None = state.read(KEPT)
        table = self._handle.cluster.table
        row = table.info(node_name).row
        if kept is not None:
            return int(kept.gpus[row])
        kind, columns = kind_of(pod), GpuColumns.of(table)
        cpu = int(cpu_left(NodeRows(table, np.array([row])))[0]) + kind.cpu_milli  # the pod is counted there already
        measure, stranding = self._measure(columns.models)
        return best_on(measure, list(left), cpu, int(columns.model[row]), kind, stranding)[1]

    def _evaluated(self, kind: PodKind, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """[node]: the score of the best way to place the pod, and its GPU."""
        base = self._handle.cluster.table
        columns = GpuColumns.of(base)
        measure, stranding = self._measure(columns.models)
        model = columns.model if nodes.index is None else columns.model[nodes.index]
        states = np.column_stack((columns.on(nodes, base).left, cpu_left(nodes), model))
        if len(states) > FEW:
            distinct, state_of = distinct_rows(states)
            scores, gpus = self._best(kind, distinct, measure, stranding)
            return scores[state_of], gpus[state_of]
        return self._best(kind, states, measure, stranding)

    def _best(
        self, kind: PodKind, states: NDArray[np.int64], measure: Fragmentation, stranding: Stranding | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of nodes with what is left of their GPUs, their CPU and their model in these columns."""
        if len(states) <= FEW:
            found = [best_on(measure, left, cpu, model, kind, stranding) for *left, cpu, model in states.tolist()]
            best = np.array(found, np.int64).reshape(-1, 2)
            return best[:, 0], best[:, 1]
        left, cpu, model = states[:, :-2], states[:, -2], states[:, -1]
        node, gpu, less = gradient(measure, left, cpu, model, kind, stranding)
        return best_way(len(left), node, gpu, np.array([quantised(each) for each in less.tolist()], np.int64))

    def _measure(self, models: list[str]) -> tuple[Fragmentation, Stranding | None]:
        token = (self._typical.version, tuple(models))
        if self._measures is None or self._measures[0] != token:
            pods = self._typical.pods
            stranding = Stranding(pods, *self._stranding) if self._stranding[0] else None
            self._measures = token, Fragmentation(pods, models), stranding
        return self._measures[1:]
