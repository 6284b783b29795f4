"""A limit on the memory that request bodies hold, counted over all connections.

Bytes count when they have arrived, never when a header announces them. When the
limit is reached, the request that has been arriving for the longest time gives
way, so slow clients cannot keep others out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mooring.http_server.http_io import Refused

ROOM_TIMEOUT_S = 5.0  # for a connection that was cut to free what it holds


class BodyMemory:
    """Counts the bytes of all bodies; each connection has a share."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._shares: set[Share] = set()
        self._changed = threading.Condition()

    def share(self, cut: Callable[[], None] = lambda: None) -> Share:
        """Begin to count for a connection; ``cut`` ends that connection."""
        share = Share(self, cut)
        with self._changed:
            self._shares.add(share)
        return share

    def take(self, share: Share, count: int) -> None:
        with self._changed:
            while self.held_bytes + count > self.limit_bytes:
                if share.is_cut:
                    raise ConnectionAbortedError("cut to make room for another request")
                if not self._cut_oldest(share, count) or not self._changed.wait(ROOM_TIMEOUT_S):
                    raise Refused(503, f"requests that are being answered hold {self.held_bytes:,} bytes; try again")
            self.held_bytes += count
            share.held_bytes += count

    def give_back(self, share: Share, count: int) -> None:
        with self._changed:
            self.held_bytes -= count
            share.held_bytes -= count
            self._changed.notify_all()

    def forget(self, share: Share) -> None:
        self.give_back(share, share.held_bytes)
        with self._changed:
            self._shares.discard(share)

    def _cut_oldest(self, asking: Share, count: int) -> bool:
        """Cut connections until their bytes make enough room; report whether there will be enough."""
        leaving = sum(share.held_bytes for share in self._shares if share.is_cut)
        while self.held_bytes - leaving + count > self.limit_bytes:
            arriving = [
                (share.arriving_since, share)
                for share in self._shares
                if share.arriving_since is not None and share.held_bytes and not share.is_cut
            ]
            _, oldest = min(arriving, key=lambda pair: pair[0], default=(0.0, asking))
            if oldest is asking:
                return False
            oldest.is_cut = True
            leaving += oldest.held_bytes
            oldest.cut()
        self._changed.notify_all()  # one that was cut may be waiting for room itself
        return True


class Share:
    """The bytes that one connection holds."""

    def __init__(self, memory: BodyMemory, cut: Callable[[], None]) -> None:
        self.held_bytes = 0
        self.arriving_since: float | None = None  # when its unfinished request began; None: it has none
        self.is_cut = False
        self.cut = cut
        self._memory = memory

    def take(self, count: int) -> None:
        """Count bytes that have arrived. Raise Refused when there is no room for them."""
        self._memory.take(self, count)

    def keep(self, count: int) -> None:
        """Give back all bytes but these."""
        if self.held_bytes > count:
            self._memory.give_back(self, self.held_bytes - count)

    def close(self) -> None:
        self._memory.forget(self)
