"""Freed memory is kept: arrays that are freed cost no new pages. The garbage collector is left as it was."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from mooring.api.memory import measuring

PROGRAM = """
import resource
import numpy as np
from mooring.api.memory import keep_freed_memory

KEEPS = {keeps}
if KEEPS and not keep_freed_memory():
    print("unknown")
    raise SystemExit
def round():
    columns = [np.ones({size}) for _ in range(8)]
round()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    round()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(15_000, id="below the size from which glibc maps each one"),
        pytest.param(100_000, id="above it"),
    ],
)
def test_arrays_that_come_and_go_cost_no_new_pages(size: int) -> None:
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(keeps=True, size=size)], capture_output=True, text=True, check=True
    ).stdout.strip()
    if made == "unknown":
        pytest.skip("this C library cannot be told to keep freed memory")
    assert int(made) < 1000, "50 rounds touch 12,000 pages or more"


@pytest.mark.parametrize("is_frozen", [True, False], ids=["what was frozen before stays so", "nothing was"])
def test_measuring_leaves_the_collector_as_it_was(is_frozen: bool) -> None:
    gc.freeze() if is_frozen else gc.unfreeze()
    before = gc.get_freeze_count()
    with measuring():
        assert gc.get_freeze_count() > 0
    assert (gc.get_freeze_count() >= before > 0) if is_frozen else gc.get_freeze_count() == 0
