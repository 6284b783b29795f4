"""The Decision: everything that is known about one attempt at one pod, as a plain value.

Tables, events, conditions, logs and the decision log are renderings of it.
Columns and codes inside; texts are made when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.node_statuses import NodeStatuses
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

NO_NODES = "no nodes available to schedule pods"


class Outcome(Enum):
    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"  # tried and refused
    GATED = "gated"  # held back before any attempt
    ERROR = "error"  # something broke; shown to users as SchedulerError


class ScoreTable(msgspec.Struct):
    """Scores of the feasible nodes, in the order in which they were looked at."""

    nodes: NodeRows
    by_plugin: dict[str, NDArray[np.int64]]  # normalised and weighted
    totals: NDArray[np.int64]
    winner: int  # the position of the best one

    @property
    def names(self) -> list[str]:
        return [info.name for info in self.nodes.infos]

    def to_dict(self) -> dict[str, dict[str, int]]:
        if not self.by_plugin:
            return {}
        return {
            name: {plugin: int(scores[i]) for plugin, scores in self.by_plugin.items()}
            for i, name in enumerate(self.names)
        }

    def totals_dict(self) -> dict[str, int]:
        return dict(zip(self.names, self.totals.tolist(), strict=True))


class Decision(msgspec.Struct):
    """The outcome of one attempt and how it came about."""

    pod: PodInfo
    outcome: Outcome
    node: str | None = None
    status: Status = SUCCESS  # why not, signed by the plugin where one plugin decided
    num_nodes: int = 0
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    scores: ScoreTable | None = None  # None where nothing was scored: fewer than two feasible nodes
    statuses: NodeStatuses | None = None  # per node, for those that were refused
    pre_filter_message: str = ""
    post_filter_message: str = ""
    post_filter_plugin: str = ""  # the plugin that chose the victims
    nominated_node: str | None = None  # None: leave it; "": clear it
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0  # of the victims
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    is_fit_error: bool = False
    from_hint: bool = False  # taken over from the ranking of an equal pod
    hint: str = ""  # the node that the ranking of an equal pod proposed, whether it was taken or not
    start: int = 0  # where the search began
    extender_scores: Mapping[str, Mapping[str, Sequence[int]]] = {}
    """node -> extender -> scores as it answered them, before the weight; also of nodes that it was not asked about."""
    state: CycleState = msgspec.field(default_factory=CycleState)  # for the plugins of the binding cycle
    _message: str | None = None

    @property
    def reason(self) -> str:
        """The reason of the PodScheduled condition."""
        match self.outcome:
            case Outcome.SCHEDULED:
                return ""
            case Outcome.GATED:
                return "SchedulingGated"
            case Outcome.UNSCHEDULABLE:
                return "Unschedulable"
            case Outcome.ERROR:
                return "SchedulerError"

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins that refused the pod or want it to wait."""
        pending = self.pending_plugins
        return self.unschedulable_plugins | pending if pending else self.unschedulable_plugins

    @property
    def message(self) -> str:
        """What users read in the condition and the event."""
        if self._message is None:
            self._message = self._fit_error() if self.is_fit_error else self.status.message
        return self._message

    def _fit_error(self) -> str:
        text = f"0/{self.num_nodes} nodes are available:"
        if self.pre_filter_message:
            text += f" {self.pre_filter_message}."
        elif self.statuses is not None:
            entries = self.statuses.summary()
            if entries:
                text += f" {entries}."
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text
