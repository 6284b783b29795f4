"""Outcome of an autoscaler: the lives of its nodes and their cost, disruptions, and pods placed elsewhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mooring.api.clock import Clock
from mooring.sim.autoscaler.cloud import Offering
from mooring.sim.catalogue import SPOT

if TYPE_CHECKING:
    from mooring.sim.autoscaler.fleet import Machine

MOST_MISMATCHES = 1000  # kept one by one; all are counted


@dataclass(slots=True)
class NodeLife:
    """A node from its join to its deletion."""

    name: str
    pool: str
    type: str
    zone: str
    capacity_type: str
    price: float
    joined_s: float
    removed_s: float | None = None
    reason: str = ""  # reason of its removal

    def hours(self, end_s: float) -> float:
        """Return how long it existed."""
        return max(0.0, (end_s if self.removed_s is None else self.removed_s) - self.joined_s) / 3600


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A pod for which a node was bought, and where the scheduler placed it instead."""

    pod: str
    planned: str
    node: str
    at_s: float


@dataclass(slots=True)
class Autoscaling:
    """The result. Times are seconds from the start of the simulation; a node costs from when it joins."""

    policy: str = ""
    packing: str = ""
    cost: float = 0.0
    hours: float = 0.0  # of the simulation
    ordered: int = 0
    failed: dict[str, int] = field(default_factory=dict)  # launches, by reason of the failure
    removed: dict[str, int] = field(default_factory=dict)  # nodes, by reason
    interrupted: int = 0
    evicted: dict[str, int] = field(default_factory=dict)  # pods, by the reason for which their node was removed
    lost_hours: float = 0.0  # run time of evicted pods that must run for a time and began again
    node_hours: dict[str, float] = field(default_factory=dict)  # by type, spot ones apart
    nodes: list[NodeLife] = field(default_factory=list, repr=False)
    planned: int = 0  # pods for which nodes were bought, counted each time
    mismatched: int = 0  # of these, pods that the scheduler placed elsewhere
    unused: list[str] = field(default_factory=list)  # nodes with none of the pods that they were bought for
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def cost_per_hour(self) -> float:
        """Return the average cost per hour."""
        return self.cost / self.hours if self.hours else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return it in its JSON form."""
        return {
            "policy": self.policy,
            "packing": self.packing,
            "cost": round(self.cost, 6),
            "costPerHour": round(self.cost_per_hour, 6),
            "nodes": {
                "ordered": self.ordered,
                "failed": self.failed,
                "removed": self.removed,
                "interrupted": self.interrupted,
                "hours": {name: round(hours, 6) for name, hours in self.node_hours.items()},
            },
            "podsEvicted": self.evicted,
            "workLostHours": round(self.lost_hours, 6),
            "plan": {
                "pods": self.planned,
                "mismatched": self.mismatched,
                "nodesNotUsedAsPlanned": self.unused,
                "mismatches": [
                    {"pod": each.pod, "planned": each.planned, "node": each.node, "atSeconds": round(each.at_s, 3)}
                    for each in self.mismatches
                ],
            },
        }


class Outcome:
    """Notes what happens to machines and their pods."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lives: dict[str, NodeLife] = {}
        self._planned: dict[str, str] = {}  # pod -> the machine that was ordered for it and that it does not have yet
        self._as_planned: Counter[str] = Counter()  # machine -> number of its planned pods that run on it
        self._open: Counter[str] = Counter()  # machine -> number of its planned pods without a node
        self._result = Autoscaling()

    def ordered(self, machine: Machine) -> None:
        """Note the order of a machine. A pod counts for the last one that was ordered for it."""
        self._result.ordered += 1
        self._result.planned += len(machine.planned)
        for pod in machine.planned:
            before = self._planned.get(pod)
            if before is not None:
                self._open[before] -= 1
            self._planned[pod] = machine.name
            self._open[machine.name] += 1

    def failed(self, pool: str, offering: Offering, why: str) -> None:
        """Note an ordered machine that the cloud cannot deliver."""
        self._result.failed[why] = self._result.failed.get(why, 0) + 1

    def joined(self, machine: Machine) -> None:
        """Note that a node joined the cluster."""
        kind = machine.offering
        self._lives[machine.name] = NodeLife(
            machine.name, machine.pool, kind.type, kind.zone, kind.capacity_type, kind.price, self._clock.monotonic()
        )

    def removed(self, machine: Machine, reason: str) -> None:
        """Note that a node is gone."""
        life = self._lives.get(machine.name)
        if life is not None:
            life.removed_s, life.reason = self._clock.monotonic(), reason
        removed = self._result.removed
        removed[reason] = removed.get(reason, 0) + 1

    def interrupted(self, machine: Machine) -> None:
        """Note the interruption of a spot node."""
        self._result.interrupted += 1

    def evicted(self, reason: str, lost_s: float) -> None:
        """Note that a pod was evicted because its node is removed, and lost this run time."""
        evicted = self._result.evicted
        self._result.lost_hours += lost_s / 3600
        evicted[reason] = evicted.get(reason, 0) + 1

    def bound(self, pod: str, node: str) -> None:
        """Note that the scheduler placed a pod."""
        planned = self._planned.pop(pod, None)
        if planned is None:
            return
        self._open[planned] -= 1
        if planned == node:
            self._as_planned[node] += 1
            return
        self._result.mismatched += 1
        if len(self._result.mismatches) < MOST_MISMATCHES:
            self._result.mismatches.append(Mismatch(pod, planned, node, self._clock.monotonic()))

    def planned_for(self, pod: str) -> str:
        """Return the machine that was ordered for a pod without a node; empty if none was."""
        return self._planned.get(pod, "")

    def has_open_plans(self, name: str) -> bool:
        """Report whether any pods that the machine was ordered for have no node yet."""
        return self._open[name] > 0

    def result(self) -> Autoscaling:
        """Return everything so far."""
        found, now_s = self._result, self._clock.monotonic()
        found.nodes = list(self._lives.values())
        found.hours = now_s / 3600
        found.cost = sum(life.price * life.hours(now_s) for life in found.nodes)
        found.node_hours = {}
        for life in found.nodes:
            name = f"{life.type} (spot)" if life.capacity_type == SPOT else life.type
            found.node_hours[name] = found.node_hours.get(name, 0.0) + life.hours(now_s)
        was_planned = {name for name in self._open if name in self._lives}
        found.unused = sorted(name for name in was_planned if not self._as_planned[name] and self._open[name] <= 0)
        return found
