"""Samples at equal distances, never more than twice ``SAMPLES`` however long a run is: then every other one is dropped.

A sample is a snapshot of gauges, which know their integrals. So a mean between two samples is exact, whatever was
dropped between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
SAMPLES = 128
FIRST_STEP_S = 1.0


@dataclass(frozen=True, slots=True)
class Sample(Generic[T]):
    """How things stood at a time, and the peak of what is pending since the sample before."""

    at_s: float
    state: T
    peak: float


class Timeline(Generic[T]):
    """Takes samples as time passes. ``due_s`` is when the next one is due: ask before calling."""

    def __init__(self, take: Callable[[], T], peak: Callable[[], float]) -> None:
        self._take, self._peak = take, peak  # ``peak`` also begins a new one
        self._step_s = FIRST_STEP_S
        self.due_s = 0.0
        self.samples: list[Sample[T]] = []

    def pass_to(self, at_s: float) -> None:
        """Time passes to ``at_s``; what happens then is not part of the samples before."""
        state = self._take()
        while self.due_s < at_s:
            self.samples.append(Sample(self.due_s, state, self._peak()))
            if len(self.samples) > 2 * SAMPLES:
                self._thin_out()
            self.due_s = self.samples[-1].at_s + self._step_s

    def finish(self, at_s: float) -> list[Sample[T]]:
        """All samples, the last one at the end."""
        if self.due_s < at_s:
            self.pass_to(at_s)
        return [*self.samples, Sample(at_s, self._take(), self._peak())]

    def _thin_out(self) -> None:
        """Keep every other sample, the first and the last among them."""
        self._step_s *= 2
        old = self.samples
        self.samples = [old[0]] + [
            Sample(second.at_s, second.state, max(first.peak, second.peak))
            for first, second in zip(old[1::2], old[2::2], strict=True)
        ]
