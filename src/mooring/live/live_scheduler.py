"""A scheduler with its connections: watches that feed it, a client that it writes through, events in the background."""

from __future__ import annotations

import asyncio
import gc

from mooring.api.memory import SELDOM, keep_freed_memory
from mooring.api.resource import DeviceClass
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.live.context import SchedulerOptions
from mooring.live.events import EventRecorder
from mooring.live.extenders import ExtenderCalls
from mooring.live.informers import Leftovers, connect, consequences
from mooring.live.lifeline import Surroundings
from mooring.live.logs import get_logger
from mooring.live.scheduler import Scheduler
from mooring.live.writer import ApiWriter, watch_over
from mooring.net.extender.wire import RawObjects
from mooring.net.informer import InformerSet
from mooring.net.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS
from mooring.net.rest import RestClient, user_agent

log = get_logger("mooring.live")

COMPONENT = "mooring"


class LiveScheduler:
    """``start`` begins to watch, ``synced`` waits for the first lists, ``run`` schedules, ``stop`` ends."""

    def __init__(
        self,
        client: RestClient,
        config: KubeSchedulerConfiguration,
        options: SchedulerOptions | None = None,
        *,
        hostname: str = "",
        tune_gc: bool = False,
        surroundings: Surroundings | None = None,
    ) -> None:
        agent = user_agent(COMPONENT, "scheduler")
        around = surroundings or Surroundings()
        options = options or SchedulerOptions()
        self.client = client.sibling(agent=agent, is_fenced=options.is_fenced)
        self.recorder = EventRecorder(
            client.sibling(agent=agent, is_fenced=options.is_fenced, is_paperwork=True),
            hostname=hostname or around.hostname,
            clock=around.clock,
            rng=around.make_rng(),
        )
        raw = RawObjects() if config.extenders else None
        calls = ExtenderCalls(options.metrics) if config.extenders else None
        options.extenders = lambda config: (
            around.make_extenders(config.extenders, raw, observer=calls) if config.extenders else ()
        )
        options.claims_are_served = lambda: self.informers[RESOURCE_CLAIMS.name].is_served
        options.is_held = lambda: self.informers.is_restoring
        options.condition_turn = Leftovers(self.client.limiter, clock=around.clock).turn
        self.scheduler = Scheduler(
            config,
            lambda pods: ApiWriter(
                self.client, self.recorder, pods, retries_binding=options.features["BindingIsRetried"]
            ),
            self.recorder,
            options,
        )
        self.informers = InformerSet(client.sibling(agent=agent), tune_gc=tune_gc, **around.reflector())
        self.informers.on_restoring = self._on_restoring
        self._gc_thresholds = gc.get_threshold()
        self._tune_gc = tune_gc
        connect(self.informers, self.scheduler, raw=raw, resources=self.scheduler.resources)
        self.informers[DEVICE_CLASSES.name].add_handler(self._get_ready, lambda _, new: self._get_ready(new))

    def _get_ready(self, found: DeviceClass) -> None:
        self.scheduler.session.handle.devices.get_ready(found)

    def _on_restoring(self) -> None:
        """Decide nothing while some of what is known is of a state that the API server does not have any more."""
        if self.informers.is_restoring:
            log.warning("The API server has gone back to an older state; nothing is decided until all is listed anew")
        else:
            log.info("Everything is listed anew", pods=len(self.scheduler.pods))
            self.scheduler.wake()

    async def start(self) -> None:
        """Begin to watch and to write events."""
        if self._tune_gc:
            gc.set_threshold(*SELDOM)
            keep_freed_memory()
        self.informers.start()
        await self.recorder.start()

    async def synced(self, timeout_s: float | None = None) -> bool:
        """Wait until all that is there is known; nothing is decided before that."""
        is_synced = await self.informers.wait_for_sync(timeout_s)
        missing = self.informers.not_served() if is_synced else []
        if missing:
            log.info("The API server does not serve everything; going on without", kinds=consequences(missing))
            self.scheduler.reconsider()  # pods came before it was known that their claims never will
        return is_synced

    async def run(self) -> None:
        """Schedule until cancelled."""
        watching = asyncio.create_task(watch_over(self.scheduler, self.client), name="unconfirmed bindings")
        try:
            await self.scheduler.run()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def stop(self, *, drain_s: float = 0.0) -> bool:
        """Let bindings under way finish, then stop watching and writing; false if bindings had to be given up."""
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
