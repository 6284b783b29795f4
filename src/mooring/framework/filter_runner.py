"""A profile's filters, asked about hypotheses: what preemption needs of the engine."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mooring.framework.cycle_state import CycleState
from mooring.framework.filter_outcome import FilterOutcome
from mooring.state.change_log import ChangeLog
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


class FilterRunner(Protocol):
    """A profile's filters, asked about hypotheses: what preemption needs."""

    def nominated(self) -> ChangeLog[int]:
        """The rows whose nominated pods have changed, up to now."""

    def shared(self, state: CycleState, pod: PodInfo) -> tuple[Hashable, Hashable] | None:
        """What tells apart pods that the filters judge differently, and what else verdicts depend on besides the node;
        None if verdicts may not be kept from one pod to the next."""

    def passed_node_filters(self, state: CycleState, pod: PodInfo) -> NDArray[np.bool_]:
        """The rows that pass every filter that depends only on the Node object; only where verdicts are ``shared``."""

    def fullness(self, state: CycleState, pod: PodInfo, row: int) -> Hashable | None:
        """How full a node is and who is nominated to it, where the filters that depend on pods read no more than that:
        nodes that pass all others and are equally full get equal answers. None: they read more."""

    def is_local(self, state: CycleState) -> bool:
        """Report whether a change on one node cannot matter to another: many can then be tried at once."""

    def judge(self, state: CycleState, pod: PodInfo, nodes: NodeRows, *, pods_only: bool = False) -> FilterOutcome:
        """Run all filters, nominated pods counted in; ``pods_only`` leaves out those that depend only on the Node."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None: ...

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None: ...
