"""A thread beside the event loop, and what happens when it never comes back."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mooring.live.time_limits import DecisionThread, ThreadLeft
from mooring.sim.virtual_time import run_virtual


@pytest.fixture
def thread():
    thread = DecisionThread()
    yield thread
    thread.close()


async def test_work_runs_in_the_thread_while_the_loop_continues(thread):
    turned = threading.Event()
    asyncio.get_running_loop().call_soon(turned.set)

    def work(a: int, b: int) -> tuple[str, int]:
        assert turned.wait(60.0), "the loop is blocked"
        return threading.current_thread().name, a + b

    assert await thread.run(work, 1, 2) == ("decisions", 3)


async def test_what_the_work_raises_is_raised_here(thread):
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)


async def test_one_thread_does_all_the_work(thread):
    assert await thread.run(threading.get_ident) == await thread.run(threading.get_ident)


async def test_a_thread_that_hangs_can_be_left(thread):
    hangs, let_go, ended = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hang() -> str:
        loop.call_soon_threadsafe(hangs.set)
        let_go.wait()
        ended.set()
        return "too late"

    waiting = asyncio.create_task(thread.run(hang))
    await hangs.wait()
    thread.leave()
    with pytest.raises(ThreadLeft):
        await waiting
    let_go.set()
    await asyncio.to_thread(ended.wait)
    await asyncio.to_thread(thread._thread.join)  # it returns, reports nothing, and ends


async def test_a_thread_without_waiters_can_be_abandoned_too(thread):
    assert await thread.run(lambda: 1) == 1
    thread.leave()


def test_in_virtual_time_there_is_no_thread(thread):
    assert run_virtual(thread.run(lambda: threading.current_thread().name)) == "MainThread"
