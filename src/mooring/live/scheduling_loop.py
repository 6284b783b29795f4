"""The scheduling loop: it tries ready pods, and sleeps while there are none.

The loop never waits for the API server. It decides for a few milliseconds and then yields to the event loop for
watches, bindings and timers. When no pod is ready it sleeps until ``wake`` is called, or until the queue's next timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.live.context import SchedulerContext
from mooring.live.schedule_one import PodAttempts

SLICE_S = 0.005
"""How long the loop decides before it yields to the event loop."""
SLICE_PODS = 100
"""A turn also ends after this many pods: otherwise a burst in virtual time would start all of its bindings together."""
THREAD_PODS = 500
"""A group of more pods is decided in a thread: its decision is one cycle, which takes a second for 10,000 pods."""
TIMERS_S = 1.0
"""How often a loop under constant load checks the queue's timers, as upstream does."""


class SchedulingLoop:
    """Runs attempts one after another; ``attempts`` tries the pods."""

    def __init__(self, context: SchedulerContext, attempts: PodAttempts) -> None:
        pause_thread = context.options.pause_thread
        self._context = context
        self._attempts = attempts
        self._pause = GatherPause(pause_thread, context, attempts) if pause_thread else None
        self._is_resting = False
        self._over: asyncio.Future[None] | None = None  # while it runs
        self._alarm: asyncio.TimerHandle | None = None  # for the queue's next timer
        self._alarm_at = 0.0
        self._timers_at = 0.0  # when the queue's timers are checked even under load
        self._asking: asyncio.Future[None] | None = None  # the decision that runs in another thread

    async def run(self) -> None:
        """Schedule until cancelled."""
        self._over = over = asyncio.get_running_loop().create_future()
        with self._context.options.limits:
            try:
                self._turn()
                await over
            finally:
                self._over, self._is_resting = None, False
                if self._alarm is not None:
                    self._alarm.cancel()
                    self._alarm = None
                if self._asking is not None:
                    self._asking.cancel()
                self._attempts.close()

    def wake(self) -> None:
        """Schedule a turn: there may be a pod to decide."""
        if self._is_resting and self._over is not None:
            self._is_resting = False
            self._over.get_loop().call_soon(self._turn_soon)

    def _turn_soon(self) -> None:
        """Let events of the same moment arrive first, so that the pod with the highest priority is tried first."""
        if self._over is not None:
            self._over.get_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Decide for a while. A plain function, not a task: in the usual case nothing is awaited."""
        if self._over is None or self._over.done():
            return
        if self._context.options.is_held():
            self._is_resting = True
            return
        try:
            awaited = self._decide_for_a_while()
            if awaited is not None:
                awaited.add_done_callback(self._resume)
            elif self._context.queue.has_ready:
                self._over.get_loop().call_soon(self._turn)
            else:
                self._rest()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the loop with an error, unless it has ended already."""
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def _resume(self, awaited: asyncio.Future[None]) -> None:
        """Continue with the next turn when the awaited future is done."""
        if awaited is self._asking:
            self._asking = None
            if not awaited.cancelled() and (error := awaited.exception()) is not None:
                self._fail(error)
        self._turn()

    def _decide_for_a_while(self) -> asyncio.Future[None] | None:
        """Try ready pods up to the limits of a turn; return a future that must be done before the next pod."""
        queue, now = self._context.queue, self._context.clock.monotonic
        started = now()
        if started >= self._timers_at or not queue.has_ready:
            queue.run_timers()
            self._timers_at = started + TIMERS_S
        until = started + SLICE_S
        attempts, left = self._attempts, SLICE_PODS
        attempts.refusals.forget()  # anything may have happened since the last turn
        while attempts.evicting is None and (info := queue.pop()) is not None:
            is_large = type(info) is not QueuedPodInfo and len(info.members) > THREAD_PODS
            if is_large or self._context.session.handle.extenders:
                self._asking = asyncio.ensure_future(attempts.schedule_in_thread(info))
                return self._asking
            attempts.schedule_one(info)
            left -= 1
            left -= attempts.refuse_next(left, until)
            if not left or now() >= until:
                break
        evicting, attempts.evicting = attempts.evicting, None
        return evicting

    def _rest(self) -> None:
        """Wait for a pod, or for the queue's next timer."""
        self._is_resting = True
        if self._pause is not None:
            self._pause.rest()
        due = self._context.queue.next_wakeup()
        if due is None:  # only ``wake`` can change that
            return
        if self._alarm is not None:
            if self._alarm_at <= due:
                return
            self._alarm.cancel()
        rest_s = max(0.0, due - self._context.clock.monotonic())
        self._alarm = asyncio.get_running_loop().call_later(rest_s, self._on_timer)
        self._alarm_at = due

    def _on_timer(self) -> None:
        self._alarm = None
        self.wake()


