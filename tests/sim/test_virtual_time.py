"""Time that jumps: the order of timers, no waiting, and no way to get stuck unnoticed."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.clock import VirtualClock
from mooring.sim.virtual_time import EPOCH_S, GRACE_S, MANY_TIMERS, LoopClock, NothingLeft, run_virtual
from tests.controlplane.timers import DiscreteTimers


def test_hours_pass_without_waiting() -> None:
    async def main() -> tuple[float, float]:
        clock = LoopClock(asyncio.get_running_loop())
        await asyncio.sleep(7200)
        return clock.now(), clock.monotonic()

    started = time.monotonic()
    now, passed = run_virtual(main())
    assert (now, passed) == (EPOCH_S + 7200, 7200)
    assert time.monotonic() - started < 60


def test_timers_fire_in_their_order_and_timeouts_work() -> None:
    seen: list[str] = []

    async def after(seconds: float, name: str) -> None:
        await asyncio.sleep(seconds)
        seen.append(name)

    async def main() -> None:
        await asyncio.gather(after(3, "c"), after(1, "a"), after(2, "b"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()

    run_virtual(main())
    assert seen == ["a", "b", "c"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0, 1.5, 60.0]), st.booleans(), st.sampled_from([None, 0.0, 0.5])),
        max_size=260,
    )
)
def test_timers_come_by_time_and_then_in_the_order_in_which_they_were_set(
    timers: list[tuple[float, bool, float | None]],
) -> None:
    """Compared with a sorted list: timers that set others, and timers that are cancelled, many of them together."""
    fired: list[tuple[float, int]] = []
    want: list[tuple[float, int]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def fire(number: int, then: float | None) -> None:
            fired.append((loop.time(), number))
            if then is not None:
                loop.call_later(then, fire, number + 1000, None)

        handles = [loop.call_later(after, fire, i, then) for i, (after, _, then) in enumerate(timers)]
        for handle, (_, is_cancelled, _) in zip(handles, timers, strict=True):
            if is_cancelled:
                handle.cancel()
        await asyncio.sleep(100)

    run_virtual(main())
    for i, (after, is_cancelled, then) in enumerate(timers):
        if not is_cancelled:
            want.append((after, i))
            if then is not None:
                want.append((after + then, i + 1000))
    assert sorted(fired) == sorted(want) and [at for at, _ in fired] == sorted(at for at, _ in fired)
    first = [number for _, number in fired if number < 1000]
    assert first == sorted(first, key=lambda number: (timers[number][0], number))


def test_a_timer_that_was_cancelled_and_cleared_away_can_be_cancelled_again() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        handles = [loop.call_later(50, fail) for _ in range(3 * MANY_TIMERS)]
        for handle in handles:
            handle.cancel()
        await asyncio.sleep(1)
        for handle in handles:
            handle.cancel()
        await asyncio.sleep(1)
        return loop.time()

    def fail() -> None:
        raise AssertionError("it was cancelled")

    assert run_virtual(main()) == 2.0


def test_a_story_that_waits_for_nothing_is_found_out() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeft, match="stuck"):
        run_virtual(main())


def test_time_pauses_while_bytes_travel_over_a_socket() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    async def main() -> float:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(60):  # a timer that is waiting to be jumped to
            for _ in range(200):
                writer.write(b"hello\n")
                assert await reader.readline() == b"hello\n"
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return asyncio.get_running_loop().time()

    assert run_virtual(main(), has_sockets=True) == 0.0


def test_a_thread_is_waited_for() -> None:
    async def main() -> str:
        return await asyncio.to_thread(lambda: "done")

    assert run_virtual(main(), has_sockets=True) == "done"


def test_time_pauses_while_a_thread_is_at_work() -> None:
    async def main() -> float:
        async with asyncio.timeout(60):  # a timer that is waiting to be jumped to
            await asyncio.to_thread(threading.Event().wait, 10 * GRACE_S)
        return asyncio.get_running_loop().time()

    assert run_virtual(main(), has_sockets=True) == 0.0


def test_threads_are_calls() -> None:
    async def main() -> tuple[int, float]:
        found = await asyncio.to_thread(sum, [1, 2])
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return found, asyncio.get_running_loop().time()

    assert run_virtual(main()) == (3, 0.0)


def test_discrete_timers_let_time_pass_timer_by_timer() -> None:
    clock = VirtualClock(10)
    timers = DiscreteTimers(clock)
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, clock.now()))
        if name == "first":
            timers.call_later(1, note, "follows")

    timers.call_later(5, note, "last")
    timers.call_later(2, note, "first")
    timers.call_later(3, note, "never").cancel()
    timers.call_soon(note, "now")
    timers.advance(4)
    assert seen == [("now", 10), ("first", 12), ("follows", 13)]
    timers.advance(1)
    assert seen[-1] == ("last", 15) and clock.now() == 15
