"""Topology domains: a label key's column says which domain each node is in; counting by domain is one bincount."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mooring.state.node_rows import NodeRows

Ints = NDArray[np.int64]


def count_by_domain(nodes: NodeRows, key: str, counts: Ints) -> Ints:
    """Sum a per-node column over the domains of ``key``; nodes without the label are in none."""
    column = nodes.label(key)
    ids = nodes.label_ids(key)
    size = len(column.values)
    # Shifted by one so that "missing" falls into a bin of its own, which is dropped. Sums stay far below 2**53.
    return np.bincount(ids + 1, weights=counts, minlength=size + 1)[1:].astype(np.int64)


def at_domain(nodes: NodeRows, key: str, by_domain: Ints) -> Ints:
    """Each node's domain's number; 0 for nodes without the label, and for domains that came later."""
    ids = nodes.label_ids(key)
    size = len(nodes.label(key).values)
    padded = np.zeros(size + 1, np.int64)  # the last entry is read for a missing label (-1)
    padded[: len(by_domain)] = by_domain
    return padded.take(ids)
