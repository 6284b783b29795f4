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


def _tree(size: int) -> NDArray[np.int64]:
    """Pre-order of all positions of a list of this size.

    Position i has the path of i + 1 in binary from the root (1): comparing
    paths as left-aligned strings, the shorter first where one begins the
    other, is comparing in pre-order.
    """
    numbers = np.arange(1, size + 1)
    lengths = np.floor(np.log2(numbers)).astype(np.int64) + 1
    return np.argsort((numbers << (_BITS - lengths)) * 64 + lengths)


PLACE_BITS, MOST = 22, 1 << 40  # a total and a place fit into one number as long as the total is no larger


@lru_cache(maxsize=8)
def _places(size: int) -> NDArray[np.int64]:
    """The place of each position in the tree's pre-order. Shorter lists lack the last positions."""
    return np.argsort(_tree(size))


def places(n: int) -> NDArray[np.int64]:
    """The place of each position of a list of this length: of equal totals that with the lowest place wins."""
    return _places(max(1024, 1 << (n - 1).bit_length()))[:n]


def ranks_of(totals: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Numbers of which the largest is the winner's; None if a total is too large for that, or negative."""
    unsigned = totals.view(np.uint64)  # a total below zero is a very large one
    if unsigned.item(unsigned.argmax()) >= MOST or len(totals) >= 1 << PLACE_BITS:
        return None
    ranks = totals << PLACE_BITS
    ranks -= places(len(totals))
    return ranks


def heap_winner(totals: NDArray[np.int64]) -> int:
    """The position that kube-scheduler takes from a list with these totals."""
    ranks = ranks_of(totals)
    if ranks is not None:
        return int(ranks.argmax())
    equals = (totals == totals.max()).nonzero()[0]
    return int(equals[places(len(totals)).take(equals).argmin()])
