"""Work in the background is waited for, stopped and never lost; changes wait while a decision runs in a thread."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.clock import SystemClock
from mooring.live.context import DeferredChanges, Tasks


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


# ---- changes that wait for a decision -------------------------------------------------------------------------------


async def test_calls_pass_immediately_while_it_is_open():
    changes, calls = DeferredChanges(), []
    changes(calls.append, 1)
    assert calls == [1]


async def test_calls_wait_and_pass_in_order():
    changes, calls = DeferredChanges(), []

    async def work() -> str:
        changes(calls.append, 1)
        changes(calls.append, 2)
        assert calls == []
        return "done"

    assert await changes.held_during(work()) == "done"
    assert calls == [1, 2]


async def test_it_opens_again_whatever_the_work_does():
    changes, calls = DeferredChanges(), []

    async def fail() -> None:
        changes(calls.append, 1)
        raise ValueError

    with pytest.raises(ValueError):
        await changes.held_during(fail())
    changes(calls.append, 2)
    assert calls == [1, 2]


async def test_what_a_held_call_sets_off_comes_after_those_that_waited():
    changes, calls = DeferredChanges(), []

    def first() -> None:
        calls.append("first")
        changes(calls.append, "set off by the first")

    async def work() -> None:
        changes(first)
        changes(calls.append, "second")
        await asyncio.sleep(0)

    await changes.held_during(work())
    assert calls == ["first", "second", "set off by the first"]


async def test_a_held_call_that_fails_does_not_lose_the_others(caplog):
    changes, calls = DeferredChanges(), []

    def fail() -> None:
        raise ValueError("odd")

    async def work() -> None:
        changes(fail)
        changes(calls.append, 2)

    await changes.held_during(work())
    assert calls == [2]
    assert "Failed to handle an event" in caplog.text
