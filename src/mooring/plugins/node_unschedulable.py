"""NodeUnschedulable: cordoned nodes take no pods, except those that tolerate it."""

from __future__ import annotations

from typing import ClassVar

from mooring.api.taints import UNSCHEDULABLE, is_tolerated
from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Handle
from mooring.framework.interfaces import Reads
from mooring.framework.status import Status
from mooring.framework.verdict import Verdict
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

CORDONED = Status.unresolvable("node(s) were unschedulable")


class NodeUnschedulable:
    """Rejects nodes with ``spec.unschedulable``; evicting pods does not uncordon a node, so it is unresolvable."""

    name: ClassVar[str] = "NodeUnschedulable"
    filter_reads: ClassVar[Reads] = Reads.NODE

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        cordoned = nodes.unschedulable
        if not cordoned.any() or is_tolerated(UNSCHEDULABLE, pod.shape.spec.tolerations):
            return None
        return Verdict.where(cordoned, CORDONED)
