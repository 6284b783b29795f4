"""Utilisation of nodes: the arithmetic that NodeResourcesFit and NodeResourcesBalancedAllocation share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.core.config.types import ResourceSpec
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.core.framework.registry import Reads
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodShape
from mooring.core.state.requests import is_scalar_name
from mooring.core.state.sharing import constant

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

EXACT_IN_FLOAT = 1 << 52


ZERO, MOST = constant(0), constant(MAX_NODE_SCORE)
WHOLE, HALF, PERCENT = constant(1.0), constant(0.5), constant(float(MAX_NODE_SCORE))
FEW = 512  # up to this many integer divisions are faster than conversion to floating point


class Usage:
    """The resources that count, for all nodes; ``allocatable`` is 0 where a node does not have one."""

    __slots__ = ("after", "allocatable", "divisor", "is_complete", "used", "weights")

    def __init__(
        self, allocatable: Ints, used: Ints, after: Ints, weights: Sequence[int], *, is_complete: bool = False
    ) -> None:
        self.allocatable = allocatable  # [resource, node]
        self.used = used  # [resource, node], before the pod
        self.after = after  # [resource, node], with the pod
        self.weights = weights  # [resource]
        self.is_complete = is_complete  # whether every node is known to have every resource: the usual case
        self.divisor = allocatable if is_complete else np.maximum(allocatable, 1)  # without zeros

    def average(self, scores: Ints) -> Scores:
        """Σ score·weight // Σ weight over the resources that each node has."""
        if self.is_complete and self.weights:
            total = scores[0] if self.weights[0] == 1 else scores[0] * self.weights[0]
            for score, weight in zip(scores[1:], self.weights[1:], strict=True):
                total = total + (score if weight == 1 else score * weight)
            average: Scores = total // _total(*self.weights)
            return average
        total = np.zeros(scores.shape[1], np.int64)
        weights = np.zeros(scores.shape[1], np.int64)
        for score, weight, present in zip(scores, self.weights, self.allocatable != 0, strict=True):
            total += score * present * weight
            weights += present * weight
        return total // np.maximum(weights, 1)


@lru_cache(maxsize=64)
def _total(*weights: int) -> Ints:
    return constant(sum(weights))


def floor_divide(amounts: Ints, by: Ints) -> Ints:
    """Divide non-negative integers.

    For many of them floating point is several times faster, and exact below 2**52: a quotient just under a whole number
    k is away from it by at least 1/by, far more than half a unit in the last place of k.
    """
    if amounts.size > FEW and amounts.item(amounts.argmax()) < EXACT_IN_FLOAT:  # faster than max()
        return (amounts / by).astype(np.int64)
    return amounts // by


class Asked(NamedTuple):
    """A pod's requests of the resources that count."""

    names: tuple[str, ...]
    weights: list[int]
    amounts: list[int]
    column: Ints  # the amounts as a column


class ResourceColumns:
    """Reads the configured resources, with or without defaults for containers that name no cpu or memory."""

    def __init__(self, resources: list[ResourceSpec], handle: Handle, *, use_non_zero: bool) -> None:
        self._kept_as = object()
        self._names = tuple(resource.name for resource in resources)
        self._weights = [resource.weight or 1 for resource in resources]
        self._scalars = frozenset(name for name in self._names if is_scalar_name(name))
        self._handle = handle
        self._use_non_zero = use_non_zero
        # A resource that devices may back depends on claims, which the row does not have.
        self.reads = Reads.CLUSTER if self._scalars else Reads.RESOURCES

    def asked(self, amounts: list[int]) -> Asked:
        """Return the counted part of these requests; scalars without a request are left out."""
        kept = [i for i, name in enumerate(self._names) if amounts[i] or name not in self._scalars]
        wanted = [amounts[i] for i in kept]
        column = np.array(wanted, np.int64).reshape(-1, 1)
        return Asked(tuple(self._names[i] for i in kept), [self._weights[i] for i in kept], wanted, column)

    def asked_by(self, shape: PodShape) -> Asked:
        """Return the same for a pod of this shape, cached."""
        found: Asked | None = shape.kept.get(self._kept_as)
        if found is None:
            request = shape.scored_request if self._use_non_zero else lambda name: shape.requests.get(name, 0)
            found = shape.kept[self._kept_as] = self.asked([request(name) for name in self._names])
        return found

    def of(self, nodes: NodeRows, shape: PodShape) -> Usage:
        """Return how full these nodes would be with a pod of this shape."""
        return self.read(nodes, self.asked_by(shape))

    def read(self, nodes: NodeRows, asked: Asked) -> Usage:
        names = asked.names
        allocatable, is_complete = nodes.capacity_of(names)
        used = nodes.non_zero_requested_of(names) if self._use_non_zero else nodes.requested_of(names)
        for i, name in enumerate(names) if self._scalars else ():
            if name in self._scalars and self._handle.devices.backs(name):
                devices, taken = self._handle.devices.totals(name, nodes)
                by_devices = (allocatable[i] == 0) & (devices > 0)
                allocatable, used = allocatable.copy(), used.copy()
                allocatable[i] = np.where(by_devices, devices, allocatable[i])
                used[i] = np.where(by_devices, taken, used[i])
        return Usage(allocatable, used, used + asked.column, asked.weights, is_complete=is_complete)


