"""Work in the background: waited for, stopped, and never lost without a word."""

from __future__ import annotations

import asyncio

import pytest

from mooring.clock import SystemClock
from mooring.scheduler.tasks import Tasks


@pytest.fixture
def tasks():
    return Tasks(SystemClock())


async def test_draining_waits_for_everything_also_for_what_is_begun_meanwhile(tasks):
    done = []

    async def second() -> None:
        done.append("second")

    async def first() -> None:
        await asyncio.sleep(0)
        tasks.spawn(second())
        done.append("first")

    tasks.spawn(first())
    assert len(tasks) == 1
    assert await tasks.drain(60.0)
    assert done == ["first", "second"] and len(tasks) == 0


async def test_draining_ends_after_its_time(tasks):
    forever = asyncio.Event()
    tasks.spawn(forever.wait())
    assert not await tasks.drain(0.0)
    await tasks.abort()


async def test_an_abort_waits_until_everything_has_stopped(tasks):
    steps = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    tasks.spawn(work())
    await asyncio.sleep(0)
    await tasks.abort()
    assert tasks.is_aborted and steps == ["cleaned up"] and len(tasks) == 0


async def test_what_a_task_raises_is_logged(tasks, caplog):
    async def fail() -> None:
        raise ValueError("odd")

    tasks.spawn(fail())
    assert await tasks.drain(60.0)
    assert "Unexpected error in a background task" in caplog.text
