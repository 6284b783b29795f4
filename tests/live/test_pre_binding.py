"""A pod whose volumes or devices are being bound can be stopped until that is done."""

from __future__ import annotations

import asyncio

from mooring.core.framework.status import SUCCESS
from mooring.live.attempt import PreBinding


async def never():
    await asyncio.Event().wait()


async def test_it_can_be_stopped_while_it_runs():
    task = asyncio.create_task(never())
    guard = PreBinding(task)
    await asyncio.sleep(0)
    assert guard.cancel("a more important pod came")
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() and guard.stopped_by == "a more important pod came"
    assert not guard.finish(), "it was stopped, whatever it says"


async def test_after_it_is_done_it_is_too_late():
    async def work():
        return SUCCESS

    task = asyncio.create_task(work())
    guard = PreBinding(task)
    await task
    assert not guard.cancel("too late") and guard.stopped_by == ""
    assert guard.finish()


async def test_once_it_says_that_it_is_done_nobody_can_stop_it():
    task = asyncio.create_task(never())
    guard = PreBinding(task)
    assert guard.finish()
    assert not guard.cancel("too late")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
