"""A world in virtual time: machines with clocks of their own, and event loops that run in turns.

Every thread of every machine is an asyncio loop, and all of them run in one real thread. The world's time jumps to the
next timer as soon as no loop has anything to do. A machine that sleeps, or was killed, is a machine whose loops get no
turn. As nothing depends on real time or real chance, two runs do the same in the same order.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from mooring.live.control_thread import ControlThread
from mooring.sim.virtual_time import EPOCH_S, MANY_TIMERS

Act = Callable[[], None]
NEVER = float("inf")
MAX_TURNS = 1_000_000
"""So many turns at one instant mean that something runs in circles."""


TICK_S = 1e-9
"""A timer fires this much late, so that no clock, at whatever rate it runs, shows less than the timer was set for."""


class Stuck(Exception):
    """Loops take turns for ever, and time does not pass."""


class World:
    """Time, and everything that has a share in it."""

    def __init__(self, rng: random.Random) -> None:
        self.now_s = 0.0
        self.rng = rng
        self.machines: list[Machine] = []
        self._loops: list[VirtualLoop] = []
        self._ready: deque[VirtualLoop] = deque()  # those that may have something to do now, in the order of asking
        self._acts: list[tuple[float, int, Act]] = []
        self._count = itertools.count()
        self.running: VirtualLoop | None = None  # whom asyncio takes for the loop that runs

    def at(self, when_s: float, act: Act) -> None:
        """Do something at a time, outside of all machines."""
        heapq.heappush(self._acts, (max(when_s, self.now_s), next(self._count), act))

    def after(self, seconds: float, act: Act) -> None:
        self.at(self.now_s + seconds, act)

    def run_until(self, end_s: float) -> None:
        """Let time pass."""
        hooks = sys.get_asyncgen_hooks()
        try:
            while self._turn(end_s):
                pass
        finally:
            self.leave()
            sys.set_asyncgen_hooks(*hooks)
        self.now_s = end_s

    def _turn(self, end_s: float) -> bool:
        """Do all that is to be done now, then go on to the next instant; false if that is after the end."""
        ready, acts = self._ready, self._acts
        for _ in range(MAX_TURNS):
            if not ready:
                break
            loop = ready.popleft()
            loop.has_asked = False
            if not loop.machine.is_asleep and not loop.is_closed():
                loop.turn()
        else:
            raise Stuck(f"at {self.now_s:.6f} s the machines do not come to rest")
        due = acts[0][0] if acts else NEVER
        for loop in self._loops:
            if loop.due_s < due:
                due = loop.due_s
        if due > end_s:
            return False
        if due > self.now_s:
            self.now_s = due
        now_s = self.now_s
        if acts and acts[0][0] <= now_s:
            self.leave()
            while acts and acts[0][0] <= now_s:
                heapq.heappop(acts)[2]()
        for loop in self._loops:
            if loop.due_s <= now_s:
                loop.ask_for_turn()
        return True

    def give_turn(self, loop: VirtualLoop) -> None:
        self._ready.append(loop)

    def enter(self, loop: VirtualLoop) -> None:
        """Let asyncio know which loop runs, until another one does or ``leave``: most turns follow one of the same."""
        self.running = loop
        asyncio._set_running_loop(loop)
        sys.set_asyncgen_hooks(*loop.hooks)

    def leave(self) -> None:
        """What is done now is done outside of all loops."""
        if self.running is not None:
            self.running = None
            asyncio._set_running_loop(None)

    def enrol(self, loop: VirtualLoop) -> None:
        self._loops.append(loop)

    def dismiss(self, loop: VirtualLoop) -> None:
        if loop in self._loops:
            self._loops.remove(loop)


class Machine:
    """A computer: a clock that may run fast, slow or stand still, a wall clock that may be wrong, and threads."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_alive = True
        self.is_asleep = False
        self.rate = 1.0
        self.wall_error_s = 0.0
        self.busy_s = 0.0  # how long the work that is being done in a thread takes; set by that work
        self.loops: list[VirtualLoop] = []
        self._since_s = world.now_s  # of the world's time
        self._seconds = 0.0  # of this machine's monotonic clock by then
        self._is_clock_stopped = False
        self._slept_s = 0.0  # that the monotonic clock knows nothing of
        self._asleep_since_s = 0.0
        world.machines.append(self)

    # ---- clocks ------------------------------------------------------------------------------------------------

    def monotonic(self) -> float:
        if self._is_clock_stopped:
            return self._seconds
        return self._seconds + (self.world.now_s - self._since_s) * self.rate

    def boot_time(self) -> float:
        """A clock that also runs while the machine sleeps."""
        asleep_s = (self.world.now_s - self._asleep_since_s) * self.rate if self._is_clock_stopped else 0.0
        return self.monotonic() + self._slept_s + asleep_s

    def now(self) -> float:
        return EPOCH_S + self.boot_time() + self.wall_error_s

    def world_time_of(self, monotonic_s: float) -> float:
        """When this machine's clock will show that."""
        if self._is_clock_stopped:
            return NEVER
        return self._since_s + (monotonic_s - self._seconds) / self.rate + TICK_S

    def run_clock_at(self, rate: float) -> None:
        self._seconds, self._since_s = self.monotonic(), self.world.now_s
        self.rate = rate
        self._tell_loops()

    def _tell_loops(self) -> None:
        if not self.is_asleep:
            for loop in self.loops:
                loop.due_s = self.world.now_s  # a timer may be due earlier, or later, than it was before
                loop.ask_for_turn()

    # ---- sleep and death ---------------------------------------------------------------------------------------

    def fall_asleep(self, *, stops_clock: bool) -> None:
        """No thread gets a turn any more: the process is stopped, or the whole machine is suspended."""
        if self.is_asleep:
            return
        self.is_asleep = True
        self._asleep_since_s = self.world.now_s
        if stops_clock:
            self._seconds, self._is_clock_stopped = self.monotonic(), True
        for loop in self.loops:
            loop.due_s = NEVER

    def wake(self) -> None:
        if not self.is_asleep:
            return
        self.is_asleep = False
        if self._is_clock_stopped:
            self._is_clock_stopped = False
            self._slept_s += (self.world.now_s - self._asleep_since_s) * self.rate
            self._since_s = self.world.now_s
        self._tell_loops()

    def kill(self) -> None:
        """End everything immediately. Nothing that tasks send while they are torn down arrives: the network is gone."""
        self.is_alive = False
        self.wake()
        tear_down(*self.loops)

    # ---- threads -----------------------------------------------------------------------------------------------

    def new_loop(self) -> VirtualLoop:
        return VirtualLoop(self)


