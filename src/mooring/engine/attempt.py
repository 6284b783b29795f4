"""One attempt at one pod: what every step of a scheduling cycle is given."""

from __future__ import annotations

from collections.abc import Set

import numpy as np
from numpy.typing import NDArray

from mooring.engine.laps import Laps
from mooring.framework.cycle_state import CycleState
from mooring.framework.plans import FilterPlan
from mooring.framework.runtime import Profile
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


class Attempt:
    """A pod, the profile that decides about it, all nodes as they are now, and what plugins remember meanwhile."""

    __slots__ = (
        "_some", "_some_rows", "detail", "laps", "makes_room", "nodes", "plan", "pod", "profile", "state", "uses_kept",
        "within",
    )  # fmt: skip

    plan: FilterPlan  # the filters that this attempt runs; set once the pre-filters have spoken

    def __init__(
        self,
        pod: PodInfo,
        profile: Profile,
        nodes: NodeRows,
        state: CycleState,
        laps: Laps,
        *,
        uses_kept: bool,
        detail: bool,
    ) -> None:
        self.pod = pod
        self.profile = profile
        self.nodes = nodes
        self.state = state
        self.laps = laps
        self.uses_kept = uses_kept  # whether columns that are kept for the pod's template may be used
        self.detail = detail  # whether the decision keeps scores by plugin
        self.within: NDArray[np.int64] | None = None  # the rows that may be chosen; None: all
        self.makes_room = True  # whether PostFilter is asked where no node fits
        self._some_rows: Set[int] = frozenset()
        self._some = nodes

    def some(self, rows: Set[int]) -> NodeRows:
        """These rows. Verdicts and scores mostly have the same ones to repair, and share what is gathered of them."""
        if self._some_rows is not rows and self._some_rows != rows:  # mostly the very same: comparing takes longer
            self._some_rows, self._some = rows, NodeRows(self.nodes.table, np.fromiter(rows, np.int64, len(rows)))
        return self._some

    def with_state(self, state: CycleState) -> Attempt:
        """The same attempt under a hypothesis: plugins remember something else."""
        other = Attempt(
            self.pod, self.profile, self.nodes, state, self.laps, uses_kept=self.uses_kept, detail=self.detail
        )
        other.plan = self.plan
        return other
