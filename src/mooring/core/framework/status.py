"""Verdicts: how a plugin says yes, no, never, later or "I failed"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import constant


class Code(IntEnum):
    """What a status means; the numbers are upstream's."""

    SUCCESS = 0
    ERROR = 1  # something broke: the attempt fails and is retried with backoff
    UNSCHEDULABLE = 2  # no, but removing pods might change it
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3  # no, and removing pods cannot change it
    WAIT = 4  # Permit only
    SKIP = 5  # "this does not concern me": PreFilter, PreScore, PreBindPreFlight, Bind
    PENDING = 6  # no, and the pod need not do penance in backoff


CODE_NAMES = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.SKIP: "Skip",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.PENDING: "Pending",
}
"""How metrics and texts call the codes."""

REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons that users will read, and the plugin that spoke."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def is_skip(self) -> bool:
        return self.code is Code.SKIP

    @property
    def is_rejected(self) -> bool:
        return self.code in REJECTED

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same verdict, signed; a plugin may sign for another one."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)

    @staticmethod
    def unschedulable(*reasons: str) -> Status:
        return Status(Code.UNSCHEDULABLE, reasons)

    @staticmethod
    def unresolvable(*reasons: str) -> Status:
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @staticmethod
    def error(*reasons: str) -> Status:
        return Status(Code.ERROR, reasons)

    @staticmethod
    def wait(*reasons: str) -> Status:
        return Status(Code.WAIT, reasons)

    @staticmethod
    def pending(*reasons: str) -> Status:
        return Status(Code.PENDING, reasons)


SUCCESS = Status()
SKIP = Status(Code.SKIP)

# PreFilter and PreScore may answer for the pod's whole template, if they look at nothing but its shape and leave
# nothing in the attempt's state. They are then not asked again about other pods of that shape.
SUCCESS_FOR_TEMPLATE = Status()
SKIP_FOR_TEMPLATE = Status(Code.SKIP)


# --------------------------------------------------------------------------------------------------------------------
# A filter's answer for many nodes at once: a small number per node, and what each number means.

Ids = NDArray[np.int64]
MAX_COUNTED = 1024
PASSES = constant(0)


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

    def passes(self) -> NDArray[np.bool_]:
        """Where nodes pass."""
        passes: NDArray[np.bool_] = self.ids == PASSES
        return passes

    def copy(self) -> Verdict:
        """The same, whatever is put into this one later."""
        return Verdict(self.ids.copy(), self._phrase, only_refuses=self.only_refuses)

    def put(self, rows: NDArray[np.int64], fresh: Verdict | None) -> None:
        """Take over what was said anew about these rows; numbers mean the same as before."""
        if fresh is None:
            self.ids[rows] = 0
        else:
            self.ids[rows] = fresh.ids
            self._phrase = fresh._phrase

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


class LateVerdict(Verdict):
    """A verdict that knows at once which nodes pass, and finds out why the others do not when somebody asks.

    For filters that are asked about all nodes for every pod: mostly some node passes, and nobody asks.
    """

    __slots__ = ("_found", "_ids_of", "_passes")

    def __init__(self, passes: NDArray[np.bool_], ids_of: Callable[[], Ids], phrase: Callable[[int], Status]) -> None:
        """``phrase`` has only refusals. ``ids_of`` must not read what changes later."""
        self._passes = passes
        self._ids_of = ids_of
        self._found: Ids | None = None
        self._phrase = phrase
        self.only_refuses = True

    @property
    def ids(self) -> Ids:  # type: ignore[override]
        if self._found is None:
            self._found = self._ids_of()
        return self._found

    def passes(self) -> NDArray[np.bool_]:
        return self._passes

    def put(self, rows: NDArray[np.int64], fresh: Verdict | None) -> None:
        super().put(rows, fresh)
        self._passes = super().passes()


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


# --------------------------------------------------------------------------------------------------------------------
# What a PostFilter plugin achieved.


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What a PostFilter plugin achieved. ``nominated_node`` None: leave the pod's nomination as it is; "": clear it."""

    status: Status
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0  # evictions that break a budget
