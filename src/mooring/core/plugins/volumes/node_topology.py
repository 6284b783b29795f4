"""The nodes that reach a volume, a class or a storage pool, as rows of the node table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.selectors import Requirement
from mooring.api.storage import TopologySelectorTerm, VolumeNodeAffinity
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import Mask, NodeRows, Rows
from mooring.core.state.node_selector import compile_term, requirement_mask
from mooring.core.state.sharing import EVERYTHING

Affinity = tuple[tuple[Requirement, ...], ...]
"""Terms of which one must match, each a conjunction; a term without requirements matches everywhere."""

EVERYWHERE: Affinity = ((),)


def compile_affinity(affinity: VolumeNodeAffinity | None) -> Affinity:
    """Compile a volume's node affinity. Only labels count: fields are accepted and ignored, as upstream does."""
    if affinity is None or affinity.required is None:
        return EVERYWHERE
    terms = (compile_term(term) for term in affinity.required.node_selector_terms)
    return tuple(term.requirements for term in terms if not term.is_void)


def compile_topologies(terms: Sequence[TopologySelectorTerm]) -> Affinity:
    """Compile a class's allowedTopologies: none means anywhere, an empty term or value list nowhere."""
    if not terms:
        return EVERYWHERE
    return tuple(
        tuple(Requirement(r.key, "In", tuple(r.values)) for r in term.match_label_expressions)
        for term in terms
        if term.match_label_expressions and all(r.values for r in term.match_label_expressions)
    )


class NodeTopology:
    """Evaluates affinities for all rows of the table, and follows changes of nodes' labels."""

    def __init__(self, cluster: ClusterState) -> None:
        self._table = cluster.table
        self._changes = cluster.table.node_log.cursor()
        self._labels: list[dict[str, str]] = []
        self._rows: dict[Affinity, Rows] = {}
        self._by_value: dict[str, dict[str, Rows]] = {}
        self.stamp = 0  # grows when an answer may have changed

    def refresh(self) -> int:
        """Process changes of nodes; the stamp tells whether earlier answers still hold."""
        if self._changes.is_behind():
            infos, rows = self._table.infos, self._changes.take()
            if rows is EVERYTHING or any(infos[row].labels != self._labels[row] for row in set(rows)):
                self._labels = [info.labels for info in infos]
                self._rows.clear()
                self._by_value.clear()
                self.stamp += 1
        return self.stamp

    @property
    def size(self) -> int:
        return len(self._table)

    def row(self, name: str) -> int:
        """Return the row of a node, -1 if there is none."""
        info = self._table.nodes.get(name)
        return -1 if info is None else info.row

    def mask(self, affinity: Affinity) -> Mask:
        """Return where the affinity matches."""
        nodes = NodeRows(self._table)
        mask = np.zeros(len(nodes), np.bool_)
        for term in affinity:
            mask |= _all(term, nodes)
        return mask

    def rows(self, affinity: Affinity) -> Rows:
        """Return the rows where the affinity matches, cached because there may be thousands of volumes."""
        rows = self._rows.get(affinity)
        if rows is None:
            rows = self._rows[affinity] = self._find_rows(affinity)
        return rows

    def _find_rows(self, affinity: Affinity) -> Rows:
        if len(affinity) == 1 and len(affinity[0]) == 1:
            (req,) = affinity[0]
            if req.operator == "In" and len(req.values) == 1:  # a local volume: one of thousands that name one node
                return self._rows_by_value(req.key).get(req.values[0], np.empty(0, np.int64))
        return np.flatnonzero(self.mask(affinity))

    def _rows_by_value(self, key: str) -> dict[str, Rows]:
        found = self._by_value.get(key)
        if found is None:
            column = self._table.label(key)
            order = np.argsort(column.ids, kind="stable")
            ids, starts = np.unique(column.ids[order], return_index=True)
            parts = np.split(order, starts[1:])
            found = {column.values[i]: part for i, part in zip(ids.tolist(), parts, strict=True) if i >= 0}
            self._by_value[key] = found
        return found


def _all(requirements: Sequence[Requirement], nodes: NodeRows) -> NDArray[np.bool_]:
    mask = np.ones(len(nodes), np.bool_)
    for req in requirements:
        mask &= requirement_mask(req, nodes)
    return mask
