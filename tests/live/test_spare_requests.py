"""Conditions take what bindings leave over, and a tenth of the rate in any case."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.clock import VirtualClock
from mooring.live.live_scheduler import SpareRequests
from mooring.net.pool import RateLimiter


class Client:
    """Counts when requests would be sent: ten per second, after a burst of two."""

    def __init__(self, qps: float = 10.0) -> None:
        self.clock = VirtualClock()
        self.limiter = RateLimiter(qps, 2, clock=self.clock)
        self.leftovers = SpareRequests(self.limiter, clock=self.clock, sleep=self.sleep)
        self.patched_at: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def bind(self) -> float:
        """When the binding is sent."""
        return self.clock.monotonic() + self.limiter.reserve()

    async def patch(self) -> None:
        await self.leftovers.turn()
        self.patched_at.append(round(self.clock.monotonic() + self.limiter.reserve(), 6))


async def test_without_bindings_conditions_have_the_whole_rate():
    client = Client()
    for _ in range(5):
        await client.patch()
    assert client.patched_at == [0.0, 0.0, 0.1, 0.2, 0.3]


async def test_a_binding_never_waits_behind_conditions_that_wait():
    client = Client()
    held, waiting = asyncio.Event(), []

    async def hold(seconds: float) -> None:
        waiting.append(seconds)
        await held.wait()

    client.leftovers = SpareRequests(client.limiter, clock=client.clock, sleep=hold)
    patches = [asyncio.create_task(client.patch()) for _ in range(1000)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(client.patched_at) == 2, "the burst"
    assert client.bind() == pytest.approx(0.1), "the next token, though 998 conditions wait"
    for patch in patches:
        patch.cancel()
    await asyncio.gather(*patches, return_exceptions=True)


async def test_conditions_keep_a_tenth_of_the_rate_under_any_load():
    client = Client()
    for _ in range(1000):
        client.bind()  # a hundred seconds of requests
    for _ in range(3):
        await client.patch()
    waits = [later - earlier for earlier, later in zip((0.0, *client.patched_at), client.patched_at, strict=False)]
    assert client.clock.monotonic() == pytest.approx(3.0), "each gave up waiting after a second"
    assert waits[0] > 90, "it is at the end of the line then, but in it"


async def test_a_client_without_a_limit_never_waits():
    client = Client(qps=-1)
    for _ in range(100):
        await client.patch()
    assert set(client.patched_at) == {0.0}
