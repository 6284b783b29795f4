"""What a simulation has shown: what became of the pods, how long they waited, how full the cluster is."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mooring.api.core import Pod
from mooring.clock import Clock
from mooring.engine.decision import Decision
from mooring.framework.runtime import Profile
from mooring.measures.results import Measures
from mooring.observe.observer import SchedulerObserver
from mooring.queue.queued_pod import QueuedPodInfo

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
    placed: int = 0  # pods that got a node; one that was evicted and came again counts twice
    ended: int = 0  # pods of workloads that ran for their time
    running: int = 0
    pending: dict[str, str] = field(default_factory=dict)  # why each pod that still waits has no node
    evicted: int = 0  # by preemption
    attempts: int = 0
    waiting_s: dict[str, float] = field(default_factory=dict)  # from arrival to binding: p50, p90, p99, max
    allocated_at_end: dict[str, float] = field(default_factory=dict)  # shares of all nodes' resources
    measures: Measures | None = field(default=None, repr=False)  # over time, and as one row
    gpu_allocation: dict[str, float] = field(default_factory=dict)  # in percent, by percent of arrived GPU demand
    gpu_fragmentation: dict[str, float] = field(default_factory=dict)  # the same
    expectations: int = 0  # that held
    failure: str = ""  # the expectation that did not, or what else ended the story
    is_mistake: bool = False  # whether that was a mistake in what was given
    placements: dict[str, Placed] | None = None  # if they were asked for: of every pod, its last one
    evictions: dict[str, float] | None = None  # if placements were asked for: when

    @property
    def held(self) -> bool:
        """Whether everything was as expected."""
        return not self.failure

    def pending_reasons(self) -> dict[str, int]:
        """How many pods wait for each reason, the most frequent first; how many nodes have it is left out."""
        return dict(Counter(_without_numbers(text) for text in self.pending.values()).most_common())

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it: names in camelCase, pending pods by reason."""
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
        if self.gpu_allocation:
            value["gpuAllocationPercent"] = self.gpu_allocation
            value["gpuFragmentationPercent"] = self.gpu_fragmentation
        if self.was_interrupted:
            value["interrupted"] = True
        if self.placements is not None:
            value["placements"] = {
                key: {"node": each.node, "atSeconds": round(each.at_s, 6), "attempts": each.attempts}
                for key, each in self.placements.items()
            }
        return value


class Witness(SchedulerObserver):
    """Notes what becomes of pods while a simulation runs."""

    def __init__(self, clock: Clock, *, keeps_placements: bool) -> None:
        self._clock = clock
        self._waits = array("d")
        self.attempts = self.evictions = 0
        self.placements: dict[str, Placed] | None = {} if keeps_placements else None
        self.evicted_at: dict[str, float] | None = {} if keeps_placements else None

    @property
    def placed(self) -> int:
        return len(self._waits)

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: Decision, seconds: float) -> None:
        self.attempts += 1

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        now = self._clock.monotonic()
        self._waits.append(now - info.added_timestamp)
        if self.placements is not None:
            self.placements[info.key] = Placed(node_name, now, info.attempts)

    def evicted(self, preemptor: Pod, victim: Pod, node_name: str) -> None:
        self.evictions += 1
        if self.evicted_at is not None:
            self.evicted_at[victim.key] = self._clock.monotonic()

    def fill(self, result: Simulation) -> None:
        """Put into a result what was noted."""
        result.attempts, result.placed, result.evicted = self.attempts, len(self._waits), self.evictions
        result.placements, result.evictions = self.placements, self.evicted_at
        waits = sorted(self._waits)
        if waits:
            result.waiting_s = {f"p{q * 100:g}": waits[_rank(q, len(waits))] for q in QUANTILES}
            result.waiting_s["max"] = waits[-1]


def _without_numbers(text: str) -> str:
    """The message of a pending pod without how many nodes have each reason."""
    return _NUMBER.sub("", text)


def _rank(quantile: float, count: int) -> int:
    """The index of the smallest value that at least this share of all values does not exceed."""
    return max(0, -int(-quantile * count // 1) - 1)
