"""What would help a pod that a plugin refuses: changes that an explanation tries before it tells them.

A plugin that has a method ``remedies`` offers some. They are guesses, made from what the pod and the nodes say. The
engine is asked about each of them, and only those that help are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mooring.api.core import Node, Pod
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows

FEW = 8
"""For how many nodes it is worth making a remedy: no more are tried."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that could be different: in the pod, on a node, or that some pods do not run.

    The functions are given a copy and change it. ``{node}`` in the text stands for the node's name.
    """

    text: str
    kind: str = "change"  # one word for programs
    cost: float = 3.0  # larger is more to ask of people: a label 2, giving up a rule 4, another pod 6
    edit: Callable[[Pod], None] | None = None
    node: str = ""
    edit_node: Callable[[Node], None] | None = None
    removes: tuple[Pod, ...] = ()

    def __str__(self) -> str:
        return self.text.replace("{node}", self.node)


Remedy = tuple[Change, ...]
"""Changes that belong together. Several remedies for one node are alternatives."""


def few(nodes: NodeRows) -> Sequence[NodeInfo]:
    """The first few of these nodes."""
    return nodes.subset(np.arange(min(FEW, len(nodes)))).infos
