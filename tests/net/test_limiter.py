"""The token bucket, by a stopped clock."""

from __future__ import annotations

import pytest

from mooring.api.clock import VirtualClock
from mooring.net.pool import RateLimiter


def test_the_limiter_lets_a_burst_through_and_then_paces():
    clock = VirtualClock()
    limiter = RateLimiter(10, 3, clock=clock)
    assert [limiter.reserve() for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    clock.advance(0.3)
    assert limiter.reserve() == pytest.approx(0.0, abs=1e-9)
    clock.advance(100)
    assert [limiter.reserve() for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])


def test_a_lifted_limiter_never_waits():
    limiter = RateLimiter(-1, 0, clock=VirtualClock())
    assert {limiter.reserve() for _ in range(1000)} == {0.0}


@pytest.mark.parametrize(
    ("qps", "burst", "waits"),
    [
        pytest.param(50, 100, [0.0] * 100 + [0.02, 0.04], id="kube-scheduler's defaults"),
        pytest.param(1, 1, [0, 1, 2, 3], id="each caller waits behind the ones before"),
        pytest.param(0.5, 0, [0, 2, 4], id="a burst of none is one of one"),
        pytest.param(0, 1, [0, 0, 0], id="no rate is no limit"),
    ],
)
def test_how_long_concurrent_callers_wait(qps, burst, waits):
    limiter = RateLimiter(qps, burst, clock=VirtualClock())
    assert [limiter.reserve() for _ in waits] == pytest.approx(waits)


def test_looking_does_not_take_a_token():
    clock = VirtualClock()
    limiter = RateLimiter(10, 1, clock=clock)
    assert limiter.interval_s == 0.1
    assert limiter.wait_s() == limiter.wait_s() == 0.0
    limiter.reserve()
    assert limiter.wait_s() == pytest.approx(0.1)
    limiter.reserve()
    assert limiter.wait_s() == pytest.approx(0.2)
    clock.advance(0.2)
    assert limiter.wait_s() == pytest.approx(0.0)
    assert RateLimiter(-1, 1).wait_s() == RateLimiter(-1, 1).interval_s == 0.0
