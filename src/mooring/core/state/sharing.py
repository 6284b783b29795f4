"""Sharing of data between a fork and its parent, and change logs for derived data.

Copy on write: a fork and its parent hold the same data until one of them writes. Data has parts, each a bit. Before a
holder writes to a part, it checks whether another holder may still have the same data. If so, it copies the part. If
not, it writes in place. A dropped fork holds nothing.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, MutableMapping, Sequence, Set, ValuesView
from enum import Enum
from itertools import count
from typing import Any, Final, Generic, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

stamps = count(1)
"""Numbers for versions. Different contents never share a number, even across forks."""


# The invariant: data that another holder can read is never written. Every write is therefore preceded by ``if
# self.shared & PART: self._own(PART)``. The first half is one cheap test and is enough for clusters without forks. A
# set bit only says that the part *may* be shared; ``must_copy`` checks whether it still is.


class Forkable:
    """Base class for copy-on-write. ``shared`` has a bit for each part that may have to be copied before a write."""

    def __init__(self) -> None:
        self.shared = 0
        self.is_fork = False
        self._with_parent = 0  # parts shared with the parent, now or before it copied them
        # By fork, the parts that it may still share. Weak references: a dropped fork must not cause copies.
        self._with_forks: WeakKeyDictionary[Any, int] | None = None
        # Held while something is shared: what the parent shares with its own parent must not be written in place.
        self._parent: Any = None

    def share_with(self, fork: Any, parts: int) -> None:
        """Share these parts with a fork from now on."""
        if self._with_forks is None:
            self._with_forks = WeakKeyDictionary()
        self._with_forks[fork] = parts
        self.shared |= parts
        fork.is_fork, fork._parent, fork._with_forks = True, self, None
        fork.shared = fork._with_parent = parts

    def has_forks(self) -> bool:
        """Report whether a fork of this one is still there."""
        if self._with_forks:
            return True
        self._with_forks = None
        return False

    def must_copy(self, part: int) -> bool:
        """Report whether another holder may have this part. If so, the caller must copy it now."""
        # The caller copies if this returns true, so from here on the part is its own. Forks keep the old data: they no
        # longer share this part with this holder, though they may share it with each other through ``_with_parent``.
        with_forks = 0
        if self.has_forks():
            assert self._with_forks is not None
            for fork, parts in list(self._with_forks.items()):
                with_forks |= parts
                self._with_forks[fork] = parts & ~part
        must = (self._with_parent | with_forks) & part
        self._with_parent &= ~part
        self.shared = (self._with_parent | with_forks) & ~part
        if not self._with_parent:
            self._parent = None
        return bool(must)


# ---- overlays: a dictionary and a list over unchanging ones, for a fork's nodes by name and by row, and its pods
# --------

V = TypeVar("V")
_GONE: Final[Any] = object()


class Overlay(MutableMapping[str, V]):
    """Own entries hide those below. Look-ups and changes copy nothing; to read all entries, copy them first."""

    __slots__ = ("_below", "_own")

    def __init__(self, below: MutableMapping[str, V]) -> None:
        # Over another overlay, its entries are copied: a lookup in a fork of a fork is never deeper than one level.
        self._below: MutableMapping[str, V] = below
        self._own: dict[str, V] = {}  # _GONE: this one was removed
        if isinstance(below, Overlay):
            is_whole = (
                not below._below
            )  # all entries are its own: they are below this one, and it copies before a write
            self._below, self._own = (below._own, {}) if is_whole else (below._below, dict(below._own))

    def _all(self) -> dict[str, V]:
        if self._below:
            gone = [key for key, value in self._own.items() if value is _GONE]
            self._own = {**self._below, **self._own}
            for key in gone:
                del self._own[key]
            self._below = {}
        return self._own

    def __getitem__(self, key: str) -> V:
        own = self._own.get(key)
        if own is None:
            return self._below[key]
        if own is _GONE:
            raise KeyError(key)
        return own

    def get(self, key: str, default: Any = None) -> Any:
        own = self._own.get(key)
        return self._below.get(key, default) if own is None else default if own is _GONE else own

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]

    def __setitem__(self, key: str, value: V) -> None:
        if self._own.get(key) is _GONE:  # added again, and so last in order
            self._all()
        self._own[key] = value

    def __delitem__(self, key: str) -> None:
        if key in self._below and key in self:
            self._own[key] = _GONE
        else:
            del self._own[key]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def items(self) -> ItemsView[str, V]:
        return self._all().items()

    def values(self) -> ValuesView[V]:
        return self._all().values()


class OverlayList(Sequence[V]):
    """Some entries of a list replaced; its length is fixed."""

    __slots__ = ("_below", "_own")

    def __init__(self, below: Sequence[V]) -> None:
        self._below = below
        self._own: dict[int, V] = {}

    def __getitem__(self, i: Any) -> Any:
        own = self._own
        return own[i] if i in own else self._below[i]

    def __setitem__(self, i: int, value: V) -> None:
        self._own[i] = value

    def __len__(self) -> int:
        return len(self._below)


# ---- change logs ---------------------------------------------------------------------------------------------------
# ---- change logs ---------------------------------------------------------------------------------------------------
#
# The owner of some data notes every change in a :class:`ChangeLog`. A follower holds a :class:`Cursor` and takes the
# changes since its last call. Either it gets the changes, or it learns that it must recompute everything. A log never
# blocks its owner and never grows without bound: a follower that is too far behind starts again.

T = TypeVar("T")
NOTHING: Final[frozenset[Any]] = frozenset()
MAX_ENTRIES = 100_000  # a log drops its older half when it grows beyond this


class _Everything(Enum):
    EVERYTHING = "everything"


EVERYTHING: Final = _Everything.EVERYTHING
"""Everything may have changed: the log does not go back far enough."""

Changes = Sequence[T] | Literal[_Everything.EVERYTHING]


class ChangeLog(Generic[T]):
    """The latest changes in order. ``end`` counts all changes ever noted, including dropped ones."""

    __slots__ = ("_asked", "_distinct", "_entries", "end")

    def __init__(self) -> None:
        self._entries: list[T] = []
        self._asked = (-1, -1)  # position and end for which ``_distinct`` was computed
        self._distinct: Set[T] = frozenset()
        self.end = 0

    def note(self, entry: T) -> None:
        """Note a change."""
        self._entries.append(entry)
        self.end += 1
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[: MAX_ENTRIES // 2]

    def note_all(self, entries: Sequence[T]) -> None:
        """Note several changes."""
        self._entries.extend(entries)
        self.end += len(entries)
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[: -MAX_ENTRIES // 2]

    def restart(self) -> None:
        """Note that everything changed."""
        self._entries.clear()
        self.end += 1

    def since(self, position: int) -> Changes[T]:
        """Return the changes after that position (an earlier ``end``), possibly with duplicates."""
        behind = self.end - position
        if not behind:
            return ()
        if position < 0 or behind > len(self._entries):
            return EVERYTHING
        return self._entries[-behind:]

    def distinct_since(self, position: int) -> Set[T] | Literal[_Everything.EVERYTHING]:
        """Return them as one set, shared by all followers at the same position."""
        asked = position, self.end
        if asked != self._asked:
            changes = self.since(position)
            if changes is EVERYTHING:
                return EVERYTHING
            self._asked, self._distinct = asked, frozenset(changes)
        return self._distinct

    def cursor(self) -> Cursor[T]:
        """Return a cursor at the beginning: its first take is EVERYTHING."""
        return Cursor(self)


class Cursor(Generic[T]):
    """Position of one follower in a log."""

    __slots__ = ("_log", "_position")

    def __init__(self, log: ChangeLog[T]) -> None:
        self._log = log
        self._position = -1

    def is_behind(self) -> bool:
        """Report whether something was noted since the last take."""
        return self._position != self._log.end

    @property
    def num_behind(self) -> int:
        """Return how many changes were noted since the last take."""
        return self._log.end - self._position

    def take(self) -> Changes[T]:
        """Return the changes since the last take."""
        log, position = self._log, self._position
        if position == log.end:
            return ()
        self._position = log.end
        return log.since(position)

    def take_distinct(self) -> Set[T] | Literal[_Everything.EVERYTHING]:
        """Return the changes since the last take, without duplicates and order."""
        log, position = self._log, self._position
        if position == log.end:
            return NOTHING
        self._position = log.end
        return log.distinct_since(position)


# ---- array operations for every pod, in the fastest forms with NumPy
# ----------------------------------------------------


def constant(number: int | float) -> NDArray[Any]:
    """Return a number as an array. Operations on a few nodes take half as long with it as with a Python number."""
    return np.array(number)


def holds_somewhere(mask: NDArray[np.bool_]) -> bool:
    """Report whether one of the values is true. Looking through the bytes is many times quicker than ``any``."""
    return 1 in mask.tobytes()


def holds_everywhere(mask: NDArray[np.bool_]) -> bool:
    """Report whether all values are true, in the same way."""
    return 0 not in mask.tobytes()
