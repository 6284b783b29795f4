"""GpuShare: GPUs of which pods take a part, one, or several.

Off by default. ``gpus.requests`` says which annotations, labels and resources are understood. The GPUs that a pod
gets are written on it as the annotation ``alibabacloud.com/gpu-index``, in the same write that binds it, so that they
are known again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Pod
from mooring.api.errors import ParseError
from mooring.api.meta import Object
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import BINDING_ANNOTATIONS, CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import PreFilterResult
from mooring.core.framework.resolved import Reads, Traits
from mooring.core.framework.status import SKIP, SUCCESS, LateVerdict, Status, Verdict
from mooring.core.plugins.gpus.columns import GpuColumns, safe_request_of
from mooring.core.plugins.gpus.requests import (
    CHOICE,
    INDEX,
    WHOLE,
    Choose,
    GpuRequest,
    index_text,
    least_left,
    request_of,
)
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import holds_everywhere

FITS, NO_GPUS, OTHER_MODEL, TOO_FEW, NO_ROOM = range(5)
MOST_FACTS = 3


class GpuShare:
    """Rejects nodes without enough room on enough GPUs of the right model, and gives the pod its GPUs.

    A pod that shares one GPU gets the one with the least left that is enough, unless a score plugin chooses. What
    would change its mind: a pod with GPUs that goes, or a node with other GPUs.
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
        """Give the pod its GPUs. The assumed pod says so from now on, as the bound one will."""
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
        """Nothing to undo: the assumed pod goes, and its annotation with it."""

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
        """On the nodes that come closest: which GPU has how much left."""
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
    """[node]: why a node is refused to pods that ask for so many GPUs of these models, if it is."""
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
