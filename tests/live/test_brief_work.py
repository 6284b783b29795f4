"""Coroutines that share a callback: they run in the order and at the time of tasks, and one that waits continues."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from mooring.live.context import Tasks
from mooring.sim.virtual_time import LoopClock, run_virtual

Story = list[str]


async def brief(said: Story, word: str) -> None:
    said.append(word)


async def slow(said: Story, word: str) -> None:
    said.append(word)
    await asyncio.sleep(3)
    said.append(f"{word} at {asyncio.get_running_loop().time():.0f} s")
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 2)
    except TimeoutError:
        said.append(f"{word} gave up at {asyncio.get_running_loop().time():.0f} s")


async def broken(said: Story, word: str) -> None:
    said.append(word)
    raise RuntimeError(word)


def run(makes: Any, *, is_brief: bool) -> Story:
    """Run a story, with tasks that share a callback or with a task for each."""
    said: Story = []

    async def main() -> None:
        tasks = Tasks(LoopClock(asyncio.get_running_loop()))

        def spawn(work: Coroutine[Any, Any, Any]) -> None:
            (tasks.spawn_brief if is_brief else tasks.spawn)(work)

        makes(said, spawn)
        said.append(f"{bool(len(tasks))}")
        assert await tasks.drain(100)
        said.append(f"{len(tasks)}")

    run_virtual(main())
    return said


def several(said: Story, spawn: Any) -> None:
    for word in "abc":
        spawn(brief(said, word))


def with_others_between(said: Story, spawn: Any) -> None:
    loop = asyncio.get_running_loop()
    for word in "ab":
        spawn(brief(said, word))
        loop.call_soon(said.append, f"after {word}")
        spawn(brief(said, word * 2))


def one_that_waits(said: Story, spawn: Any) -> None:
    spawn(brief(said, "a"))
    spawn(slow(said, "b"))
    spawn(brief(said, "c"))


def one_that_breaks(said: Story, spawn: Any) -> None:
    spawn(brief(said, "a"))
    spawn(broken(said, "b"))
    spawn(brief(said, "c"))


@pytest.mark.parametrize("makes", [several, with_others_between, one_that_waits, one_that_breaks])
def test_all_happens_as_with_a_task_for_each(makes: Any) -> None:
    assert run(makes, is_brief=True) == run(makes, is_brief=False)


def test_they_share_a_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    callbacks: list[int] = []
    run_briefs = Tasks._run_briefs

    def noting(tasks: Tasks, works: list[Any], ended: Any) -> None:
        callbacks.append(len(works))
        run_briefs(tasks, works, ended)

    monkeypatch.setattr(Tasks, "_run_briefs", noting)
    run(with_others_between, is_brief=True)
    assert callbacks == [1, 2, 1]


def test_those_that_are_aborted_do_not_begin() -> None:
    said: Story = []

    async def main() -> None:
        tasks = Tasks(LoopClock(asyncio.get_running_loop()))
        tasks.spawn_brief(brief(said, "a"))
        await tasks.abort()
        assert len(tasks) == 0

    run_virtual(main())
    assert said == []
