"""Virtual time: waiting takes none, timers keep their order, and sockets are served before time moves on."""

from __future__ import annotations

import asyncio

import pytest

from mooring.lessons.virtual_time import LoopClock, run_virtual


def test_an_hour_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(3600)


def test_timers_keep_their_order() -> None:
    seen: list[tuple[float, str]] = []

    async def ring(after_s: float, what: str) -> None:
        await asyncio.sleep(after_s)
        seen.append((asyncio.get_running_loop().time(), what))

    async def main() -> None:
        await asyncio.gather(ring(3, "c"), ring(1, "a"), ring(2, "b"))

    run_virtual(main())
    assert seen == [(1, "a"), (2, "b"), (3, "c")]


def test_time_stands_still_while_somebody_talks_over_a_socket() -> None:
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

    assert run_virtual(main()) == 0.0


def test_a_thread_is_waited_for() -> None:
    async def main() -> str:
        return await asyncio.to_thread(lambda: "done")

    assert run_virtual(main()) == "done"


def test_the_clock_follows_the_loop() -> None:
    clock = LoopClock(1000.0)

    async def main() -> tuple[float, float]:
        await asyncio.sleep(5)
        return clock.now(), clock.monotonic()

    assert clock.now() == 1000.0
    assert run_virtual(main()) == (1005.0, 5.0)
