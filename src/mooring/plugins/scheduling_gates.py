"""SchedulingGates: a pod with gates is not even tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.framework.handle import Handle
from mooring.framework.status import SUCCESS, Status


class SchedulingGates:
    """Holds a pod back until its last gate is removed; only that update can free it."""

    name: ClassVar[str] = "SchedulingGates"

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def pre_enqueue(self, pod: Pod) -> Status:
        gates = pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        return Status.unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (on(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _after_gates_removed),)


def _after_gates_removed(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == pod.uid else Hint.SKIP
