"""How much storage a class can still provide, per node: CSIStorageCapacity objects as a column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mooring.api.quantity import value_of
from mooring.api.selectors import Selector, compile_selector
from mooring.api.storage import CSIStorageCapacity
from mooring.errors import ParseError
from mooring.state.objects import Objects
from mooring.volumes.node_topology import NodeTopology


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume that can be made there: the maximum if it is given, else all that is free."""
    text = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    if text is None:
        return None
    try:
        return value_of(text)
    except ParseError:
        return None


class StorageCapacities:
    """Columns per class, made anew when a capacity or a node changes."""

    def __init__(self, objects: Objects, topology: NodeTopology) -> None:
        self._objects = objects
        self._topology = topology
        self._made_from = (-1, -1)
        self._columns: dict[str, NDArray[np.int64]] = {}

    def limits(self, class_name: str) -> NDArray[np.int64]:
        """Per row the size of the largest volume that the class can provide, -1 where it cannot."""
        now = (self._objects.version(CSIStorageCapacity), self._topology.refresh())
        if now != self._made_from:
            self._made_from = now
            self._columns.clear()
        column = self._columns.get(class_name)
        if column is None:
            column = self._columns[class_name] = self._column(class_name)
        return column

    def _column(self, class_name: str) -> NDArray[np.int64]:
        column = np.full(self._topology.size, -1, np.int64)
        for capacity in self._objects.all(CSIStorageCapacity):
            limit, selector = volume_limit(capacity), _selector(capacity)
            if capacity.storage_class_name == class_name and limit is not None and not selector.matches_nothing:
                rows = self._topology.rows((selector.requirements,))
                column[rows] = np.maximum(column[rows], limit)
        return column

    def reachable(self, class_name: str, labels: dict[str, str], size: int) -> CSIStorageCapacity | None:
        """The first capacity (by name) that is large enough and that a node with these labels can use."""
        for capacity in sorted(self._objects.all(CSIStorageCapacity), key=lambda c: c.key):
            limit = volume_limit(capacity)
            if capacity.storage_class_name != class_name or limit is None or limit < size:
                continue
            if _selector(capacity).matches(labels):
                return capacity
        return None


def _selector(capacity: CSIStorageCapacity) -> Selector:
    """Which nodes reach the storage: none without a topology, nor with one that does not parse."""
    try:
        return compile_selector(capacity.node_topology)
    except ParseError:
        return Selector(matches_nothing=True)
