"""Ray as a ``concurrent.futures.Executor``. Dask has one of its own: ``Client(…).get_executor()``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

from mooring.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")


class RayExecutor(Executor):
    """Runs each call as a task of Ray. Call ``ray.init(…)`` before; this class starts and stops nothing."""

    def __init__(self, **options: Any) -> None:
        """``options`` are those of a Ray task, such as ``num_cpus=1``."""
        try:
            import ray
        except ImportError:
            raise UsageError("RayExecutor needs Ray, which is not installed: pip install 'mooring[ray]'") from None
        self._ray = ray
        self._options = {"num_cpus": 1, **options}

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        task = self._ray.remote(**self._options)(fn)
        future: Future[T] = task.remote(*args, **kwargs).future()
        return future
