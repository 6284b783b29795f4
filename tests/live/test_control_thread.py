"""Work in another thread's loop: waited for, cancelled, asked, and watched."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mooring.api.clock import VirtualClock
from mooring.live.control_thread import ControlThread, Heartbeat, ask, run_in


@pytest.fixture
async def control_thread():
    control_thread = ControlThread()
    yield control_thread
    control_thread.close()


async def test_work_runs_in_the_other_thread(control_thread):
    async def where() -> str:
        return threading.current_thread().name

    assert await control_thread.run(where()) == "control"


async def test_what_the_work_raises_is_raised_here(control_thread):
    async def fail() -> None:
        raise ValueError("there")

    with pytest.raises(ValueError, match="there"):
        await control_thread.run(fail())


async def test_who_cancels_waits_until_the_work_has_ended_there(control_thread):
    began, steps = threading.Event(), []

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    task = asyncio.create_task(control_thread.run(work()))
    await asyncio.to_thread(began.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["cleaned up"]


async def test_work_that_is_cancelled_there_is_cancelled_here(control_thread):
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await control_thread.run(give_up())


async def test_the_other_thread_can_run_work_here(control_thread):
    here = asyncio.get_running_loop()

    async def where() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def there_and_back() -> asyncio.AbstractEventLoop:
        return await run_in(here, where())

    assert await control_thread.run(there_and_back()) is here


async def test_closing_cancels_what_still_runs():
    control_thread, began, steps = ControlThread(), threading.Event(), []

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("ended")

    task = asyncio.create_task(control_thread.run(work()))
    await asyncio.to_thread(began.wait)
    await asyncio.to_thread(control_thread.close)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["ended"]


async def test_a_question_is_answered_in_the_other_thread(control_thread):
    assert await ask(control_thread.loop, lambda: threading.current_thread().name, 60.0) == "control"


async def test_a_loop_that_is_busy_is_not_waited_for(control_thread):
    let_go = threading.Event()
    control_thread.loop.call_soon_threadsafe(let_go.wait)
    with pytest.raises(TimeoutError):
        await ask(control_thread.loop, lambda: None, 0.0)
    let_go.set()


class TestHeartbeat:
    """A loop that does not come round is late, then unhealthy, then given up."""

    @pytest.fixture
    async def busy(self, control_thread):
        """A heartbeat of a loop that is kept busy, and the function that releases the loop."""
        let_go = threading.Event()
        clock = VirtualClock()
        heartbeat = Heartbeat(control_thread.loop, 20.0, clock)
        control_thread.loop.call_soon_threadsafe(let_go.wait)
        heartbeat.beat()
        yield heartbeat, clock, let_go
        let_go.set()

    async def test_a_loop_that_was_not_asked_is_not_late(self, control_thread):
        assert Heartbeat(control_thread.loop, 20.0).late_s == 0.0

    async def test_a_busy_loop_becomes_unhealthy_after_its_limit(self, busy):
        heartbeat, clock, _ = busy
        clock.advance(20.0)
        assert heartbeat.check() is None
        clock.advance(1.0)
        assert heartbeat.check() == "the scheduling loop has not answered for 21s"

    async def test_asking_again_does_not_hide_that_an_answer_is_missing(self, busy):
        heartbeat, clock, _ = busy
        clock.advance(15.0)
        heartbeat.beat()
        clock.advance(15.0)
        assert heartbeat.late_s == 30.0

    async def test_a_loop_that_comes_round_is_healthy_again(self, control_thread, busy):
        heartbeat, clock, let_go = busy
        clock.advance(30.0)
        let_go.set()
        await ask(control_thread.loop, lambda: None, 60.0)
        assert heartbeat.check() is None

    async def test_after_twice_the_limit_the_callback_is_called(self, busy):
        heartbeat, clock, _ = busy
        calls = []

        async def sleep(seconds: float) -> None:
            clock.advance(seconds)

        async def too_late() -> None:
            calls.append(heartbeat.late_s)

        await heartbeat.run(too_late, sleep)
        assert calls == [40.0]
