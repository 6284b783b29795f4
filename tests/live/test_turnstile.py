"""Calls pass at once, or wait in order while the turnstile is closed."""

from __future__ import annotations

import asyncio

import pytest

from mooring.live.tasks import Turnstile


async def test_calls_pass_at_once_while_it_is_open():
    turnstile, calls = Turnstile(), []
    turnstile(calls.append, 1)
    assert calls == [1]


async def test_calls_wait_and_pass_in_order():
    turnstile, calls = Turnstile(), []

    async def work() -> str:
        turnstile(calls.append, 1)
        turnstile(calls.append, 2)
        assert calls == []
        return "done"

    assert await turnstile.closed_during(work()) == "done"
    assert calls == [1, 2]


async def test_it_opens_again_whatever_the_work_does():
    turnstile, calls = Turnstile(), []

    async def fail() -> None:
        turnstile(calls.append, 1)
        raise ValueError

    with pytest.raises(ValueError):
        await turnstile.closed_during(fail())
    turnstile(calls.append, 2)
    assert calls == [1, 2]


async def test_what_a_held_call_sets_off_comes_after_those_that_waited():
    turnstile, calls = Turnstile(), []

    def first() -> None:
        calls.append("first")
        turnstile(calls.append, "set off by the first")

    async def work() -> None:
        turnstile(first)
        turnstile(calls.append, "second")
        await asyncio.sleep(0)

    await turnstile.closed_during(work())
    assert calls == ["first", "second", "set off by the first"]


async def test_a_held_call_that_fails_does_not_lose_the_others(caplog):
    turnstile, calls = Turnstile(), []

    def fail() -> None:
        raise ValueError("odd")

    async def work() -> None:
        turnstile(fail)
        turnstile(calls.append, 2)

    await turnstile.closed_during(work())
    assert calls == [2]
    assert "An event could not be handled" in caplog.text
