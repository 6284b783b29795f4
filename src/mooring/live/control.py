"""The control thread's side of a scheduler process: the lease and the endpoints.

Everything here has its own connections and never waits for the scheduler's thread without a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mooring.api.core import Node
from mooring.api.times import format_time
from mooring.core.config.wire import completed, to_wire
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_info import NodeInfo
from mooring.live.control_thread import Heartbeat, ask
from mooring.live.events import EventRecorder
from mooring.live.leader_election import LeaderElector
from mooring.live.live_scheduler import COMPONENT, HostEnvironment, LiveScheduler
from mooring.live.logs import get_logger
from mooring.live.metrics import SchedulerMetrics
from mooring.live.scheduler import Scheduler
from mooring.live.serving_auth import DelegatedAuth, client_ca_of_cluster
from mooring.live.settings import Settings
from mooring.net.informer import InformerSet
from mooring.net.kubeconfig import ClientConfig
from mooring.net.prometheus import MetricsRegistry
from mooring.net.rest import RestClient, user_agent
from mooring.net.tls import self_signed_elsewhere

if TYPE_CHECKING:
    from mooring.live.serving import EndpointServer, Pages, Sources


# --------------------------------------------------------------------------------------------------------------------
# What a running scheduler reports about itself: its queue, and whether its cache agrees with the watches (SIGUSR2).


def queue_content(scheduler: Scheduler) -> dict[str, Any]:
    """Return all pending pods: since when they wait, why, and which events would wake them."""
    pods = [
        {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "schedulerName": pod.scheduler_name,
            "queue": pod.queue,
            "priority": pod.priority,
            "attempts": pod.attempts,
            "added": format_time(pod.added),
            "since": format_time(pod.since),
            "backoffLeftSeconds": round(pod.backoff_left_s, 3),
            "plugins": list(pod.plugins),
            "message": pod.message,
            "wakes": list(pod.wakes),
        }
        | ({"group": pod.group} if pod.group else {})
        for pod in scheduler.queue.pending_pods()
    ]
    waiting = [
        {"pod": waiting.pod.pod.key, "node": waiting.node_name, "plugins": list(waiting.pending_plugins)}
        for waiting in scheduler.waiting_pods.all()
    ]
    return {
        "schedulers": list(scheduler.profiles),
        "counts": scheduler.queue.counts(),
        "pods": pods,
        "waitingOnPermit": waiting,
    }


def dump(scheduler: Scheduler, informers: InformerSet) -> None:
    """Compare the cache with the watches, and log both and the queue."""
    cluster = scheduler.cluster
    cached_nodes = {name for name, info in cluster.table.nodes.items() if info.node is not None}
    _compare("nodes", cached_nodes, {node.name for node in informers["nodes"] if isinstance(node, Node)})
    cached = {pod.pod.key for pod in cluster.pods() if not cluster.is_assumed(pod.uid)}
    _compare("pods", cached, {pod.key for pod in informers["pods"] if pod.spec.node_name})
    for name in sorted(cached_nodes):
        info = cluster.table.nodes[name]
        log.info("Dump of cached NodeInfo", node=name, count=len(info.pods), pods=_keys(cluster, info))
    for pod in scheduler.queue.pending_pods():
        key = f"{pod.namespace}/{pod.name}"
        log.info("Dump of scheduling queue", pod=key, queue=pod.queue, attempts=pod.attempts)


def _compare(what: str, cached: set[str], watched: set[str]) -> None:
    missing, redundant = sorted(watched - cached), sorted(cached - watched)
    if missing or redundant:
        log.warning(f"Cache mismatch of {what}", missing=missing, redundant=redundant)
    else:
        log.info(f"Cache of {what} agrees with the watches", count=len(cached))


def _keys(cluster: ClusterState, info: NodeInfo) -> str:
    return " ".join(pod.pod.key + (" (assumed)" if cluster.is_assumed(uid) else "") for uid, pod in info.pods.items())


log = get_logger("mooring.live")
T = TypeVar("T")

ANSWER_S = 2.0
"""How long an endpoint waits for the scheduler's thread before it answers without it.
"""
MARGIN_S = 5.0
MAX_HANGING = 8
"""Number of hanging threads from which the process counts as unhealthy."""
FAILING_S = 60.0
"""How long one kind may fail to be listed and watched. A restarted API server is back within a minute."""
LONG_S = 60.0
"""How long the scheduler's loop may be busy where an attempt has no limit."""


