"""The priority that a class, or the default one, stands for: admission asks for pods and for pod groups."""

from __future__ import annotations

from typing import NamedTuple

from mooring.controlplane.registry.groups.scheduling import PRIORITY_CLASSES
from mooring.controlplane.types.kind import Context


class Priority(NamedTuple):
    name: str  # of the class; "" if there is none
    value: int
    preemption_policy: str


def priority_for(class_name: str, context: Context) -> Priority | None:
    """What the class says, or None if it does not exist; without a name, what the default class says, if any."""
    usual = "PreemptLowerPriority"
    if class_name:
        entry = context.find(PRIORITY_CLASSES, "", class_name)
        if entry is None:
            return None
        found = entry.object()
        return Priority(class_name, found.get("value", 0), found.get("preemptionPolicy", usual))
    defaults = [entry.object() for entry in context.each(PRIORITY_CLASSES) if b'"globalDefault":true' in entry.raw]
    if not defaults:
        return Priority("", 0, usual)
    chosen = min(defaults, key=lambda found: found.get("value", 0))
    return Priority(chosen["metadata"]["name"], chosen.get("value", 0), chosen.get("preemptionPolicy", usual))
