"""The result of a simulation: outcomes of pods, waiting times, utilisation."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.times import format_duration
from mooring.controlplane.cluster.job_queues import QueueOutcome
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.explain.decision import DecisionTable
from mooring.core.framework.runtime import Profile
from mooring.core.plugins.gpus.columns import GpuColumns, safe_request_of
from mooring.core.plugins.gpus.fragmentation import Fragmentation, PodKind, typical_pods
from mooring.core.plugins.gpus.requests import NO_GPU, WHOLE, GpuRequest
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.cluster import ClusterState
from mooring.core.state.requests import CPU
from mooring.live.observer import Observed, SchedulerObserver
from mooring.record.measures import Measures
from mooring.sim.autoscaler.outcome import Autoscaling

if TYPE_CHECKING:
    from mooring.sim.autoscaler.fleet import Fleet

QUANTILES = (0.5, 0.9, 0.99)
_NUMBER = re.compile(r"(?:^|(?<=[:,.] ))\d+(?:/\d+ nodes are available:)? ")  # of nodes, in messages


@dataclass(slots=True)
class Placed:
    """A pod that was bound."""

    node: str
    at_s: float
    attempts: int


@dataclass(slots=True)
class Simulation:
    """The result of a simulation. Times are seconds from its start, pods are ``namespace/name``."""

    name: str = ""
    title: str = ""
    seed: int = 0
    kubernetes_version: str = ""
    ended_at_s: float = 0.0
    was_interrupted: bool = False
    nodes: int = 0
    arrived: int = 0
    placed: int = 0  # pods that got a node; recreated ones count again
    ended: int = 0  # pods of workloads whose run time is over
    running: int = 0
    pending: dict[str, str] = field(default_factory=dict)  # why each pending pod has no node
    evicted: int = 0  # by preemption
    attempts: int = 0
    waiting_s: dict[str, float] = field(default_factory=dict)  # from arrival to binding: p50, p90, p99, max
    allocated_at_end: dict[str, float] = field(default_factory=dict)  # shares of all nodes' resources
    measures: Measures | None = field(default=None, repr=False)  # over time, and as one row
    autoscaling: Autoscaling | None = field(default=None, repr=False)  # if nodes came and went by themselves
    gpu_allocation: dict[str, float] = field(default_factory=dict)  # in percent, by percent of arrived GPU demand
    gpu_fragmentation: dict[str, float] = field(default_factory=dict)  # the same
    queues: dict[str, QueueOutcome] = field(default_factory=dict)  # of Jobs that wait for quota, by ClusterQueue
    expectations: int = 0  # met expectations
    failure: str = ""  # the unmet expectation, or another error that ended the story
    is_mistake: bool = False  # whether the input was invalid
    placements: dict[str, Placed] | None = None  # if requested: the last one of every pod
    evictions: dict[str, float] | None = None  # if placements were requested: when

    @property
    def held(self) -> bool:
        """Report whether all expectations were met."""
        return not self.failure

    def __repr__(self) -> str:
        came = f"{self.arrived:,} arrived, " if self.arrived else ""
        pods = f"{came}{self.placed:,} placed, {len(self.pending):,} pending"
        end = f", not as expected: {self.failure}" if self.failure else ""
        name = self.name or "without a name"
        return f"<Simulation {name}: {pods} in {format_duration(round(self.ended_at_s, 3))}{end}>"

    def table(self) -> DecisionTable:
        """Return why pods are pending, the most frequent reason first."""
        return DecisionTable(("pending", "why"), [(count, text) for text, count in self.pending_reasons().items()])

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per sample: utilisation and pending pods over time."""
        columns = {} if self.measures is None else self.measures.columns
        names = tuple(columns) or ("seconds",)
        return DecisionTable(names, list(zip(*columns.values(), strict=True))).to_pandas("seconds")

    if not TYPE_CHECKING:  # types know what there is

        def __getattr__(self, name: str) -> Any:
            how = "; mooring.report(simulation, to='run.html') draws it" if name in ("plot", "report", "show") else ""
            raise AttributeError(f"a Simulation has no {name!r}{how}", name=name, obj=self)

    def _repr_html_(self) -> str:
        waits = ", ".join(f"{name} {format_duration(round(each, 3))}" for name, each in self.waiting_s.items())
        lines = [repr(self)[1:-1], *([f"waiting: {waits}"] if waits else [])]
        reasons = self.table().html() if self.pending else ""
        return "".join(f"<p>{escape(line)}</p>" for line in lines) + reasons

    def pending_reasons(self) -> dict[str, int]:
        """Count pending pods by reason, the most frequent first, without numbers of nodes."""
        return dict(Counter(_without_numbers(text) for text in self.pending.values()).most_common())

    def to_dict(self) -> dict[str, Any]:
        """Return the result in JSON's form: camelCase, pending pods by reason."""
        value: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "seed": self.seed,
            "kubernetesVersion": self.kubernetes_version,
            "endedAtSeconds": round(self.ended_at_s, 6),
            "nodes": self.nodes,
            "pods": {
                "arrived": self.arrived,
                "placed": self.placed,
                "ended": self.ended,
                "running": self.running,
                "pending": len(self.pending),
                "evicted": self.evicted,
            },
            "attempts": self.attempts,
            "waitingSeconds": {name: round(each, 6) for name, each in self.waiting_s.items()},
            "measures": {} if self.measures is None else self.measures.to_dict()["row"],
            "pending": [{"message": text, "pods": count} for text, count in self.pending_reasons().items()],
            "expectations": {"held": self.expectations, "failed": self.failure},
        }
        if self.autoscaling is not None:
            value["autoscaler"] = self.autoscaling.to_dict()
        if self.gpu_allocation:
            value["gpuAllocationPercent"] = self.gpu_allocation
            value["gpuFragmentationPercent"] = self.gpu_fragmentation
        if self.queues:
            value["queues"] = [
                {
                    "clusterQueue": name,
                    "admitted": each.admitted,
                    "preempted": each.preempted,
                    "pending": each.pending,
                    "waitingSeconds": {key: round(wait, 6) for key, wait in quantiles(each.waited_s).items()},
                }
                for name, each in sorted(self.queues.items())
            ]
        if self.was_interrupted:
            value["interrupted"] = True
        if self.placements is not None:
            value["placements"] = {
                key: {"node": each.node, "atSeconds": round(each.at_s, 6), "attempts": each.attempts}
                for key, each in self.placements.items()
            }
        return value


