"""Shared GPUs (GpuShare), and six policies that choose nodes and GPUs.

The policies are those that the fragmentation study (USENIX ATC 2023) compares. A profile enables GpuShare and one of
them. GpuPacking comes first: fill GPUs in use, then idle GPUs of nodes in use, then idle nodes (AntMan, OSDI 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Pod
from mooring.api.errors import ParseError
from mooring.api.meta import Object
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import BINDING_ANNOTATIONS, CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, PreFilterResult, Scores
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP, SUCCESS, LateVerdict, Status, Verdict
from mooring.core.plugins.gpus.columns import GpuColumns, GpuRows, safe_request_of, tag_of
from mooring.core.plugins.gpus.fragmentation import (
    Fragmentation,
    KeptByKind,
    KeptScores,
    PodKind,
    Stranding,
    distinct_rows,
)
from mooring.core.plugins.gpus.openb import StudyLots, StudyLotsArgs, TypicalPodArgs, TypicalPodsSource, kind_of
from mooring.core.plugins.gpus.requests import (
    CHOICE,
    INDEX,
    WHOLE,
    Choose,
    GpuRequest,
    fitting,
    index_text,
    least_left,
    request_of,
)
from mooring.core.plugins.gpus.scoring import (
    LARGEST_CPU,
    LARGEST_GPU,
    GpuScore,
    GpuScoreArgs,
    best_assignment,
    best_on,
    cpu_left,
    gradient,
    quantised,
    typed_args,
)
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import holds_everywhere


class GpuPacking(GpuScore):
    """Scores 50 to 100 where the pod fits on GPUs in use, 33 to 49 where it opens idle ones, 0 to 32 elsewhere."""

    name: ClassVar[str] = "GpuPacking"

    def _scores(self, cpu: NDArray[np.int64], wanted: int, gpus: GpuRows, request: GpuRequest) -> Scores:
        if not request.count:
            return np.zeros(len(cpu), np.int64)
        capacity = gpus.capacity
        is_idle = gpus.total == capacity * WHOLE
        room = np.where(gpus.left >= request.milli, gpus.left, WHOLE + 1)  # too small ones come last
        chosen = np.sort(room, axis=1)[:, : request.count]
        opened = (chosen == WHOLE).sum(axis=1)
        in_use = np.maximum(100 - (chosen.sum(axis=1) * 100 // WHOLE) // 10, 50)
        on_idle_node = np.maximum(33 - capacity, capacity)
        scores = np.where(is_idle, on_idle_node, np.where(opened > 0, np.maximum(50 - opened, 33), in_use))
        return np.minimum(scores, 100)


# ---- GpuBestFit: prefer nodes that have the least CPU and GPU left once the pod is there ---------------------------


class GpuBestFit(GpuScore):
    """Scores the mean of CPU and GPU left, relative to the largest node; the best node gets 100, the worst 0."""

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


# ---- GpuClustering: put pods that ask for the same number of GPUs together (Gandiva, OSDI 2018) --------------------


class GpuClustering(GpuScore):
    """Prefers nodes with only the same kind of GPU pods, then with others too, then empty ones; fuller ones first.

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
    """Scores 100 less the dot product of CPU and GPU, each relative to the largest node."""

    name: ClassVar[str] = "GpuDotProduct"

    def _scores(self, cpu: NDArray[np.int64], wanted: int, gpus: GpuRows, request: GpuRequest) -> Scores:
        product = (cpu / LARGEST_CPU) * (wanted / LARGEST_CPU)
        product += (gpus.total / LARGEST_GPU) * (request.total / LARGEST_GPU)
        return np.clip(100 * (1 - product / 2), 0, 100).astype(np.int64)


# ---- GpuRandom: a random node, and a random GPU of it ----------------------------------------------------------------


class GpuRandomArgs(GpuScoreArgs, frozen=True):
    """``pluginConfig`` of GpuRandom. With ``lots`` the random numbers are those of the study's program."""

    lots: StudyLotsArgs | None = None


