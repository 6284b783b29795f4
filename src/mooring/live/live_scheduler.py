"""A scheduler with its connections: watches that feed it, a client that it writes through, events in the background."""

from __future__ import annotations

import asyncio
import functools
import gc
import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.api.clock import Clock, SystemClock, UnstoppableClock
from mooring.api.memory import SELDOM, keep_freed_memory
from mooring.api.resource import DeviceClass
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.framework.extender import ExtenderClient
from mooring.live.context import SchedulerOptions
from mooring.live.control_thread import ControlThread
from mooring.live.events import EventRecorder
from mooring.live.extenders import ExtenderCalls
from mooring.live.informers import connect, consequences
from mooring.live.logs import get_logger
from mooring.live.metrics import SchedulerMetrics
from mooring.live.scheduler import Scheduler
from mooring.live.time_limits import TimeLimits
from mooring.live.writer import ApiWriter, watch_unconfirmed
from mooring.net.extender.wire import RawObjects
from mooring.net.informer import InformerSet
from mooring.net.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS
from mooring.net.kubeconfig import ClientConfig
from mooring.net.pool import RateLimiter
from mooring.net.rest import RestClient, Transport, user_agent

log = get_logger("mooring.live")

COMPONENT = "mooring"
SHARE = 10
"""A patch waits for at most this many requests of the rate limit, so patches always get a tenth of it."""


def _build_extenders(*arguments: Any, **named: Any) -> Sequence[ExtenderClient]:
    """Import the extender client only when extenders are configured."""
    from mooring.net.extender.client import build_extenders

    return build_extenders(*arguments, **named)


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """What a scheduler process takes from its machine: time, randomness, connections, a second thread.

    The defaults are the machine's own. Tests of faults in virtual time give each replica clocks, a network and threads
    that they can break; the scheduler is the same.
    """

    clock: Clock = field(default_factory=SystemClock)
    lease_clock: Clock = field(default_factory=UnstoppableClock)
    make_rng: Callable[[], random.Random] = random.Random
    hostname: str = field(default_factory=socket.gethostname)
    identity: str = ""  # identity of the lease holder; empty: the host's name and a random suffix
    make_transport: Callable[[ClientConfig], Transport] = Transport
    make_control_thread: Callable[[], ControlThread] = ControlThread
    make_limits: Callable[[], TimeLimits] = TimeLimits
    make_extenders: Callable[..., Sequence[ExtenderClient]] = _build_extenders
    tunes_gc: bool = True  # whether the garbage collector belongs to this process alone

    def reflector(self) -> dict[str, Any]:
        """Options of every informer."""
        return {"clock": self.clock, "rng": self.make_rng()}


