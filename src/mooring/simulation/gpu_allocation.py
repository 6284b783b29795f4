"""GPU allocation by arrived demand: how much of all GPUs is in use when pods have asked for so much of them.

This is how the fragmentation study (USENIX ATC 2023) compares policies. After each pod that arrives, two numbers are
noted, in percent of all GPUs: what the pods that have arrived ask for, and what the pods that run have. The value at
X percent is the mean of what runs over all arrivals at which demand rounds to X. Fragmentation is noted every ten
percent; typical are the pods that have arrived so far.
"""

from __future__ import annotations

import numpy as np

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.engine.decision import Decision, Outcome
from mooring.framework.runtime import Profile
from mooring.gpus.columns import GpuColumns, safe_request_of
from mooring.gpus.fragmentation import Fragmentation, PodKind, typical_pods
from mooring.gpus.requests import NO_GPU, WHOLE, GpuRequest
from mooring.observe.observer import Observed, SchedulerObserver
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.state.cluster import Cluster
from mooring.state.requests import CPU

FRAGMENTATION_EVERY = 10  # percent of arrived demand
ByPercent = dict[str, float]


class GpuAllocation(SchedulerObserver):
    """Notes demand and allocation of shared GPUs. A run in which no pod asks for a GPU costs next to nothing."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._arrived = self._used = 0  # milli
        self._running: dict[str, int] = {}  # milli, by uid
        self._without: dict[int, int] = {}  # pods without GPUs that have arrived, by cpu
        self._kinds: dict[tuple[int, GpuRequest], int] = {}  # the others, by cpu and GPUs
        self._early = 0  # pods that have arrived before the first that asks for a GPU
        self._sums: dict[int, tuple[float, int]] = {}  # percent of demand -> sum and number of allocations
        self._fragmented: dict[int, float] = {}

    def configured(self, scheduler: Observed) -> None:
        self._cluster = scheduler.cluster

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: Decision, seconds: float) -> None:
        pod = info.pod_info
        request = safe_request_of(pod)
        wanted = request.total if request.count else 0
        is_new = info.attempts == 1
        if is_new:
            self._arrived += wanted
            cpu = pod.shape.requests.get(CPU, 0)
            if request is NO_GPU:
                self._without[cpu] = self._without.get(cpu, 0) + 1
            else:
                self._kinds[cpu, request] = self._kinds.get((cpu, request), 0) + 1
        if wanted and decision.outcome is Outcome.SCHEDULED:
            self._used += wanted
            self._running[info.uid] = wanted
        if is_new and self._arrived:
            self._note()
        elif is_new:
            self._early += 1

    def binding_failed(self, info: QueuedPodInfo, message: str) -> None:
        self._used -= self._running.pop(info.uid, 0)

    def delete(self, obj: Object) -> None:
        if isinstance(obj, Pod):
            self._used -= self._running.pop(obj.metadata.uid, 0)

    def _note(self) -> None:
        assert self._cluster is not None, "configured before it decides"
        gpus = GpuColumns.of(self._cluster.table)
        total = gpus.total_capacity * WHOLE
        if not total:
            return
        percent = round(100 * self._arrived / total)
        if self._early:
            self._sums[0], self._early = (0.0, self._early), 0
        so_far, count = self._sums.get(percent, (0.0, 0))
        self._sums[percent] = so_far + round(100 * self._used / total, 2), count + 1
        reached = percent - percent % FRAGMENTATION_EVERY
        if reached not in self._fragmented:
            self._fragmented[reached] = 100 * self._fragmentation(self._cluster, gpus) / total

    def _fragmentation(self, cluster: Cluster, gpus: GpuColumns) -> float:
        nodes = cluster.nodes()
        kinds = {PodKind(cpu, NO_GPU): count for cpu, count in self._without.items()}
        kinds |= {PodKind(*kind): count for kind, count in self._kinds.items()}
        measure = Fragmentation(typical_pods(kinds), gpus.models)
        cpu = nodes.allocatable(CPU) - nodes.requested(CPU)
        return float(np.sum(measure.of(gpus.left, cpu, gpus.model)))

    # ---- results -------------------------------------------------------------------------------------------------

    def allocation(self) -> ByPercent:
        """By percent of arrived demand, what ran in percent of all GPUs; empty if no pod asked for a GPU."""
        found: ByPercent = {}
        for percent in range(max(self._sums, default=-1) + 1):
            near = [self._sums[each] for each in (percent, percent - 1, percent + 1) if each in self._sums]
            if percent in self._sums:
                near = near[:1]
            if near:
                found[str(percent)] = round(sum(each for each, _ in near) / sum(count for _, count in near), 2)
        return found

    def fragmentation(self) -> ByPercent:
        """By percent of arrived demand, what was left and fragmented in percent of all GPUs."""
        return {str(percent): round(each, 2) for percent, each in self._fragmented.items()}
