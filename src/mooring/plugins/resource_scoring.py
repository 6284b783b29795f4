"""How full nodes would be: the arithmetic that NodeResourcesFit and NodeResourcesBalancedAllocation share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.config.types import ResourceSpec
from mooring.framework.handle import Handle
from mooring.framework.interfaces import MAX_NODE_SCORE, Reads, Scores
from mooring.state.node_rows import NodeRows
from mooring.state.requests import is_scalar_name

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ResourceColumn:
    """One resource on every node; ``allocatable`` is 0 where it does not take part in the score."""

    allocatable: Ints  # [node]
    used: Ints  # [node], before the pod
    requested: int  # by the pod
    weight: int

    @property
    def after(self) -> Ints:
        return self.used + self.requested


class ResourceColumns:
    """Reads the configured resources, with or without defaults for containers that name no cpu or memory."""

    def __init__(self, resources: list[ResourceSpec], handle: Handle, *, use_non_zero: bool) -> None:
        self._resources = resources
        self._handle = handle
        self._use_non_zero = use_non_zero
        # A resource that devices may back depends on claims, which the row does not know.
        self.reads = Reads.CLUSTER if any(is_scalar_name(r.name) for r in resources) else Reads.ROW

    def read(self, nodes: NodeRows, requests: list[int]) -> list[ResourceColumn]:
        """The resources that count; a scalar that the pod does not ask for does not."""
        columns = []
        for resource, requested in zip(self._resources, requests, strict=True):
            name = resource.name
            if requested == 0 and is_scalar_name(name):
                continue
            allocatable = nodes.allocatable(name)
            used = nodes.non_zero_requested(name) if self._use_non_zero else nodes.requested(name)
            if is_scalar_name(name) and self._handle.devices.backs(name):
                devices, taken = self._handle.devices.totals(name, nodes)
                by_devices = (allocatable == 0) & (devices > 0)
                allocatable, used = np.where(by_devices, devices, allocatable), np.where(by_devices, taken, used)
            columns.append(ResourceColumn(allocatable, used, requested, resource.weight or 1))
        return columns


def _weighted_average(parts: list[tuple[Ints, ResourceColumn]], n: int) -> Scores:
    """Σ score·weight // Σ weight over the resources that each node has."""
    if parts and all(column.allocatable.all() for _, column in parts):  # the usual case, with half the work
        total = parts[0][0] * parts[0][1].weight
        for score, column in parts[1:]:
            total += score * column.weight
        return total // sum(column.weight for _, column in parts)
    total, weights = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for score, column in parts:
        present = column.allocatable != 0
        total += np.where(present, score, 0) * column.weight
        weights += present * column.weight
    return total // np.maximum(weights, 1)


def _safe(allocatable: Ints) -> Ints:
    return np.maximum(allocatable, 1)


def least_allocated(columns: list[ResourceColumn], n: int) -> Scores:
    """The emptier the better."""
    parts = []
    for column in columns:
        free = np.maximum(column.allocatable - column.after, 0)
        free *= MAX_NODE_SCORE
        parts.append((free // _safe(column.allocatable), column))
    return _weighted_average(parts, n)


def most_allocated(columns: list[ResourceColumn], n: int) -> Scores:
    """The fuller the better."""
    parts = []
    for column in columns:
        filled = np.minimum(column.after, column.allocatable)
        parts.append((filled * MAX_NODE_SCORE // _safe(column.allocatable), column))
    return _weighted_average(parts, n)


def requested_to_capacity(columns: list[ResourceColumn], shape: list[tuple[int, int]], n: int) -> Scores:
    """A piecewise linear function of utilisation; a resource that scores 0 also loses its weight."""
    total, weights = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for column in columns:
        utilization = column.after * 100 // _safe(column.allocatable)
        utilization = np.where(column.after > column.allocatable, 100, utilization)
        score = np.where(column.allocatable == 0, 0, piecewise_linear(utilization, shape))
        total += np.where(score > 0, score, 0) * column.weight
        weights += (score > 0) * column.weight
    ratio = total / np.maximum(weights, 1)
    return np.floor(ratio + 0.5).astype(np.int64)  # scores are not negative: half away from zero is half up


def piecewise_linear(utilization: Ints, shape: list[tuple[int, int]]) -> Ints:
    """Integer interpolation between (utilisation, score) points, truncating towards zero as Go divides."""
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


def balance(columns: list[ResourceColumn], n: int) -> Ints:
    """[with the pod | without it, node]: 100 where all resources are used in the same proportion, less otherwise."""
    fractions: list[Floats] = []
    for column in columns:
        amounts = np.empty((2, n), np.int64)
        amounts[0] = column.after
        amounts[1] = column.used
        fractions.append(np.minimum(amounts / _safe(column.allocatable), 1.0))
    present = [column.allocatable != 0 for column in columns]
    if len(columns) == 2:
        deviation: Floats = np.abs((fractions[0] - fractions[1]) / 2)
        both = present[0] & present[1]
        if not both.all():
            deviation = np.where(both, deviation, 0.0)
    elif len(columns) > 2:
        deviation = _deviation(fractions, present, n)
    else:
        deviation = np.zeros((2, n))
    return ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)


def _deviation(fractions: list[Floats], present: list[NDArray[np.bool_]], n: int) -> Floats:
    """Standard deviation over the resources that each node has; for two of them half their difference."""
    k, total = np.zeros(n), np.zeros((2, n))
    for fraction, here in zip(fractions, present, strict=True):
        k += here
        total += np.where(here, fraction, 0.0)
    mean = total / np.maximum(k, 1)
    squares, difference, sign = np.zeros((2, n)), np.zeros((2, n)), np.ones(n)
    for fraction, here in zip(fractions, present, strict=True):
        squares += np.where(here, (fraction - mean) * (fraction - mean), 0.0)
        difference += np.where(here, sign * fraction, 0.0)
        sign = np.where(here, -sign, sign)
    deviation = np.where(k > 2, np.sqrt(squares / np.maximum(k, 1)), 0.0)
    return np.where(k == 2, np.abs(difference / 2), deviation)
