"""The scheduler as a process: endpoints, leader election, signals, reload, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from mooring import __version__
from mooring.client.kubeconfig import ClientConfig
from mooring.client.rest import RestClient, user_agent
from mooring.config.features import GATES
from mooring.config.wire import completed, to_wire
from mooring.observe.decision_log import DecisionLog
from mooring.observe.events import EventRecorder
from mooring.observe.metrics import SchedulerMetrics
from mooring.scheduler.dump import dump, queue_content
from mooring.scheduler.leader_election import LeaderElector, LeaseLost
from mooring.scheduler.live import COMPONENT, LiveScheduler
from mooring.scheduler.reload import ConfigReloader
from mooring.scheduler.scheduler import Options
from mooring.scheduler.serving import EndpointServer, ServingSettings, Sources, default_health
from mooring.scheduler.serving_auth import DelegatedAuth, client_ca_of_cluster
from mooring.scheduler.settings import Settings, load_configuration

log = logging.getLogger("mooring.scheduler")

DRAIN_S = 20.0
"""How long bindings under way may take after SIGTERM; after 30 seconds a kubelet would kill us."""
OK, FAILED = 0, 1


@dataclass(slots=True)
class _Clients:
    """Connections to the API server; those for reviews are None where nobody is to be asked."""

    main: RestClient
    authentication: RestClient | None
    authorization: RestClient | None

    async def close(self) -> None:
        for client in (self.main, self.authentication, self.authorization):
            if client is not None:
                await client.close()


class SchedulerProcess:
    """One process. ``run`` returns its exit code."""

    def __init__(self, settings: Settings, client_config: ClientConfig) -> None:
        self._settings = settings
        self._client_config = client_config
        self._is_stopping = False
        self._is_leading = False
        self._main: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()  # decisions are being made
        self.server: EndpointServer | None = None
        self.live: LiveScheduler | None = None
        self._lease_events: EventRecorder | None = None
        self._reloader: ConfigReloader | None = None

    async def run(self, *, signals: bool = True) -> int:
        """Schedule until a signal comes (0) or the lease is lost (1); what cannot be begun raises UsageError."""
        settings = self._settings
        metrics = self._metrics()
        clients = self._connect(metrics)
        decision_log = self._decision_log()
        options = Options(
            features=settings.features,
            registry=settings.registry,
            pod_max_in_unschedulable_pods_s=settings.flags.seconds("pod-max-in-unschedulable-pods-duration"),
            decision_log=decision_log,
            plugin_timeout_s=settings.flags.seconds("plugin-timeout"),
            attempt_timeout_s=settings.flags.seconds("attempt-timeout"),
            metrics=metrics,
        )
        live = self.live = LiveScheduler(clients.main, settings.config, options, tune_gc=True)
        elector = self._elector(clients.main, metrics)
        try:
            self.server = await self._serve(clients, live, elector)
            if decision_log is not None:
                decision_log.start()
            self._main = asyncio.create_task(self._schedule(live, elector), name="scheduler")
            with self._signals(live) if signals else contextlib.nullcontext():
                return await self._outcome(self._main)
        finally:
            if self._main is not None and not self._main.done():
                self._main.cancel()
                await asyncio.gather(self._main, return_exceptions=True)
            await live.stop(drain_s=DRAIN_S if self._is_stopping else 0.0)
            if self.server is not None:
                await self.server.stop()
            if decision_log is not None:
                await decision_log.close()
            await clients.close()

    def stop(self) -> None:
        """End cleanly: no new decisions, bindings under way finish, the lease is given back."""
        self._is_stopping = True
        if self._main is not None:
            self._main.cancel()

    async def _outcome(self, main: asyncio.Task[None]) -> int:
        try:
            await main
        except LeaseLost:
            log.error("Leaderelection lost")
            return FAILED
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            log.info("Stopped")
        return OK

    # ---- the way to the loop -----------------------------------------------------------------------------------

    async def _schedule(self, live: LiveScheduler, elector: LeaderElector | None) -> None:
        watcher = self._watch_config(live)
        try:
            if elector is None or not self._settings.config.delay_cache_until_active:
                await self._sync(live)
            if elector is None:
                await self._lead(live)
            else:
                if self._lease_events is not None:
                    await self._lease_events.start()
                await elector.run(lambda: self._lead(live))
        finally:
            if self._lease_events is not None:
                await self._lease_events.stop(drain_s=1.0)
            if watcher is not None:
                watcher.cancel()

    async def _sync(self, live: LiveScheduler) -> None:
        await live.start()
        while not await live.synced(30.0):
            log.info("Waiting for the first lists of %s", ", ".join(live.informers.missing()))
        log.info("Caches are synced: %d pods", len(live.scheduler.pods))

    async def _lead(self, live: LiveScheduler) -> None:
        if not live.informers.has_synced:
            await self._sync(live)
        self._is_leading = True
        self.ready.set()
        try:
            await live.scheduler.run()
        finally:
            self._is_leading = False
            # Who stops on purpose finishes what it began, and holds the lease meanwhile; who lost the lease must not.
            if self._is_stopping:
                await live.scheduler.finish(DRAIN_S)
            else:
                await live.scheduler.abort()

    def _watch_config(self, live: LiveScheduler) -> asyncio.Task[None] | None:
        settings = self._settings
        path = settings.flags.text("config")
        if not path:
            return None
        self._reloader = ConfigReloader(
            path,
            lambda: load_configuration(settings.flags, settings.features)[0],
            live.scheduler.reload,
            settings.config,
        )
        return asyncio.create_task(self._reloader.run(), name="configuration file")

    @contextlib.contextmanager
    def _signals(self, live: LiveScheduler) -> Any:
        loop = asyncio.get_running_loop()

        def hang_up() -> None:
            if self._reloader is not None:
                self._reloader.ask()
            else:
                log.info("SIGHUP: there is no configuration file to read again")

        handlers: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGHUP: hang_up,
            signal.SIGUSR2: lambda: dump(live.scheduler, live.informers),
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    # ---- the parts ---------------------------------------------------------------------------------------------

    def _metrics(self) -> SchedulerMetrics:
        settings = self._settings
        features = {name: (gate.stage.value, settings.features[name]) for name, gate in GATES.items()}
        metrics = SchedulerMetrics(version=__version__, features=features)
        unknown = metrics.registry.disable(settings.flags.words("disabled-metrics"))
        for name in unknown or ():
            log.warning("--disabled-metrics: there is no metric %s", name)
        return metrics

    def _connect(self, metrics: SchedulerMetrics) -> _Clients:
        connection = self._settings.config.client_connection
        main = RestClient(
            self._client_config,
            agent=user_agent(COMPONENT, "scheduler"),
            qps=connection.qps,
            burst=connection.burst,
            observer=metrics.observe_request,
        )
        return _Clients(
            main, self._review_client("authentication-kubeconfig"), self._review_client("authorization-kubeconfig")
        )

    def _review_client(self, flag: str) -> RestClient | None:
        config = self._settings.review_config(flag)
        return None if config is None else RestClient(config, agent=user_agent(COMPONENT), timeout_s=10.0)

    def _decision_log(self) -> DecisionLog | None:
        flags = self._settings.flags
        if not flags.text("decision-log"):
            return None
        return DecisionLog(
            flags.text("decision-log"),
            sample_rate=flags.fraction("decision-log-sample"),
            max_bytes=flags.number("decision-log-max-size") << 20,
        )

    def _elector(self, client: RestClient, metrics: SchedulerMetrics) -> LeaderElector | None:
        wanted = self._settings.leader_election
        if wanted is None:
            return None
        lease_client = client.sibling(agent=user_agent(COMPONENT, "leader-election"))
        # Events about leases go to the core API, as upstream's do.
        self._lease_events = EventRecorder(lease_client, hostname=socket.gethostname(), legacy=True, workers=1)
        return LeaderElector(lease_client, wanted, recorder=self._lease_events, observer=metrics.observe_leadership)

    async def _serve(
        self, clients: _Clients, live: LiveScheduler, elector: LeaderElector | None
    ) -> EndpointServer | None:
        flags = self._settings.flags
        if not flags.number("secure-port"):
            return None
        scheduler = live.scheduler
        health = default_health()
        if elector is not None:
            health.add("leaderElection", elector.check, "healthz", "readyz")
        health.add("shutdown", lambda: "process is shutting down" if self._is_stopping else None, "readyz")
        health.add("sched-handler-sync", lambda: _unsynced(live), "readyz")
        client_ca = None
        if clients.authentication is not None and not flags.switch("authentication-skip-lookup"):
            client_ca = await client_ca_of_cluster(clients.authentication)
        sources = Sources(
            metrics=scheduler.meters,
            health=health,
            config=lambda: to_wire(completed(scheduler.config, list(self._settings.registry)), redact=True),
            flags=flags.shown,
            pods=lambda: list(scheduler.pods.values()) if self._is_leading else [],
            json_endpoints={"/debug/queue": lambda: queue_content(scheduler)},
        )
        auth = DelegatedAuth(
            clients.authentication,
            clients.authorization,
            always_allow_paths=tuple(flags.words("authorization-always-allow-paths")),
            token_ttl_s=flags.seconds("authentication-token-webhook-cache-ttl"),
            allowed_ttl_s=flags.seconds("authorization-webhook-cache-authorized-ttl"),
            denied_ttl_s=flags.seconds("authorization-webhook-cache-unauthorized-ttl"),
        )
        server = EndpointServer(
            ServingSettings(
                bind_address=flags.text("bind-address"),
                port=flags.number("secure-port"),
                tls=self._settings.tls_files(),
                client_ca=client_ca,
                profiling=self._settings.config.enable_profiling,
            ),
            sources,
            auth,
        )
        await server.start()
        return server


def _unsynced(live: LiveScheduler) -> str | None:
    return None if live.informers.has_synced else "handlers are not fully synchronized"


def run_in_loop(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a coroutine in the fastest event loop that is installed."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())
