"""Time limits: an attempt or a plugin call that runs too long costs its pod an attempt, never the process.

A separate thread watches the clock, so that the scheduler cannot delay it. When a limit expires:

1. It is marked as spent. The engine and the long searches look at that mark between their steps and end by themselves.
2. If that does not help within a moment, the thread that runs too long is interrupted: ``OutOfTime`` is raised in it.
   In the main thread a signal does this, which also ends a wait for a lock, a socket or a child process. Elsewhere an
   asynchronous exception does it, which takes effect at the next line of Python.
3. If that does not help either, the limit is stuck: it is logged, and the limit's ``on_stuck`` is called.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import queue
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import FrameType
from typing import Any, ParamSpec, Self, TypeVar

from mooring.api.clock import Clock, SystemClock
from mooring.api.times import format_duration
from mooring.core.framework.cycle_state import Budget, OutOfTime
from mooring.core.framework.extension_points import METHODS
from mooring.core.framework.registry import ResolvedPlugin
from mooring.core.framework.runtime import Profile
from mooring.live.logs import get_logger

log = get_logger("mooring.live.time_limits")
T = TypeVar("T")

SIGNAL = signal.SIGURG
"""Interrupts the main thread. It is ignored by default; Go uses it for the same purpose."""
POLL_S = 0.25
GRACE_S = 1.0
"""Grace period of each of the steps above before the next one."""
NO_LIMIT = float("inf")
ATTEMPT_TIMEOUT = "AttemptTimeout"
"""Stands for a plugin's name where a pod has timed out again: no event wakes that pod, only time does."""

PLUGIN_METHODS = tuple(method.name for method in METHODS.values() if method.metric and not method.is_async)
"""The methods that block the scheduler while they run. An ``async`` method that waits does not."""


class AttemptTimeout(Exception):
    """An attempt to schedule a pod did not end in time."""


class PluginTimeout(Exception):
    """A plugin call did not return in time."""


class Limit(Budget):
    """A piece of work and its deadline."""

    __slots__ = ("deadline", "error", "grace_s", "interrupted_at", "is_done", "is_stuck", "name", "on_stuck", "thread")

    def __init__(
        self,
        name: str,
        deadline: float,
        error: Exception,
        *,
        grace_s: float = GRACE_S,
        on_stuck: Callable[[], None] | None = None,
    ) -> None:
        """``grace_s`` is how long the work may run after ``is_spent`` before it is interrupted."""
        self.is_spent = False
        self.name = name
        self.deadline = deadline
        self.error = error
        self.grace_s = grace_s
        self.on_stuck = on_stuck
        self.thread = 0
        self.is_done = False
        self.interrupted_at: float | None = None
        self.is_stuck = False


_interrupted: set[Limit] = set()  # in the main thread: its signal handler must know which are still running


def _on_signal(number: int, frame: FrameType | None) -> None:
    """Interrupt the main thread's work, unless it has just ended by itself."""
    if any(not limit.is_done for limit in tuple(_interrupted)):
        raise OutOfTime


