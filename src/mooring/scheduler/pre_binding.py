"""Pods whose volumes or devices are being bound just now."""

from __future__ import annotations

import asyncio

from mooring.framework.status import Status


class PreBinding:
    """A pod whose volumes or devices are just being bound; a more important pod may stop that."""

    __slots__ = ("_is_over", "_task", "stopped_by")

    def __init__(self, task: asyncio.Task[Status]) -> None:
        self._task = task
        self._is_over = False
        self.stopped_by = ""

    def cancel(self, why: str) -> bool:
        """Stop it; false if it is too late for that."""
        if self._is_over or self._task.done():
            return False
        self.stopped_by = why
        self._task.cancel()
        return True

    def finish(self) -> bool:
        """Pre-binding is done: from now on it cannot be stopped. False if it was."""
        self._is_over = True
        return not self.stopped_by
