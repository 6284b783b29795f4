"""The worlds in which stories are played: control plane, kubelets, controllers and scheduler, started and stopped
together.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import msgspec

from mooring.api.clock import Clock
from mooring.api.errors import ApiError
from mooring.controlplane.cluster.kubelet import KubeletOptions, Kubelets
from mooring.controlplane.cluster.manager import ControllerManager
from mooring.controlplane.registry.catalog import NODES
from mooring.controlplane.server import ControlPlane
from mooring.core.config.load import config_from_dict
from mooring.core.config.plugin_loading import load_plugins
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.framework.registry import Registry
from mooring.live.context import SchedulerOptions
from mooring.live.control import queue_content
from mooring.live.events import EventRecorder
from mooring.live.informers import connect, kinds_for
from mooring.live.metrics import SchedulerMetrics
from mooring.live.observer import SchedulerObserver
from mooring.live.scheduler import Scheduler
from mooring.live.writer import ApiWriter
from mooring.net.informer import InformerSet
from mooring.net.rest import RestClient
from mooring.sim.backend import Backend, InProcessClient, StoreFeed
from mooring.sim.narration import NORMAL, Narrator, Told
from mooring.sim.scenario import NO_STORY, Scenario, ScenarioCluster
from mooring.sim.step_fields import with_seed
from mooring.sim.virtual_time import LoopClock, VirtualTimeLoop

SYNC_TIMEOUT_S = 30.0
LAST_WRITES_S = 2.0


@dataclass(frozen=True, slots=True)
class PlaySettings:
    """Settings for running and narrating a story."""

    level: int = NORMAL
    as_json: bool = False
    colored: bool = False
    columns: int = 0  # of the terminal; 0 leaves lines unwrapped
    write: Callable[[str], None] = print
    seed: int = 0
    observers: Sequence[SchedulerObserver] = ()  # in addition to the narration


class Listening(msgspec.Struct, frozen=True):
    """External access to the embedded control plane."""

    host: str = "127.0.0.1"
    port: int = 0
    use_tls: bool = True
    data_dir: Path | None = None
    kubeconfig_path: Path | None = None


@runtime_checkable
class TakesNotes(Protocol):
    """An observer that stores a story's notes, such as a recorder, whose import is slow."""

    def note(self, text: str, kind: str = "note") -> None: ...


def registry_for(scenario: Scenario) -> Registry:
    """Return a registry with the in-tree plugins and the scenario's own."""
    registry = in_tree_registry()
    for plugin in scenario.plugins:
        registry.register(plugin)
    load_plugins(scenario.plugin_files, registry)
    return registry