class Witness(SchedulerObserver):
    """Notes the outcome of pods while a simulation runs."""

    def __init__(self, clock: Clock, *, keeps_placements: bool) -> None:
        self._clock = clock
        self._waits = array("d")
        self.attempts = self.evictions = 0
        self.placements: dict[str, Placed] | None = {} if keeps_placements else None
        self.fleet: Fleet | None = None  # of the autoscaler, which is notified, too
        self.evicted_at: dict[str, float] | None = {} if keeps_placements else None

    @property
    def placed(self) -> int:
        return len(self._waits)

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        self.attempts += 1
        if self.fleet is not None and decision.outcome is not Outcome.SCHEDULED:
            self.fleet.note_refused(info.uid)

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        now = self._clock.monotonic()
        self._waits.append(now - info.added_timestamp)
        if self.fleet is not None:
            self.fleet.outcome.bound(info.key, node_name)
        if self.placements is not None:
            self.placements[info.key] = Placed(node_name, now, info.attempts)

    def evicted(self, preemptor: Pod, victim: Pod, node_name: str) -> None:
        self.evictions += 1
        if self.evicted_at is not None:
            self.evicted_at[victim.key] = self._clock.monotonic()

    def fill(self, result: Simulation) -> None:
        """Copy the notes into a result."""
        result.attempts, result.placed, result.evicted = self.attempts, len(self._waits), self.evictions
        result.placements, result.evictions = self.placements, self.evicted_at
        result.waiting_s = quantiles(self._waits)


def quantiles(waits: Iterable[float]) -> dict[str, float]:
    """p50, p90, p99 and the longest wait; empty if there are none."""
    ordered = sorted(waits)
    found = {f"p{q * 100:g}": ordered[_rank(q, len(ordered))] for q in QUANTILES if ordered}
    return {**found, "max": ordered[-1]} if ordered else {}


def _without_numbers(text: str) -> str:
    """Remove the numbers of nodes from the message of a pending pod."""
    return _NUMBER.sub("", text)


def _rank(quantile: float, count: int) -> int:
    """Return the index of the smallest value that at least this share of all values does not exceed."""
    return max(0, -int(-quantile * count // 1) - 1)


# --------------------------------------------------------------------------------------------------------------------
# GPU allocation by arrived demand: the share of all GPUs in use when pods have requested a given share of them.
#
# The fragmentation study (USENIX ATC 2023) compares policies in this way. After each arrival two numbers are noted, in
# percent of all GPUs: the requests of arrived pods, and those of running pods. The value at X percent is the mean of
# the latter over all arrivals at which demand rounds to X. Fragmentation is noted every ten percent; typical are the
# pods that have arrived so far.

FRAGMENTATION_EVERY = 10  # percent of arrived demand
ByPercent = dict[str, float]


class GpuAllocation(SchedulerObserver):
    """Notes demand and allocation of shared GPUs. It is almost free in a run without GPU pods."""

    def __init__(self) -> None:
        self._cluster: ClusterState | None = None
        self._arrived = self._used = 0  # milli
        self._running: dict[str, int] = {}  # milli, by uid
        self._without: dict[int, int] = {}  # pods without GPUs that have arrived, by cpu
        self._kinds: dict[tuple[int, GpuRequest], int] = {}  # the others, by cpu and GPUs
        self._early = 0  # pods that have arrived before the first that asks for a GPU
        self._sums: dict[int, tuple[float, int]] = {}  # percent of demand -> sum and number of allocations
        self._fragmented: dict[int, float] = {}

    def configured(self, scheduler: Observed) -> None:
        self._cluster = scheduler.cluster

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        is_new = info.attempts == 1
        if not is_new and decision.outcome is not Outcome.SCHEDULED:
            return
        pod = info.pod_info
        request = safe_request_of(pod)
        wanted = request.total if request.count else 0
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

    def _fragmentation(self, cluster: ClusterState, gpus: GpuColumns) -> float:
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
