"""Changes that come by several watches, in the order in which they were made.

There is no order between watches. What has piled up in their connections, because this process was busy or stopped, is
read one watch after the other: all pods of the last seconds, then all nodes. Resource versions have one order for all
kinds, so changes are held back for a moment and sorted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

from mooring.api.meta import Object
from mooring.shadow.scene import UNKNOWN_VERSION, version_of

HOLD_S = 0.25


class Watcher(Protocol):
    """Who is told in the end."""

    is_synced: bool
    is_listing: Callable[[], bool]

    def put(self, obj: Object) -> None: ...

    def update(self, old: Object, new: Object) -> None: ...

    def delete(self, obj: Object) -> None: ...


class InOrder:
    """Stands between an informer and a watcher. :meth:`pass_on` must be called now and then."""

    def __init__(self, watcher: Watcher, now: Callable[[], float]) -> None:
        self._watcher, self._now = watcher, now
        self._held: list[tuple[int, int, float, Object | None, Object | None]] = []  # by version, then as they came
        self._count = 0
        self._newest = 0

    @property
    def is_synced(self) -> bool:
        return self._watcher.is_synced

    @is_synced.setter
    def is_synced(self, is_synced: bool) -> None:
        self._watcher.is_synced = is_synced

    def put(self, obj: Object) -> None:
        self._hear(None, obj)

    def update(self, old: Object, new: Object) -> None:
        self._hear(old, new)

    def delete(self, obj: Object) -> None:
        self._hear(obj, None)

    def _hear(self, old: Object | None, new: Object | None) -> None:
        if not self._watcher.is_synced or self._watcher.is_listing():
            self.pass_on(is_all=True)
            self._tell(old, new)
            return
        version = version_of(new or old)
        if version == UNKNOWN_VERSION:
            version = self._newest
        self._newest = max(self._newest, version)
        self._count += 1
        heapq.heappush(self._held, (version, self._count, self._now(), old, new))
        self.pass_on()

    def pass_on(self, *, is_all: bool = False) -> None:
        """Tell of what was held back for long enough."""
        held, before = self._held, self._now() - HOLD_S
        while held and (is_all or held[0][2] <= before):
            *_, old, new = heapq.heappop(held)
            self._tell(old, new)

    def _tell(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._watcher.delete(old)
        elif old is None:
            self._watcher.put(new)
        else:
            self._watcher.update(old, new)
