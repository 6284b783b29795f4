"""Copy on write: a fork and its parent hold the same data until one of them writes.

Data has parts, each a bit. Before a holder writes to a part, it asks whether
another holder may still have the same data. If so, it copies the part. If not,
it writes in place. A fork that is gone holds nothing.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

stamps = count(1)
"""Numbers for versions. No two clusters give the same number to different contents, forks included."""


class Forkable:
    """Base of what can be forked. ``shared`` has a bit for each part that may have to be copied before a write."""

    def __init__(self) -> None:
        self.shared = 0
        self.is_fork = False
        self._with_parent = 0  # parts that are still the parent's, or were the parent's before it copied them
        self._with_forks: WeakKeyDictionary[Any, int] | None = None  # by fork, parts that it may still have
        # Held while something is shared: what the parent in turn has from its own parent must not be written in place.
        self._parent: Any = None

    def share_with(self, fork: Any, parts: int) -> None:
        """Hold these parts together with a fork from now on."""
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
        """Report whether another holder may have this part. If so, the caller copies it now; it is its own then."""
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
