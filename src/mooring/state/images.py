"""Which node holds which image, how large it is, and on how many nodes it is: what ImageLocality reads."""

from __future__ import annotations

from mooring.api.core import Node
from mooring.state.node_info import NodeInfo


class ImageState:
    """One image name in the cluster; its size is what the first node to report it said."""

    __slots__ = ("nodes", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.nodes: set[NodeInfo] = set()


class ImageStates:
    """Image names by node.

    kube-scheduler copies "on how many nodes" into a node's snapshot only when
    that node itself has changed; ``spread`` keeps these frozen numbers, so that
    scores agree while images travel through a cluster.
    """

    def __init__(self) -> None:
        self.version = 0  # grows when a snapshot sees other numbers than the one before
        self._states: dict[str, ImageState] = {}
        self._on_node: dict[NodeInfo, dict[str, int]] = {}  # name -> size as frozen for that node
        self._spread: dict[NodeInfo, dict[str, int]] = {}  # name -> number of nodes, frozen at the last snapshot
        self._changed: set[NodeInfo] = set()

    def set_node(self, info: NodeInfo, node: Node) -> None:
        self._drop(info)
        self.version += 1
        sizes: dict[str, int] = {}
        for image in node.status.images:
            for name in image.names:
                state = self._states.get(name)
                if state is None:
                    state = self._states[name] = ImageState(image.size_bytes)
                state.nodes.add(info)
                sizes[name] = state.size
        if sizes:
            self._on_node[info] = sizes
        self._changed.add(info)

    def remove_node(self, info: NodeInfo) -> None:
        self._drop(info)
        self.version += 1
        self._changed.discard(info)
        self._spread.pop(info, None)

    def _drop(self, info: NodeInfo) -> None:
        for name in self._on_node.pop(info, ()):
            state = self._states[name]
            state.nodes.discard(info)
            if not state.nodes:
                del self._states[name]

    def touch(self, info: NodeInfo) -> None:
        """Remember that this node changed in some way, so that the next snapshot copies its numbers anew."""
        if info in self._on_node:
            self._changed.add(info)

    def refresh(self) -> None:
        """Take over the numbers of the nodes that changed since the last snapshot."""
        for info in self._changed:
            sizes = self._on_node.get(info)
            spread = {name: len(self._states[name].nodes) for name in sizes} if sizes else None
            if spread != self._spread.get(info):
                self.version += 1
            if spread is None:
                self._spread.pop(info, None)
            else:
                self._spread[info] = spread
        self._changed.clear()

    def holders(self, name: str) -> list[tuple[NodeInfo, int, int]]:
        """(node, size, number of nodes as that node's snapshot has it) for every node with the image."""
        state = self._states.get(name)
        if state is None:
            return []
        return [
            (info, self._on_node[info][name], self._spread[info][name]) for info in state.nodes if info in self._spread
        ]

    def on_node(self, info: NodeInfo, name: str) -> tuple[int, int] | None:
        """(size, number of nodes) of an image on one node; None if it is not there."""
        sizes = self._on_node.get(info)
        if not sizes or name not in sizes:
            return None
        return sizes[name], self._spread[info][name]
