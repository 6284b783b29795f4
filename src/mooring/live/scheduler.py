"""Assembly of a scheduler: cluster, queue, plugins, loop, bindings and evictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.errors import MooringError
from mooring.api.meta import Object
from mooring.core.config.features import Features
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.framework.cluster_event import ClusterEvent, EventResource
from mooring.core.framework.extender import ExtenderAnswer, ExtenderClient
from mooring.core.framework.handle import Handle
from mooring.core.framework.runtime import Profile
from mooring.core.queue.events import CONFIGURATION_CHANGE
from mooring.core.queue.nominator import QueueNominator
from mooring.core.queue.pod_group_queue import PodGroupQueue
from mooring.core.queue.scheduling_queue import QueueOptions, SchedulingQueue
from mooring.core.session import Session, open_session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.live.context import SchedulerContext, SchedulerOptions, SchedulerWriter
from mooring.live.event_handlers import LiveEventHandlers
from mooring.live.events import EventWriter
from mooring.live.extenders import ObservedExtender
from mooring.live.logs import get_logger
from mooring.live.meters import Meters
from mooring.live.observer import Observers
from mooring.live.preemption import PreemptionExecutor
from mooring.live.schedule_one import PodAttempts
from mooring.live.scheduling_loop import SchedulingLoop
from mooring.live.time_limits import limit_plugins
from mooring.net.extender.client import AskTogether

log = get_logger("mooring.live")


class Scheduler:
    """Everything between the watches and the writes; ``run`` is the loop.

    Informers call ``put``, ``update`` and ``delete``; there is no other input. While another thread makes a decision,
    changes are deferred. ``make_writer`` gets the newest version of every pod from the watch, by ``namespace/name``.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        make_writer: Callable[[dict[str, Pod]], SchedulerWriter],
        recorder: EventWriter,
        options: SchedulerOptions | None = None,
    ) -> None:
        self.options = options = options or SchedulerOptions()
        self.config = config
        self.cluster = ClusterState()
        self.pods: dict[str, Pod] = {}
        self._nominator = QueueNominator(known=self.pods.get)
        self.heard: list[list[ExtenderAnswer]] = []  # extender answers, for each observer that added a list
        self.drawn: list[list[int]] = []  # random numbers, likewise
        self._draws: list[int] = []  # from how many each of them was drawn, in this attempt
        self.meters = Meters(options.metrics, options.clock)
        options.limits.on_timeout = self.meters.timed_out
        own_observers = (self.meters,) if options.is_metered else ()
        self._observers = observers = Observers((*own_observers, *options.observers))
        if observers.event:
            recorder.observers = observers.event
        self._context = context = SchedulerContext(options, make_writer(self.pods), recorder, observers, self.pods)
        self.waiting_pods = context.waiting_pods
        self.preemptions = PreemptionExecutor(context)
        # Plugins are built before the queue, which takes its order and hints from them; the binding cycle is built
        # last.
        self._context.session = self._build(config, None)
        self.queue = context.queue = queue = self._make_queue()
        self._attempts = PodAttempts(
            context, self.preemptions, on_cut_off=self._rebuild_session, draws=self._draws, draw=self._pick
        )
        self._loop = SchedulingLoop(context, self._attempts)
        context.wake = queue.on_ready = self._loop.wake
        groups = {EventResource.POD_GROUP, EventResource.COSCHEDULING_POD_GROUP}
        gang_scheduling = bool(groups & self.resources)
        self._handlers = handlers = LiveEventHandlers(context, self.preemptions, gang_scheduling=gang_scheduling)
        if options.is_metered:
            handlers.observe(self.meters.event_handled, options.clock)
        self.put, self.update, self.delete = handlers.put, handlers.update, handlers.delete  # what informers call
        self.meters.follow(queue, self.cluster, hanging=lambda: self._attempts.hanging)
        self._tell_configured()

    def _make_queue(self) -> SchedulingQueue:
        options, moved = self.options, self._observers.moved
        make = PodGroupQueue if options.features["GenericWorkload"] else SchedulingQueue
        queue = make(
            self.session.queue_profiles(),
            options.clock,
            options=self._queue_options(self.config),
            recorder=self.meters if options.is_metered else None,
            nominator=self._nominator,
        )
        queue.preemptions = self.preemptions
        if len(moved) == 1:
            (queue.on_move,) = moved
        elif moved:
            queue.on_move = lambda *move: _tell_all(moved, move)
        return queue

    # ---- at work -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule until cancelled; bindings in flight continue: see ``finish`` and ``abort``."""
        await self._loop.run()

    @property
    def schedule_one(self) -> Callable[..., None]:
        """Try one popped pod; for callers with their own loop."""
        return self._attempts.schedule_one

    @property
    def decisions(self) -> int:
        """Number of attempts so far."""
        return self._attempts.decisions

    @property
    def hanging(self) -> int:
        """Number of decisions that hang in abandoned threads."""
        return self._attempts.hanging

    @property
    def in_flight(self) -> int:
        """Number of bindings and other writes in flight."""
        return len(self._context.tasks)

    def unconfirmed(self) -> list[PodInfo]:
        """The pods with an acknowledged binding that the watch shows without a node."""
        return [pod for pod in self.cluster.assumed() if pod.uid not in self._attempts.under_way]

    def requeue(self, pod: PodInfo) -> None:
        """Release what a pod holds and queue it again, as if it were recreated: its binding is lost."""
        self._context.changes(self._requeue, pod)

    def _requeue(self, pod: PodInfo) -> None:
        known = self.pods.get(pod.pod.key)
        is_unconfirmed = self.cluster.is_assumed(pod.uid) and self.cluster.pod(pod.uid) is pod
        if is_unconfirmed and known is not None and known.uid == pod.uid:
            self._handlers.forget(known)
            self._handlers.take_in(known)

    async def drain(self, timeout_s: float) -> bool:
        """Wait for bindings and other writes in flight; false after the timeout."""
        return await self._context.tasks.drain(timeout_s)

    async def finish(self, timeout_s: float) -> bool:
        """Shut down: wait for writes in flight; pods that wait on permit are left to the next scheduler."""
        for waiting in self.waiting_pods.all():
            waiting.abandon()
        return await self._context.tasks.drain(timeout_s)

    async def abort(self) -> None:
        """Cancel everything immediately: the lease is lost, and another replica may be binding the same pods."""
        await self._context.tasks.abort()

    def close(self) -> None:
        """Close the connections to extenders; a later call opens new ones."""
        for extender in self._context.session.handle.extenders:
            close = getattr(extender, "close", None)
            if close is not None:
                close()

    # ---- what observers read -----------------------------------------------------------------------------------

    @property
    def features(self) -> Features:
        return self.options.features

    @property
    def clock(self) -> Clock:
        return self.options.clock

    def _pick(self, n: int) -> int:
        drawn = self.options.rng.randrange(n)
        self._draws.append(n)
        for each in self.drawn:
            each.append(drawn)
        return drawn

    # ---- configuration -----------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The current engine and profiles."""
        return self._context.session

    @property
    def extenders(self) -> Sequence[ExtenderClient]:
        return self._context.session.handle.extenders

    @property
    def profiles(self) -> dict[str, Profile]:
        return self._context.session.profiles

    @property
    def resources(self) -> set[EventResource]:
        """The kinds that plugins of any profile register for."""
        return {hint.event.resource for profile in self.session.queue_profiles() for hint in profile.hints}

    def reload(self, config: KubeSchedulerConfiguration) -> None:
        """Switch to another configuration, or raise ConfigError and keep the old one.

        Pods in their binding cycle keep the profiles that decided them.
        """
        session = self._build(config, self._context.session)
        self.config = config
        self._context.changes(self._take_over, session, True)
        self._context.changes(self._tell_configured)

    def _tell_configured(self) -> None:
        for tell in self._observers.configured:
            tell(self)

    def reconsider(self) -> None:
        """Make every pending pod eligible for a retry after a change that is not an event."""
        self._context.changes(self.queue.move_all, CONFIGURATION_CHANGE)

    def wake(self) -> None:
        """Tell the loop that there may be a pod to decide."""
        self._loop.wake()

    def _rebuild_session(self) -> None:
        """Rebuild plugins and engine after an interrupted attempt, which may have left their state inconsistent."""
        try:
            session = self._build(self.config, self._context.session)
        except MooringError as error:
            log.error(error, "Failed to rebuild plugins after an attempt timed out")
            return
        self._take_over(session, False)

    def _take_over(self, session: Session, is_changed: bool) -> None:
        self.close()
        self._context.session = session
        self.queue.replace_profiles(session.queue_profiles(), wake=is_changed)
        if is_changed:
            self._handlers.take_in_pending()

    def _free(self, event: ClusterEvent, before: Object, after: Object) -> None:
        self._attempts.freed(event, before, after)  # created after the first plugins

    def _build(self, config: KubeSchedulerConfiguration, before: Session | None) -> Session:
        def prepare(handle: Handle) -> None:
            handle.writer = self._context.writer
            handle.preemptions = self.preemptions
            handle.waiting_pods = self.waiting_pods
            handle.pods = self.pods
            handle.free = self._free
            handle.claims_are_served = self.options.claims_are_served
            handle.meters = self.meters.profile
            handle.pick = self._pick
            if before is not None:
                handle.devices = before.handle.devices  # has the reservations of pods in their binding cycle

        session = open_session(
            config,
            self.cluster,
            clock=self.options.clock,
            nominator=self._nominator,
            registry=self.options.registry,
            features=self.options.features,
            prepare=prepare,
            extenders=[ObservedExtender(extender, self.heard) for extender in self.options.extenders(config)],
            ask_all=AskTogether(),
        )
        for name, profile in session.profiles.items():
            if self.options.is_metered:
                profile.observer = self.meters.profile(name)
            limit_plugins(profile, self.options.limits, self.options.plugin_timeout_s)
        return session

    def _queue_options(self, config: KubeSchedulerConfiguration) -> QueueOptions:
        features = self.options.features
        return QueueOptions(
            pod_initial_backoff_s=config.pod_initial_backoff_seconds,
            pod_max_backoff_s=config.pod_max_backoff_seconds,
            pod_max_in_unschedulable_pods_s=self.options.pod_max_in_unschedulable_pods_s,
            pop_from_backoff=features["SchedulerPopFromBackoffQ"],
            gated_hold_nomination=features["GatedPodsHoldTheirNomination"],
            whole_resizes=features["ResizesCountWholePods"],
            tells_growth=features["EventsTellGrowth"],
        )


def _tell_all(listeners: Sequence[Callable[..., None]], what: tuple[object, ...]) -> None:
    for tell in listeners:
        tell(*what)
