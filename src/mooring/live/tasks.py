"""Work in the background that must not be forgotten: bindings, evictions, status patches."""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from mooring.api.clock import Clock
from mooring.live.logs import get_logger

log = get_logger("mooring.live")


class Tasks:
    """What is under way. ``drain`` waits for all of it, ``abort`` stops all of it."""

    def __init__(self, clock: Clock, *, at_once: bool = False) -> None:
        """With ``at_once``, work that is begun becomes a task only when it has to wait for something."""
        self._clock = clock
        self._at_once = at_once
        self._running: dict[asyncio.Future[Any], None] = {}  # in order: two runs in virtual time do the same
        self._over: asyncio.Future[None] | None = None  # stands for all that was over as soon as it was begun
        self.is_aborted = False

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Do something in a task of its own; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """The same for work that may begin where it is: in a simulation most of it waits for nobody."""
        if not self._at_once:
            return self.spawn(work)
        try:
            awaited = work.send(None)
        except StopIteration:
            pass
        except Exception as error:
            log.error(error, "Unexpected error in a background task")
        else:
            return self.spawn(_finish(work, awaited))
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
            self._over.set_result(None)
        return self._over

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


async def _finish(work: Coroutine[Any, Any, Any], awaited: Any) -> Any:
    return await _rest_of(work, awaited)  # since Python 3.12 a task takes no generator


@types.coroutine
def _rest_of(work: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, Any, Any]:
    """What is left of a coroutine that was begun and waits for this."""
    while True:
        problem: BaseException | None = None
        answer = None
        try:
            answer = yield awaited
        except BaseException as error:
            problem = error
        try:
            awaited = work.send(answer) if problem is None else work.throw(problem)
        except StopIteration as end:
            return end.value


# --------------------------------------------------------------------------------------------------------------------
# Keeps the cluster still while a decision is made in another thread.
#
# Only extenders need this: they are asked over HTTP in the middle of a decision, and the event loop must not wait for
# them. The decision is then made in a thread, and everything that would change the cluster or the queue waits here.

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
