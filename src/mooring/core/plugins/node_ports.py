"""NodePorts: a host port can be taken once per address and protocol."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import Change, PreFilterResult, Remedy, few
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP_FOR_TEMPLATE, SUCCESS_FOR_TEMPLATE, Status, Verdict
from mooring.core.state.node_rows import NodeRows, ports_clash
from mooring.core.state.pod_info import PodInfo

LOST = Status.error('reading "PreFilterNodePorts" from cycleState: not found')
TAKEN = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts:
    """Rejects nodes where one of the pod's host ports is in use; evicting the pod that uses it would free it."""

    name: ClassVar[str] = "NodePorts"
    traits: ClassVar[Traits] = Traits(filter_reads=Reads.ROW, uses_volumes=False)

    def __init__(self, args: None, handle: Handle) -> None:
        self._cluster = handle.cluster
        # Without its PreFilter upstream's filter lacks its state, and fails.
        self._lacks_pre_filter = not handle.is_enabled_at("preFilter", self.name)

    def sign(self, pod: PodInfo) -> Hashable:
        return tuple(sorted(pod.shape.host_ports))

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        return SUCCESS_FOR_TEMPLATE if pod.shape.host_ports else SKIP_FOR_TEMPLATE

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        if self._lacks_pre_filter:
            return Verdict.where(np.ones(len(nodes), np.bool_), LOST)
        conflicts = nodes.port_conflicts(pod.shape.host_ports)
        return Verdict.where(conflicts, TAKEN) if conflicts.any() else None

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterator[Remedy]:
        for node in few(nodes):
            taken = [
                port for port in pod.shape.host_ports if any(ports_clash(port, other) for other in node.host_ports)
            ]
            yield tuple(_without_port(protocol, port) for _, protocol, port in sorted(taken))

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(EventResource.POD, ActionType.DELETE, self._after_pod_deleted),
            on(EventResource.NODE, ActionType.ADD),
        )

    def _after_pod_deleted(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A pod that used one of the ports was deleted from a node, or lost its nomination."""
        assert isinstance(old, Pod)
        if not old.spec.node_name and not old.status.nominated_node_name:
            return Hint.SKIP
        freed = self._cluster.info(old).shape.host_ports
        if not freed:
            return Hint.SKIP
        wanted = self._cluster.info(pod).shape.host_ports
        return Hint.QUEUE if any(ports_clash(want, have) for want in wanted for have in freed) else Hint.SKIP


def _without_port(protocol: str, port: int) -> Change:
    def edit(pod: Pod) -> None:
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            for taken in container.ports:
                if taken.host_port == port and (taken.protocol or "TCP") == protocol:
                    taken.host_port = 0

    number = f"{port}" if protocol == "TCP" else f"{port}/{protocol}"
    return Change(f"remove host port {number}", "hostPort", 3.0, edit=edit)