class SpareRequests:
    """``turn`` returns when a request that can wait may be sent; callers are served in order.

    A client sends ``clientConnection.qps`` requests per second. Thousands of unschedulable pods need a condition patch
    each, and a pod that fits must not wait behind them. So patches only take requests that bindings do not need, but at
    least a tenth of the rate.
    """

    def __init__(
        self,
        limiter: RateLimiter,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limiter = limiter
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._queue = asyncio.Lock()

    async def turn(self) -> None:
        async with self._queue:
            latest = self._clock.monotonic() + SHARE * self._limiter.interval_s
            while (wait_s := self._limiter.wait_s()) > 0:
                left_s = latest - self._clock.monotonic()
                if left_s <= 0:
                    return
                await self._sleep(min(wait_s, left_s))


class LiveScheduler:
    """A scheduler with its connections: ``start`` begins to watch, ``synced`` waits for the first lists, ``run``
    schedules, ``stop`` ends.
    """

    def __init__(
        self,
        client: RestClient,
        config: KubeSchedulerConfiguration,
        options: SchedulerOptions | None = None,
        *,
        hostname: str = "",
        tune_gc: bool = False,
        environment: HostEnvironment | None = None,
    ) -> None:
        agent = user_agent(COMPONENT, "scheduler")
        host = environment or HostEnvironment()
        options = options or SchedulerOptions()
        self.client = client.sibling(agent=agent, is_fenced=options.is_fenced)
        self.recorder = EventRecorder(
            client.sibling(agent=agent, is_fenced=options.is_fenced, is_paperwork=True),
            hostname=hostname or host.hostname,
            clock=host.clock,
            rng=host.make_rng(),
        )
        raw = RawObjects() if config.extenders else None
        calls = ExtenderCalls(options.metrics) if config.extenders else None
        options.extenders = lambda config: (
            host.make_extenders(config.extenders, raw, observer=calls) if config.extenders else ()
        )
        options.claims_are_served = lambda: self.informers[RESOURCE_CLAIMS.name].is_served
        options.is_held = lambda: self.informers.is_restoring
        options.condition_turn = SpareRequests(self.client.limiter, clock=host.clock).turn
        self.scheduler = Scheduler(
            config,
            lambda pods: ApiWriter(
                self.client, self.recorder, pods, retries_binding=options.features["BindingIsRetried"]
            ),
            self.recorder,
            options,
        )
        self.informers = InformerSet(client.sibling(agent=agent), tune_gc=tune_gc, **host.reflector())
        self.informers.on_restoring = self._on_restoring
        self._gc_thresholds = gc.get_threshold()
        self._tune_gc = tune_gc
        connect(self.informers, self.scheduler, raw=raw, resources=self.scheduler.resources)
        if options.metrics is not None:
            options.metrics.on_render(functools.partial(self._show_watches, options.metrics))
        self.informers[DEVICE_CLASSES.name].add_handler(self._get_ready, lambda _, new: self._get_ready(new))

    def _show_watches(self, metrics: SchedulerMetrics) -> None:
        for informer in self.informers:
            metrics.watch_failing.labels(informer.kind.name).set(informer.reflector.failing_s)

    def _get_ready(self, found: DeviceClass) -> None:
        self.scheduler.session.handle.devices.get_ready(found)

    def _on_restoring(self) -> None:
        """Pause decisions while part of the cached state is newer than the restored API server's."""
        if self.informers.is_restoring:
            log.warning(
                "The API server was restored to an older state; decisions pause until everything is listed again"
            )
        else:
            log.info("Everything was listed again; decisions resume", pods=len(self.scheduler.pods))
            self.scheduler.wake()

    async def start(self) -> None:
        """Begin to watch and to write events."""
        if self._tune_gc:
            gc.set_threshold(*SELDOM)
            keep_freed_memory()
        self.informers.start()
        await self.recorder.start()

    async def synced(self, timeout_s: float | None = None) -> bool:
        """Wait until every existing object is known; nothing is decided before that."""
        is_synced = await self.informers.wait_for_sync(timeout_s)
        missing = self.informers.not_served() if is_synced else []
        if missing:
            log.info("The API server does not serve all kinds; continuing without", kinds=consequences(missing))
            self.scheduler.reconsider()  # these pods arrived before it was known that their claims are not served
        return is_synced

    async def run(self) -> None:
        """Schedule until cancelled."""
        watching = asyncio.create_task(watch_unconfirmed(self.scheduler, self.client), name="unconfirmed bindings")
        try:
            await self.scheduler.run()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def stop(self, *, drain_s: float = 0.0) -> bool:
        """Let bindings in flight finish, then stop watching and writing; false if bindings had to be abandoned."""
        is_done = await self.scheduler.finish(drain_s)
        if not is_done:
            await self.scheduler.abort()
        self.scheduler.close()
        await self.informers.stop()
        await self.recorder.stop(drain_s=min(drain_s, 5.0))
        gc.set_threshold(*self._gc_thresholds)
        return is_done

    async def __aenter__(self) -> LiveScheduler:
        await self.start()
        await self.synced()
        self._loop = asyncio.create_task(self.run(), name="scheduler")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)
        await self.stop(drain_s=5.0)
