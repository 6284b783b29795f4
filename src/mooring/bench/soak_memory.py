"""How much memory a process holds, and whether that grows."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Sequence

import numpy as np


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


def slope_per_minute(samples: Sequence[tuple[float, float]], beside: Sequence[float] = ()) -> tuple[float, float]:
    """The line through (second, amount) that fits best, in amounts per minute; and what each of ``beside`` costs.

    Where the amount also depends on something that comes and goes, as memory does on the number of connections, that
    is ``beside`` (one number per sample): the slope is the one at an equal number of them.
    """
    if len(samples) < 2:
        return 0.0, 0.0
    minutes, amounts = np.array(samples).T / ((60.0,), (1.0,))
    others = np.array(beside or [0.0] * len(samples))
    columns = (minutes - minutes.mean(), others - others.mean(), np.ones(len(samples)))
    (slope, each, _), *_ = np.linalg.lstsq(np.stack(columns, axis=1), amounts, rcond=None)
    return float(slope), float(each)
