"""Topology domains: a label's column says which domain each node is in; these go from nodes to domains and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def sum_by_domain(ids: NDArray[np.int32], counts: Ints, size: int) -> Ints:
    """Sum a number per node over ``size`` domains; nodes without one (-1) are left out."""
    # Shifted by one so that "missing" falls into a bin of its own, which is dropped. Sums stay far below 2**53.
    return np.bincount(ids + 1, weights=counts, minlength=size + 1)[1:].astype(np.int64)


def at_domain(ids: NDArray[np.int32], by_domain: Ints, size: int) -> Ints:
    """Each node's domain's number; 0 for nodes without one (-1), and for domains that came later."""
    padded = np.zeros(size + 1, np.int64)  # the last entry is read for -1
    padded[: len(by_domain)] = by_domain
    return padded.take(ids)