class TimeLimits:
    """Runs work under limits. Limits hold inside ``with limits:``."""

    def __init__(self, clock: Clock | None = None, *, poll_s: float = POLL_S) -> None:
        self.clock = clock or SystemClock()
        self.on_timeout: Callable[[str], None] | None = None  # called with the name of an expired limit
        self._poll_s = poll_s
        self._telling = threading.Lock()  # both the working and the watching thread may report
        self._running: list[Limit] = []
        self._is_sending = False
        self._is_over: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._signalled: int | None = None  # the main thread, if a signal reaches it

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            signal.signal(SIGNAL, _on_signal)
            self._signalled = threading.get_ident()
        self._is_over = is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(is_over,), name="time limits", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._is_over is not None and self._thread is not None
        self._is_over.set()
        self._thread.join()

    # ---- the threads that work ---------------------------------------------------------------------------------

    def run(self, limit: Limit, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call the function; raise the limit's error if it runs too long."""
        limit.thread = threading.get_ident()
        self._running.append(limit)
        try:
            try:
                return function(*arguments, **named)
            finally:
                self._leave(limit)
        except OutOfTime as interruption:
            self._leave(limit)  # the interruption may have arrived while the line above was leaving
            if not limit.is_spent:
                raise  # meant for the work around this one
            if not limit.is_stuck:
                self._tell(limit)
            raise limit.error.with_traceback(interruption.__traceback__) from None

    def _leave(self, limit: Limit) -> None:
        """End the limit: it interrupts nothing any more, and a pending interruption is cancelled."""
        limit.is_done = True
        if limit.interrupted_at is not None:
            while self._is_sending:
                time.sleep(0)
            _interrupted.discard(limit)
            _interrupt(limit.thread, None)
        if limit in self._running:
            self._running.remove(limit)

    # ---- the thread that watches -------------------------------------------------------------------------------

    def _watch(self, is_over: threading.Event) -> None:
        while not is_over.wait(self._poll_s):
            try:
                self.check()
            except Exception as error:  # the watching thread must not end: no limit would be enforced
                log.error(error, "Unexpected error while checking time limits")

    def check(self) -> None:
        """Check all limits once."""
        now = self.clock.monotonic()
        for limit in tuple(self._running):
            late_s = now - limit.deadline
            if late_s < 0:
                continue
            limit.is_spent = True
            if limit.interrupted_at is None:
                if late_s >= limit.grace_s:
                    self._interrupt(limit, now)
                continue
            if limit in _interrupted and not limit.is_done:
                signal.pthread_kill(limit.thread, SIGNAL)  # again, in case something has swallowed the interruption
            if now - limit.interrupted_at >= GRACE_S and not limit.is_stuck and not limit.is_done:
                limit.is_stuck = True
                log.error(limit.error, "Timed out, and interrupting it had no effect", what=limit.name)
                self._tell(limit)
                if limit.on_stuck is not None:
                    limit.on_stuck()

    def _tell(self, limit: Limit) -> None:
        if self.on_timeout is not None:
            with self._telling:
                self.on_timeout(limit.name)

    def _interrupt(self, limit: Limit, now: float) -> None:
        # ``_leave`` sets is_done and then reads interrupted_at; here it is the other way round. So either the work has
        # ended and nothing is sent, or ``_leave`` waits for the interruption and cancels it.
        self._is_sending = True
        try:
            limit.interrupted_at = now
            if limit.is_done:
                return
            if limit.thread == self._signalled:
                _interrupted.add(limit)
                signal.pthread_kill(limit.thread, SIGNAL)
            else:
                _interrupt(limit.thread, OutOfTime)
        finally:
            self._is_sending = False


def _interrupt(thread: int, error: type[BaseException] | None) -> None:
    """Raise an exception in a thread at its next line of Python; None cancels a pending one."""
    exception = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)


def is_in_tree(plugin: ResolvedPlugin) -> bool:
    """Report whether a plugin is one of mooring's own."""
    return type(plugin.plugin).__module__.startswith("mooring.core.plugins.")


def limit_plugins(profile: Profile, limits: TimeLimits, seconds: float) -> None:
    """Limit each call of a plugin that is not in-tree to this many seconds; 0 means no limit."""
    if seconds <= 0:
        return
    for plugin in profile.plugins.values():
        if is_in_tree(plugin):
            continue
        for name in PLUGIN_METHODS:
            limited = functools.partial(_limited, name=f"{plugin.name}.{name}", limits=limits, seconds=seconds)
            plugin.wrap(name, limited)


def _limited(method: Callable[..., T], name: str, limits: TimeLimits, seconds: float) -> Callable[..., T]:
    text = f"{name} did not come back within {format_duration(seconds)}"
    monotonic = limits.clock.monotonic

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> T:
        limit = Limit(name, monotonic() + seconds, PluginTimeout(text), grace_s=0.0)
        return limits.run(limit, method, *arguments, **named)

    return call


# --------------------------------------------------------------------------------------------------------------------
# A thread for decisions that ask extenders: the event loop continues, and a thread that hangs can be abandoned.

P = ParamSpec("P")


class ThreadLeft(Exception):
    """The thread hangs and was abandoned; its request is never answered."""


class DecisionThread(Executor):
    """One thread that does one thing at a time. It is a daemon, so a hanging call cannot keep the process alive.

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
        """Stop waiting; called in the event loop. The thread ends when its work returns, if it ever does."""
        if self._left is not None and not self._left.done():
            self._left.set_result(None)
        self.close()

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def close(self) -> None:
        """End the thread after its current work."""
        self._work.put(None)

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """Run the function in the thread; called by the event loop."""
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
