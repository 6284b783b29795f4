"""Columns of the node table besides resource figures: labels as numbers, images, and sums over topology domains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node
from mooring.core.state.sharing import stamps

MISSING = -1  # the id of a missing label


class LabelColumn:
    """An id per distinct value of a label, -1 where the label is missing."""

    __slots__ = ("_alone", "_id_of", "_owns_ids", "_owns_values", "_present", "ids", "numbering", "values", "version")

    def __init__(self) -> None:
        self.ids: NDArray[np.int32] = np.empty(0, np.int32)  # [node]
        self.values: list[str] = []
        self.version = next(stamps)  # changes when the id of a row changes, for caches that are keyed by id
        self.numbering = self.version  # changes when a value gets another id
        self._id_of: dict[str, int] = {}
        self._present: tuple[int, NDArray[np.bool_], bool] | None = None
        self._alone: tuple[int, bool] | None = None
        self._owns_ids = self._owns_values = True

    def fork(self) -> LabelColumn:
        """Return the column for a fork of the table; both copy before they write."""
        fork = LabelColumn.__new__(LabelColumn)
        fork.ids, fork.values, fork._id_of = self.ids, self.values, self._id_of
        fork.version, fork.numbering = self.version, self.numbering
        fork._present, fork._alone = self._present, self._alone
        self._owns_ids = self._owns_values = fork._owns_ids = fork._owns_values = False
        return fork

    def put(self, row: int, value: str | None) -> None:
        """Write a row's value."""
        new = self.intern(value)
        if self.ids[row] != new:
            self._own_ids()
            self.ids[row] = new
            self.version = next(stamps)

    def renumber_rows(self, ids: NDArray[np.int32]) -> None:
        """Replace the column after rows have moved."""
        self.ids, self._owns_ids = ids, True
        self.version = next(stamps)

    def _own_ids(self) -> None:
        if not self._owns_ids:
            self.ids, self._owns_ids = self.ids.copy(), True

    def present(self) -> tuple[NDArray[np.bool_], bool]:
        """Return which values occur on nodes ([id]), and whether every node has the label."""
        known = self._present
        if known is None or known[0] != self.version or len(known[1]) != len(self.values):
            by_id = np.bincount(self.ids + 1, minlength=len(self.values) + 1)
            known = self._present = (self.version, by_id[1:] > 0, not by_id[0])
        return known[1], known[2]

    def is_of_one_node_each(self) -> bool:
        """Report whether no two nodes have the same value, as with host names."""
        if self._alone is None or self._alone[0] != self.version:
            ids = self.ids[self.ids >= 0]
            self._alone = (
                self.version,
                len(ids) <= len(self.values) and bool((np.bincount(ids, minlength=1) <= 1).all()),
            )
        return self._alone[1]

    def id_of(self, value: str) -> int:
        """Return the id of a value; for a value that no node has, an id that equals none."""
        return self._id_of.get(value, -2)

    def intern(self, value: str | None) -> int:
        if value is None:
            return MISSING
        known = self._id_of.get(value)
        if known is None:
            if not self._owns_values:
                self.values, self._id_of, self._owns_values = list(self.values), dict(self._id_of), True
            known = self._id_of[value] = len(self.values)
            self.values.append(value)
        return known

    def forget_unused(self) -> None:
        """Renumber the values in use: values of removed nodes would accumulate."""
        used, ids = np.unique(self.ids[self.ids >= 0], return_inverse=True)
        self._own_ids()
        self.ids[self.ids >= 0] = ids
        self.version = self.numbering = next(stamps)
        self.values = [self.values[i] for i in used.tolist()]
        self._id_of = {value: i for i, value in enumerate(self.values)}
        self._owns_values = True


# ---- images: on which nodes, how large, and on how many nodes; for ImageLocality
# ---------------------------------------


class ImageState:
    """One image name in the cluster; its size is that of the first node to report it."""

    __slots__ = ("nodes", "owner", "size")

    def __init__(self, size: int, owner: object) -> None:
        self.size = size
        self.nodes: set[str] = set()
        self.owner = owner  # parts that may be written in place


class ImageStates:
    """Image names by node.

    kube-scheduler copies "on how many nodes" into a node's snapshot only when that node itself has changed; ``spread``
    keeps these frozen numbers, so that scores agree while images spread through a cluster.
    """

    def __init__(self) -> None:
        self.version = next(stamps)  # changes when a snapshot differs from the previous one
        self._states: dict[str, ImageState] = {}
        self._on_node: dict[str, dict[str, int]] = {}  # node -> image -> size as frozen for that node
        self._spread: dict[str, dict[str, int]] = {}  # node -> image -> number of nodes, as of the last snapshot
        self._changed: set[str] = set()
        self._token = object()

    def copy(self) -> ImageStates:
        """Return the images for a fork of the table; both copy shared parts before they write."""
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
        """Mark a changed node, so that the next snapshot copies its numbers again."""
        self._changed.add(name)

    @property
    def is_stale(self) -> bool:
        """Report whether ``refresh`` has anything to do."""
        return bool(self._changed)

    def refresh(self) -> None:
        """Copy the numbers of the nodes that changed since the last snapshot."""
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
        """Return (node, size, number of nodes in that node's snapshot) for every node with the image."""
        state = self._states.get(image)
        if state is None:
            return []
        return [
            (name, self._on_node[name][image], self._spread[name][image])
            for name in state.nodes
            if name in self._spread
        ]


# ---- topology domains: from a label's column, which has each node's domain, to sums and back
# ---------------------------

Ints = NDArray[np.int64]


def sum_by_domain(ids: NDArray[np.int32], counts: Ints, size: int) -> Ints:
    """Sum a number per node over ``size`` domains; nodes without one (-1) are left out."""
    # Shifted by one so that "missing" has its own bin, which is dropped. Sums stay far below 2**53.
    return np.bincount(ids + 1, weights=counts, minlength=size + 1)[1:].astype(np.int64)


def at_domain(ids: NDArray[np.int32], by_domain: Ints, size: int) -> Ints:
    """Return the number of each node's domain; 0 for nodes without one (-1), and for newer domains."""
    padded = np.zeros(size + 1, np.int64)  # the last entry is read for -1
    padded[: len(by_domain)] = by_domain
    return padded.take(ids)