class World(ABC):
    """A cluster with its scheduler. Usable as ``async with``; ``cluster`` is the scenario's interface.

    A kind of world defines how its control plane starts, how the story writes to it, and how the scheduler receives
    objects. The narration, the configuration, the scheduler and its end are the same in all of them.
    """

    cluster: ScenarioCluster
    scheduler: Scheduler
    kubelets: Kubelets

    def __init__(self, settings: PlaySettings, scenario: Scenario | None = None) -> None:
        self._settings = settings
        self._scenario = scenario or NO_STORY
        self._stack = contextlib.AsyncExitStack()
        loop = asyncio.get_running_loop()
        self.is_virtual = isinstance(loop, VirtualTimeLoop)
        starts_at = self._scenario.starts_at
        self.clock: Clock = LoopClock(loop) if starts_at is None else LoopClock(loop, starts_at)
        self.narrator = Narrator(
            self.clock,
            settings.write,
            level=settings.level,
            as_json=settings.as_json,
            colored=settings.colored,
            columns=settings.columns,
        )
        self.registry = registry_for(self._scenario)

    @abstractmethod
    async def _bring_up(self) -> RestClient:
        """Start the control plane; ``_stack`` closes what it opens."""

    @abstractmethod
    async def _feed(self, scheduler: Scheduler, client: RestClient) -> None:
        """Pass existing objects to the scheduler, and later changes."""

    def _backend(self, client: RestClient) -> Backend:
        """Return the story's backend."""
        return Backend(client)

    def _make_scheduler(
        self, config: KubeSchedulerConfiguration, client: RestClient, events: EventRecorder, options: SchedulerOptions
    ) -> Scheduler:
        retries = options.features["BindingIsRetried"]
        return Scheduler(
            config,
            lambda pods: ApiWriter(client, events, pods, retries_binding=retries),
            events,
            replace(options, observers=(self.narrator, *options.observers)),
        )

    async def __aenter__(self) -> Self:
        try:
            client = await self._bring_up()
            self.cluster = ScenarioCluster(self._backend(client), self.clock, self.narrator, seed=self._settings.seed)
            await self._start_scheduler(client)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        self.narrator.finish()

    async def _start_scheduler(self, client: RestClient) -> None:
        scenario, seed = self._scenario, self._settings.seed
        # Names of events and ties come from one generator with the story's seed, so that two runs are equal.
        rng = random.Random(seed)
        events = EventRecorder(client.sibling(agent="mooring-events"), hostname="mooring", clock=self.clock, rng=rng)
        features = scenario.features
        options = SchedulerOptions(
            features=features,
            metrics=SchedulerMetrics(features=features),
            registry=self.registry,
            clock=self.clock,
            rng=rng,
            observers=tuple(self._settings.observers),
            extenders=lambda config: scenario.extenders,
        )
        for observer in options.observers:
            if isinstance(observer, TakesNotes):
                self.narrator.on_said = observer.note
        config = config_from_dict(with_seed(scenario.config, seed), features)
        scheduler = self._make_scheduler(config, client, events, options)
        await events.start()
        self._stack.push_async_callback(events.stop, LAST_WRITES_S)
        await self._feed(scheduler, client)
        task = asyncio.create_task(scheduler.run(), name="scheduler")
        self._stack.push_async_callback(self._stop_scheduler, scheduler, task)
        self.scheduler = scheduler

    @staticmethod
    async def _stop_scheduler(scheduler: Scheduler, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await scheduler.abort()
        if not task.cancelled():
            task.result()  # the scheduler itself failed: later observations of the story do not count


class EmbeddedWorld(World):
    """The embedded control plane, in real time or, in a virtual loop, in virtual time and without a socket."""

    def __init__(
        self,
        settings: PlaySettings,
        scenario: Scenario | None = None,
        *,
        listening: Listening | None = None,
        kubelets: KubeletOptions | None = None,
    ) -> None:
        super().__init__(settings, scenario)
        self._listening = listening
        self._kubelet_options = kubelets

    async def _bring_up(self) -> RestClient:
        self.plane = plane = self._make_plane()
        if self._listening is None:
            await self._run_silently(plane)
        else:
            await plane.start()
            self._stack.push_async_callback(plane.stop)
        loop = asyncio.get_running_loop()
        self.controllers = ControllerManager(plane.api, loop)
        self.kubelets = Kubelets(plane.api, loop, self._kubelet_options)
        plane.api.completes[NODES] = self.kubelets.complete
        for part in (self.controllers, self.kubelets):
            part.start()
            self._stack.callback(part.stop)
        return InProcessClient(plane, agent="mooring-scenario")

    def _make_plane(self) -> ControlPlane:
        numbers = itertools.count(1)
        listening = self._listening or Listening()
        return ControlPlane(
            host=listening.host,
            port=listening.port,
            use_tls=listening.use_tls,
            data_dir=listening.data_dir,
            kubeconfig_path=listening.kubeconfig_path,
            clock=self.clock,
            rng=random.Random(self._settings.seed),
            new_uid=(lambda: f"00000000-0000-4000-8000-{next(numbers):012d}") if self.is_virtual else None,
            default_tolerations=True,
            version=self._scenario.features.version,
        )

    async def _run_silently(self, plane: ControlPlane) -> None:
        """Do what ``plane.start`` does, without a socket."""
        assert plane.garbage is not None
        plane.garbage.start()
        task = asyncio.create_task(plane.garbage.run(), name="garbage collector")

        async def stop() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await plane.stop()

        self._stack.push_async_callback(stop)

    async def _feed(self, scheduler: Scheduler, client: RestClient) -> None:
        self.plane.handlers.pages["/debug/queue"] = lambda: queue_content(scheduler)  # for ``mooring queue``
        if self.is_virtual:
            kinds = kinds_for(scheduler.resources)
            feed = StoreFeed(self.plane.store, kinds, Told(scheduler, self.narrator))
            feed.start()
            self._stack.callback(feed.stop)
        else:
            await feed_by_watching(self._stack, scheduler, client, self.narrator)


async def feed_by_watching(
    stack: contextlib.AsyncExitStack, scheduler: Scheduler, client: RestClient, narrator: Narrator
) -> None:
    """Feed a scheduler from informers, as on a cluster."""
    informers = InformerSet(client)
    connect(informers, Told(scheduler, narrator), resources=scheduler.resources)
    informers.start()
    stack.push_async_callback(informers.stop)
    if not await informers.wait_for_sync(SYNC_TIMEOUT_S):
        raise ApiError(f"could not list {', '.join(informers.missing())} within {SYNC_TIMEOUT_S:g}s")
