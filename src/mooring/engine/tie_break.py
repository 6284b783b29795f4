"""Which of the best nodes wins: the root of the heap that kube-scheduler makes of the feasible list.

Building a binary heap moves a larger child up, prefers the left of two equal
children, and leaves a parent where it is when its children are only equal.
The root is therefore the maximum that comes first in pre-order of the implicit
tree (parent, left subtree, right subtree) over the list's positions.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_BITS = 40  # deeper than any list of nodes will ever be


@lru_cache(maxsize=8)
def _tree(size: int) -> NDArray[np.int64]:
    """Pre-order of all positions of a list of this size.

    Position i has the path of i + 1 in binary from the root (1): comparing
    paths as left-aligned strings, the shorter first where one begins the
    other, is comparing in pre-order.
    """
    numbers = np.arange(1, size + 1)
    lengths = np.floor(np.log2(numbers)).astype(np.int64) + 1
    return np.argsort((numbers << (_BITS - lengths)) * 64 + lengths)


_FIRST = 256


@lru_cache(maxsize=64)
def preorder(n: int) -> NDArray[np.int64]:
    """The positions of a list of length n, in pre-order: a larger tree's order without what is not there."""
    order = _tree(max(1024, 1 << (n - 1).bit_length()))
    return order[order < n]


def heap_winner(totals: NDArray[np.int64]) -> int:
    """The position that kube-scheduler takes from a list with these totals."""
    order = preorder(len(totals))
    if len(totals) > _FIRST:
        # Often many nodes are equally good, and then one of them comes early: this spares a look at all in that order.
        early = order[:_FIRST]
        found = early[totals.take(early).argmax()]
        if totals[found] == totals[totals.argmax()]:
            return int(found)
    return int(order[totals.take(order).argmax()])
