"""A second thread with its own event loop that renews the lease and answers health checks independently of decisions.

The scheduler decides in the main thread's loop, and a decision can take a while. Nothing in this thread waits for the
main thread without a limit, so a slow or hanging decision delays neither the lease nor the endpoints. Python switches
between the two threads every few milliseconds.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mooring.api.clock import Clock, SystemClock

T = TypeVar("T")

BEAT_S = 1.0


class ControlThread:
    """A thread with an event loop; ``run`` runs a coroutine in it."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and wait for it; see ``run_in``."""
        return await run_in(self.loop, work)

    def close(self) -> None:
        """End the thread after cancelling what still runs in it."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


async def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another thread's loop, and wait for its end.

    Cancelling this cancels it there, and still waits until it has ended there.
    """
    here = asyncio.get_running_loop()
    ended: asyncio.Future[T] = here.create_future()
    tasks: list[asyncio.Task[T]] = []

    def start() -> None:
        task = loop.create_task(work)
        tasks.append(task)
        task.add_done_callback(lambda task: here.call_soon_threadsafe(finish, task))

    def finish(task: asyncio.Task[T]) -> None:
        if ended.done():
            return
        if task.cancelled():
            ended.cancel()
        elif (error := task.exception()) is not None:
            ended.set_exception(error)
        else:
            ended.set_result(task.result())

    def cancel() -> None:  # runs after start
        tasks[0].cancel()

    loop.call_soon_threadsafe(start)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if not ended.done():
            loop.call_soon_threadsafe(cancel)
            await asyncio.wait([ended])
            if not ended.cancelled():
                ended.exception()  # the caller gave up; reading it tells asyncio that it is not lost
        raise


async def ask(loop: asyncio.AbstractEventLoop, question: Callable[[], T], timeout_s: float) -> T:
    """Call a function in another thread's loop; raise TimeoutError if that loop is busy for too long."""

    async def answer() -> T:
        return question()

    future = asyncio.run_coroutine_threadsafe(answer(), loop)
    async with asyncio.timeout(timeout_s):
        return await asyncio.wrap_future(future)


class Heartbeat:
    """Measures for how long another thread's loop has not answered."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float, clock: Clock | None = None) -> None:
        """``check`` reports an error once the loop has not answered for ``limit_s``."""
        self._loop = loop
        self._limit_s = limit_s
        self._clock = clock or SystemClock()
        self._asked_at: float | None = None

    async def run(self, too_late: Callable[[], Coroutine[Any, Any, None]], sleep: Any = asyncio.sleep) -> None:
        """Ask every second. If there is no answer for twice the limit, call ``too_late``."""
        while self.late_s < 2 * self._limit_s:
            self.beat()
            await sleep(BEAT_S)
        await too_late()

    def beat(self) -> None:
        """Ask the loop to answer, unless an answer is still outstanding."""
        if self._asked_at is None:
            self._asked_at = self._clock.monotonic()
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._asked_at = None

    @property
    def late_s(self) -> float:
        asked_at = self._asked_at
        return 0.0 if asked_at is None else self._clock.monotonic() - asked_at

    def check(self) -> str | None:
        """Report a loop that does not answer, for the health endpoints."""
        late_s = self.late_s
        return f"the scheduling loop has not answered for {late_s:.0f}s" if late_s > self._limit_s else None