def least_allocated(usage: Usage) -> Scores:
    """Score emptier nodes higher."""
    free = np.maximum(usage.allocatable - usage.after, ZERO)
    free *= MOST
    return usage.average(floor_divide(free, usage.divisor))


def most_allocated(usage: Usage) -> Scores:
    """Score fuller nodes higher."""
    filled = np.minimum(usage.after, usage.allocatable)
    return usage.average(floor_divide(filled * MOST, usage.divisor))


def requested_to_capacity(usage: Usage, shape: list[tuple[int, int]]) -> Scores:
    """Score by a piecewise linear function of utilisation; a resource that scores 0 also loses its weight."""
    utilization = usage.after * 100 // usage.divisor
    utilization = np.where(usage.after > usage.allocatable, 100, utilization)
    scores = np.where(usage.allocatable == 0, 0, piecewise_linear(utilization, shape))
    counts = scores > 0
    weights = np.array(usage.weights, np.int64).reshape(-1, 1)
    total = np.add.reduce(scores * counts * weights)
    ratio: Floats = total / np.maximum(np.add.reduce(counts * weights), 1)
    return np.floor(ratio + 0.5).astype(np.int64)  # scores are not negative: half away from zero is half up


def piecewise_linear(utilization: Ints, shape: list[tuple[int, int]]) -> Ints:
    """Interpolate between (utilisation, score) points in integers, truncating towards zero as Go divides."""
    result = np.full_like(utilization, shape[-1][1])
    for i in range(len(shape) - 1, -1, -1):
        x1, y1 = shape[i]
        below = utilization <= x1
        if i == 0:
            value: Ints = np.full_like(utilization, y1)
        else:
            x0, y0 = shape[i - 1]
            product = (y1 - y0) * (utilization - x0)
            value = y0 + np.sign(product) * (np.abs(product) // (x1 - x0))
        result = np.where(below, value, result)
    return result


def balance(usage: Usage) -> Ints:
    """Return [before, after; node]: 100 where all resources are used in the same proportion, less otherwise."""
    fractions: Floats = np.array((usage.used, usage.after)) / usage.divisor  # [before and with, resource, node]
    np.minimum(fractions, WHOLE, out=fractions)
    if usage.is_complete and fractions.shape[1] == 2:
        deviation: Floats = np.abs(fractions[:, 0] - fractions[:, 1])
        deviation *= HALF
    else:
        deviation = np.array([_deviation(each, usage.allocatable != 0) for each in fractions])
    balances: Floats = (WHOLE - deviation) * PERCENT
    return balances.astype(np.int64)


def _deviation(fractions: Floats, present: NDArray[np.bool_]) -> Floats:
    """Return the standard deviation over the resources that each node has; for two of them half their difference.

    Sums run resource by resource, in order, so that floating point rounds as upstream's loop does.
    """
    n = fractions.shape[1]
    k, total = np.zeros(n), np.zeros(n)
    for fraction, here in zip(fractions, present, strict=True):
        k += here
        total += np.where(here, fraction, 0.0)
    mean = total / np.maximum(k, 1)
    squares, difference, sign = np.zeros(n), np.zeros(n), np.ones(n)
    for fraction, here in zip(fractions, present, strict=True):
        squares += np.where(here, (fraction - mean) * (fraction - mean), 0.0)
        difference += np.where(here, sign * fraction, 0.0)
        sign = np.where(here, -sign, sign)
    deviation = np.where(k > 2, np.sqrt(squares / np.maximum(k, 1)), 0.0)
    return np.where(k == 2, np.abs(difference / 2), deviation)
