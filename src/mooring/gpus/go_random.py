"""Go's ``math/rand`` generator, as Go 1 fixed it: the same seed gives the same numbers as in a Go program.

The generator adds two of its last 607 outputs: x[n] = x[n - 607] + x[n - 273], modulo 2^64. Go starts it from a
table of 607 constants, which is the state of the same generator after 7.8e12 steps. The table is computed here: one
step is a multiplication by t modulo t^607 - t^334 - 1, so that many steps are a power of t.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH, TAP = 607, 273
STEPS = 7_800_000_000_000  # how far Go ran the generator to get its table
PRIME = 2**31 - 1
MASK_63 = 2**63 - 1


class GoRandom:
    """A generator like ``rand.New(rand.NewSource(seed))``."""

    def __init__(self, seed: int) -> None:
        constants = _constants()
        self._state: list[int] = [
            (a << 40) ^ (b << 20) ^ c ^ constant
            for (a, b, c), constant in zip(_seeds(seed), constants.tolist(), strict=True)
        ]
        self._tap, self._feed = 0, LENGTH - TAP

    def uint64(self) -> int:
        self._tap = (self._tap or LENGTH) - 1
        self._feed = (self._feed or LENGTH) - 1
        drawn = (self._state[self._feed] + self._state[self._tap]) & (2**64 - 1)
        self._state[self._feed] = drawn
        return drawn

    def int63(self) -> int:
        """Go's ``Int``, and ``Int63``."""
        return self.uint64() & MASK_63

    def intn(self, n: int) -> int:
        """Go's ``Intn`` for n below 2^31: a remainder of 31 bits, drawn again above the last multiple of n."""
        drawn = self.int63() >> 32
        if n & (n - 1) == 0:
            return drawn & (n - 1)
        largest = 2**31 - 1 - 2**31 % n
        while drawn > largest:
            drawn = self.int63() >> 32
        return drawn % n

    def perm(self, n: int) -> list[int]:
        """Go's ``Perm``: the numbers below n in random order."""
        order = [0] * n
        for i in range(n):
            j = self.intn(i + 1)
            order[i] = order[j]
            order[j] = i
        return order

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Go's ``Shuffle``, in place."""
        for i in range(len(items) - 1, 0, -1):
            j = self._bounded(i + 1)
            items[i], items[j] = items[j], items[i]

    def _bounded(self, n: int) -> int:
        """The upper half of a product with 32 random bits: what ``Shuffle`` uses instead of ``Intn``."""
        product = (self.int63() >> 31) * n
        if product % 2**32 < n:
            threshold = 2**32 % n
            while product % 2**32 < threshold:
                product = (self.int63() >> 31) * n
        return product >> 32


def _seeds(seed: int) -> list[tuple[int, int, int]]:
    """Three numbers of a linear congruential generator for each place of the state; the first 20 are left out."""
    x = seed % PRIME or 89_482_311
    for _ in range(20):
        x = x * 48_271 % PRIME
    drawn = []
    for _ in range(3 * LENGTH):
        x = x * 48_271 % PRIME
        drawn.append(x)
    return list(zip(drawn[::3], drawn[1::3], drawn[2::3], strict=True))


@lru_cache(maxsize=1)
def _constants() -> NDArray[np.uint64]:
    """The table that seeds are mixed with, in the order of the state's places."""
    places = (LENGTH - TAP - 1 - np.arange(LENGTH)) % LENGTH  # the n-th output overwrites places[n % LENGTH]
    start = np.array([(a << 20) ^ (b << 10) ^ c for a, b, c in _seeds(1)], np.uint64)
    listed: list[int] = start[places].tolist()
    for n in range(LENGTH, 2 * LENGTH):
        listed.append((listed[n - LENGTH] + listed[n - TAP]) % 2**64)
    outputs = np.array(listed, np.uint64)
    power = _power_of_t(STEPS)
    table = np.zeros(LENGTH, np.uint64)
    for i in range(LENGTH):
        table[places[(STEPS + i) % LENGTH]] = (power * outputs[i : i + LENGTH]).sum(dtype=np.uint64)
    return table


def _power_of_t(exponent: int) -> NDArray[np.uint64]:
    """t^exponent modulo t^607 - t^334 - 1, the coefficients modulo 2^64."""
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
