"""Nodes as an extender sent them back, for scoring: no pods, no images, and possibly other labels than ours.

kube-scheduler scores what came back and not what it knows. That is a
hypothesis about the cluster, and so it is a fork of the node table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.api.core import Node
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.node_table import NodeTable


def extender_rows(table: NodeTable, answered: Sequence[NodeInfo]) -> NodeRows:
    """Rows for nodes that came back whole, in that order. The cluster need not know all of them."""
    fork = table.fork()
    fork.forget_pods_and_images()
    for info in answered:
        ours = table.nodes.get(info.name)
        if info.node is not None and (ours is None or ours.node is None or _differs(ours.node, info.node)):
            fork.set_node(info.node)
    fork.refresh()
    index = np.fromiter((fork.nodes[info.name].row for info in answered), np.int64, len(answered))
    return NodeRows(fork, index, answered)


def _differs(ours: Node, theirs: Node) -> bool:
    return ours is not theirs and (
        ours.metadata.labels != theirs.metadata.labels
        or ours.status.allocatable != theirs.status.allocatable
        or ours.spec.taints != theirs.spec.taints
        or ours.spec.unschedulable != theirs.spec.unschedulable
    )
