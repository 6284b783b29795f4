"""Arguments and results of plugins for pod groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mooring.api.pod_groups import PodGroup
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.status import Status
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

GROUP_UNSCHEDULABLE = "pod group is unschedulable"


@dataclass(frozen=True, slots=True)
class PodGroupInfo:
    """A group, and its pods without a node, in the order in which they are tried."""

    group: PodGroup
    pods: Sequence[PodInfo]

    @property
    def key(self) -> str:
        return self.group.key


class Progress(NamedTuple):
    """Progress of an attempt at a group."""

    scheduled: int  # pods with a node, including earlier attempts
    remaining: int  # pods that have not been tried yet


class Tried(NamedTuple):
    """A tried pod of the group, its node or "", and its cycle state."""

    pod: PodInfo
    node_name: str
    state: CycleState


@dataclass(frozen=True, slots=True)
class Placement:
    """A part of the cluster in which the whole group may be placed, such as a rack."""

    name: str
    nodes: NodeRows


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A placement, and the pods for which a node was found in it."""

    placement: Placement
    assignments: Sequence[Tried]


@dataclass(frozen=True, slots=True)
class PodGroupPostFilterResult:
    """Result of a PodGroupPostFilter plugin."""

    status: Status
    nominations: Mapping[str, str] = field(default_factory=dict)  # uid -> node
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0  # evictions that break a budget
    disruptions: int = 0  # groups among the victims; a group evicted pod by pod counts for each of them
