"""The numbers are those of Go programs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mooring.core.plugins.gpus.scoring import LENGTH, PLACES, TAP, GoRandom, seeds, table

STEPS = 7_800_000_000_000  # how far Go ran the generator to get its table


def test_intn_draws_what_go_programs_print() -> None:
    rng = GoRandom(1)
    assert [rng.intn(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]


def test_the_first_number_of_seed_1_is_the_one_that_go_documents() -> None:
    assert GoRandom(1).int63() == 5577006791947779410


def test_perm_is_a_permutation_that_the_seed_decides() -> None:
    assert sorted(GoRandom(42).perm(100)) == list(range(100))
    assert GoRandom(42).perm(100) == GoRandom(42).perm(100) != GoRandom(43).perm(100)


def test_shuffle_keeps_the_items_and_uses_one_draw_for_each_but_the_first() -> None:
    items = list(range(50))
    rng, other = GoRandom(7), GoRandom(7)
    rng.shuffle(items)
    assert sorted(items) == list(range(50)) != items
    for _ in range(49):
        other.int63()
    assert rng.int63() == other.int63()


def test_seed_0_is_a_seed_of_its_own() -> None:
    assert GoRandom(0).int63() == GoRandom(89_482_311).int63()


def test_the_table_is_the_generators_state_after_its_steps() -> None:
    start = np.array([(a << 20) ^ (b << 10) ^ c for a, b, c in seeds(1)], np.uint64)
    listed: list[int] = start[PLACES].tolist()
    for n in range(LENGTH, 2 * LENGTH):
        listed.append((listed[n - LENGTH] + listed[n - TAP]) % 2**64)
    outputs = np.array(listed, np.uint64)
    power = _power_of_t(STEPS)
    computed = np.zeros(LENGTH, np.uint64)
    for i in range(LENGTH):
        computed[PLACES[(STEPS + i) % LENGTH]] = (power * outputs[i : i + LENGTH]).sum(dtype=np.uint64)
    assert table().tolist() == computed.tolist()


def _power_of_t(exponent: int) -> NDArray[np.uint64]:
    """One step is a multiplication by t modulo t^607 - t^334 - 1, so that many steps are a power of t.

    The coefficients are modulo 2^64.
    """
    found = np.zeros(LENGTH, np.uint64)
    found[0] = 1
    for bit in bin(exponent)[2:]:
        found = _reduced(np.convolve(found, found))
        if bit == "1":
            found = _reduced(np.concatenate((np.zeros(1, np.uint64), found)))
    return found


def _reduced(polynomial: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The remainder: t^(607 + k) is t^(334 + k) + t^k."""
    while len(polynomial) > LENGTH:
        high = polynomial[LENGTH:]
        lower = np.zeros(max(LENGTH, LENGTH - TAP + len(high)), np.uint64)
        lower[:LENGTH] = polynomial[:LENGTH]
        lower[: len(high)] += high
        lower[LENGTH - TAP : LENGTH - TAP + len(high)] += high
        polynomial = lower
    return polynomial
