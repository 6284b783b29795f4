"""What runs beside the scheduler, in the lifeline's thread: the lease and the endpoints.

Everything here has connections of its own and asks the scheduler's thread nothing without a limit.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from mooring.client.kubeconfig import ClientConfig
from mooring.client.rest import RestClient, user_agent
from mooring.config.wire import completed, to_wire
from mooring.observe.events import EventRecorder
from mooring.observe.logs import get_logger
from mooring.observe.metrics import SchedulerMetrics
from mooring.scheduler.dump import queue_content
from mooring.scheduler.leader_election import LeaderElector
from mooring.scheduler.lifeline import Heartbeat, ask
from mooring.scheduler.live import COMPONENT, LiveScheduler
from mooring.scheduler.serving_auth import DelegatedAuth, client_ca_of_cluster
from mooring.scheduler.settings import Settings
from mooring.scheduler.surroundings import Surroundings
from mooring.tls import self_signed_elsewhere

if TYPE_CHECKING:
    from mooring.scheduler.serving import EndpointServer, Pages, Sources

log = get_logger("mooring.scheduler")
T = TypeVar("T")

ANSWER_S = 2.0
"""How long an endpoint waits for the scheduler's thread; after that it shows what it has, or says that it is busy."""
MARGIN_S = 5.0
MAX_HANGING = 8
"""So many threads that hang cannot be had for nothing: the process is not healthy any more."""
LONG_S = 60.0
"""How long the scheduler's loop may be busy where an attempt has no limit."""


