"""Running a sweep: every row that has no result yet, on an executor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.errors import UsageError
from mooring.sweeping.specification import Row, Sweep
from mooring.sweeping.store import Store

INDEX_VARIABLES = ("JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "SHARD_INDEX")
Work = Callable[[Sequence[str], str | None], tuple[int, str, str]]
_AHEAD = 4  # rows per worker that are handed out beforehand


@dataclass(frozen=True, slots=True)
class Shard:
    """Every ``of``-th row, beginning with ``index``."""

    index: int = 0
    of: int = 1

    def takes(self, position: int) -> bool:
        return position % self.of == self.index


def parse_shard(text: str) -> Shard:
    """``2/8``: the third of eight. In ``/8`` the number comes from the environment, as an Indexed Job sets it."""
    index, slash, count = text.partition("/")
    if not index:
        name = next((each for each in INDEX_VARIABLES if os.environ.get(each)), None)
        if name is None:
            raise UsageError(
                f"--shard: found {text!r} without a number, and none of {', '.join(INDEX_VARIABLES)} is set"
            )
        index = os.environ[name]
    if not slash or not index.isdigit() or not count.isdigit() or int(index) >= int(count):
        raise UsageError(f"--shard: found {text!r} ({index}/{count}), expected I/N with I from 0 to N-1, such as 0/4")
    return Shard(int(index), int(count))


@dataclass(slots=True)
class Done:
    """What a run has come to."""

    rows: int = 0  # of the shard
    kept: int = 0  # had a result before
    ran: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # the arguments -> what was said


def run_command(arguments: Sequence[str], folder: str | None = None) -> tuple[int, str, str]:
    """Run one command of mooring in a process of its own; returns its exit code and what it printed and said."""
    command = [sys.executable, "-m", "mooring", *arguments, "-o", "json"]
    # In the same folder as whoever asked, if the worker has it: arguments may be paths.
    where = folder if folder is not None and os.path.isdir(folder) else None
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=where)
    return done.returncode, done.stdout, done.stderr


def run_sweep(
    sweep: Sweep,
    store: Store,
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    shard: Shard | None = None,
    work: Work = run_command,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Done:
    """Run the rows that have no result yet. ``executor`` may be on other machines; without one, all cores are used.

    Workers get the arguments and give back what the command printed; results are written here. A worker needs mooring
    and the files that the arguments name, under the same paths. ``work`` is how a worker runs a command.
    """
    shard = shard or Shard()
    mine = [row for position, row in enumerate(sweep.rows) if shard.takes(position)]
    todo = [row for row in mine if not store.has(row)]
    done = Done(len(mine), len(mine) - len(todo))
    on_progress(done.kept, done.rows)
    if executor is not None:
        _run(todo, store, executor, work, len(todo), done, on_progress)
        return done
    workers = jobs or os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:  # threads only wait: each command is a process
        _run(todo, store, pool, work, workers * _AHEAD, done, on_progress)
    return done


def _run(
    todo: Sequence[Row],
    store: Store,
    executor: Executor,
    work: Work,
    ahead: int,
    done: Done,
    on_progress: Callable[[int, int], None],
) -> None:
    """Keep so many rows handed out; write each result when it comes."""
    folder = str(Path.cwd())
    left = iter(todo)
    running: dict[Future[Any], Row] = {}
    try:
        while True:
            while len(running) < max(1, ahead) and (row := next(left, None)) is not None:
                running[executor.submit(work, row.arguments, folder)] = row
            if not running:
                return
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                _take(running.pop(future), future, store, done)
                on_progress(done.kept + done.ran + len(done.failed), done.rows)
    except BaseException:
        for future in running:
            future.cancel()
        raise


def _take(row: Row, future: Future[Any], store: Store, done: Done) -> None:
    """Write the result of a row. A command that could not do its work has none, and is tried again next time."""
    command = "mooring " + " ".join(row.arguments)
    try:
        code, printed, said = future.result()
        result = json.loads(printed) if code in (0, 1) and printed.strip() else None
    except Exception as error:
        done.failed[command] = f"{type(error).__name__}: {error}"
        return
    if result is None:
        done.failed[command] = (said.strip().splitlines() or [f"exit code {code}"])[-1]
        return
    store.put(row, code, result)
    done.ran += 1
