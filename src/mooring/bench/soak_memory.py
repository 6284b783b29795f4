"""How much memory a process holds, and whether that grows."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os


def resident_mib() -> float:
    """The memory that this process holds: without garbage, and without what the allocator keeps for later.

    The C library gives freed memory back only from the end of its heap. What lies in between looks like a leak as long
    as anything newer is alive, and connections that come and go leave much of it.
    """
    gc.unfreeze()  # a scheduler freezes what it has read; in a soak it is restarted again and again
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def slope_per_minute(samples: list[tuple[float, float]]) -> float:
    """The line through (second, amount) that fits best, in amounts per minute."""
    if len(samples) < 2:
        return 0.0
    mean_x = sum(x for x, _ in samples) / len(samples)
    mean_y = sum(y for _, y in samples) / len(samples)
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    return 60.0 * sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread if spread else 0.0
