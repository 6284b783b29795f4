"""A filter's answer for many nodes at once: a small number per node, and what each number means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.framework.status import SUCCESS, Status

Ids = NDArray[np.int64]
MAX_COUNTED = 1024


class Verdict:
    """``ids[i]`` is 0 where the node passes; any other number stands for a status that ``status_of`` can phrase.

    Texts are made only when somebody reads them.
    """

    __slots__ = ("_phrase", "ids", "only_refuses")

    def __init__(self, ids: Ids, phrase: Callable[[int], Status], *, only_refuses: bool = False) -> None:
        self.ids = ids
        self._phrase = phrase
        self.only_refuses = only_refuses  # no number stands for a failure: nobody needs to look for one

    def status_of(self, number: int) -> Status:
        return SUCCESS if number == 0 else self._phrase(number)

    @staticmethod
    def where(rejected: NDArray[np.bool_], status: Status) -> Verdict:
        """One status for all nodes that are rejected."""
        return Verdict(rejected.astype(np.int64), lambda _: status, only_refuses=status.is_rejected)

    @staticmethod
    def choose(ids: Ids, statuses: Sequence[Status] | Mapping[int, Status]) -> Verdict:
        """``ids`` are 1-based positions in ``statuses`` (or keys of a mapping); 0 passes."""
        if isinstance(statuses, Mapping):
            return Verdict(ids, statuses.__getitem__)
        only_refuses = all(status.is_rejected for status in statuses)
        return Verdict(ids, lambda number: statuses[number - 1], only_refuses=only_refuses)


def numbers_in(ids: Ids) -> list[int]:
    """The distinct numbers other than 0."""
    return list(counts_in(ids))


def counts_in(ids: Ids) -> dict[int, int]:
    """How often each number other than 0 occurs, in order. They are mostly small: counting is quicker than sorting."""
    if not len(ids):
        return {}
    unsigned = ids.view(np.uint64)  # in which what is negative is large
    if unsigned.item(unsigned.argmax()) < MAX_COUNTED:  # quicker than max()
        return {number: count for number, count in enumerate(np.bincount(ids).tolist()) if number and count}
    numbers, counts = np.unique(ids, return_counts=True)
    return {number: count for number, count in zip(numbers.tolist(), counts.tolist(), strict=True) if number}
