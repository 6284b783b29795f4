"""Sweep: the implementation of ``mooring.sweep``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.api.errors import InputError, MooringError, UsageError
from mooring.ask.sweep_file import Record, Sweep, SweepRow, load_sweep, records_of

# --------------------------------------------------------------------------------------------------------------------
# Results of rows in a folder: one file for each, named after the row. A row with a file is done.

_SUFFIX = ".json"


class SweepStore:
    """A folder with results. Several processes may write into it: files are created atomically."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def has(self, row: SweepRow) -> bool:
        return self._file(row).exists()

    def put(self, row: SweepRow, exit_code: int, result: Any) -> None:
        value = {"key": row.key, **row.specification, "exitCode": exit_code, "result": result}
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{row.key}.{os.getpid()}"
        draft.write_text(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
        draft.replace(self._file(row))

    def get(self, row: SweepRow) -> Mapping[str, Any] | None:
        file = self._file(row)
        return _read(file) if file.exists() else None

    def all(self) -> Iterator[Mapping[str, Any]]:
        """Yield all existing results, in the order of the names."""
        return read_folders([self.folder])

    def _file(self, row: SweepRow) -> Path:
        return self.folder / (row.key + _SUFFIX)


def read_folders(folders: Iterable[str | Path]) -> Iterator[Mapping[str, Any]]:
    """Yield the results in several folders; a duplicate row counts once."""
    seen: set[str] = set()
    for folder in folders:
        path = Path(folder)
        if not path.is_dir():
            raise InputError(f"{folder}: no such folder; expected one that mooring sweep run wrote")
        for file in sorted(path.glob(f"*{_SUFFIX}")):
            if file.stem not in seen:
                seen.add(file.stem)
                yield _read(file)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: not a result of a sweep: {error}") from None
    if not isinstance(value, Mapping) or not {"key", "values", "result"} <= value.keys():
        raise InputError(f"{file}: not a result of a sweep; expected key, values and result")
    return value


# --------------------------------------------------------------------------------------------------------------------
# Running a sweep: every row without a result, on an executor.

INDEX_VARIABLES = ("JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "SHARD_INDEX")
Work = Callable[[Sequence[str], str | None], tuple[int, str, str]]
_AHEAD = 4  # rows per worker that are queued in advance


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
    """Result of a run."""

    rows: int = 0  # of the shard
    kept: int = 0  # had a result before
    ran: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # the arguments -> the error


def run_command(arguments: Sequence[str], folder: str | None = None) -> tuple[int, str, str]:
    """Run one mooring command in its own process; return its exit code and its standard output and error."""
    command = [sys.executable, "-m", "mooring", *arguments, "-o", "json"]
    # In the caller's folder, if the worker has it: arguments may be paths.
    where = folder if folder is not None and os.path.isdir(folder) else None
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=where)
    return done.returncode, done.stdout, done.stderr


def run_sweep(
    sweep: Sweep,
    store: SweepStore,
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    shard: Shard | None = None,
    work: Work = run_command,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Done:
    """Run the rows without a result. ``executor`` may be on other machines; without one, all cores are used.

    Workers get the arguments and return what the command printed; results are written here. A worker needs mooring and
    the files that the arguments name, under the same paths. ``work`` is how a worker runs a command.
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
    todo: Sequence[SweepRow],
    store: SweepStore,
    executor: Executor,
    work: Work,
    ahead: int,
    done: Done,
    on_progress: Callable[[int, int], None],
) -> None:
    """Keep this many rows submitted; write each result when it arrives."""
    folder = str(Path.cwd())
    left = iter(todo)
    running: dict[Future[Any], SweepRow] = {}
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


def _take(row: SweepRow, future: Future[Any], store: SweepStore, done: Done) -> None:
    """Write the result of a row. A failed command has none, and is retried next time."""
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
    store = SweepStore(results_of(file) if results is None else results)
    part = Shard(*shard) if shard is not None else Shard()
    done = run_sweep(found, store, executor=executor, jobs=jobs, shard=part, on_progress=on_progress)
    if done.failed:
        command, said = next(iter(done.failed.items()))
        raise MooringError(f"{len(done.failed)} of {done.rows} rows failed; the first: {command}: {said}")
    mine = (row for position, row in enumerate(found.rows) if part.takes(position))
    return records_of(value for row in mine if (value := store.get(row)) is not None)


def results_of(file: str | Path) -> Path:
    """Return the default folder for results, beside the file."""
    return Path(file).with_suffix(".results")


# --------------------------------------------------------------------------------------------------------------------
# A sweep as a Kubernetes Job with an index: each pod takes its share of the rows.

MOUNT = "/sweep"


def job_manifest(
    file: str,
    *,
    shards: int,
    image: str,
    claim: str,
    settings: Mapping[str, str],
    name: str = "sweep",
    cpu: str = "1",
    memory: str = "2Gi",
) -> dict[str, Any]:
    """Return an Indexed Job. The claim has the sweep's files, and gets the results; paths are relative to it."""
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = ["mooring", "sweep", "run", file, *sets, "--shard", f"/{shards}", "--jobs", "1", "--results", "results"]
    container = {
        "name": "sweep",
        "image": image,
        "command": command,
        "workingDir": MOUNT,
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "files", "mountPath": MOUNT}],
    }
    spec = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "mooring-sweep"}},
        "spec": {
            "completionMode": "Indexed",
            "completions": shards,
            "parallelism": shards,
            "backoffLimitPerIndex": 2,
            "template": {"metadata": {"labels": {"app.kubernetes.io/name": "mooring-sweep"}}, "spec": spec},
        },
    }
