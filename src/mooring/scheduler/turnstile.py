"""Keeps the cluster still while a decision is made in another thread.

Only extenders need this: they are asked over HTTP in the middle of a decision, and the event loop must not wait for
them. The decision is then made in a thread, and everything that would change the cluster or the queue waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mooring.observe.logs import get_logger

log = get_logger("mooring.scheduler")
T = TypeVar("T")


class Turnstile:
    """Lets calls through at once, or, while it is closed, later and in the order in which they came."""

    def __init__(self) -> None:
        self.is_closed = False
        self._held: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def __call__(self, function: Callable[..., None], *arguments: Any) -> None:
        if self.is_closed:
            self._held.append((function, arguments))
        else:
            function(*arguments)

    def through(self, function: Callable[..., None]) -> Callable[..., None]:
        """The function behind the turnstile."""

        def call(*arguments: Any) -> None:
            if self.is_closed:
                self._held.append((function, arguments))
            else:
                function(*arguments)

        return call

    async def closed_during(self, work: Awaitable[T]) -> T:
        """Hold calls back until the work is done, then let them through."""
        self.is_closed = True
        try:
            return await work
        finally:
            while self._held:  # still closed: what these calls set off waits behind them
                function, arguments = self._held.popleft()
                try:
                    function(*arguments)
                except Exception as error:  # the others must not be lost
                    log.error(error, "An event could not be handled")
            self.is_closed = False
