"""What changed, in order: how everything that is derived from the cluster keeps up with it.

The owner of some data notes every change in a :class:`ChangeLog`. A follower
holds a :class:`Cursor` and takes what was noted since it last looked. Either
it gets the changes, or it learns that it must look at everything again.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from enum import Enum
from typing import Any, Final, Generic, Literal, TypeVar

T = TypeVar("T")
NOTHING: Final[frozenset[Any]] = frozenset()
MAX_ENTRIES = 100_000  # a log forgets its older half when it grows beyond this


class _Everything(Enum):
    EVERYTHING = "everything"


EVERYTHING: Final = _Everything.EVERYTHING
"""Anything may have changed: the log does not reach back far enough."""

Changes = Sequence[T] | Literal[_Everything.EVERYTHING]


class ChangeLog(Generic[T]):
    """The latest changes in order. ``end`` counts all that were ever noted, also those that the log has forgotten."""

    __slots__ = ("_asked", "_distinct", "_entries", "end")

    def __init__(self) -> None:
        self._entries: list[T] = []
        self._asked = (-1, -1)  # of which position and end ``_distinct`` is known
        self._distinct: Set[T] = frozenset()
        self.end = 0

    def note(self, entry: T) -> None:
        """Say that this changed."""
        self._entries.append(entry)
        self.end += 1
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[: MAX_ENTRIES // 2]

    def note_all(self, entries: Sequence[T]) -> None:
        """Say that all of these changed."""
        self._entries.extend(entries)
        self.end += len(entries)
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[: -MAX_ENTRIES // 2]

    def restart(self) -> None:
        """Say that everything changed."""
        self._entries.clear()
        self.end += 1

    def since(self, position: int) -> Changes[T]:
        """The changes after that position (a former ``end``); an entry may come more than once."""
        behind = self.end - position
        if not behind:
            return ()
        if position < 0 or behind > len(self._entries):
            return EVERYTHING
        return self._entries[-behind:]

    def distinct_since(self, position: int) -> Set[T] | Literal[_Everything.EVERYTHING]:
        """The same without order: one set for all that ask with the same position, as followers in step do."""
        asked = position, self.end
        if asked != self._asked:
            changes = self.since(position)
            if changes is EVERYTHING:
                return EVERYTHING
            self._asked, self._distinct = asked, frozenset(changes)
        return self._distinct

    def cursor(self) -> Cursor[T]:
        """A cursor that has seen nothing yet: its first take is EVERYTHING."""
        return Cursor(self)


class Cursor(Generic[T]):
    """How far one follower has read a log."""

    __slots__ = ("_log", "_position")

    def __init__(self, log: ChangeLog[T]) -> None:
        self._log = log
        self._position = -1

    def is_behind(self) -> bool:
        """Report whether something was noted since the last take."""
        return self._position != self._log.end

    @property
    def num_behind(self) -> int:
        """How many changes were noted since the last take."""
        return self._log.end - self._position

    def take(self) -> Changes[T]:
        """What was noted since the last take."""
        log, position = self._log, self._position
        if position == log.end:
            return ()
        self._position = log.end
        return log.since(position)

    def take_distinct(self) -> Set[T] | Literal[_Everything.EVERYTHING]:
        """What was noted since the last take, each once and in no order."""
        log, position = self._log, self._position
        if position == log.end:
            return NOTHING
        self._position = log.end
        return log.distinct_since(position)
