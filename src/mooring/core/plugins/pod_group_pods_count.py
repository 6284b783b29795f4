"""PodGroupPodsCount: of several places for a group, the one is better where more of its pods find a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE
from mooring.core.framework.plugin_timing import CycleError
from mooring.core.framework.pod_groups import PlacedGroup, PodGroupInfo
from mooring.core.framework.status import Status


class PodGroupPodsCount:
    """Scores a placement by the number of pods that it takes, those that run already included."""

    name: ClassVar[str] = "PodGroupPodsCount"

    def __init__(self, args: object, handle: Handle) -> None:
        self._handle = handle

    def score_placement(self, group: PodGroupInfo, placement: PlacedGroup) -> int:
        return len(self._handle.cluster.groups.placed(group.key)) + len(placement.assignments)

    def normalize_placements(self, group: PodGroupInfo, scores: Sequence[int]) -> Sequence[int]:
        most = max(scores)
        if most == 0:
            text = "no pods from pod group are assigned to any of the candidate placements"
            raise CycleError(Status.error(f"running NormalizePlacementScore on PlacementScore plugins: {text}"))
        return [score * MAX_NODE_SCORE // most for score in scores]
