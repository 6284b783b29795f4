"""NodePorts: a host port can be taken once per address and protocol."""

from __future__ import annotations

from typing import ClassVar

from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Handle
from mooring.framework.interfaces import PreFilterResult, Reads
from mooring.framework.status import SKIP, SUCCESS, Status
from mooring.framework.verdict import Verdict
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

TAKEN = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts:
    """Rejects nodes where one of the pod's host ports is in use; evicting its user would free it."""

    name: ClassVar[str] = "NodePorts"
    filter_reads: ClassVar[Reads] = Reads.ROW

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        return SUCCESS if pod.shape.host_ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        conflicts = nodes.port_conflicts(pod.shape.host_ports)
        return Verdict.where(conflicts, TAKEN) if conflicts.any() else None