class Control:
    """Made and used in the lifeline's loop, except for what says otherwise."""

    def __init__(
        self,
        settings: Settings,
        live: LiveScheduler,
        metrics: SchedulerMetrics,
        main: asyncio.AbstractEventLoop,
        *,
        is_stopping: Callable[[], bool],
        is_leading: Callable[[], bool],
        surroundings: Surroundings | None = None,
        pages: Pages | None = None,
    ) -> None:
        self._settings = settings
        self._pages = pages or {}
        self._surroundings = surroundings or Surroundings()
        self._live = live
        self._metrics = metrics
        self._main = main
        self._is_stopping = is_stopping
        self._is_leading = is_leading
        self._lease_client: RestClient | None = None
        self._review_clients: list[RestClient] = []
        self._lease_events: EventRecorder | None = None
        self._beats: asyncio.Task[None] | None = None
        limit_s = settings.flags.seconds("attempt-timeout")
        self._gives_up = limit_s > 0
        late_s = limit_s + MARGIN_S if limit_s > 0 else LONG_S
        self.heartbeat = Heartbeat(main, late_s, self._surroundings.clock)
        self.elector: LeaderElector | None = None
        self.server: EndpointServer | None = None

    async def start(
        self, client_config: ClientConfig, on_hang: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        """Serve the endpoints and watch the scheduler's loop; ``on_hang`` is called when that loop is beyond help."""
        self._elect(client_config)
        await self._serve()
        if self._gives_up and on_hang is not None:
            self._beats = asyncio.create_task(self.heartbeat.run(on_hang), name="heartbeat")
        else:
            self._beats = asyncio.create_task(self._beat(), name="heartbeat")

    async def _beat(self) -> None:
        while True:
            self.heartbeat.beat()
            await asyncio.sleep(1.0)

    async def lead(
        self, work: Callable[[], Coroutine[Any, Any, None]], on_lost: Callable[[], None] | None = None
    ) -> None:
        """Wait for the lease, then do the work while holding it; without leader election just do the work."""
        if self.elector is None:
            await work()
            return
        if self._lease_events is not None:
            await self._lease_events.start()
        try:
            await self.elector.run(work, on_lost)
        finally:
            if self._lease_events is not None:
                await self._lease_events.stop(drain_s=1.0)

    async def release(self) -> None:
        """Give the lease back at once, whatever the scheduler is doing: the process is about to end."""
        if self.elector is not None and self.elector.is_leader:
            await self.elector.release()

    async def stop(self) -> None:
        if self._beats is not None:
            self._beats.cancel()
        if self.server is not None:
            await self.server.stop()
        for client in (self._lease_client, *self._review_clients):
            if client is not None:
                await client.close()

    # ---- the parts ---------------------------------------------------------------------------------------------

    def _elect(self, client_config: ClientConfig) -> None:
        wanted = self._settings.leader_election
        if wanted is None:
            return
        connection, around = self._settings.config.client_connection, self._surroundings
        self._lease_client = client = RestClient(
            client_config,
            agent=user_agent(COMPONENT, "leader-election"),
            qps=connection.qps,
            burst=connection.burst,
            observer=self._metrics,
            transport=around.make_transport(client_config),
            clock=around.clock,
        )
        # Events about leases go to the core API, as upstream's do.
        self._lease_events = EventRecorder(
            client, hostname=around.hostname, legacy=True, workers=1, clock=around.clock, rng=around.make_rng()
        )
        self.elector = LeaderElector(
            client,
            wanted,
            identity=around.identity,
            recorder=self._lease_events,
            observer=self._metrics.observe_leadership,
            clock=around.lease_clock,
            rng=around.make_rng(),
        )

    def _review_client(self, flag: str) -> RestClient | None:
        config = self._settings.review_config(flag)
        if config is None:
            return None
        client = RestClient(config, agent=user_agent(COMPONENT), timeout_s=10.0)
        self._review_clients.append(client)
        return client

    async def _ask(self, question: Callable[[], T]) -> T:
        return await ask(self._main, question, ANSWER_S)

    async def _serve(self) -> None:
        flags = self._settings.flags
        if not flags.number("secure-port"):
            return
        from mooring.scheduler.serving import EndpointServer, ServingSettings

        authentication = self._review_client("authentication-kubeconfig")
        authorization = self._review_client("authorization-kubeconfig")
        client_ca = None
        if authentication is not None and not flags.switch("authentication-skip-lookup"):
            client_ca = await client_ca_of_cluster(authentication)
        auth = DelegatedAuth(
            authentication,
            authorization,
            always_allow_paths=tuple(flags.words("authorization-always-allow-paths")),
            token_ttl_s=flags.seconds("authentication-token-webhook-cache-ttl"),
            allowed_ttl_s=flags.seconds("authorization-webhook-cache-authorized-ttl"),
            denied_ttl_s=flags.seconds("authorization-webhook-cache-unauthorized-ttl"),
        )
        settings = ServingSettings(
            bind_address=flags.text("bind-address"),
            port=flags.number("secure-port"),
            tls=self._settings.tls_files(),
            client_ca=client_ca,
            make_identity=self_signed_elsewhere,
            profiling=self._settings.config.enable_profiling,
        )
        server = await asyncio.to_thread(EndpointServer, settings, self._sources(), auth)  # makes a certificate
        await server.start()
        self.server = server

    def _sources(self) -> Sources:
        from mooring.scheduler.serving import Sources, default_health

        live, scheduler = self._live, self._live.scheduler
        health = default_health()
        if self.elector is not None:
            health.add("leaderElection", self.elector.check, "healthz", "readyz")
        health.add("scheduling", self.heartbeat.check, "healthz", "livez", "readyz")
        health.add("decisions", lambda: _too_many_hang(scheduler.hanging), "healthz", "livez", "readyz")
        health.add("shutdown", lambda: "process is shutting down" if self._is_stopping() else None, "readyz")
        health.add("sched-handler-sync", lambda: _unsynced(live), "readyz")
        return Sources(
            metrics=scheduler.meters,
            health=health,
            config=lambda: to_wire(completed(scheduler.config, list(self._settings.registry)), redact=True),
            flags=self._settings.flags.shown,
            pods=lambda: list(scheduler.pods.values()) if self._is_leading() else [],
            json_endpoints={"/debug/queue": functools.partial(queue_content, scheduler)},
            pages=self._pages,
            ask=self._ask,
            version=self._settings.features.version.tag.removeprefix("v"),
            emulation_version=str(self._settings.features.version),
            has_flagz=self._settings.features["ComponentFlagz"],
            has_statusz=self._settings.features["ComponentStatusz"],
        )


def _too_many_hang(hanging: int) -> str | None:
    return f"{hanging} decisions hang, and their threads cannot be ended" if hanging >= MAX_HANGING else None


def _unsynced(live: LiveScheduler) -> str | None:
    return None if live.informers.has_synced else "handlers are not fully synchronized"