# --------------------------------------------------------------------------------------------------------------------
# The gather pause: the scheduler's thread sleeps for some milliseconds after it has decided all ready pods.
#
# Binding answers and watch events that arrive in the meantime are then read together, which costs less than waking up
# for each of them. A pause must not delay requests that are about to be sent, so it begins some turns of the event loop
# after the last decision, when they are on the wire.

GATHER_S = 0.005
"""The usual length of a pause."""
SHORT_GATHER_S = 0.001
"""Shorter pause while PreBind work is in flight: each of its steps has to wait for the end of the pause."""
MOST_GATHER_S = 0.02
"""Upper bound of the pause; it doubles while at least GATHER_MORE pods were decided since the last one."""
GATHER_MORE = 3
TURNS_TO_WRITE = 3
"""How many turns of the event loop it takes until bindings are on the wire: a task for each, one write for all."""
TURNS_TO_DECIDE = 5
"""Number of turns from a watch event to the decision on its pod."""
MOST_AGAIN = 10
"""How often the pause is repeated after a burst while bindings are not answered yet."""
MOST_TURNS = 12
"""The pause begins at the latest after this many turns. It saves most where a pod arrives in every turn."""


class GatherPause:
    """Decides when to pause and for how long; ``pause_thread`` blocks the thread."""

    def __init__(self, pause_thread: Callable[[float], None], context: SchedulerContext, attempts: PodAttempts) -> None:
        self._stand_still = pause_thread
        self._tasks = context.tasks
        self._attempts = attempts
        self._decisions = 0  # number of decisions at the last pause
        self._pause_s = GATHER_S
        self._turns_to_write = self._turns_left = 0  # until the next pause
        self._again_left = 0

    def rest(self) -> None:
        """Plan a pause, because all ready pods are decided."""
        decisions = self._attempts.decisions
        if decisions == self._decisions:
            return
        has_many = decisions - self._decisions >= GATHER_MORE
        self._pause_s = min(2 * self._pause_s, MOST_GATHER_S) if has_many else GATHER_S
        self._decisions = decisions
        self._again_left = MOST_AGAIN if self._pause_s > GATHER_S else 0
        self._pause_after(TURNS_TO_WRITE)

    def _pause_after(self, turns: int) -> None:
        """Pause after some turns; a planned pause is postponed by decisions made until then."""
        is_coming = self._turns_left > 0
        self._turns_to_write = turns
        if not is_coming:
            self._turns_left = MOST_TURNS
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turns_to_write -= 1
        self._turns_left -= 1
        if self._turns_to_write and self._turns_left:
            asyncio.get_running_loop().call_soon(self._turn)
            return
        self._turns_left = 0
        if self._attempts.steps_before:  # nominations, claims, volumes
            self._stand_still(SHORT_GATHER_S)
        elif len(self._tasks) > len(self._attempts.under_way):  # evictions: further requests follow them
            self._stand_still(GATHER_S)
        else:
            self._stand_still(self._pause_s)
            if self._attempts.under_way and self._again_left:
                self._again_left -= 1
                self._pause_after(TURNS_TO_DECIDE)
