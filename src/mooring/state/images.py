"""Which node holds which image, how large it is, and on how many nodes it is: what ImageLocality reads."""

from __future__ import annotations

from mooring.api.core import Node
from mooring.state.sharing import stamps


class ImageState:
    """One image name in the cluster; its size is what the first node to report it said."""

    __slots__ = ("nodes", "owner", "size")

    def __init__(self, size: int, owner: object) -> None:
        self.size = size
        self.nodes: set[str] = set()
        self.owner = owner  # who may write to it


class ImageStates:
    """Image names by node.

    kube-scheduler copies "on how many nodes" into a node's snapshot only when
    that node itself has changed; ``spread`` keeps these frozen numbers, so that
    scores agree while images travel through a cluster.
    """

    def __init__(self) -> None:
        self.version = next(stamps)  # another number when a snapshot sees other numbers than the one before
        self._states: dict[str, ImageState] = {}
        self._on_node: dict[str, dict[str, int]] = {}  # node -> image -> size as frozen for that node
        self._spread: dict[str, dict[str, int]] = {}  # node -> image -> number of nodes, as of the last snapshot
        self._changed: set[str] = set()
        self._token = object()

    def copy(self) -> ImageStates:
        """The same images for a fork of the table; afterwards both copy what they share before they write to it."""
        copy = ImageStates.__new__(ImageStates)
        copy.version = self.version
        copy._states, copy._on_node, copy._spread = dict(self._states), dict(self._on_node), dict(self._spread)
        copy._changed = set(self._changed)
        self._token, copy._token = object(), object()
        return copy

    def _writable(self, name: str) -> ImageState:
        state = self._states[name]
        if state.owner is not self._token:
            copy = self._states[name] = ImageState(state.size, self._token)
            copy.nodes = set(state.nodes)
            return copy
        return state

    def set_node(self, node: Node) -> None:
        name = node.metadata.name
        if not node.status.images and name not in self._on_node:
            if name in self._spread:
                self._changed.add(name)
            return
        self._drop(name)
        self.version = next(stamps)
        sizes: dict[str, int] = {}
        for image in node.status.images:
            for image_name in image.names:
                if image_name not in self._states:
                    self._states[image_name] = ImageState(image.size_bytes, self._token)
                state = self._writable(image_name)
                state.nodes.add(name)
                sizes[image_name] = state.size
        if sizes:
            self._on_node[name] = sizes
        self._changed.add(name)

    def remove_node(self, name: str) -> None:
        self._changed.discard(name)
        if name in self._on_node or name in self._spread:
            self._drop(name)
            self.version = next(stamps)
            self._spread.pop(name, None)

    def _drop(self, name: str) -> None:
        for image_name in self._on_node.pop(name, ()):
            state = self._writable(image_name)
            state.nodes.discard(name)
            if not state.nodes:
                del self._states[image_name]

    def has(self, name: str) -> bool:
        """Report whether the node holds any image."""
        return name in self._on_node

    def touch(self, name: str) -> None:
        """Remember that this node changed in some way, so that the next snapshot copies its numbers anew."""
        self._changed.add(name)

    @property
    def is_stale(self) -> bool:
        """Whether ``refresh`` has something to do."""
        return bool(self._changed)

    def refresh(self) -> None:
        """Take over the numbers of the nodes that changed since the last snapshot."""
        for name in self._changed:
            sizes = self._on_node.get(name)
            spread = {image: len(self._states[image].nodes) for image in sizes} if sizes else None
            if spread == self._spread.get(name):
                continue
            self.version = next(stamps)
            if spread is None:
                self._spread.pop(name, None)
            else:
                self._spread[name] = spread
        self._changed.clear()

    def holders(self, image: str) -> list[tuple[str, int, int]]:
        """(node, size, number of nodes as that node's snapshot has it) for every node with the image."""
        state = self._states.get(image)
        if state is None:
            return []
        return [
            (name, self._on_node[name][image], self._spread[name][image])
            for name in state.nodes
            if name in self._spread
        ]
