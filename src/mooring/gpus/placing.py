"""Which GPUs of its node a pod gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooring.gpus.requests import WHOLE, GpuRequest

CHOICE = "gpus/choice"
"""Where a plugin that chooses the GPU for pods that share one leaves its :data:`Choose` in the attempt's state."""

Choose = Callable[[str, Sequence[int], GpuRequest], int]
"""(node name, milli left on each GPU, request) -> one GPU on which there is room."""


def fitting(left: Sequence[int], request: GpuRequest) -> list[int]:
    """The GPUs on which there is room."""
    return [i for i, milli in enumerate(left) if milli >= request.milli]


def least_left(left: Sequence[int], request: GpuRequest) -> tuple[int, ...] | None:
    """The GPUs with the least left that is enough, the first of equal ones; None if there are too few."""
    found = fitting(left, request)
    if len(found) < request.count:
        return None
    if request.milli < WHOLE:
        found.sort(key=lambda i: (left[i], i))
    return tuple(sorted(found[: request.count]))
