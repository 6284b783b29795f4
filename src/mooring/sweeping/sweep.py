"""Sweep: the function behind ``mooring.sweep``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from mooring.errors import MooringError
from mooring.sweeping.run import Shard, run_sweep
from mooring.sweeping.specification import load_sweep
from mooring.sweeping.store import Store
from mooring.sweeping.tables import Record, records_of


def sweep(
    file: str | Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    shard: tuple[int, int] | None = None,
    results: str | Path | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Record]:
    """Run a command for many parameters and seeds, and return a flat record for each row, in the order of the file.

    Rows that have a result in the folder ``results`` are not run again. ``executor`` is any
    ``concurrent.futures.Executor``, such as Dask's; without one all cores of this machine are used. ``shard`` (i, n)
    runs every n-th row only. ``pandas.DataFrame(mooring.sweep(…))`` makes a table of it.
    """
    found = load_sweep(file, parameters)
    store = Store(results_of(file) if results is None else results)
    part = Shard(*shard) if shard is not None else Shard()
    done = run_sweep(found, store, executor=executor, jobs=jobs, shard=part, on_progress=on_progress)
    if done.failed:
        command, said = next(iter(done.failed.items()))
        raise MooringError(f"{len(done.failed)} of {done.rows} rows failed; the first: {command}: {said}")
    mine = (row for position, row in enumerate(found.rows) if part.takes(position))
    return records_of(value for row in mine if (value := store.get(row)) is not None)


def results_of(file: str | Path) -> Path:
    """Where results go unless another folder is named: beside the file."""
    return Path(file).with_suffix(".results")
