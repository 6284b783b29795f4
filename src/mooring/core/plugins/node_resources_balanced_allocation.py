"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod balances better."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from mooring.core.config.types import NodeResourcesBalancedAllocationArgs
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.core.framework.registry import Traits
from mooring.core.framework.status import SKIP_FOR_TEMPLATE, SUCCESS_FOR_TEMPLATE, Status
from mooring.core.plugins.resource_usage import ResourceColumns, balance
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import constant

NEUTRAL, TWO = constant(MAX_NODE_SCORE * 3 // 2), constant(2)


class NodeResourcesBalancedAllocation:
    """Compares the balance with and without the pod: 75 is neutral, an improvement scores up to 100.

    Until 1.35 the score is the balance with the pod.

    A pod without requests does not change the balance and is skipped, or all such pods would crowd onto one node.
    """

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._handle = handle
        self._compares = handle.is_enabled("BalanceCountsImprovement", True)
        self._columns = ResourceColumns(args.resources, handle, use_non_zero=False)
        self.traits = Traits(score_reads=self._columns.reads, uses_volumes=False, in_range=True)

    def sign(self, pod: PodInfo) -> Hashable:
        """Return no signature if the pod's resources stand for devices: such pods are never equivalent."""
        requests = pod.shape.requests
        if any(amount and self._handle.devices.backs(name) for name, amount in requests.items()):
            return None
        return tuple(sorted(requests.items()))

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        return SUCCESS_FOR_TEMPLATE if any(self._columns.asked_by(pod.shape).amounts) else SKIP_FOR_TEMPLATE

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        before, after = balance(self._columns.of(nodes, pod.shape))
        scores: Scores = after
        if self._compares:
            scores = (after - before + NEUTRAL) // TWO  # upstream's 50 + (50 + after - before) // 2
        return scores
