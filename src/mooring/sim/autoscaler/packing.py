"""How an autoscaler predicts where pods go: by packing on a fork, and by the scheduler's own decisions.

| packing | which node a pod is planned for |
|---|---|
| ``upstream`` | the first feasible one, in the policy's own order of nodes and pods, as upstream simulates it |
| ``exact`` | the one that the scheduler would choose, in the order of its queue; the policy's plan is only a start |

Both use the scheduler's filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.core.engine.decision import ScheduleResult
from mooring.core.framework.cycle_state import CycleError
from mooring.core.session import Session
from mooring.core.state.pod_info import PodInfo

EXACT, UPSTREAM = "exact", "upstream"
PACKINGS = (EXACT, UPSTREAM)
Kind = tuple[int, int]
"""What equal pods have in common: their shape and their class."""


def kind_of(pod: PodInfo) -> Kind:
    return pod.shape.id, pod.cls.id


def fits(session: Session, pod: PodInfo, node: str) -> ScheduleResult | None:
    """Return the decision that places this pod on this node; None if a filter rejects it."""
    session.state.nodes()  # fixes the row of each node
    info = session.state.table.nodes.get(node)
    if info is None or info.row < 0:
        return None
    profile = session.profile_for(pod.pod)
    decision = session.engine.attempt(pod, profile, detail=False, within=np.array([info.row]), makes_room=False)
    return decision if decision.node is not None else None


def feasible_rows(session: Session, pod: PodInfo) -> NDArray[np.int64]:
    """Return the rows of all nodes that are feasible for the pod."""
    try:
        _, result = session.engine.look(pod, session.profile_for(pod.pod))
    except CycleError:
        return np.zeros(0, np.int64)
    return result.rows


def names_of(session: Session, rows: Iterable[int]) -> list[str]:
    infos = session.state.nodes().infos
    return [infos[row].name for row in rows]


def place_all(session: Session, pods: Sequence[PodInfo]) -> tuple[dict[str, str], list[PodInfo]]:
    """Place pods one after another, as the scheduler would: the node of each by its uid, and those without one.

    Of equal pods one is tried, until a change concerns them.
    """
    placed: dict[str, str] = {}
    left: list[PodInfo] = []
    refused: dict[Kind, int] = {}
    for pod in pods:
        kind = kind_of(pod)
        if refused.get(kind) == len(placed):
            left.append(pod)
            continue
        node = session.place(pod).node
        if node is None:
            refused[kind] = len(placed)
            left.append(pod)
        else:
            placed[pod.uid] = node
    return placed, left
