"""Topology-aware scheduling of pod groups: TopologyPlacementGenerator and PodGroupPodsCount.

A group with a topology constraint is placed within one rack, zone or the like.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from mooring.core.framework.cycle_state import CycleError
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE
from mooring.core.framework.pod_groups import PlacedGroup, Placement, PodGroupInfo
from mooring.core.framework.status import Status
from mooring.core.state.node_rows import NodeRows


class TopologyPlacementGenerator:
    """Offers one placement per value of the group's topology label. On with TopologyAwareWorkloadScheduling.

    Nodes without the label are in no placement. If pods of the group run already, only their domain is offered.
    """

    name: ClassVar[str] = "TopologyPlacementGenerator"

    def __init__(self, args: object, handle: Handle) -> None:
        self._handle = handle

    def generate_placements(self, group: PodGroupInfo, nodes: NodeRows) -> Sequence[Placement]:
        key = group.group.topology_key
        if not key:
            return [Placement("", nodes)]
        only = self._domain_in_use(group, key)
        rows: dict[str, list[int]] = {}
        for row, info in enumerate(nodes.infos):
            domain = info.node.metadata.labels.get(key) if info.node is not None else None
            if domain is not None and (only is None or domain == only):
                rows.setdefault(domain, []).append(row)
        return [Placement(domain, nodes.subset(np.array(found))) for domain, found in rows.items()]

    def _domain_in_use(self, group: PodGroupInfo, key: str) -> str | None:
        """Return the domain of the group's running pods; None if there are none."""
        found: str | None = None
        cluster = self._handle.cluster
        for pod in cluster.groups.placed(group.key).values():
            info = cluster.table.nodes.get(pod.pod.spec.node_name)
            if info is None or info.node is None:
                problem = f'nodeinfo not found for node name "{pod.pod.spec.node_name}"'
                raise _unclear(f"getting node for pod {pod.pod.key}: {problem}")
            domain = info.node.metadata.labels.get(key)
            if domain is None:
                raise _unclear(f"no topology domain found for pod {pod.pod.key}")
            if found not in (None, domain):
                raise _unclear(f"more than 1 domain found for pod group: {found}, {domain}")
            found = domain
        return found


def _unclear(problem: str) -> CycleError:
    return CycleError(Status.error(f"cannot determine domain for already scheduled pods: {problem}"))


# ---- PodGroupPodsCount: prefers placements where more of the group's pods find a node
# -----------------------------------


class PodGroupPodsCount:
    """Scores a placement by the number of its pods, including those that run already."""

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
