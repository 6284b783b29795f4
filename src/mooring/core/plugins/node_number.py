"""NodeNumber: prefers the node whose name ends in the same digit as the pod's. For lessons and first experiments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import Scores
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP, SUCCESS, Status
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

MATCH_SCORE = 10


class NodeNumber:
    """Scores 10 for ``pod3`` on ``node3`` and 0 elsewhere; pods without a final digit are not scored.

    It is the plugin of mini-kube-scheduler, a popular tutorial. It is registered but not enabled: name it in a profile.
    Pods of one template differ in their names, so nothing is cached between pods.
    """

    name: ClassVar[str] = "NodeNumber"
    traits: ClassVar[Traits] = Traits(score_reads=Reads.LOCAL)

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def sign(self, pod: PodInfo) -> Hashable:
        return _digit(pod.pod.metadata.name)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        return SUCCESS if _digit(pod.pod.metadata.name) else SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        wanted = _digit(pod.pod.metadata.name)
        return np.fromiter((MATCH_SCORE * (_digit(info.name) == wanted) for info in nodes.infos), np.int64, len(nodes))

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (on(EventResource.NODE, ActionType.ADD),)


def _digit(name: str) -> str:
    return name[-1:] if name[-1:].isdecimal() and name.isascii() else ""
