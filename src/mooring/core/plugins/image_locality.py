"""ImageLocality: prefers nodes that already hold the pod's images, weighted by size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_info import PodInfo, PodShape, normalized_image

MIB = 1024 * 1024
MIN_THRESHOLD = 23 * MIB
MAX_CONTAINER_THRESHOLD = 1000 * MIB
MAX_KEPT = 1024  # templates


class ImageLocality:
    """Sums the sizes of the images present, each scaled by the share of nodes that have it.

    The scaling keeps pods from crowding onto the only node that holds the image. It depends on the images of other
    nodes, so a score is cached per template until images change.
    """

    name: ClassVar[str] = "ImageLocality"

    def __init__(self, args: None, handle: Handle) -> None:
        self._counts_volumes = handle.is_enabled("ImageVolumesCount", True)
        self._raises_the_ceiling = handle.is_enabled("ImageVolumesRaiseTheCeiling")
        self._kept: OrderedDict[int, tuple[Hashable, Scores | None]] = OrderedDict()  # by shape

    def sign(self, pod: PodInfo) -> Hashable:
        spec = pod.shape.spec
        return frozenset(normalized_image(container.image) for container in (*spec.containers, *spec.init_containers))

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        scores = self._all_nodes(pod.shape, nodes.table)
        if scores is None:
            return None
        return scores if nodes.index is None else scores[nodes.index]

    def _all_nodes(self, shape: PodShape, table: NodeTable) -> Scores | None:
        version = (table.generation, table.images.version)
        known = self._kept.get(shape.id)
        if known is not None and known[0] == version:
            return known[1]
        scores = self._compute(shape, table)
        self._kept[shape.id] = (version, scores)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return scores

    def _compute(self, shape: PodShape, table: NodeTable) -> Scores | None:
        total_nodes = len(table)
        present: Scores | None = None  # bytes
        containers = len(shape.spec.init_containers) + len(shape.spec.containers)
        for name in shape.images if self._counts_volumes else shape.images[:containers]:
            for node_name, size, holders in table.images.holders(name):
                row = table.nodes[node_name].row
                if row >= 0:
                    if present is None:
                        present = np.zeros(total_nodes, np.int64)
                    present[row] += int(size * (holders / total_nodes))
        if present is None:
            return None
        ceiling = MAX_CONTAINER_THRESHOLD * (len(shape.images) if self._raises_the_ceiling else containers)
        present = np.maximum(np.minimum(present, ceiling), MIN_THRESHOLD)  # the floor wins if there is no container
        return MAX_NODE_SCORE * (present - MIN_THRESHOLD) // (ceiling - MIN_THRESHOLD)
