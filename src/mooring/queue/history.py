"""What a pod has gone through in another queue, so that a simulation can go on from there."""

from __future__ import annotations

import msgspec


class History(msgspec.Struct, frozen=True):
    """Where a pod waited, and what the queue remembered of it. Times are seconds before now."""

    place: str  # active, backoff or unschedulable
    attempts: int
    added_s_ago: float  # it first entered the queue
    entered_s_ago: float  # it last entered as a new or a failed pod
    plugins: tuple[str, ...] = ()  # that refused it
    message: str = ""
