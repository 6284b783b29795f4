"""NodeName: a pod that names its node runs there or nowhere."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import PreFilterResult
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SUCCESS, Status, Verdict
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

ANOTHER_NODE = Status.unresolvable("node(s) didn't match the requested node name")


class NodeName:
    """Rejects every other node. Pods of one template name different nodes, so nothing is cached between pods."""

    name: ClassVar[str] = "NodeName"
    traits: ClassVar[Traits] = Traits(filter_reads=Reads.LOCAL)

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.pod.spec.node_name

    def concerns(self, pod: PodInfo) -> bool:
        """Report whether the filter can reject any node for this pod."""
        return bool(pod.pod.spec.node_name)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        """Restrict the search to the named node; preemption leaves the others alone."""
        wanted = pod.pod.spec.node_name
        return PreFilterResult(frozenset((wanted,))) if wanted else SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        wanted = pod.pod.spec.node_name
        if not wanted:
            return None
        info = nodes.table.nodes.get(wanted)
        return Verdict.where(nodes.rows != (-1 if info is None else info.row), ANOTHER_NODE)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (on(EventResource.NODE, ActionType.ADD),)
