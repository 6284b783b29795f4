"""What a pod's own spec demands of a node's labels: nodeSelector and required node affinity, together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mooring.api.core import PodSpec
from mooring.state.node_rows import Mask, NodeRows
from mooring.state.node_selector import CompiledNodeSelector, compile_node_selector, labels_mask
from mooring.state.pod_info import PodShape


class NodeRequirements:
    """The conjunction; ``is_empty`` when the pod goes anywhere."""

    __slots__ = ("node_selector", "required")

    def __init__(self, spec: PodSpec) -> None:
        self.node_selector: Mapping[str, str] = spec.node_selector or {}
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        self.required: CompiledNodeSelector | None = None if required is None else compile_node_selector(required)

    @property
    def is_empty(self) -> bool:
        return not self.node_selector and self.required is None

    def mask(self, nodes: NodeRows) -> Mask:
        if self.is_empty:
            return np.ones(len(nodes), np.bool_)
        mask = labels_mask(self.node_selector, nodes)
        if self.required is not None:
            mask &= self.required.mask(nodes)
        return mask

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return self.required is None or self.required.matches(name, labels)


def node_requirements(shape: PodShape) -> NodeRequirements:
    """Compiled once per shape."""
    found: NodeRequirements | None = shape.kept.get(NodeRequirements)
    if found is None:
        found = shape.kept[NodeRequirements] = NodeRequirements(shape.spec)
    return found