class MachineClock:
    """A machine's clocks as a :class:`mooring.api.clock.Clock`; for leases, with the one that does not stop."""

    def __init__(self, machine: Machine, *, is_unstoppable: bool = False) -> None:
        self.now = machine.now
        self.monotonic = machine.boot_time if is_unstoppable else machine.monotonic


class _NothingToSelect:
    """No file is ever ready: bytes come through the virtual network."""

    def close(self) -> None:
        pass


class VirtualLoop(asyncio.BaseEventLoop):
    """One thread of a machine. ``due_s`` is when, in the world's time, its next timer is due."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.connect: Callable[..., Any] | None = None
        self.has_asked = False
        self.due_s = NEVER
        self._numbers = itertools.count()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []  # a heap
        self._numbered = 0  # timers so far
        self._cancelled = 0  # of the timers in the heap
        self._selector = _NothingToSelect()
        self._clock_resolution = 0.0
        self.hooks = self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook  # type: ignore[attr-defined]
        machine.loops.append(self)
        machine.world.enrol(self)

    def time(self) -> float:
        return self.machine.monotonic()

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        """Number the tasks: asyncio keeps them in a set, and an order is needed to end them in."""
        return super().create_task(coro, name=f"{next(self._numbers):09d} {name or ''}", context=context)

    def tasks(self) -> list[asyncio.Task[Any]]:
        return sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())

    def ask_for_turn(self) -> None:
        if not self.has_asked:
            self.has_asked = True
            self.machine.world.give_turn(self)

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """As asyncio's, but for checks of threads, of which there is one."""
        if self._closed:  # type: ignore[attr-defined]
            self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        if not self.has_asked:
            self.ask_for_turn()
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.machine.monotonic() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """As asyncio's, but that timers for the same time come in the order in which they were set."""
        if self._closed:  # type: ignore[attr-defined]
            self._check_closed()  # type: ignore[attr-defined]
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        timer._scheduled = True  # type: ignore[attr-defined]
        self._numbered += 1
        heapq.heappush(self._timers, (when, self._numbered, timer))
        machine = self.machine
        if not machine.is_asleep:
            self.due_s = min(self.due_s, machine.world_time_of(when))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if handle._scheduled:  # type: ignore[attr-defined]
            self._cancelled += 1

    def turn(self) -> None:
        """Run what is to be run now, once: what it asks for in turn is run in the next turn."""
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        timers, world = self._timers, self.machine.world
        if self.due_s <= world.now_s + 2 * TICK_S or (timers and timers[0][2]._cancelled):
            self._take_timers(ready)
        if ready:
            if world.running is not self:
                world.enter(self)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            if ready:
                self.ask_for_turn()

    def _take_timers(self, ready: deque[asyncio.Handle]) -> None:
        """Have the timers that are due run in this turn, and find out when the next one is."""
        timers, machine = self._timers, self.machine
        if 2 * self._cancelled > len(timers) > MANY_TIMERS:
            timers[:] = [entry for entry in timers if not entry[2]._cancelled]
            heapq.heapify(timers)
            self._cancelled = 0
        now_s = machine.monotonic()
        while timers and (timers[0][0] <= now_s or timers[0][2]._cancelled):
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            if timer._cancelled:
                self._cancelled -= 1
            else:
                ready.append(timer)
        self.due_s = machine.world_time_of(timers[0][0]) if timers else NEVER

    # ---- what asyncio asks of a loop ---------------------------------------------------------------------------

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        if self.connect is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return await self.connect(self, protocol_factory)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """A thread's work is done immediately; how long it took is for the work to say (``Machine.busy_s``)."""
        future = self.create_future()
        machine = self.machine
        machine.busy_s = 0.0
        try:
            done: Any = func(*args)
            finish = future.set_result
        except Exception as error:
            done, finish = error, future.set_exception
        if machine.busy_s > 0:
            self.call_later(machine.busy_s, lambda: None if future.done() else finish(done))
        else:
            finish(done)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass

    def close(self) -> None:
        super().close()
        self._timers.clear()


def tear_down(*loops: VirtualLoop) -> None:
    """Cancel everything in these threads and let it end, in no time of the world's."""
    hooks = sys.get_asyncgen_hooks()
    for _ in range(1000):
        tasks = [task for loop in loops for task in loop.tasks()]
        if not tasks:
            break
        for task in tasks:
            task.cancel()
        for _ in range(20):
            for loop in loops:
                loop.turn()
    for loop in loops:
        loop.machine.world.leave()
    sys.set_asyncgen_hooks(*hooks)
    for loop in loops:
        loop.machine.world.dismiss(loop)
        if loop in loop.machine.loops:
            loop.machine.loops.remove(loop)
        loop.close()


class VirtualLifeline(ControlThread):
    """The second thread of a scheduler process: a second loop of its machine."""

    def __init__(self, machine: Machine, connect: Callable[..., Any]) -> None:
        loop = machine.new_loop()
        loop.connect = connect
        self.loop = loop
        self._virtual = loop

    def close(self) -> None:
        loop = self._virtual
        loop.call_soon(loop.machine.world.after, 0.0, lambda: tear_down(loop))
