"""What plugins themselves count for kube-scheduler's metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class PluginMeters(Protocol):
    """Given by the live scheduler, through ``handle.meters``."""

    def claim_created(self, *, is_created: bool) -> None:
        """A ResourceClaim was sent to the API server, which took it or not."""

    def devices_waited_for(
        self, drivers: Iterable[str], conditional: Iterable[str], status: str, seconds: float
    ) -> None:
        """A pod's devices became ready or did not: ``drivers`` of all, ``conditional`` of those that had to be waited
        for; ``status`` is success, failure, timeout or error."""

    def preemption_attempted(self) -> None:
        """A plugin looked for pods to evict."""

    def volume_stage_failed(self, operation: str) -> None:
        """Volumes could not be matched (``predicate``), reserved (``assume``) or bound (``bind``)."""


class NobodyCounts:
    """Outside a live scheduler nobody reads what plugins count."""

    def claim_created(self, *, is_created: bool) -> None:
        pass

    def devices_waited_for(
        self, drivers: Iterable[str], conditional: Iterable[str], status: str, seconds: float
    ) -> None:
        pass

    def preemption_attempted(self) -> None:
        pass

    def volume_stage_failed(self, operation: str) -> None:
        pass
