"""One node at a time: what plugins see of nodes whose authors leave columns to mooring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Pod, Taint
from mooring.state.node_rows import NodeRows


class _Columns:
    """Resource columns of some rows, read once for all views of them."""

    __slots__ = ("_allocatable", "_requested", "rows")

    def __init__(self, rows: NodeRows) -> None:
        self.rows = rows
        self._allocatable: dict[str, NDArray[np.int64]] = {}
        self._requested: dict[str, NDArray[np.int64]] = {}

    def allocatable(self, resource: str, i: int) -> int:
        column = self._allocatable.get(resource)
        if column is None:
            column = self._allocatable[resource] = self.rows.allocatable(resource)
        return int(column[i])

    def requested(self, resource: str, i: int) -> int:
        column = self._requested.get(resource)
        if column is None:
            column = self._requested[resource] = self.rows.requested(resource)
        return int(column[i])


class NodeView:
    """One node as it is, or as a hypothesis has it. Everything is read when it is asked for."""

    __slots__ = ("_columns", "_i")

    def __init__(self, columns: _Columns, i: int) -> None:
        self._columns = columns
        self._i = i

    @property
    def node(self) -> Node:
        """The object behind the view."""
        node = self._columns.rows.infos[self._i].node
        assert node is not None, "rows are nodes that exist"
        return node

    @property
    def name(self) -> str:
        return self._columns.rows.infos[self._i].name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.node.metadata.annotations

    @property
    def taints(self) -> Sequence[Taint]:
        return self.node.spec.taints

    @property
    def unschedulable(self) -> bool:
        """Whether the node is cordoned."""
        return self.node.spec.unschedulable

    @property
    def allocatable(self) -> Mapping[str, int]:
        """By resource: cpu in thousandths, everything else in whole units."""
        return _Amounts(self._columns.rows.table.resources, self._columns.allocatable, self._i)

    @property
    def requested(self) -> Mapping[str, int]:
        """What the pods on the node ask for together, in the same units."""
        return _Amounts(self._columns.rows.table.resources, self._columns.requested, self._i)

    def free(self, resource: str) -> int:
        return self._columns.allocatable(resource, self._i) - self._columns.requested(resource, self._i)

    @property
    def pods(self) -> list[Pod]:
        """The pods that are counted on the node, also those that are only assumed to be there."""
        return [info.pod for info in self._columns.rows.pods(self._i)]

    @property
    def allowed_pods(self) -> int:
        return int(self._columns.rows.allowed_pods[self._i])

    @property
    def images(self) -> frozenset[str]:
        """Names of the images that the node has."""
        return frozenset(name for image in self.node.status.images for name in image.names)

    def __repr__(self) -> str:
        return f"NodeView({self.name})"


class _Amounts(Mapping[str, int]):
    """A node's amounts by resource; a resource that nobody has is 0 nowhere and missing everywhere."""

    __slots__ = ("_i", "_names", "_read")

    def __init__(self, names: Mapping[str, int], read: Callable[[str, int], int], i: int) -> None:
        self._names = names
        self._read = read
        self._i = i

    def __getitem__(self, resource: str) -> int:
        if resource not in self._names:
            raise KeyError(resource)
        return self._read(resource, self._i)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class NodeViews(Sequence[NodeView]):
    """Some nodes, in the scheduler's order."""

    __slots__ = ("_columns",)

    def __init__(self, rows: NodeRows) -> None:
        self._columns = _Columns(rows)

    @overload
    def __getitem__(self, i: int) -> NodeView: ...

    @overload
    def __getitem__(self, i: slice) -> list[NodeView]: ...

    def __getitem__(self, i: int | slice) -> NodeView | list[NodeView]:
        if isinstance(i, slice):
            return [NodeView(self._columns, position) for position in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        return NodeView(self._columns, i % len(self))

    def __len__(self) -> int:
        return len(self._columns.rows)
