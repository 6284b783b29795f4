"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing is left to do.

Everything that sleeps, waits with a timeout or sets a timer through asyncio runs unchanged, only without the waiting:
five minutes pass in the time it takes to do the work in them. As long as nobody talks to another process, two runs
do the same things in the same order.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mooring.errors import MooringError

T = TypeVar("T")

EPOCH_S = 1_767_225_600.0
"""When every story in virtual time begins: 2026-01-01T00:00:00Z, so that two runs write the same timestamps."""


class NothingLeft(MooringError):
    """Somebody waits, and there is no timer, no task and no message that could ever wake them."""


class _JumpingSelector(selectors.SelectSelector):
    """Where a loop would sleep until its next timer, the time of that timer has come."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            raise NothingLeft("the story is stuck: somebody waits, and nothing is left that could happen")
        self.now_s += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop in virtual time; ``time`` begins at 0."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Call at once instead of in a thread: how quick a thread is must not matter to a story."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class LoopClock:
    """A loop's time as a :class:`mooring.clock.Clock`: virtual in a virtual loop, the machine's otherwise."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        is_virtual = isinstance(loop, VirtualTimeLoop)
        self._offset_s = EPOCH_S if is_virtual else time.time() - loop.time()

    def now(self) -> float:
        return self._offset_s + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time, like ``asyncio.run``."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
