"""The scheduler put together: cluster, queue, plugins, loop, bindings, evictions, and what each needs of the others."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mooring.api.clock import Clock, SystemClock
from mooring.api.core import Pod
from mooring.api.errors import MooringError
from mooring.api.meta import Object
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.framework.cluster_event import ClusterEvent, EventResource
from mooring.core.framework.extender import ExtenderAnswer, ExtenderClient
from mooring.core.framework.handle import BindWriter, Handle
from mooring.core.framework.registry import Registry
from mooring.core.framework.runtime import Profile
from mooring.core.queue.events import CONFIGURATION_CHANGE
from mooring.core.queue.nominator import QueueNominator
from mooring.core.queue.pod_group_queue import PodGroupQueue
from mooring.core.queue.scheduling_queue import QueueOptions, SchedulingQueue
from mooring.core.session import Session, open_session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.live.attempt import PreBinding, WaitingPods
from mooring.live.binding import BindingCycle
from mooring.live.event_handlers import EventHandlers, view_of
from mooring.live.events import Recorder
from mooring.live.failure import Failures
from mooring.live.heard_extenders import Overheard
from mooring.live.logs import get_logger
from mooring.live.meters import Meters
from mooring.live.metrics import SchedulerMetrics
from mooring.live.observer import Observers, SchedulerObserver
from mooring.live.pod_groups import GroupAttempts, GroupWriter
from mooring.live.preemption import PodWriter, PreemptionExecutor
from mooring.live.schedule_one import SchedulingLoop
from mooring.live.status_patch import StatusPatches
from mooring.live.tasks import Tasks, Turnstile
from mooring.live.time_limits import TimeLimits, limit_plugins
from mooring.net.extender.client import AskTogether

log = get_logger("mooring.live")


class Writer(BindWriter, PodWriter, GroupWriter, Protocol):
    """What the scheduler itself writes; VolumeBinding and DynamicResources ask for more where they are used."""


def _extenders_of(config: KubeSchedulerConfiguration) -> Sequence[ExtenderClient]:
    if not config.extenders:  # few have any: their client is loaded when it is needed
        return ()
    from mooring.net.extender.client import build_extenders

    return build_extenders(config.extenders)


@dataclass(slots=True)
class SchedulerOptions:
    """What does not come from the configuration file."""

    features: Features = DEFAULT_FEATURES
    registry: Registry | None = None
    pod_max_in_unschedulable_pods_s: float = 300.0
    extenders: Callable[[KubeSchedulerConfiguration], Sequence[ExtenderClient]] = _extenders_of
    observers: Sequence[SchedulerObserver] = ()  # beside the metrics
    plugin_timeout_s: float = 10.0  # per call of a plugin that is not mooring's own; 0: no limit
    attempt_timeout_s: float = 15.0  # per attempt to find a node for a pod; 0: no limit
    limits: TimeLimits = field(default_factory=TimeLimits)
    claims_are_served: Callable[[], bool] = lambda: True  # whether the API server has resource.k8s.io/v1
    condition_turn: Callable[[], Awaitable[None]] | None = None  # waited for before a pod's condition is patched
    is_held: Callable[[], bool] = lambda: False  # asked before each turn: whether what is known is of the past
    is_fenced: Callable[[], bool] = lambda: False  # asked before each write: whether another replica may lead
    metrics: SchedulerMetrics = field(default_factory=SchedulerMetrics)
    is_metered: bool = True  # whether metrics are counted: a simulation has no use for them
    writes_at_once: bool = False  # whether most writes are carried out without waiting: in a simulation
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random)
    stand_still: Callable[[float], None] | None = None  # blocks the scheduler's thread, if nobody else needs it


class Scheduler:
    """Everything between the watches and the writes; ``run`` is the loop.

    Informers call ``put``, ``update`` and ``delete``: there is no other way in. While a decision is being made in
    another thread, what they say waits. ``make_writer`` is given what the watch last said of every pod, by
    ``namespace/name``.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        make_writer: Callable[[dict[str, Pod]], Writer],
        recorder: Recorder,
        options: SchedulerOptions | None = None,
    ) -> None:
        self.options = options = options or SchedulerOptions()
        self.config = config
        self.cluster = ClusterState()
        self.waiting_pods = WaitingPods()
        self.pods: dict[str, Pod] = {}
        self.heard: list[list[ExtenderAnswer]] = []  # what extenders answered, in the same way
        self.drawn: list[list[int]] = []  # random numbers, for each observer that added a list of its own
        self.meters = Meters(options.metrics, options.clock)
        self._clock = clock = options.clock
        self._writer = make_writer(self.pods)
        self._tasks = Tasks(clock, at_once=options.writes_at_once)
        self._turnstile = turnstile = Turnstile()
        self._nominator = QueueNominator(known=self.pods.get)
        self._observers = observers = Observers((*((self.meters,) if options.is_metered else ()), *options.observers))
        options.limits.on_timeout = self.meters.timed_out
        if observers.event:
            recorder.observers = observers.event
        pre_binding: dict[str, PreBinding] = {}
        self.preemptions = PreemptionExecutor(
            self._writer,
            recorder,
            self.waiting_pods,
            pre_binding,
            self.pods,
            observers,
            clock,
            nominated_pods=self._nominator.nominated_pods,
            activate=lambda pods: turnstile(self.queue.activate, pods),
            set_back=lambda pod: turnstile(self.queue.set_back, pod),
            is_gated=self._is_gated_by,
            has_room=lambda uid: self.cluster.pod(uid) is not None,
            spawn=self._tasks.spawn,
            wakes_after_waiting=options.features["WaitingVictimsWake"],
        )
        session = self._build(config, None)
        make_queue = PodGroupQueue if options.features["GenericWorkload"] else SchedulingQueue
        self.queue = queue = make_queue(
            session.queue_profiles(),
            clock,
            options=self._queue_options(config),
            recorder=self.meters if options.is_metered else None,
            nominator=self._nominator,
        )
        patches = StatusPatches(self._writer, self._tasks, options.condition_turn)
        self._failures = failures = Failures(
            self.cluster,
            queue,
            self.pods,
            patches,
            self.preemptions,
            recorder,
            observers,
            self._tasks,
            turnstile,
            clock,
            wake=self.wake,
            evicts_in_background=options.features["SchedulerAsyncPreemption"],
        )
        self.binding = BindingCycle(
            self.waiting_pods,
            patches,
            self.pods,
            recorder,
            observers,
            clock,
            pre_binding,
            done=turnstile.through(queue.done),
            activate=turnstile.through(queue.activate),
            on_failure=turnstile.through(failures.binding_failed),
            nominates_in_advance=options.features["NominatedNodeNameForExpectation"],
        )
        self._loop = SchedulingLoop(
            session,
            self.cluster,
            queue,
            self.pods,
            self.waiting_pods,
            self.binding,
            failures,
            observers,
            self._tasks,
            turnstile,
            options.limits,
            clock,
            attempt_timeout_s=options.attempt_timeout_s,
            on_cut_off=self._start_afresh,
            is_held=options.is_held,
            stand_still=options.stand_still,
        )
        if isinstance(queue, PodGroupQueue):
            self._loop.groups = GroupAttempts(
                self.cluster,
                queue,
                failures,
                self._writer,
                observers,
                self._tasks,
                clock,
                place=self._loop.place,
                handles=queue.handles,
                groups_have_policy=options.features["PodGroupPreemptionPolicy"],
            )
        queue.on_ready = self._loop.wake
        queue.shut_gates, self.preemptions.on_open = self.preemptions.shut_gates, queue.opened
        if len(observers.moved) == 1:
            (queue.on_move,) = observers.moved
        elif observers.moved:
            queue.on_move = lambda *move: _tell_all(observers.moved, move)
        self._handlers = EventHandlers(
            self.cluster,
            queue,
            reject_waiting_pod=self.waiting_pods.reject_deleted,
            on_leaving=self.preemptions.victim_goes,
            declared_features=options.features["NodeDeclaredFeatures"],
            gang_scheduling=bool(_GROUPS & self.resources),
            pods=self.pods,
            observer=self.meters.event_handled if options.is_metered else None,
            clock=clock,
        )
        self._view = view_of(options.features)
        self._take_in, self._forget = self._handlers.put, self._handlers.delete
        if observers.put or observers.delete:
            self._take_in, self._forget = self._observed_put, self._observed_delete
        self.meters.follow(queue, self.cluster, hanging=lambda: self._loop.hanging)
        self._tell_configured()

    # ---- what informers call -----------------------------------------------------------------------------------

    def put(self, obj: Object) -> None:
        """An object is new or has changed."""
        if self._view is not None:
            obj = self._view(obj)
        if self._turnstile.is_closed:
            self._turnstile(self._take_in, obj)
        else:  # nearly always; without another call
            self._take_in(obj)

    def update(self, old: Object, new: Object) -> None:
        self.put(new)

    def delete(self, obj: Object) -> None:
        """An object is gone."""
        self._turnstile(self._forget, obj if self._view is None else self._view(obj))

    def _observed_put(self, obj: Object) -> None:
        for tell in self._observers.put:
            tell(obj)
        self._handlers.put(obj)

    def _observed_delete(self, obj: Object) -> None:
        for tell in self._observers.delete:
            tell(obj)
        self._handlers.delete(obj)

    # ---- at work -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule until cancelled; what is on its way then goes on: see ``finish`` and ``abort``."""
        await self._loop.run()

    @property
    def schedule_one(self) -> Callable[..., None]:
        """Try one pod that was popped from the queue; for those who are a loop themselves."""
        return self._loop.schedule_one

    @property
    def decisions(self) -> int:
        """How many attempts were made."""
        return self._loop.decisions

    @property
    def hanging(self) -> int:
        """How many decisions hang in threads that were left behind."""
        return self._loop.hanging

    @property
    def in_flight(self) -> int:
        """How many bindings and other writes are under way."""
        return len(self._tasks)

    def unconfirmed(self) -> list[PodInfo]:
        """The pods whose binding was acknowledged, and which the watch shows without a node."""
        return [pod for pod in self.cluster.assumed() if pod.uid not in self.binding.under_way]

    def bring_back(self, pod: PodInfo) -> None:
        """Free what a pod holds and queue it again, for its binding is lost: as one that is deleted and made anew."""
        self._turnstile(self._bring_back, pod)

    def _bring_back(self, pod: PodInfo) -> None:
        known = self.pods.get(pod.pod.key)
        is_unconfirmed = self.cluster.is_assumed(pod.uid) and self.cluster.pod(pod.uid) is pod
        if is_unconfirmed and known is not None and known.uid == pod.uid:
            self._forget(known)
            self._take_in(known)

    async def drain(self, timeout_s: float) -> bool:
        """Wait for bindings and other writes under way; false if that takes too long."""
        return await self._tasks.drain(timeout_s)

    async def finish(self, timeout_s: float) -> bool:
        """End cleanly: what is being written is waited for, pods that wait on permit are left to the next scheduler."""
        for waiting in self.waiting_pods.all():
            waiting.abandon()
        return await self._tasks.drain(timeout_s)

    async def abort(self) -> None:
        """Stop everything under way at once: the lease is lost, and another replica may be binding the same pods."""
        await self._tasks.abort()

    def close(self) -> None:
        """Close the connections to extenders; one that is asked once more opens another."""
        for extender in self._loop.session.handle.extenders:
            close = getattr(extender, "close", None)
            if close is not None:
                close()

    # ---- what observers read -----------------------------------------------------------------------------------

    @property
    def features(self) -> Features:
        return self.options.features

    @property
    def clock(self) -> Clock:
        return self._clock

    def _pick(self, n: int) -> int:
        drawn = self.options.rng.randrange(n)
        for each in self.drawn:
            each.append(drawn)
        return drawn

    # ---- configuration -----------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The engine and its profiles, as they are now."""
        return self._loop.session

    @property
    def extenders(self) -> Sequence[ExtenderClient]:
        return self._loop.session.handle.extenders

    @property
    def profiles(self) -> dict[str, Profile]:
        return self._loop.session.profiles

    @property
    def resources(self) -> set[EventResource]:
        """The kinds that plugins of some profile want to hear of."""
        return {hint.event.resource for profile in self._loop.session.queue_profiles() for hint in profile.hints}

    def reload(self, config: KubeSchedulerConfiguration) -> None:
        """Go on with another configuration, or raise ConfigError and go on with the old one.

        Pods that are being bound are bound by the profiles that decided.
        """
        session = self._build(config, self._loop.session)
        self.config = config
        self._turnstile(self._take_over, session, True)
        self._turnstile(self._tell_configured)

    def _tell_configured(self) -> None:
        for tell in self._observers.configured:
            tell(self)

    def reconsider(self) -> None:
        """Give every waiting pod another chance: something has changed that is no event."""
        self._turnstile(self.queue.move_all, CONFIGURATION_CHANGE)

    def wake(self) -> None:
        """Say that there may be something to decide."""
        self._loop.wake()

    def _start_afresh(self) -> None:
        """Make plugins and engine anew: the attempt was cut off anywhere, and what they remember may be half done."""
        try:
            session = self._build(self.config, self._loop.session)
        except MooringError as error:
            log.error(error, "Plugins could not be made anew after an attempt ran out of time")
            return
        self._take_over(session, False)

    def _take_over(self, session: Session, is_changed: bool) -> None:
        self.close()
        self._loop.session = session
        self.queue.replace_profiles(session.queue_profiles(), wake=is_changed)
        if is_changed:
            self._handlers.take_in_pending()

    def _free(self, event: ClusterEvent, before: Object, after: Object) -> None:
        self._failures.freed(event, before, after)  # which are made later than the first plugins

    def _build(self, config: KubeSchedulerConfiguration, before: Session | None) -> Session:
        def prepare(handle: Handle) -> None:
            handle.writer = self._writer
            handle.preemptions = self.preemptions
            handle.waiting_pods = self.waiting_pods
            handle.pods = self.pods
            handle.free = self._free
            handle.claims_are_served = self.options.claims_are_served
            handle.meters = self.meters.profile
            handle.pick = self._pick
            if before is not None:
                handle.devices = before.handle.devices  # knows what is reserved for pods that are being bound

        session = open_session(
            config,
            self.cluster,
            clock=self._clock,
            nominator=self._nominator,
            registry=self.options.registry,
            features=self.options.features,
            prepare=prepare,
            extenders=[Overheard(extender, self.heard) for extender in self.options.extenders(config)],
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

    def _is_gated_by(self, pod: Pod, plugin: str) -> bool:
        info = self.queue.get(pod.key)
        return info is not None and info.uid == pod.uid and info.gating_plugin == plugin


_GROUPS = {EventResource.POD_GROUP, EventResource.COSCHEDULING_POD_GROUP}


def _tell_all(listeners: Sequence[Callable[..., None]], what: tuple[object, ...]) -> None:
    for tell in listeners:
        tell(*what)
