"""What a PostFilter plugin achieved."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.framework.status import Status
from mooring.state.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What a PostFilter plugin achieved. ``nominated_node`` None: leave the pod's nomination as it is; "": clear it."""

    status: Status
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0  # evictions that break a budget
