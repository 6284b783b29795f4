"""The scheduler as a process: endpoints, leader election, signals, reload and shutdown.

``docs/architecture/threads.md`` lists its threads and everything that two of them share.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from mooring.api.version import __version__
from mooring.live.context import SchedulerOptions
from mooring.live.control import Control, dump
from mooring.live.control_thread import ControlThread, run_in
from mooring.live.leader_election import LeaseLost
from mooring.live.live_scheduler import COMPONENT, HostEnvironment, LiveScheduler
from mooring.live.logs import get_logger
from mooring.live.metrics import SchedulerMetrics
from mooring.live.observer import DecisionLog, LoggedDecisions, SchedulerObserver
from mooring.live.settings import ConfigReloader, Settings, load_configuration
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient, user_agent

if TYPE_CHECKING:
    from mooring.live.serving import EndpointServer, Pages

log = get_logger("mooring.live")

DRAIN_S = 20.0
"""How long bindings in flight may take after SIGTERM; a kubelet kills the process after 30 seconds."""
ABORT_S = 5.0
"""How long the scheduler has to stop after that, or after losing the lease, before the process exits anyway."""
OK, FAILED = 0, 1


class SchedulerProcess:
    """A scheduler process. ``run`` returns its exit code.

    The scheduler works in the loop that calls ``run``. The lease and the endpoints live in their own thread.
    """

    def __init__(
        self,
        settings: Settings,
        client_config: Callable[[], ClientConfig],
        observers: Sequence[SchedulerObserver] = (),
        environment: HostEnvironment | None = None,
        pages: Pages | None = None,
    ) -> None:
        """``client_config`` is called once for each thread: credentials belong to one loop."""
        self._pages = pages
        self._observers = tuple(observers)
        self._host = environment or HostEnvironment()
        self._settings = settings
        self._client_config = client_config
        self._is_stopping = False
        self._is_leading = False
        self._has_lost_lease = False
        self._has_finished = False
        self._ends_hard = False
        self._main: asyncio.Task[None] | None = None
        self._control_thread: ControlThread | None = None
        self._control: Control | None = None
        self.ready = asyncio.Event()  # decisions are being made
        self.live: LiveScheduler | None = None
        self.decision_log: DecisionLog | None = None
        self._reloader: ConfigReloader | None = None

    async def run(self, *, signals: bool = True) -> int:
        """Schedule until a signal arrives (0) or the lease is lost (1); a failed start raises UsageError.

        With ``signals`` the process is exclusively ours: hanging code cannot keep it from exiting.
        """
        self._ends_hard = signals
        settings, host = self._settings, self._host
        metrics = self._metrics()
        client = self._connect(metrics)
        decision_log = self.decision_log = self._decision_log()
        options = SchedulerOptions(
            features=settings.features,
            registry=settings.registry,
            pod_max_in_unschedulable_pods_s=settings.flags.seconds("pod-max-in-unschedulable-pods-duration"),
            observers=self._observers if decision_log is None else (LoggedDecisions(decision_log), *self._observers),
            plugin_timeout_s=settings.flags.seconds("plugin-timeout"),
            attempt_timeout_s=settings.flags.seconds("attempt-timeout"),
            is_fenced=self._is_fenced,
            metrics=metrics,
            limits=host.make_limits(),
            clock=host.clock,
            rng=host.make_rng(),
            pause_thread=time.sleep if signals else None,  # the thread that receives signals is not shared
        )
        live = self.live = LiveScheduler(client, settings.config, options, tune_gc=host.tunes_gc, environment=host)
        self._control_thread = control_thread = host.make_control_thread()
        self._control = control = Control(
            settings,
            live,
            metrics,
            asyncio.get_running_loop(),
            is_stopping=lambda: self._is_stopping,
            is_leading=lambda: self._is_leading,
            environment=host,
            pages=self._pages,
        )
        try:
            await control_thread.run(control.start(self._client_config(), self._give_up if signals else None))
            if decision_log is not None:
                decision_log.start()
            self._main = asyncio.create_task(self._schedule(live, control), name="scheduler")
            with self._signals(live) if signals else contextlib.nullcontext():
                return await self._outcome(self._main)
        finally:
            if self._main is not None and not self._main.done():
                self._main.cancel()
                await asyncio.gather(self._main, return_exceptions=True)
            await live.stop(drain_s=DRAIN_S if self._is_stopping else 0.0)
            await control_thread.run(control.stop())
            control_thread.close()
            if decision_log is not None:
                await decision_log.close()
            await client.close()

    @property
    def server(self) -> EndpointServer | None:
        """The endpoints, once they are served."""
        return None if self._control is None else self._control.server

    def stop(self) -> None:
        """Shut down: make no new decisions, finish bindings in flight, release the lease."""
        self._is_stopping = True
        if self._main is not None:
            self._main.cancel()

    async def _outcome(self, main: asyncio.Task[None]) -> int:
        try:
            await main
        except LeaseLost:
            log.error(None, "Leaderelection lost")
            return FAILED
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            log.info("Stopped")
        return OK

    # ---- the way to the loop -----------------------------------------------------------------------------------

    async def _schedule(self, live: LiveScheduler, control: Control) -> None:
        assert self._control_thread is not None
        here = asyncio.get_running_loop()
        watcher = self._watch_config(live)
        try:
            if control.elector is None or not self._settings.config.delay_cache_until_active:
                await self._sync(live)
            if control.elector is None:
                await self._lead(live)
            else:
                await self._control_thread.run(
                    control.lead(lambda: run_in(here, self._lead(live)), self._on_lease_lost)
                )
        finally:
            if watcher is not None:
                watcher.cancel()

    async def _sync(self, live: LiveScheduler) -> None:
        await live.start()
        while not await live.synced(30.0):
            log.info("Waiting for the first lists", missing=live.informers.missing())
        log.info("Caches are synced", pods=len(live.scheduler.pods))

    async def _lead(self, live: LiveScheduler) -> None:
        if not live.informers.has_synced:
            await self._sync(live)
        if self._control is not None and self._control.elector is not None:
            await live.informers.catch_up()  # with the writes of the previous leader: a list may be older than those
        self._is_leading = True
        self.ready.set()
        try:
            await live.run()
        finally:
            self._is_leading = False
            # On shutdown, drain while holding the lease. After losing it, abort: another replica may be binding.
            if self._is_stopping:
                self._has_finished = await live.scheduler.finish(DRAIN_S)
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

    # ---- the end -----------------------------------------------------------------------------------------------

    def _is_fenced(self) -> bool:
        """Report whether another replica may be leading; asked before every write, which is refused then.

        The invariant: no write leaves this process after its lease may have expired, however late that is noticed. A
        process that was suspended resumes with an expired lease before its own renewal has failed, so the clock of the
        lease, which continues during a suspension, decides here and not the elector's state.
        """
        elector = None if self._control is None else self._control.elector
        if elector is None or self._has_lost_lease:
            return self._has_lost_lease
        # After a clean end the lease is released. Only events about finished bindings are left to be written.
        if not elector.is_expired or self._has_finished:
            return False
        # A renewal is this late only if the process was suspended. The term is over, even if the next renewal would
        # succeed: another replica may have led since.
        assert self._control_thread is not None
        self._on_lease_lost()
        self._control_thread.loop.call_soon_threadsafe(elector.depose)
        return True

    def _on_lease_lost(self) -> None:
        """Fence all writes, and end the process if the scheduler hangs.

        Called in the control thread or in the main thread: setting a flag is all that is shared.
        """
        self._has_lost_lease = True
        self._end_within(ABORT_S, "The scheduler did not stop after the lease was lost")

    async def _give_up(self) -> None:
        """End the process because the scheduler's loop hangs: another replica, or the next process, takes over."""
        self._has_lost_lease = True
        assert self._control is not None
        await self._control.release()
        self._end_now("The scheduling loop hangs and cannot be interrupted")

    def _end_within(self, seconds: float, why: str) -> None:
        """Exit if the process has not ended after ``seconds``; callable in any thread."""
        if self._ends_hard and self._control_thread is not None:
            loop = self._control_thread.loop
            loop.call_soon_threadsafe(loop.call_later, seconds, self._end_now, why)

    def _end_now(self, why: str) -> None:
        log.error(why, "Exiting")
        logging.shutdown()
        os._exit(FAILED)

    @contextlib.contextmanager
    def _signals(self, live: LiveScheduler) -> Any:
        loop = asyncio.get_running_loop()

        def stop(number: int, frame: FrameType | None) -> None:
            # ``signal.signal``, not the loop's handler: it runs in the middle of a decision, even one that hangs.
            if self._is_stopping:
                self._end_now("A second signal came")
            self._is_stopping = True
            log.info("Stopping after a signal")
            loop.call_soon_threadsafe(self.stop)
            self._end_within(DRAIN_S + ABORT_S, "Stopping took too long")

        def hang_up() -> None:
            if self._reloader is not None:
                self._reloader.ask()
            else:
                log.info("SIGHUP: no configuration file to reload")

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        handlers: dict[signal.Signals, Callable[[], None]] = {
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
            for number, previous in before.items():
                signal.signal(number, previous)

    # ---- the parts ---------------------------------------------------------------------------------------------

    def _metrics(self) -> SchedulerMetrics:
        settings = self._settings
        metrics = SchedulerMetrics(version=__version__, features=settings.features)
        unknown = metrics.registry.disable(settings.flags.words("disabled-metrics"))
        for name in unknown or ():
            log.warning("--disabled-metrics: there is no such metric", metric=name)
        return metrics

    def _connect(self, metrics: SchedulerMetrics) -> RestClient:
        connection = self._settings.config.client_connection
        config, host = self._client_config(), self._host
        election = self._settings.leader_election
        if election is not None:
            config = replace(config, arrives_within_s=election.arrives_within_s)
        return RestClient(
            config,
            agent=user_agent(COMPONENT, "scheduler"),
            qps=connection.qps,
            burst=connection.burst,
            observer=metrics,
            transport=host.make_transport(config),
            clock=host.clock,
        )

    def _decision_log(self) -> DecisionLog | None:
        flags = self._settings.flags
        if not flags.text("decision-log"):
            return None
        return DecisionLog(
            flags.text("decision-log"),
            sample_rate=flags.fraction("decision-log-sample"),
            max_bytes=flags.number("decision-log-max-size") << 20,
        )


def run_in_loop(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a coroutine in the fastest event loop that is installed."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())
