"""Shared state of one scheduler: options, the API writer, the cluster, the queue and background tasks.

``Scheduler`` builds one ``SchedulerContext`` and hands it to every part; a constructor names only what else it needs.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from mooring.api.clock import Clock, SystemClock
from mooring.api.core import Pod
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.framework.extender import ExtenderClient
from mooring.core.framework.handle import BindWriter
from mooring.core.framework.registry import Registry
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.session import Session
from mooring.live.events import EventWriter
from mooring.live.logs import get_logger
from mooring.live.metrics import SchedulerMetrics
from mooring.live.observer import Observers, SchedulerObserver
from mooring.live.time_limits import TimeLimits
from mooring.live.waiting_pods import WaitingPodsMap

log = get_logger("mooring.live")
T = TypeVar("T")


class SchedulerWriter(BindWriter, Protocol):
    """Writes of the scheduler itself; VolumeBinding and DynamicResources require more. A rejected write raises
    ApiError.
    """

    async def patch_pod_status(self, namespace: str, name: str, patch: dict[str, Any]) -> None: ...

    async def patch_pod_group_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None: ...

    async def delete_pod(self, pod: Pod) -> None: ...


def _build_extenders(config: KubeSchedulerConfiguration) -> Sequence[ExtenderClient]:
    if not config.extenders:  # imported only when extenders are configured
        return ()
    from mooring.net.extender.client import build_extenders

    return build_extenders(config.extenders)


@dataclass(slots=True)
class SchedulerOptions:
    """Settings that do not come from the configuration file."""

    features: Features = DEFAULT_FEATURES
    registry: Registry | None = None
    pod_max_in_unschedulable_pods_s: float = 300.0
    extenders: Callable[[KubeSchedulerConfiguration], Sequence[ExtenderClient]] = _build_extenders
    observers: Sequence[SchedulerObserver] = ()  # in addition to the metrics
    plugin_timeout_s: float = 10.0  # per call of a plugin that is not in-tree; 0: no limit
    attempt_timeout_s: float = 15.0  # per attempt to find a node for a pod; 0: no limit
    limits: TimeLimits = field(default_factory=TimeLimits)
    claims_are_served: Callable[[], bool] = lambda: True  # whether the API server has resource.k8s.io/v1
    condition_turn: Callable[[], Awaitable[None]] | None = None  # awaited before a pod's condition is patched
    binds_at_once: Callable[[str], bool] = lambda key: False  # whether a pod is bound without a request
    is_held: Callable[[], bool] = lambda: False  # asked before each turn: whether the cached state is out of date
    is_fenced: Callable[[], bool] = lambda: False  # asked before each write: whether another replica may lead
    metrics: SchedulerMetrics = field(default_factory=SchedulerMetrics)
    is_metered: bool = True  # whether metrics are counted: a simulation has no use for them
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random)
    pause_thread: Callable[[float], None] | None = None  # blocks the scheduler's thread; None if others need the thread


class Briefs(NamedTuple):
    """Coroutines that share a callback."""

    handle: asyncio.Handle
    works: list[Coroutine[Any, Any, Any]]


async def _go_on(work: Coroutine[Any, Any, Any], awaited: Any) -> None:
    """Continue a coroutine that awaits something after all."""
    await _Rest(work, awaited)


class _Rest:
    def __init__(self, work: Coroutine[Any, Any, Any], awaited: Any) -> None:
        self._work, self._awaited = work, awaited

    def __await__(self) -> Generator[Any, Any, None]:
        work, awaited = self._work, self._awaited
        while True:
            try:
                try:
                    answer = yield awaited
                except BaseException as error:
                    awaited = work.throw(error)
                else:
                    awaited = work.send(answer)
            except StopIteration:
                return


class Tasks:
    """Background tasks: bindings, evictions, patches. ``drain`` waits for all of them, ``abort`` cancels them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[asyncio.Future[Any], None] = {}  # ordered, so that two runs in virtual time do the same
        self._briefs: Briefs | None = None
        self.is_aborted = False

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run a coroutine in its own task; an exception is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    def spawn_brief(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine that awaits nothing, when its task would begin.

        Coroutines that would begin right after one another share a callback, in a loop that knows (``is_latest``).
        Nothing can tell, as long as it does not ask for its task.
        """
        loop, briefs = asyncio.get_running_loop(), self._briefs
        is_latest: Callable[[asyncio.Handle], bool] | None = getattr(loop, "is_latest", None)
        if is_latest is None:
            self.spawn(work)
        elif briefs is not None and is_latest(briefs.handle):
            briefs.works.append(work)
        else:
            ended = loop.create_future()
            self._running[ended] = None
            works = [work]
            self._briefs = Briefs(loop.call_soon(self._run_briefs, works, ended), works)

    def _run_briefs(self, works: list[Coroutine[Any, Any, Any]], ended: asyncio.Future[None]) -> None:
        for work in works:
            if ended.cancelled():
                work.close()
                continue
            try:
                awaited = work.send(None)
            except StopIteration:
                continue
            except Exception as error:
                log.error(error, "Unexpected error in a background task")
                continue
            self.spawn(_go_on(work, awaited))
        self._running.pop(ended, None)
        if not ended.done():
            ended.set_result(None)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error(task.exception(), "Unexpected error in a background task")

    async def drain(self, timeout_s: float) -> bool:
        """Wait until no task is running; false after the timeout."""
        deadline = self._clock.monotonic() + timeout_s
        while self._running:
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                return False
            await asyncio.wait(tuple(self._running), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def abort(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        self.is_aborted = True
        tasks = tuple(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class DeferredChanges:
    """Apply changes to the cluster and the queue immediately or, while a decision runs in another thread, after it.

    Only decisions that ask extenders, or are about large pod groups, run in a thread, so that the event loop continues.
    Until the decision is made, only that thread may touch the cluster or the queue. So every change goes through here:
    watch events, the end of a binding, a reload. Deferred changes are applied in order.
    """

    def __init__(self) -> None:
        self.is_holding = False
        self._held: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def __call__(self, function: Callable[..., None], *arguments: Any) -> None:
        if self.is_holding:
            self._held.append((function, arguments))
        else:
            function(*arguments)

    async def held_during(self, work: Awaitable[T]) -> T:
        """Defer changes until the work is done, then apply them."""
        self.is_holding = True
        try:
            return await work
        finally:
            while self._held:  # still held: changes caused by a deferred one come after those already deferred
                function, arguments = self._held.popleft()
                try:
                    function(*arguments)
                except Exception as error:  # the remaining changes must still be applied
                    log.error(error, "Failed to handle an event")
            self.is_holding = False


@dataclass(slots=True)
class SchedulerContext:
    """Context that the parts of a scheduler work with. Only ``Scheduler`` replaces its fields."""

    options: SchedulerOptions
    writer: SchedulerWriter
    recorder: EventWriter
    observers: Observers
    pods: dict[str, Pod]  # every unfinished pod as last seen by the watch, by namespace/name
    waiting_pods: WaitingPodsMap = field(default_factory=WaitingPodsMap)
    changes: DeferredChanges = field(default_factory=DeferredChanges)
    wake: Callable[[], None] = lambda: None  # tells the loop that there may be a pod to decide
    clock: Clock = field(init=False)
    tasks: Tasks = field(init=False)
    session: Session = field(init=False)  # cluster, nominations, engine and profiles; a reload replaces it
    queue: SchedulingQueue = field(init=False)  # created after the first profiles, which define its order and hints

    def __post_init__(self) -> None:
        self.clock = self.options.clock
        self.tasks = Tasks(self.clock)
