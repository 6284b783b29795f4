"""PrioritySort: the active queue's order, by priority and then by waiting time."""

from __future__ import annotations

from typing import Any, ClassVar

from mooring.core.framework.handle import Handle


class PrioritySort:
    """Orders by priority, then by the time of the last (re)entry into the queue."""

    name: ClassVar[str] = "PrioritySort"

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def sort_key(self, priority: int, timestamp: float) -> Any:
        return (-priority, timestamp)
