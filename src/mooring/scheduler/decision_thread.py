"""A thread for decisions that ask extenders: meanwhile the event loop goes on, and a thread that hangs can be left."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadLeft(Exception):
    """The thread hangs and was left behind; what it was asked will never be answered."""


class DecisionThread:
    """One thread that does one thing at a time. It is a daemon: a thread that hangs cannot keep the process alive."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._answer: asyncio.Future[Any] | None = None
        threading.Thread(target=self._run, name="decisions", daemon=True).start()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the function in the thread and wait for what it returns or raises, or for ThreadLeft."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._answer = answer

        def work() -> None:
            try:
                result = function(*arguments)
            except BaseException as error:
                _tell(loop, answer, answer.set_exception, error)
            else:
                _tell(loop, answer, answer.set_result, result)

        self._work.put(work)
        return await answer

    def leave(self) -> None:
        """Give up waiting; called in the event loop. The thread ends when its work comes back, if it ever does."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ThreadLeft())
        self.close()

    def close(self) -> None:
        """Let the thread end after what it is doing."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _tell(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any], tell: Callable[[Any], None], what: Any) -> None:
    def deliver() -> None:
        if not answer.done():  # somebody may have given up waiting
            tell(what)

    if not loop.is_closed():
        loop.call_soon_threadsafe(deliver)
