"""What a rule that reads the whole cluster needs to know of one node: a facet, a small number per row.

"Spread over zones" cannot tell two nodes of a zone apart, and "not beside a pod of this app" cannot tell apart two
nodes without such a pod. A rule names the facets of a pod, and nodes that agree in all of them get the same answer.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_index import CountColumn

Ints = NDArray[np.int64]

MAX_DOMAINS = 64  # a label with more values is no facet


class Facet(Protocol):
    """A number per row, not negative. Equal facets are the same number; it follows the logs of nodes and of pods."""

    def token(self, table: NodeTable) -> Hashable:
        """Another value when all rows may have other numbers."""

    def column(self, table: NodeTable) -> Ints:
        """All rows, in an array of the caller's own."""

    def at(self, table: NodeTable, row: int) -> int:
        """One row."""


class DomainFacet(msgspec.Struct, frozen=True):
    """Which domain of a topology key the node is in; 0 without the label."""

    key: str

    def token(self, table: NodeTable) -> Hashable:
        return table.label(self.key).numbering

    def column(self, table: NodeTable) -> Ints:
        return table.label(self.key).ids.astype(np.int64) + 1

    def at(self, table: NodeTable, row: int) -> int:
        return table.label(self.key).ids.item(row) + 1


class LabelledFacet(msgspec.Struct, frozen=True):
    """Whether the node has a label at all."""

    key: str

    def token(self, table: NodeTable) -> Hashable:
        return None

    def column(self, table: NodeTable) -> Ints:
        return (table.label(self.key).ids >= 0).astype(np.int64)

    def at(self, table: NodeTable, row: int) -> int:
        return int(table.label(self.key).ids.item(row) >= 0)


class CountFacet(msgspec.Struct, frozen=True):
    """How many of a column's pods are on the node, or only whether there are any."""

    pods: CountColumn
    any: bool = False

    def token(self, table: NodeTable) -> Hashable:
        return self.pods.is_kept

    def column(self, table: NodeTable) -> Ints:
        counts = self.pods.dense()
        return (counts > 0).astype(np.int64) if self.any else counts.copy()

    def at(self, table: NodeTable, row: int) -> int:
        count = self.pods.dense().item(row)
        return int(count > 0) if self.any else count


def domain_facet(table: NodeTable, key: str) -> DomainFacet | None:
    """The domain of a topology key, if it has few."""
    return DomainFacet(key) if len(table.label(key).values) <= MAX_DOMAINS else None
