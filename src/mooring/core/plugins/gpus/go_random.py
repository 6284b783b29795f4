"""Go's ``math/rand`` generator, as Go 1 fixed it: the same seed gives the same numbers as in a Go program.

The generator adds two of its last 607 outputs: x[n] = x[n - 607] + x[n - 273], modulo 2^64. Go mixes seeds with a table
of 607 constants, which is the state of the same generator after 7.8e12 steps. ``go_random.table`` has them, and a test
computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH, TAP = 607, 273
PRIME = 2**31 - 1
MASK_63 = 2**63 - 1
PLACES = (LENGTH - TAP - 1 - np.arange(LENGTH)) % LENGTH
"""Where Go keeps the outputs, from the one that is overwritten next."""


class GoRandom:
    """A generator like ``rand.New(rand.NewSource(seed))``."""

    def __init__(self, seed: int) -> None:
        mixed = [((a << 40) ^ (b << 20) ^ c) & (2**64 - 1) for a, b, c in seeds(seed)]
        state: NDArray[np.uint64] = np.array(mixed, np.uint64) ^ table()
        self.uint64: Callable[[], int] = _outputs(state[PLACES]).__next__

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


def table() -> NDArray[np.uint64]:
    """The constants that seeds are mixed with, in the order of Go's places."""
    return np.frombuffer(Path(__file__).with_name("go_random.table").read_bytes(), "<u8")


def _outputs(last: NDArray[np.uint64]) -> Iterator[int]:
    """What follows these outputs, as many at once as do not depend on each other."""
    while True:
        drawn = last[:TAP] + last[LENGTH - TAP :]
        last = np.concatenate((last[TAP:], drawn))
        yield from drawn.tolist()


def seeds(seed: int) -> list[tuple[int, int, int]]:
    """Three numbers of a linear congruential generator for each place of the state; the first 20 are left out."""
    x = seed % PRIME or 89_482_311
    for _ in range(20):
        x = x * 48_271 % PRIME
    drawn = []
    for _ in range(3 * LENGTH):
        x = x * 48_271 % PRIME
        drawn.append(x)
    return list(zip(drawn[::3], drawn[1::3], drawn[2::3], strict=True))
