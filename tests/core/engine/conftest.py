"""Plugins that note what they are asked about, and attempts with them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mooring.api.clock import VirtualClock
from mooring.core.engine.decision import CycleAttempt, Stopwatch
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.extension_points import EXTENSION_POINTS
from mooring.core.framework.registry import Reads, Traits, resolve
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import Status, Verdict
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.testing import NOON, make_pod

REFUSED = Status.unschedulable("refused")


class Noting:
    """Filters and scores by name, and notes for which nodes it was asked."""

    name: ClassVar[str] = "Noting"

    def __init__(
        self,
        reads: Reads = Reads.NODE,
        *,
        name: str = "Noting",
        refuses: tuple[str, ...] = (),
        scores: dict[str, int] | None = None,
        per_node: bool = False,
    ) -> None:
        self.name = name  # type: ignore[misc]
        self.traits = Traits(filter_reads=reads, score_reads=reads, uses_volumes=False, per_node=per_node)
        self.refuses = set(refuses)
        self.scores = scores or {}
        self.asked: list[list[str]] = []
        self.scored: list[list[str]] = []
        self.token = 0
        self.breaks = False

    def cache_token(self) -> int:
        return self.token

    def filter(self, state: CycleState, pod: Any, nodes: NodeRows) -> Verdict:
        names = [info.name for info in nodes.infos]
        self.asked.append(sorted(names))
        if self.breaks:
            raise RuntimeError("broken")
        return Verdict.where(np.array([name in self.refuses for name in names], np.bool_), REFUSED)

    def score(self, state: CycleState, pod: Any, nodes: NodeRows) -> Any:
        names = [info.name for info in nodes.infos]
        self.scored.append(sorted(names))
        return np.array([self.scores.get(name, 0) for name in names], np.int64)


def make_profile(*plugins: Any, weights: dict[str, int] | None = None, **more: Any) -> Profile:
    """A profile that has each plugin at all its points, in this order."""
    resolved = [resolve(plugin) for plugin in plugins]
    points = {
        point.name: [
            (plugin.name, (weights or {}).get(plugin.name, 1) if point.is_scored else 0)
            for plugin in resolved
            if point.name in plugin.points
        ]
        for point in EXTENSION_POINTS
    }
    return Profile("default-scheduler", more.pop("percentage", None), {p.name: p for p in resolved}, points, **more)


def make_attempt(cluster: ClusterState, profile: Profile, pod: Any = None, *, uses_kept: bool = True) -> CycleAttempt:
    """An attempt whose pre-filters have spoken."""
    state = CycleState()
    stopwatch = Stopwatch(None, VirtualClock(NOON))
    info = cluster.info(pod or make_pod("new"))
    attempt = CycleAttempt(info, profile, cluster.nodes(), state, stopwatch, uses_kept=uses_kept, detail=True)
    attempt.plan = profile.filter_plan(state)
    return attempt
