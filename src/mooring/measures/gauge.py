"""Amounts over time: their value now, and their exact mean over any span, at the cost of one multiplication a change.

The integral of a step function up to ``t`` is ``value * t`` minus the sum of each change times the time at which it
happened. So only that sum has to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Moment: TypeAlias = tuple[list[float], list[float]]
"""The values of some gauges, and their sums of changes times their times."""


@dataclass(slots=True)
class Gauges:
    """Amounts that change by steps, by index. Changes come in order of time, which is in seconds from the start."""

    values: list[float] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)  # the sum of change * time

    def add(self, index: int, change: float, at_s: float) -> None:
        self.values[index] += change
        self.moments[index] += change * at_s

    def grow(self, size: int) -> None:
        """Make room for so many; new ones are 0."""
        more = size - len(self.values)
        if more > 0:
            self.values.extend([0.0] * more)
            self.moments.extend([0.0] * more)

    def snapshot(self) -> Moment:
        return self.values.copy(), self.moments.copy()


def integral(moment: Moment, index: int, at_s: float) -> float:
    """The integral of a gauge from 0 to ``at_s``, if nothing has changed since the moment was taken."""
    values, moments = moment
    return values[index] * at_s - moments[index] if index < len(values) else 0.0
