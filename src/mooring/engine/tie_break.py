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


_MANY, _FIRST = 2048, 256
_PLACE_BITS, _MOST = 22, 1 << 40  # a total and a place fit into one number as long as the total is no larger


@lru_cache(maxsize=8)
def _looked_up(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(positions in pre-order, in long lists the first; the place of each in it). Shorter lists lack the last ones."""
    order = _tree(size)
    return order if size <= _MANY else order[:_FIRST].copy(), np.argsort(order)


@lru_cache(maxsize=4096)
def _for_length(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same for a list of length n. Many lengths share one tree."""
    return _looked_up(max(1024, 1 << (n - 1).bit_length()))


def heap_winner(totals: NDArray[np.int64]) -> int:
    """The position that kube-scheduler takes from a list with these totals."""
    n = len(totals)
    order, places = _for_length(n)
    # A position that the list lacks is looked at as if it were the last one.
    first = int(order[totals.take(order, mode="clip").argmax()])
    if first < n <= _MANY:
        return first
    best = totals[totals.argmax()]
    if first < n and totals[first] == best:  # often most of them are equally good, and then one comes early
        return first
    are_best = totals == best
    is_small = n < 1 << _PLACE_BITS and best < _MOST and totals[totals.argmin()] > -_MOST
    if is_small and 16 * np.count_nonzero(are_best) > n:  # listing so many takes longer
        ranks = totals << _PLACE_BITS
        ranks -= places[:n]
        return int(ranks.argmax())
    equals = are_best.nonzero()[0]
    return int(equals[places.take(equals).argmin()])
