"""cluster-autoscaler's expanders: which node group to scale up. Each keeps the best options; ties are random."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import CPU, MEMORY
from mooring.sim.autoscaler.cloud import Offering
from mooring.sim.autoscaler.node_groups import CHEAPEST, NodeGroup
from mooring.sim.catalogue import GPU

_GIB = 2**30
_MEMORY_PER_CPU = 7.5 * _GIB  # amount that costs as much as a CPU
GPU_UNFITNESS = 1000.0
_PREFERRED_CPUS = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))  # up to how many nodes -> of the preferred node


@dataclass(slots=True)
class Option:
    """A group that could be scaled up: by how many nodes, for which pods."""

    group: NodeGroup
    count: int
    pods: list[PodInfo] = field(default_factory=list)
    placed: dict[str, str] = field(default_factory=dict)  # uid -> node, as packed

    @property
    def offering(self) -> Offering:
        return self.group.offerings[0]

    def asks(self, resource: str) -> int:
        return sum(pod.shape.requests.get(resource, 0) for pod in self.pods)


Filter = Callable[[Sequence[Option]], Sequence[Option]]


def choose(
    options: Sequence[Option],
    names: Sequence[str],
    chance: random.Random,
    *,
    num_nodes: int,
    priorities: Mapping[int, tuple[re.Pattern[str], ...]],
) -> Option:
    """Apply expanders one after another; choose one of the remaining options at random."""
    filters: dict[str, Filter] = {
        "random": lambda options: options,
        "least-waste": least_waste,
        "most-pods": lambda options: _best(options, lambda each: -len(each.pods)),
        "least-nodes": lambda options: _best(options, lambda each: each.count),
        CHEAPEST: lambda options: _best(options, lambda each: each.offering.price)[:1],
        "price": lambda options: _best(options, price_score(options, num_nodes)),
        "priority": lambda options: of_highest_priority(options, priorities),
    }
    for name in names:
        options = filters[name](options)
        if len(options) == 1:
            break
    return options[0] if len(options) == 1 else chance.choice(options)


def _best(options: Sequence[Option], score: Callable[[Option], float]) -> Sequence[Option]:
    scores = [score(option) for option in options]
    return [option for option, each in zip(options, scores, strict=True) if each == min(scores)]


def least_waste(options: Sequence[Option]) -> Sequence[Option]:
    """Keep the smallest sum of the unused shares of CPU and memory of the new nodes."""

    def waste(option: Option) -> float:
        total = 0.0
        for resource in (CPU, MEMORY):
            there = option.offering.amounts.get(resource, 0) * option.count
            total += (there - option.asks(resource)) / there if there else 0.0
        return total

    return _best(options, waste)


def price_score(options: Sequence[Option], num_nodes: int) -> Callable[[Option], float]:
    """Score the price of the nodes relative to the value of their pods, and their distance from the preferred node
    size.

    A pod's value is its requests at the rate of the cheapest group, where a CPU costs as much as 7.5 GiB.
    """
    rate = min((_rate(option.offering) for option in options), default=0.0)
    stabilization = rate * _units(500, 500 * 2**20)
    preferred = 1000 * next((cpus for most, cpus in _PREFERRED_CPUS if num_nodes <= most), 32)

    def score(option: Option) -> float:
        kind = option.offering
        pods = rate * _units(option.asks(CPU), option.asks(MEMORY))
        money = (kind.price * option.count + stabilization) / (pods + stabilization) if rate else 1.0
        cpu = kind.amounts.get(CPU, 0) or 1
        unfitness = max(preferred / cpu, cpu / preferred)
        suppressed = (unfitness - 1.0) * (1.0 - math.tanh((option.count - 1) / 15.0)) + 1.0
        return (GPU_UNFITNESS if kind.amounts.get(GPU) else suppressed) * money

    return score


def _units(milli_cpu: int, memory: int) -> float:
    return milli_cpu / 1000 + memory / _MEMORY_PER_CPU


def _rate(kind: Offering) -> float:
    units = _units(kind.amounts.get(CPU, 0), kind.amounts.get(MEMORY, 0))
    return kind.price / units if units else 0.0


def of_highest_priority(
    options: Sequence[Option], priorities: Mapping[int, tuple[re.Pattern[str], ...]]
) -> Sequence[Option]:
    """Keep the groups whose names match the highest priority; all of them if none matches."""
    found: dict[int, list[Option]] = {}
    for option in options:
        for number, patterns in priorities.items():
            if any(pattern.search(option.group.name) for pattern in patterns):
                found.setdefault(number, []).append(option)
    return found[max(found)] if found else options
