"""What a scheduler does without: kinds that the API server does not serve, because it is older or was told not to."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.client.kinds import (
    CSI_STORAGE_CAPACITIES,
    DEVICE_TAINT_RULES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    RESOURCE_CLAIMS,
    VOLUME_ATTACHMENTS,
)

_CONSEQUENCES = {
    RESOURCE_CLAIMS.name: "pods with resource claims stay pending",
    DEVICE_TAINT_RULES.name: "no device is tainted by a rule",
    POD_GROUPS.name: "pods with a schedulingGroup stay pending",
    POD_DISRUPTION_BUDGETS.name: "no budget holds preemption back",
    CSI_STORAGE_CAPACITIES.name: "the capacity of storage is not looked at",
    VOLUME_ATTACHMENTS.name: "volumes that are still attached are not counted",
}


def consequences(not_served: Iterable[str]) -> str:
    """One line for the log: the kinds that are missing, and what follows where something does."""
    return "; ".join(
        f"{name} ({_CONSEQUENCES[name]})" if name in _CONSEQUENCES else name for name in sorted(not_served)
    )