class ForwardedRequests:
    """Count the lease's requests in the scheduler's thread, which owns these metrics."""

    def __init__(self, metrics: SchedulerMetrics, main: asyncio.AbstractEventLoop) -> None:
        self._metrics, self._main = metrics, main

    def requested(self, host: str, method: str, code: str, duration_s: float, sent: int, received: int) -> None:
        self._forward(self._metrics.requested, host, method, code, duration_s, sent, received)

    def held_back(self, host: str, method: str, seconds: float) -> None:
        self._forward(self._metrics.held_back, host, method, seconds)

    def _forward(self, count: Callable[..., None], *what: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the scheduler's loop has ended
            self._main.call_soon_threadsafe(count, *what)


class Control:
    """The lease and the endpoints. Created and used in the control thread's loop unless a method says otherwise."""

    def __init__(
        self,
        settings: Settings,
        live: LiveScheduler,
        metrics: SchedulerMetrics,
        main: asyncio.AbstractEventLoop,
        *,
        is_stopping: Callable[[], bool],
        is_leading: Callable[[], bool],
        environment: HostEnvironment | None = None,
        pages: Pages | None = None,
    ) -> None:
        self._settings = settings
        self._pages = pages or {}
        self._host = environment or HostEnvironment()
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
        self.heartbeat = Heartbeat(main, late_s, self._host.clock)
        self.elector: LeaderElector | None = None
        self.server: EndpointServer | None = None

    async def start(
        self, client_config: ClientConfig, on_hang: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        """Serve the endpoints and watch the scheduler's loop; ``on_hang`` is called when that loop hangs for good."""
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
        """Release the lease immediately, whatever the scheduler is doing: the process is about to end."""
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
        connection, host = self._settings.config.client_connection, self._host
        self._lease_client = client = RestClient(
            client_config,
            agent=user_agent(COMPONENT, "leader-election"),
            # Nothing may delay the lease: no client-side rate limit, which its events would use up, and no Retry-After.
            # The elector sends at most two requests every two seconds, and retries by itself.
            qps=-1,
            heeds_retry_after=False,
            observer=ForwardedRequests(self._metrics, self._main),
            transport=host.make_transport(client_config),
            clock=host.clock,
        )
        # Events about leases go to the core API, as upstream's do.
        self._lease_events = EventRecorder(
            client.sibling(qps=connection.qps, burst=connection.burst, is_paperwork=True),
            hostname=host.hostname,
            legacy=True,
            workers=1,
            clock=host.clock,
            rng=host.make_rng(),
        )
        self.elector = LeaderElector(
            client,
            wanted,
            identity=host.identity,
            recorder=self._lease_events,
            observer=self._metrics.observe_leadership,
            clock=host.lease_clock,
            rng=host.make_rng(),
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
        from mooring.live.serving import EndpointServer, ServingSettings

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
        from mooring.live.serving import Sources, default_health

        live, scheduler = self._live, self._live.scheduler
        health = default_health()
        if self.elector is not None:
            health.add("leaderElection", self.elector.check, "healthz", "readyz")
        health.add("scheduling", self.heartbeat.check, "healthz", "livez", "readyz")
        health.add("decisions", lambda: _too_many_hang(scheduler.hanging), "healthz", "livez", "readyz")
        health.add("shutdown", lambda: "process is shutting down" if self._is_stopping() else None, "readyz")
        health.add("sched-handler-sync", lambda: _unsynced(live), "readyz")
        # Upstream has informer checks in readyz, and nothing that depends on the API server in livez: a restart does
        # not bring the API server back, and the next process would begin without a cache. /healthz also shows it, for
        # monitors of that path.
        health.add("watches", lambda: live.informers.failing(FAILING_S), "healthz", "readyz")
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


# --------------------------------------------------------------------------------------------------------------------
# Health checks: named questions behind /healthz, /livez and /readyz, with upstream's texts.

Check = Callable[[], str | None]
"""Returns what is wrong, or None."""


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    status: int
    body: str


def ping() -> str | None:
    """Pass whenever the process can answer at all."""
    return None


class HealthChecks:
    """The checks of one process by path: ``healthz``, ``livez``, ``readyz``; each is counted for /metrics/slis."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {"healthz": {}, "livez": {}, "readyz": {}}
        self.registry = MetricsRegistry()
        self._results = self.registry.gauge(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
            ("type", "name"),
        )
        self._counts = self.registry.counter(
            "kubernetes_healthchecks_total",
            "[STABLE] This metric records the results of all healthcheck.",
            ("type", "name", "status"),
        )

    def add(self, name: str, check: Check, *paths: str) -> None:
        """Add a check to some of the paths."""
        for path in paths:
            self._checks[path][name] = check

    def names(self, path: str) -> list[str]:
        return list(self._checks[path])

    def run(self, path: str, *, verbose: bool = False, exclude: Sequence[str] = ()) -> HealthVerdict:
        """Ask all checks of a path."""
        lines: list[str] = []
        failed: list[str] = []
        unknown = [name for name in exclude if name not in self._checks[path]]
        for name in self._checks[path]:
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok\n")
                continue
            problem = self._ask(path, name)
            if problem is None:
                lines.append(f"[+]{name} ok\n")
            else:
                failed.append(f"{name}: {problem}")
                lines.append(f"[-]{name} failed: reason withheld\n")
        if unknown:
            quoted = ", ".join(f'"{name}"' for name in sorted(unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}\n")
        if failed:
            log.info(f"{path} check failed", checks="; ".join(failed))
            return HealthVerdict(500, f"{''.join(lines)}{path} check failed\n")
        if not verbose:
            return HealthVerdict(200, "ok")
        return HealthVerdict(200, f"{''.join(lines)}{path} check passed\n")

    def run_one(self, path: str, name: str) -> HealthVerdict | None:
        """Run one check; None if there is no such check."""
        if name not in self._checks.get(path, {}):
            return None
        problem = self._ask(path, name)
        return (
            HealthVerdict(200, "ok") if problem is None else HealthVerdict(500, f"internal server error: {problem}\n")
        )

    def _ask(self, path: str, name: str) -> str | None:
        try:
            problem = self._checks[path][name]()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        self._results.labels(path, name).set(float(problem is None))
        self._counts.labels(path, name, "success" if problem is None else "error").inc()
        return problem

    def render_slis(self) -> bytes:
        """Render the results of all checks so far, for /metrics/slis."""
        return self.registry.render().encode()
