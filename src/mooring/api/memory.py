"""The process's handling of freed memory and garbage collection."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
KEPT_BYTES = 64 << 20
OWN_PAGES_BYTES = 32 << 20  # the most that glibc takes for M_MMAP_THRESHOLD
MANY = 50_000
"""From this number of new objects on, garbage collection is expensive; fewer are collected quickly."""
SELDOM = (10_000, 20, 50)
"""Thresholds of the garbage collector in a scheduler: objects of a pod either live on or are freed by reference counts,
and early collections are what costs.
"""


def keep_freed_memory() -> bool:
    """Keep freed memory instead of returning it to the kernel; report whether this is supported.

    A decision creates many arrays of about 40 KiB and frees them immediately. glibc returns the end of its heap to the
    kernel when 128 KiB are free there. If the arrays are at the end, every decision requests the same pages again and
    takes up to 50 % longer. Beyond 16,000 nodes arrays are so large that glibc allocates pages for each of them, unless
    it is configured not to. Only glibc has these settings; elsewhere nothing is changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(M_MMAP_THRESHOLD, OWN_PAGES_BYTES))


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Collect garbage only after very many new objects.

    A simulation leaves almost no cyclic garbage: a hundred objects for 5,000 short-lived pods.
    """
    usual = gc.get_threshold()
    gc.set_threshold(10 * SELDOM[0], *SELDOM[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Pause the garbage collector while something large is read, none of which is garbage.

    It would traverse everything read so far repeatedly: half of the time for a dump of 150 MB. In the end the new
    objects are moved to the oldest generation, or the collector would begin with all of them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # Objects frozen by the caller stay frozen. Counting them walks through all of them, so it is skipped after
            # small reads.
            if gc.get_count()[0] > MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextmanager
def frozen_gc() -> Iterator[None]:
    """Pause the garbage collector, then exclude the existing objects from it: they stay alive anyway."""
    with without_collecting():
        try:
            yield
        finally:
            gc.freeze()


@contextmanager
def measuring() -> Iterator[None]:
    """Exclude existing objects from garbage collection during a measurement, after collecting garbage once."""
    gc.collect()
    was_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        yield
    finally:
        if not was_frozen:  # objects frozen by the caller stay frozen
            gc.unfreeze()
