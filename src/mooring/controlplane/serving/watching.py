"""The loop of a watch: lines as they come, bookmarks now and then, an end in time.

A socket and a caller in the same process read the same stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mooring.controlplane.storage.hub import Hub, Watcher

BOOKMARK_INTERVAL_S = 30.0
MAX_WATCH_S = 3600.0

Disturb = Callable[[bytes], Awaitable[tuple[bytes, bool]]]
"""Fault injection: the lines to send instead, and whether the watch ends with them."""


class WatchStream:
    """The answer to a watch. Read until nothing comes, then close."""

    def __init__(
        self, hub: Hub, watcher: Watcher, *, timeout_s: float, has_bookmarks: bool, disturb: Disturb | None = None
    ) -> None:
        self._hub, self._watcher, self._disturb = hub, watcher, disturb
        self._has_bookmarks = has_bookmarks
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + min(timeout_s, MAX_WATCH_S)
        self._next_bookmark = self._loop.time() + BOOKMARK_INTERVAL_S
        self._has_ended = False

    def on_overrun(self, callback: Callable[[], None]) -> None:
        """Call back once if the reader is too slow: it may be stuck, and has to be cut off from outside."""
        self._watcher.on_overrun = callback

    async def read(self) -> bytes:
        """The next lines; nothing at the end of the watch."""
        while not self._has_ended and not self._watcher.is_closed:
            now = self._loop.time()
            if now >= self._deadline:
                self._has_ended = True
                if not self._has_bookmarks:
                    return b""
                self._hub.bookmark(self._watcher)  # so that the next watch resumes from here
                return await self._watcher.take(now)
            if self._has_bookmarks and now >= self._next_bookmark:
                self._next_bookmark = now + BOOKMARK_INTERVAL_S
                self._hub.bookmark(self._watcher)
            until = min(self._deadline, self._next_bookmark) if self._has_bookmarks else self._deadline
            lines = await self._watcher.take(until)
            if lines and self._disturb is not None:
                # A watch that ends here has no closing bookmark: it would promise what was not sent.
                lines, self._has_ended = await self._disturb(lines)
            if lines:
                return lines
        return b""

    def close(self) -> None:
        self._hub.forget(self._watcher)