class GpuRandom(GpuScore):
    """Gives 100 to one random node: the baseline for every other policy."""

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
        """Do nothing."""

    def _choose(self, node_name: str, left: Sequence[int], request: GpuRequest) -> int:
        """Choose at random: each GPU that fits replaces the previous choice, so that all are equally likely."""
        found = fitting(left, request)
        chosen = found[0]
        for number, gpu in enumerate(found, 1):
            if self._pick(number) == 0:
                chosen = gpu
        return chosen


# --------------------------------------------------------------------------------------------------------------------
# GpuShare: pods that take part of a GPU, one, or several.
#
# Off by default. ``gpus.requests`` documents the supported annotations, labels and resources. The pod's GPUs are
# written as its annotation ``alibabacloud.com/gpu-index``, in the same write that binds it, so that they survive a
# restart.

FITS, NO_GPUS, OTHER_MODEL, TOO_FEW, NO_ROOM = range(5)
MOST_FACTS = 3


class GpuShare:
    """Rejects nodes without enough room on enough GPUs of the right model, and gives the pod its GPUs.

    A pod that shares one GPU gets the one with the least left that is enough, unless a score plugin chooses. A removed
    pod with GPUs, or a node with other GPUs, can make a rejected pod schedulable.
    """

    name: ClassVar[str] = "GpuShare"
    traits: ClassVar[Traits] = Traits(filter_reads=Reads.LOCAL, uses_volumes=False)

    def __init__(self, args: None, handle: Handle) -> None:
        self._handle = handle

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        try:
            request = request_of(pod)
        except ParseError as error:
            return Status.unresolvable(str(error))
        return SUCCESS if request.count else SKIP

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        request = request_of(pod)
        if not request.count:
            return None
        base = self._handle.cluster.table
        columns = GpuColumns.of(base)
        fits = columns.room(nodes, base, request.count) >= request.milli
        if request.models:
            allowed = columns.allowed(request.models)
            fits &= allowed if nodes.index is None else allowed[nodes.index]
        if holds_everywhere(fits):
            return None
        refusals = columns.kept((request.count, request.models), _refusals)

        def ids() -> NDArray[np.int64]:
            return np.where(fits, FITS, refusals if nodes.index is None else refusals[nodes.index])

        return LateVerdict(fits, ids, lambda number: _reasons(request)[number - 1])

    # ---- the chosen node -----------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Assign the pod its GPUs, in the assumed pod's annotation as in the bound one's."""
        request = request_of(pod)
        if not request.count:
            return SUCCESS
        table = self._handle.cluster.table
        left = GpuColumns.left_without(table, table.info(node_name), pod.uid)
        indices = least_left(left, request)
        if indices is None:
            return Status.unschedulable(_reasons(request)[NO_ROOM - 1].message)
        choose: Choose | None = state.read(CHOICE)
        if choose is not None and request.count == 1 and request.is_share:
            indices = (choose(node_name, left, request),)
        annotations = {INDEX: index_text(indices)}
        state.write(BINDING_ANNOTATIONS, {**(state.read(BINDING_ANNOTATIONS) or {}), **annotations})
        metadata = pod.pod.metadata.__copy__()
        metadata.annotations = {**metadata.annotations, **annotations}
        pod.pod.metadata = metadata
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Do nothing: the annotation is removed with the assumed pod."""

    # ---- what would help -----------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[EventRegistration]:
        changes = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL
        return (
            on(EventResource.POD, ActionType.DELETE, self._gpu_pod_gone),
            on(EventResource.NODE, changes, _has_gpus),
        )

    def _gpu_pod_gone(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        if not isinstance(old, Pod) or not old.spec.node_name:
            return Hint.SKIP
        return Hint.QUEUE if safe_request_of(self._handle.cluster.info(old)).count else Hint.SKIP

    def facts(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[str]:
        """Yield, for the best candidates, which GPU has how much left."""
        request = request_of(pod)
        base = self._handle.cluster.table
        columns = GpuColumns.of(base)
        gpus = columns.on(nodes, base)
        allowed = columns.allowed(request.models)
        candidates = np.flatnonzero((allowed if nodes.index is None else allowed[nodes.index]) & (gpus.capacity > 0))
        if request.count > 1:
            enough = (gpus.left >= request.milli).sum(axis=1)
            for i in sorted(candidates.tolist(), key=lambda i: -enough[i])[:MOST_FACTS]:
                have, name = int(enough[i]), nodes.infos[i].name
                yield f"{have} of {gpus.capacity[i]} GPUs of {name} have {request.milli} left, {request.count} wanted"
            return
        best = gpus.left.max(axis=1, initial=0)
        for i in sorted(candidates.tolist(), key=lambda i: -best[i])[:MOST_FACTS]:
            gpu, name = int(gpus.left[i].argmax()), nodes.infos[i].name
            yield f"GPU {gpu} of {name} has {best[i]} left, {request.milli} wanted"


def _has_gpus(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    return Hint.QUEUE if isinstance(new, Node) and new.status.allocatable else Hint.SKIP


def _refusals(columns: GpuColumns, asked: tuple[int, tuple[str, ...]]) -> NDArray[np.int64]:
    """Return, by node, why it rejects pods that request this many GPUs of these models, if it does."""
    count, models = asked
    ids = np.where(columns.capacity < count, TOO_FEW, NO_ROOM)
    if models:
        ids[~columns.allowed(models)] = OTHER_MODEL
    ids[columns.capacity == 0] = NO_GPUS
    return ids


@lru_cache(maxsize=4096)
def _reasons(request: GpuRequest) -> list[Status]:
    models = " or ".join(request.models)
    what = "idle GPU" if request.milli == WHOLE else f"GPU with {request.milli} milli left"
    plural = (
        f"{request.count} idle GPUs"
        if request.milli == WHOLE
        else f"{request.count} GPUs with {request.milli} milli left"
    )
    short = f"node(s) had no {what}" if request.count == 1 else f"node(s) had fewer than {plural}"
    return [
        Status.unresolvable("node(s) had no GPUs"),
        Status.unresolvable(f"node(s) had GPUs of another model than {models}"),
        Status.unresolvable(f"node(s) had fewer than {request.count} GPUs"),
        Status.unschedulable(short),
    ]


# ---- GpuFragmentation: the node, and the GPU, where the pod adds the least fragmentation (FGD, USENIX ATC 2023) ----

KEPT = "GpuFragmentation/kept"
FEW = 24  # up to this many nodes are faster one by one


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
        """Return the GPU that made the node's score; with one feasible node there were no scores."""
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
        """Return, by node, the score of the best way to place the pod, and its GPU."""
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
        """Return the same for nodes with these GPU amounts, CPU and model."""
        if len(states) <= FEW:
            found = [best_on(measure, left, cpu, model, kind, stranding) for *left, cpu, model in states.tolist()]
            best = np.array(found, np.int64).reshape(-1, 2)
            return best[:, 0], best[:, 1]
        left, cpu, model = states[:, :-2], states[:, -2], states[:, -1]
        node, gpu, less = gradient(measure, left, cpu, model, kind, stranding)
        return best_assignment(len(left), node, gpu, np.array([quantised(each) for each in less.tolist()], np.int64))

    def _measure(self, models: list[str]) -> tuple[Fragmentation, Stranding | None]:
        token = (self._typical.version, tuple(models))
        if self._measures is None or self._measures[0] != token:
            pods = self._typical.pods
            stranding = Stranding(pods, *self._stranding) if self._stranding[0] else None
            self._measures = token, Fragmentation(pods, models), stranding
        return self._measures[1:]
