"""NodeUnschedulable: rejects cordoned nodes, except for pods that tolerate it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import ClassVar

from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.selectors import UNSCHEDULABLE, is_tolerated
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import Change, few
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SUCCESS_FOR_TEMPLATE, Status, Verdict
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

CORDONED = Status.unresolvable("node(s) were unschedulable")


class NodeUnschedulable:
    """Rejects nodes with ``spec.unschedulable``; evicting pods does not uncordon a node, so it is unresolvable."""

    name: ClassVar[str] = "NodeUnschedulable"
    traits: ClassVar[Traits] = Traits(filter_reads=Reads.NODE, uses_volumes=False)

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.shape.signed_tolerations

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        return SUCCESS_FOR_TEMPLATE  # only there: upstream skips pods here that wait to be resized, behind a gate

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        cordoned = nodes.unschedulable
        if not cordoned.any() or is_tolerated(UNSCHEDULABLE, pod.shape.spec.tolerations):
            return None
        return Verdict.where(cordoned, CORDONED)

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterator[Change]:
        for node in few(nodes):
            yield Change("uncordon {node}", "uncordon", 2.0, node=node.name, edit_node=_uncordon)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, _after_node_change),
            on(EventResource.POD, ActionType.UPDATE_POD_TOLERATION, _after_toleration_change),
        )


def _uncordon(node: Node) -> None:
    """Uncordon as kubectl does, and remove the taint that the node lifecycle controller would remove."""
    node.spec.unschedulable = False
    node.spec.taints = [taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE.key]


def _after_node_change(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    """A node that has become schedulable."""
    assert isinstance(new, Node)
    was_usable = isinstance(old, Node) and not old.spec.unschedulable
    return Hint.SKIP if new.spec.unschedulable or was_usable else Hint.QUEUE


def _after_toleration_change(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    assert isinstance(new, Pod)
    helps = new.uid == pod.uid and is_tolerated(UNSCHEDULABLE, new.spec.tolerations)
    return Hint.QUEUE if helps else Hint.SKIP
