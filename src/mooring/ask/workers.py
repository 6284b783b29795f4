"""Workers: other processes of this machine, or a Dask or Ray cluster, that answer parts of a question.

A question is a cluster with its scheduler, and a function that answers one part. Workers get the question once, and
then only parts. Answers do not depend on where they come from: each part begins with the same cluster.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from mooring.api.errors import UsageError
from mooring.api.memory import seldom_collecting
from mooring.ask.scheduler import Scheduler
from mooring.core.session import Session

P = ParamSpec("P")
T = TypeVar("T")
Part = TypeVar("Part")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Workers:
    """Where parts are answered, and how many concurrently."""

    executor: Executor
    count: int
    share: Callable[[bytes], Any] = bytes  # puts a question where all workers find it; tasks get what this returns


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---- a question in parts -------------------------------------------------------------------------------------------

ROUNDS = 16  # tasks per worker: with few, the last one is waited for; each costs a message
AHEAD = 2  # tasks per worker that are handed out beforehand


@dataclass(frozen=True, slots=True)
class Question:
    """What a worker needs before it gets parts."""

    scheduler: Scheduler
    prepare: Callable[[Session], None]  # finds out once what all parts share
    answer: Callable[[Session, Any], Any]

    def ask(self, parts: Sequence[Any], workers: Workers | None = None) -> Iterator[tuple[int, Any]]:
        """Answer all parts; yield positions and answers as they arrive, in any order."""
        if workers is None:
            with seldom_collecting():
                base = self.open()
                for position, part in enumerate(parts):
                    yield position, self.answer(base, part)
            return
        written = pickle.dumps(self, pickle.HIGHEST_PROTOCOL)
        name, shared = hashlib.sha256(written).hexdigest(), workers.share(written)
        size = max(1, -(-len(parts) // (workers.count * ROUNDS)))
        tasks = ((begin, parts[begin : begin + size]) for begin in range(0, len(parts), size))
        running: dict[Future[list[Any]], int] = {}
        try:
            while True:
                while len(running) < workers.count * AHEAD and (task := next(tasks, None)) is not None:
                    running[workers.executor.submit(_answer, name, shared, task[1])] = task[0]
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    begin = running.pop(future)
                    yield from enumerate(future.result(), begin)
        finally:
            for future in running:
                future.cancel()

    def open(self) -> Session:
        """Return a session to fork for each part."""
        base = self.scheduler.session.fork()
        self.prepare(base)
        return base


_lock = Lock()  # a worker may have several threads, and a session is not thread-safe
_opened: dict[str, tuple[Question, Session]] = {}  # in a worker: the question that it was last asked


def _answer(name: str, shared: Any, parts: Sequence[Any]) -> list[Any]:
    """Answer some parts, in a worker."""
    with _lock, seldom_collecting():
        if name not in _opened:
            _opened.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the calling process has warned already
                question: Question = pickle.loads(shared.read_bytes() if isinstance(shared, Path) else shared)
                _opened[name] = question, question.open()
        question, base = _opened[name]
        return [question.answer(base, part) for part in parts]


# ---- where workers are ---------------------------------------------------------------------------------------------


def workers_for(count: int | None, address: str | None, *, pays: bool = True) -> AbstractContextManager[Workers | None]:
    """Return the requested workers: at an address, a number of processes, or all cores if it ``pays``.

    None: this process does it all.
    """
    if address is not None:
        if (count or 1) > 1:
            raise UsageError("--on runs on a cluster, and --workers on this machine; give one of them")
        return workers_on(address)
    if count is None:
        count = cores() if pays else 1
    return nullcontext() if count == 1 else local_workers(count)


@contextmanager
def local_workers(count: int) -> Iterator[Workers]:
    """Start processes on this machine. They are not forked, because a fork copies locks that other threads hold.

    A script that calls this does so under ``if __name__ == "__main__":``, because each process imports it.
    """
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:

        def share(written: bytes) -> Path:
            file = Path(folder) / hashlib.sha256(written).hexdigest()
            file.write_bytes(written)
            return file

        pool = ProcessPoolExecutor(count, get_context("spawn"), _begin_worker)
        try:
            yield Workers(pool, count, share)
        finally:
            pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller, which then stops handing out parts


@contextmanager
def workers_on(address: str) -> Iterator[Workers]:
    """Use the workers of a cluster, ``dask://HOST:PORT`` or ``ray://HOST:PORT``. They need this version of mooring."""
    kind, separator, place = address.partition("://")
    if not separator or kind not in ("dask", "ray") or not place:
        raise UsageError(f"--on: found {address!r}; expected dask://HOST:PORT or ray://HOST:PORT")
    with _on_dask(address, place) if kind == "dask" else _on_ray(address) as workers:
        yield workers


@contextmanager
def _on_dask(address: str, place: str) -> Iterator[Workers]:
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("Dask needs distributed, which is not installed: pip install 'mooring[dask]'") from None
    try:
        client: Any = Client(f"tcp://{place}", timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise UsageError(f"--on {address}: {error}") from None
    with client, client.get_executor() as executor:
        count = len(client.scheduler_info(n_workers=-1)["workers"])
        if not count:
            raise UsageError(f"--on {address}: the cluster has no workers")
        yield Workers(executor, count, lambda written: client.scatter(written, broadcast=True))


@contextmanager
def _on_ray(address: str) -> Iterator[Workers]:
    executor = RayExecutor()
    ray = executor.ray
    try:
        ray.init(address, log_to_driver=False)
    except (OSError, ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"--on {address}: {error}") from None
    try:
        yield Workers(executor, max(1, int(ray.cluster_resources().get("CPU", 1))), ray.put)
    finally:
        ray.shutdown()


class RayExecutor(Executor):
    """Ray as a ``concurrent.futures.Executor``: each call is a task. Dask has its own: ``Client(…).get_executor()``.

    Call ``ray.init(…)`` before; this class starts and stops nothing.
    """

    def __init__(self, **options: Any) -> None:
        """``options`` are those of a Ray task, such as ``num_cpus=1``."""
        try:
            import ray
        except ImportError:
            raise UsageError("RayExecutor needs Ray, which is not installed: pip install 'mooring[ray]'") from None
        self.ray = ray
        self._options = {"num_cpus": 1, **options}

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        task = self.ray.remote(**self._options)(fn)
        future: Future[T] = task.remote(*args, **kwargs).future()
        return future
