"""A thread for decisions that ask extenders: meanwhile the event loop goes on, and a thread that hangs can be left."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ThreadLeft(Exception):
    """The thread hangs and was left behind; what it was asked will never be answered."""


class DecisionThread(Executor):
    """One thread that does one thing at a time. It is a daemon: a thread that hangs cannot keep the process alive.

    It is an executor like those of the standard library, so that an event loop in virtual time can do without it.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._left: asyncio.Future[None] | None = None

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the function in the thread and wait for what it returns or raises, or for ThreadLeft."""
        loop = asyncio.get_running_loop()
        self._left = left = loop.create_future()
        answer = loop.run_in_executor(self, function, *arguments)
        await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
        if left.done() and not answer.done():
            answer.cancel()
            raise ThreadLeft
        return await answer

    def leave(self) -> None:
        """Give up waiting; called in the event loop. The thread ends when its work comes back, if it ever does."""
        if self._left is not None and not self._left.done():
            self._left.set_result(None)
        self.close()

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def close(self) -> None:
        """Let the thread end after what it is doing."""
        self._work.put(None)

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """Have something done in the thread; called by the event loop."""
        answer: Future[T] = Future()

        def work() -> None:
            try:
                result = function(*arguments, **named)
            except BaseException as error:
                if not answer.cancelled():
                    answer.set_exception(error)
            else:
                if not answer.cancelled():
                    answer.set_result(result)

        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="decisions", daemon=True)
            self._thread.start()
        self._work.put(work)
        return answer

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
