"""Work in the background that must not be forgotten: bindings, evictions, status patches."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from mooring.clock import Clock
from mooring.observe.logs import get_logger

log = get_logger("mooring.scheduler")


class Tasks:
    """What is under way. ``drain`` waits for all of it, ``abort`` stops all of it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[asyncio.Future[Any], None] = {}  # in order: two runs in virtual time do the same
        self.is_aborted = False

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Begin something; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error(task.exception(), "Unexpected error in a background task")

    async def drain(self, timeout_s: float) -> bool:
        """Wait until nothing is under way; false if that takes too long."""
        deadline = self._clock.monotonic() + timeout_s
        while self._running:
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                return False
            await asyncio.wait(tuple(self._running), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def abort(self) -> None:
        """Stop everything at once, and wait until it has stopped."""
        self.is_aborted = True
        tasks = tuple(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
