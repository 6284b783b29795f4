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
def _ranks(size: int) -> NDArray[np.int64]:
    numbers = np.arange(1, size + 1)
    lengths = np.floor(np.log2(numbers)).astype(np.int64) + 1
    return (numbers << (_BITS - lengths)) * 64 + lengths


def preorder_ranks(n: int) -> NDArray[np.int64]:
    """A key per position; smaller means earlier in pre-order.

    Position i has the path of i + 1 in binary from the root (1): comparing
    paths as left-aligned strings, the shorter first where one begins the
    other, is comparing in pre-order.
    """
    return _ranks(max(1024, 1 << (n - 1).bit_length()))[:n]


def heap_winner(totals: NDArray[np.int64]) -> int:
    """The position that kube-scheduler takes from a list with these totals."""
    best = np.flatnonzero(totals == totals.max())
    if len(best) == 1:
        return int(best[0])
    return int(best[np.argmin(preorder_ranks(len(totals))[best])])
