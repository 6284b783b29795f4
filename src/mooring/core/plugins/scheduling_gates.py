"""SchedulingGates: a pod with gates is not tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import Change
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo


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

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterator[Change]:
        gates = [gate.name for gate in pod.pod.spec.scheduling_gates]
        text = f"remove scheduling gate{'s' if len(gates) > 1 else ''} {', '.join(gates)}"
        yield Change(text, "gate", 1.0, edit=_without_gates)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (on(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _after_gates_removed),)


def _without_gates(pod: Pod) -> None:
    pod.spec.scheduling_gates = []


def _after_gates_removed(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == pod.uid else Hint.SKIP
