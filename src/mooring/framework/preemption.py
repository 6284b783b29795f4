"""What a PostFilter plugin asks of the engine to make room for a pod."""

from __future__ import annotations

from typing import Protocol

import msgspec

from mooring.framework.cycle_state import CycleState
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.pod_groups import PodGroupInfo, PodGroupPostFilterResult
from mooring.framework.post_filter_result import PostFilterResult
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


class CandidateLimits(msgspec.Struct, frozen=True):
    """How many candidate nodes are enough, as a share of those that may help and as a number; the larger counts."""

    min_percentage: int
    min_absolute: int


class Preemption(Protocol):
    """Looks for a node where evicting pods makes room. Each profile has its own, with its own filters."""

    def preempt(
        self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses, limits: CandidateLimits
    ) -> PostFilterResult:
        """Success with a node and its victims; UNSCHEDULABLE with the reason why nobody is evicted."""

    def preempt_group(self, info: PodGroupInfo) -> PodGroupPostFilterResult:
        """The same for a whole group: nodes for its pods, and the victims that make room for all of them."""
