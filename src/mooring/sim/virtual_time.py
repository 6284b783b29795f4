"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing is left to do.

Everything that sleeps, waits with a timeout or sets a timer through asyncio runs unchanged, but without waiting: five
minutes pass in the time it takes to do the work in them. As long as a program communicates with no other process, two
runs do the same things in the same order.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, copy_context
from typing import Any, TypeVar

from mooring.api.errors import MooringError

T = TypeVar("T")

EPOCH_S = 1_767_225_600.0
"""Default beginning of a story in virtual time: 2026-01-01T00:00:00Z, so that two runs write the same times."""
GRACE_S = 0.003
"""With sockets: real seconds for the kernel to deliver bytes before time jumps."""
MANY_TIMERS = 100
"""Cancelled timers are removed when there are more timers than this, and most of them are cancelled."""
PATIENCE_S = 0.05
"""With sockets: real seconds between two checks while a thread is working. Virtual time does not advance."""


class NothingLeft(MooringError):
    """A task waits, but no timer, other task or message could ever wake it."""


class _JumpingSelector(selectors.BaseSelector):
    """Asks a real selector for sockets, and advances the clock where a loop would sleep until its next timer."""

    def __init__(self, *, has_sockets: bool) -> None:
        self._real = selectors.DefaultSelector()
        self._has_sockets = has_sockets
        self.threads_at_work = 0
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self._has_sockets and timeout is not None:  # only a timer can be waited for
            if timeout > 0:
                self.now_s += timeout
            return []
        if timeout is not None and timeout <= 0:
            return self._real.select(0)
        if self._has_sockets:
            must_wait = timeout is None or self.threads_at_work > 0
            ready = self._real.select(PATIENCE_S if must_wait else GRACE_S)
            if must_wait:
                return ready
        else:
            ready = self._real.select(0)
            if not ready:
                raise NothingLeft("the story is stuck: a task waits, and nothing is left that could happen")
        if not ready and timeout is not None:
            self.now_s += timeout
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class _LightHandle(asyncio.Handle):
    """A handle without debugging checks. A simulation creates several for each pod."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None = None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _LightTimer(asyncio.TimerHandle):
    """A timer of that kind, which is in the heap as soon as it is created."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None = None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop in virtual time; ``time`` begins at 0.

    Without sockets a thread's work is done immediately, in the loop: the speed of a thread must not matter to a story,
    and a story that waits for nothing is detected. With sockets, client and server may communicate over them inside
    this loop, and threads are threads.
    """

    def __init__(self, *, has_sockets: bool = False) -> None:
        self._jumping = _JumpingSelector(has_sockets=has_sockets)
        self._has_sockets = has_sockets
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []  # a heap; without sockets
        self._numbered = 0  # timers so far
        self._cancelled = 0  # of the timers in the heap
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    # ---- without sockets -----------------------------------------------------------------------------------------
    # asyncio's own loop asks a selector in every round, compares timers in Python, and looks at each callback in case
    # of debugging. A simulation of a week has millions of all of them, so that these methods replace asyncio's.
    #
    # Order is what makes two runs the same. Callbacks run in the order of call_soon. Timers are in a heap by (time,
    # number): those for the same time run in the order in which they were set, whatever else is in the heap. Handles
    # are never compared.

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._has_sockets or self._closed:  # type: ignore[attr-defined]
            return super().call_soon(callback, *args, context=context)
        handle = _LightHandle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def is_latest(self, handle: asyncio.Handle) -> bool:
        """Report whether a callback is still to run, and nothing is to run after it."""
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        return bool(ready) and ready[-1] is handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._has_sockets:
            return super().call_at(when, callback, *args, context=context)
        timer = _LightTimer(when, callback, args, self, context)
        self._numbered += 1
        heapq.heappush(self._timers, (when, self._numbered, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by a cancelled timer. It stays in the heap, and is only counted, until it comes up."""
        if self._has_sockets:
            super()._timer_handle_cancelled(handle)  # type: ignore[misc]
            return
        if handle._scheduled:  # type: ignore[attr-defined]
            self._cancelled += 1

    def _run_once(self) -> None:
        """Run ready callbacks; if there are none, jump to the next timer first.

        One call of asyncio's method is one round: it runs the callbacks that are ready at its beginning, and what they
        make ready waits for the next call. This method plays as many rounds as there are before time has to move, which
        gives the same order with fewer calls. It returns early when the loop is to stop, or when a callback has set a
        timer that is already due: the timer then comes after what is ready, as it would in asyncio.
        """
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        if 2 * self._cancelled > len(self._timers) > MANY_TIMERS:
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled -= 1
        if not timers and (self._has_sockets or not ready):
            # With sockets asyncio keeps the timers, and the jumping selector moves time. Without sockets nothing is
            # ready and no timer is set: asyncio asks the selector, which raises NothingLeft.
            super()._run_once()  # type: ignore[misc]
            return
        jumping = self._jumping
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            jumping.now_s += max(0.0, timers[0][0] - jumping.now_s)
        # All timers within the resolution of the clock are due together, as in asyncio.
        end = jumping.now_s + self._clock_resolution  # type: ignore[attr-defined]
        while timers and timers[0][0] < end:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            if timer._cancelled:
                self._cancelled -= 1
            else:
                ready.append(timer)
        next_ready = ready.popleft
        while ready:  # a round: what it makes ready comes in the next one
            for _ in range(len(ready)):
                handle = next_ready()
                if not handle._cancelled:
                    try:
                        handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        what = f"Exception in callback {handle!r}"
                        self.call_exception_handler({"message": what, "exception": error, "handle": handle})
            if self._stopping or (timers and timers[0][0] < end):  # type: ignore[attr-defined]
                return

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        if self._has_sockets:
            done: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
            self._jumping.threads_at_work += 1
            done.add_done_callback(self._thread_has_ended)
            return done
        # A thread's result would come at a moment that differs from run to run, and time would jump past it.
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _thread_has_ended(self, _: asyncio.Future[Any]) -> None:
        self._jumping.threads_at_work -= 1


class LoopClock:
    """A loop's time as a :class:`mooring.api.clock.Clock`: virtual in a virtual loop, the machine's otherwise."""

    def __init__(self, loop: asyncio.AbstractEventLoop, starts_at: float = EPOCH_S) -> None:
        """``starts_at`` is the time of second 0 of a virtual loop, in seconds since 1970."""
        self.monotonic: Callable[[], float] = loop.time  # itself: it is read several times in every decision
        self.now: Callable[[], float] = _since(loop, starts_at)


def _since(loop: asyncio.AbstractEventLoop, starts_at: float) -> Callable[[], float]:
    """Return a function for the loop's time in seconds since 1970."""
    if isinstance(loop, VirtualTimeLoop):
        jumping = loop._jumping
        return lambda: starts_at + jumping.now_s
    offset_s = time.time() - loop.time()
    return lambda: offset_s + loop.time()


def run_virtual(main: Coroutine[Any, Any, T], *, has_sockets: bool = False) -> T:
    """Run a coroutine to its end in virtual time, like ``asyncio.run``."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(has_sockets=has_sockets)) as runner:
        return runner.run(main)
