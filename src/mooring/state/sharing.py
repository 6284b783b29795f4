"""Copy on write: a fork and its parent hold the same data until one of them writes.

Before a holder writes, it asks whether another holder is still there. If so,
it copies what it is about to change. If not, it writes in place.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakSet

stamps = count(1)
"""Numbers for versions. No two clusters give the same number to different contents, forks included."""


class Forkable:
    """Base of what can be forked. ``shared`` has a bit for each part that must be copied before it is written."""

    def __init__(self) -> None:
        self.shared = 0
        self._family: WeakSet[Any] | None = None  # this one, its forks and what it was forked from, while they live

    def share_with(self, fork: Any, parts: int) -> None:
        """Hold these parts together with a fork from now on."""
        family = self._family
        if family is None:
            family = self._family = WeakSet((self,))
        family.add(fork)
        fork._family = family
        self.shared = fork.shared = parts

    def has_relatives(self) -> bool:
        """Report whether a fork of this one, or what it was forked from, is still there."""
        return self._family is not None and len(self._family) > 1

    def is_alone(self) -> bool:
        """Report whether all others of the family are gone; then nothing is shared any more."""
        if self.has_relatives():
            return False
        self.shared, self._family = 0, None
        return True

    def leave(self) -> None:
        """Let the others write in place: this one is not read any more."""
        if self._family is not None:
            self._family.discard(self)
