"""What plugins and the cycle of a pod group count for kube-scheduler's metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mooring.framework.status import Code


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

    def group_preemption_attempted(self, code: Code) -> None:
        """A plugin looked for pods to evict for a whole group, and this came of it."""

    def preemption_evaluated(self, preemptor: str, code: Code, seconds: float) -> None:
        """Victims were looked for, for a ``pod`` or a ``podgroup``."""

    def group_tried(self, seconds: float) -> None:
        """The pods of a group were tried, for so long."""

    def placements_generated(self, count: int) -> None:
        """So many places were found in which a group may be tried."""

    def placement_evaluated(self, *, is_feasible: bool, seconds: float) -> None:
        """A group was tried in one place."""

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

    def group_preemption_attempted(self, code: Code) -> None:
        pass

    def preemption_evaluated(self, preemptor: str, code: Code, seconds: float) -> None:
        pass

    def group_tried(self, seconds: float) -> None:
        pass

    def placements_generated(self, count: int) -> None:
        pass

    def placement_evaluated(self, *, is_feasible: bool, seconds: float) -> None:
        pass

    def volume_stage_failed(self, operation: str) -> None:
        pass
