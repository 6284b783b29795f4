"""Pauses between tries."""

from __future__ import annotations

import random

from mooring.api.clock import VirtualClock
from mooring.net.pool import Backoff


def test_backoff_doubles_with_jitter_and_resets_after_quiet():
    clock = VirtualClock()
    backoff = Backoff(clock=clock, rng=random.Random(1))
    pauses = [backoff.next() for _ in range(8)]
    for pause, base in zip(pauses, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30], strict=True):
        assert base <= pause <= 2 * base
    clock.advance(121)
    assert backoff.next() <= 1.6


def test_a_pause_that_costs_nothing_does_not_grow():
    backoff = Backoff(clock=VirtualClock(), rng=random.Random(1))
    assert all(0.8 <= backoff.soon() <= 1.6 for _ in range(20))
    assert backoff.next() <= 1.6, "nor does it make the others grow"


def test_a_success_resets_the_pauses():
    backoff = Backoff(clock=VirtualClock(), rng=random.Random(1))
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.next() <= 1.6
