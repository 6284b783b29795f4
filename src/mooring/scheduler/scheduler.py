"""The scheduler: takes pods from the queue, decides, and sends them on their way, one after another.

```
queue.pop ─▶ engine.decide ─▶ assume ─▶ reserve ─▶ permit ─▶ a task: wait, pre-bind, bind, post-bind
                   │                       │          │                        │
                   └── no node ────────────┴──────────┴──── failed ────────────┘
                            └──▶ back into the queue, an event, the pod's condition
```

The loop never waits for the API server. It decides for a few milliseconds and then lets everybody else have a turn:
watches, bindings, the endpoints.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.clock import Clock, SystemClock
from mooring.config.duration import format_duration
from mooring.config.features import DEFAULT_FEATURES, Features
from mooring.config.types import KubeSchedulerConfiguration
from mooring.engine.build import Built, build
from mooring.engine.decision import NO_NODES, Decision, Outcome
from mooring.errors import ApiError, MooringError
from mooring.extender.ask_together import AskTogether
from mooring.extender.client import build_extenders
from mooring.framework.cluster_event import EventResource
from mooring.framework.cycle_state import PODS_TO_ACTIVATE
from mooring.framework.extender import Extender
from mooring.framework.handle import Handle
from mooring.framework.handle import Writer as BindWriter
from mooring.framework.registry import Registry
from mooring.framework.runtime import Profile
from mooring.framework.status import Status
from mooring.framework.traces import place_of
from mooring.observe.decision_log import DecisionLog
from mooring.observe.events import EventRecorder
from mooring.observe.logs import get_logger
from mooring.observe.metrics import SchedulerMetrics
from mooring.queue.events import ASSIGNED_POD_DELETE
from mooring.queue.nominator import QueueNominator
from mooring.queue.profile import QueueProfile, from_runtime
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.queue.scheduling_queue import QueueOptions, SchedulingQueue
from mooring.scheduler import plugin_calls
from mooring.scheduler.attempt import SCHEDULER_ERROR, Failure, Placement
from mooring.scheduler.binding import BindingCycle, PreBinding
from mooring.scheduler.decision_thread import DecisionThread, ThreadLeft
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.log_entry import log_entry
from mooring.scheduler.meters import Meters
from mooring.scheduler.preemption_executor import PodWriter, Preemption, PreemptionExecutor
from mooring.scheduler.status_patch import Patch, pod_scheduled, status_patch
from mooring.scheduler.time_limits import ATTEMPT_TIMEOUT, NO_LIMIT, AttemptTimeout, Limit, TimeLimits, limit_plugins
from mooring.scheduler.turnstile import Turnstile
from mooring.scheduler.waiting_pods import WaitingPods
from mooring.scheduler.writer import reference_to
from mooring.state.cluster import Cluster

log = get_logger("mooring.scheduler")
_v2, _v3, _v4 = log.v(2), log.v(3), log.v(4)

SLICE_S = 0.005
"""How long the loop decides before others get a turn."""
MAX_REST_S = 1.0
"""How long the loop rests at most; the queue's timers are looked at every second, as upstream does."""


class Writer(BindWriter, PodWriter, Protocol):
    """What the scheduler itself writes; VolumeBinding and DynamicResources ask for more where they are used."""


@dataclass(slots=True)
class Options:
    """What does not come from the configuration file."""

    features: Features = DEFAULT_FEATURES
    registry: Registry | None = None
    pod_max_in_unschedulable_pods_s: float = 300.0
    extenders: Callable[[KubeSchedulerConfiguration], Sequence[Extender]] = lambda config: build_extenders(
        config.extenders
    )
    decision_log: DecisionLog | None = None
    plugin_timeout_s: float = 10.0  # per call of a plugin that is not mooring's own; 0: no limit
    attempt_timeout_s: float = 15.0  # per attempt to find a node for a pod; 0: no limit
    limits: TimeLimits = field(default_factory=TimeLimits)
    is_fenced: Callable[[], bool] = lambda: False  # asked before each Binding: whether the lease is somebody else's
    metrics: SchedulerMetrics = field(default_factory=SchedulerMetrics)
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random)


class Scheduler:
    """Everything between the watches and the writes; ``run`` is the loop.

    Informers call ``put``, ``update`` and ``delete``. ``make_writer`` is given what the watch last said of every pod,
    by ``namespace/name``.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        make_writer: Callable[[dict[str, Pod]], Writer],
        recorder: EventRecorder,
        options: Options | None = None,
    ) -> None:
        self.options = options = options or Options()
        self.config = config
        self.cluster = Cluster()
        self.waiting_pods = WaitingPods()
        self.pods: dict[str, Pod] = {}
        self.meters = Meters(options.metrics, options.clock)
        self._clock = options.clock
        self._recorder = recorder
        self._writer = make_writer(self.pods)
        self._tasks: set[asyncio.Future[Any]] = set()  # bindings and whatever else must not be forgotten
        self._patching: dict[str, asyncio.Future[Any]] = {}  # by uid: patches of one pod keep their order
        self._wake = asyncio.Event()
        self._is_aborted = False
        self._evicting: asyncio.Future[None] | None = None  # what has to end before the next pod is tried
        self._turnstile = Turnstile()
        self._limits = options.limits
        self._limits.on_timeout = self.meters.timed_out
        self._thread: DecisionThread | None = None  # for decisions that ask extenders
        self.decisions = 0
        self._nominator = nominator = QueueNominator(known=self.pods.get)
        pre_binding: dict[str, PreBinding] = {}
        self.preemptions = PreemptionExecutor(
            self._writer,
            recorder,
            self.waiting_pods,
            pre_binding,
            self.pods,
            options.metrics,
            self._clock,
            nominated_pods=nominator.nominated_pods,
            activate=lambda pods: self._turnstile(self.queue.activate, pods),
            is_gated=self._is_gated_by,
            spawn=self._spawn,
        )
        self._built = self._build(config, None)
        self.queue = SchedulingQueue(
            self._queue_profiles(self._built),
            self._clock,
            options=self._queue_options(config),
            recorder=self.meters,
            nominator=nominator,
        )
        self.binding = BindingCycle(
            self.queue,
            self.waiting_pods,
            recorder,
            self.meters,
            self._clock,
            pre_binding,
            nominate=self._nominate,
            on_failure=lambda *failure: self._turnstile(self._binding_failed, *failure),
            nominates_in_advance=options.features["NominatedNodeNameForExpectation"],
            is_fenced=options.is_fenced,
        )
        self.queue.on_ready = self._wake.set
        self.handlers = EventHandlers(
            self.cluster,
            self.queue,
            reject_waiting_pod=self.waiting_pods.reject_deleted,
            declared_features=options.features["NodeDeclaredFeatures"],
            gang_scheduling=EventResource.POD_GROUP in self.resources,
            pods=self.pods,
            observer=self.meters.event_handled,
            clock=self._clock,
        )
        self.meters.follow(self.queue, self.cluster)

    # ---- configuration -----------------------------------------------------------------------------------------

    @property
    def profiles(self) -> dict[str, Profile]:
        return self._built.profiles

    @property
    def resources(self) -> set[EventResource]:
        """The kinds that plugins of some profile want to hear of."""
        return {hint.event.resource for profile in self._queue_profiles(self._built) for hint in profile.hints}

    def _queue_options(self, config: KubeSchedulerConfiguration) -> QueueOptions:
        features = self.options.features
        return QueueOptions(
            pod_initial_backoff_s=config.pod_initial_backoff_seconds,
            pod_max_backoff_s=config.pod_max_backoff_seconds,
            pod_max_in_unschedulable_pods_s=self.options.pod_max_in_unschedulable_pods_s,
            pop_from_backoff=features["SchedulerPopFromBackoffQ"],
            generic_workload=features["GenericWorkload"],
        )

    @staticmethod
    def _queue_profiles(built: Built) -> list[QueueProfile]:
        has_extenders = bool(built.handle.extenders)
        return [from_runtime(profile, has_extenders=has_extenders) for profile in built.profiles.values()]

    def _build(self, config: KubeSchedulerConfiguration, before: Built | None) -> Built:
        def prepare(handle: Handle) -> None:
            handle.writer = self._writer
            handle.preemptions = self.preemptions
            handle.waiting_pods = self.waiting_pods
            handle.pods = self.pods
            handle.meters = self.meters.profile
            handle.pick = self.options.rng.randrange
            if before is not None:
                handle.devices = before.handle.devices  # knows what is promised to pods that are being bound

        built = build(
            config,
            self.cluster,
            clock=self._clock,
            nominator=self._nominator,
            registry=self.options.registry,
            features=self.options.features,
            prepare=prepare,
            extenders=self.options.extenders(config),
            ask_all=AskTogether(),
        )
        for name, profile in built.profiles.items():
            profile.observer = self.meters.profile(name)
            limit_plugins(profile, self._limits, self.options.plugin_timeout_s)
        return built

    def reload(self, config: KubeSchedulerConfiguration) -> None:
        """Go on with another configuration, or raise ConfigError and go on with the old one.

        Pods that are being bound are bound by the profiles that decided.
        """
        built = self._build(config, self._built)
        self.config = config
        self._take_over(built)
        self.queue.replace_profiles(self._queue_profiles(built))
        self.handlers.take_in_pending()

    def _take_over(self, built: Built) -> None:
        self.close()
        self._built = built

    def close(self) -> None:
        """Close the connections to extenders; one that is asked once more opens another."""
        for extender in self._built.handle.extenders:
            close = getattr(extender, "close", None)
            if close is not None:
                close()

    # ---- what informers call -----------------------------------------------------------------------------------

    def put(self, obj: Object) -> None:
        """An object is new or has changed."""
        self._turnstile(self.handlers.put, obj)

    def update(self, old: Object, new: Object) -> None:
        self._turnstile(self.handlers.put, new)

    def delete(self, obj: Object) -> None:
        """An object is gone."""
        self._turnstile(self.handlers.delete, obj)

    # ---- the loop ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule until cancelled; what is on its way then goes on: see ``drain`` and ``abort``."""
        with self._limits:
            try:
                await self._run()
            finally:
                if self._thread is not None:
                    self._thread.close()

    async def _run(self) -> None:
        self.queue.run_timers()
        timers_at = self._clock.monotonic() + MAX_REST_S
        while True:
            until = self._clock.monotonic() + SLICE_S
            while (info := self.queue.pop()) is not None:
                if self._built.handle.extenders:
                    await self._schedule_in_thread(info)
                else:
                    self.schedule_one(info)
                if self._evicting is not None:
                    await asyncio.wait([self._evicting])
                if self._clock.monotonic() >= until:
                    break
            else:
                await self._rest()
            if self._clock.monotonic() >= timers_at or not self.queue.has_ready:
                self.queue.run_timers()
                timers_at = self._clock.monotonic() + MAX_REST_S
            await asyncio.sleep(0)

    async def _rest(self) -> None:
        """Wait for a pod, or for the queue's next timer."""
        self._wake.clear()
        if self.queue.has_ready:
            return
        rest_s = MAX_REST_S
        due = self.queue.next_wakeup()
        if due is not None:
            rest_s = min(rest_s, max(0.0, due - self._clock.monotonic()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rest_s):
                await self._wake.wait()

    async def drain(self, timeout_s: float) -> bool:
        """Wait for bindings and other writes under way; false if that takes too long."""
        deadline = self._clock.monotonic() + timeout_s
        while self._tasks:
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                return False
            await asyncio.wait(set(self._tasks), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def finish(self, timeout_s: float) -> bool:
        """End cleanly: what is being written is waited for, pods that wait on permit are left to whoever comes next."""
        for waiting in self.waiting_pods.all():
            waiting.abandon()
        return await self.drain(timeout_s)

    async def abort(self) -> None:
        """Stop everything under way at once: the lease is lost, and somebody else may be binding the same pods."""
        self._is_aborted = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def in_flight(self) -> int:
        """How many bindings and other writes are under way."""
        return len(self._tasks)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error(task.exception(), "Unexpected error in a background task")

    # ---- one pod -----------------------------------------------------------------------------------------------

    def schedule_one(self, info: QueuedPodInfo) -> None:
        """Try one pod. Whatever goes wrong costs this pod an attempt, nothing else."""
        profile = self._profile_for(info)
        if profile is not None:
            started, is_logged = self._begin(info)
            decision = self._decide(info, self._built, profile, is_logged)
            self._conclude(info, profile, decision, started, is_logged)

    async def _schedule_in_thread(self, info: QueuedPodInfo) -> None:
        """The same where extenders are asked: meanwhile the loop turns, and the cluster stands still."""
        profile = self._profile_for(info)
        if profile is not None:
            started, is_logged = self._begin(info)
            if self._thread is None:
                self._thread = DecisionThread()
            loop, thread = asyncio.get_running_loop(), self._thread

            def leave() -> None:
                loop.call_soon_threadsafe(thread.leave)

            work = thread.run(self._decide, info, self._built, profile, is_logged, leave)
            try:
                decision = await self._turnstile.closed_during(work)
            except ThreadLeft:
                self._thread = None
                decision = AttemptTimeout()
            # What waited may have been about this very pod.
            known = self.pods.get(info.key)
            if known is None or known.uid != info.uid or known.spec.node_name or self.cluster.pod(info.uid):
                self.queue.done(info.uid)
                return
            self._conclude(info, profile, decision, started, is_logged)

    def _profile_for(self, info: QueuedPodInfo) -> Profile | None:
        """The profile that tries the pod, or None if it is not to be tried."""
        profile = self._built.profiles.get(info.scheduler_name)
        if profile is None or self._is_skipped(info.pod_info.pod):
            self.queue.done(info.uid)
            return None
        return profile

    def _begin(self, info: QueuedPodInfo) -> tuple[float, bool]:
        """When the attempt began, and whether it goes into the decision log."""
        if _v3:
            _v3.info("Attempting to schedule pod", pod=info.key)
        self.decisions += 1
        decision_log = self.options.decision_log
        return self._clock.monotonic(), decision_log is not None and decision_log.is_sampled()

    def _decide(
        self,
        info: QueuedPodInfo,
        built: Built,
        profile: Profile,
        detail: bool,
        on_stuck: Callable[[], None] | None = None,
    ) -> Decision | Exception:
        timeout_s = self.options.attempt_timeout_s or NO_LIMIT
        limit = Limit("attempt", self._limits.clock.monotonic() + timeout_s, AttemptTimeout(), on_stuck=on_stuck)
        try:
            return self._limits.run(limit, built.engine.decide, info.pod_info, profile, detail=detail, budget=limit)
        except AttemptTimeout as error:
            return error
        except Exception as error:  # a plugin's mistake is caught closer to it; this one is ours
            log.error(error, "Unexpected error in a scheduling cycle", pod=info.key)
            return error

    def _conclude(
        self, info: QueuedPodInfo, profile: Profile, decision: Decision | Exception, started: float, is_logged: bool
    ) -> None:
        if isinstance(decision, AttemptTimeout):
            self._fail(info, profile, self._timed_out(info, profile, decision), started)
            self._start_afresh()
            return
        if isinstance(decision, Exception):
            failure = Failure(SCHEDULER_ERROR, f"{type(decision).__name__}: {decision}")
            self._fail(info, profile, failure, started)
            return
        took_s = self._clock.monotonic() - started
        self.meters.algorithm(took_s)
        if is_logged and self.options.decision_log is not None:
            entry = log_entry(decision, profile, info.attempts, self._clock.now(), took_s)
            self.options.decision_log.record(entry)
        if decision.outcome is Outcome.SCHEDULED:
            self._place(info, profile, decision, started)
        else:
            self._refused(info, profile, decision, started)

    def _timed_out(self, info: QueuedPodInfo, profile: Profile, error: AttemptTimeout) -> Failure:
        """Why an attempt ran out of time. A pod to which that happens again waits until long waiters are tried."""
        took = format_duration(self.options.attempt_timeout_s)
        where = place_of(error, {type(plugin).__module__ for plugin in profile.plugins.values()})
        message = f"the attempt to find a node did not end within {took}{where}"
        waits = frozenset((ATTEMPT_TIMEOUT,)) if info.consecutive_errors_count else frozenset()
        return Failure(SCHEDULER_ERROR, message, waits)

    def _start_afresh(self) -> None:
        """Make plugins and engine anew: the attempt was cut off anywhere, and what they remember may be half done."""
        try:
            built = self._build(self.config, self._built)
        except MooringError as error:
            log.error(error, "Plugins could not be made anew after an attempt ran out of time")
            return
        self._take_over(built)
        self.queue.replace_profiles(self._queue_profiles(built), wake=False)

    def _is_skipped(self, pod: Pod) -> bool:
        if pod.is_terminating:
            self._event(pod, "Warning", "FailedScheduling", "Scheduling", f"skip schedule deleting pod: {pod.key}")
            return True
        return self.cluster.pod(pod.uid) is not None

    def _refused(self, info: QueuedPodInfo, profile: Profile, decision: Decision, started: float) -> None:
        if decision.victims and decision.nominated_node:
            if not self.options.features["SchedulerAsyncPreemption"]:
                self._evicting = self._spawn(self._evict_first(info, profile, decision, started))
                return
            self.preemptions.start(_preemption(decision), decision.victims)
        self._give_up(info, profile, decision, started)

    def _give_up(self, info: QueuedPodInfo, profile: Profile, decision: Decision, started: float) -> None:
        self._fail(info, profile, Failure.of_decision(decision), started)
        self._after_failure(profile, decision)

    async def _evict_first(self, info: QueuedPodInfo, profile: Profile, decision: Decision, started: float) -> None:
        """End an attempt only after its victims are evicted; nobody else is tried meanwhile."""
        try:
            problem = await self.preemptions.evict_now(_preemption(decision), decision.victims)
            if problem is not None:  # nobody is promised anything then
                message = f"preemption: {problem}"
                decision = replace(
                    decision, post_filter_message=message, nominated_node=None, victims=(), _message=None
                )
            self._turnstile(self._give_up, info, profile, decision, started)
        except Exception as error:  # our own mistake: it costs this pod an attempt
            log.error(error, "Unexpected error in an eviction", pod=info.key)
            failure = Failure(SCHEDULER_ERROR, f"{type(error).__name__}: {error}")
            self._turnstile(self._fail, info, profile, failure, started)
        finally:
            self._evicting = None

    def _place(self, info: QueuedPodInfo, profile: Profile, decision: Decision, started: float) -> None:
        node_name = decision.node or ""
        try:
            assumed = self.cluster.assume(decision.pod, node_name)
        except ValueError as error:
            self._fail(info, profile, Failure(SCHEDULER_ERROR, str(error)), started)
            return
        self.queue.nominator.delete(info.uid)
        placement = Placement(info, profile, decision, assumed, node_name, started, self._built.handle.extenders)
        state = decision.state
        if state.read(PODS_TO_ACTIVATE) is None:
            state.write(PODS_TO_ACTIVATE, {})
        status = plugin_calls.reserve(placement)
        waits: dict[str, float] = {}
        if status.is_success and profile.permit:
            status, waits = plugin_calls.permit(placement)
        if not status.is_success:
            self._undo(placement)
            self._fail(info, profile, Failure.of_status(status, on_node=True), started)
            self._after_failure(profile, decision)
            return
        if waits:
            placement.waiting = self.waiting_pods.add(assumed, node_name, waits)
        activated = state.read(PODS_TO_ACTIVATE)
        if activated:
            self.queue.activate(list(activated.values()))
            activated.clear()
        self._spawn(self.binding.run(placement))

    def _is_gated_by(self, pod: Pod, plugin: str) -> bool:
        info = self.queue.get(pod.key)
        return info is not None and info.uid == pod.uid and info.gating_plugin == plugin

    def _undo(self, placement: Placement) -> None:
        plugin_calls.unreserve(placement)
        self.cluster.forget(placement.pod.uid)

    def _binding_failed(self, placement: Placement, status: Status, on_node: bool) -> None:
        """Take back what was assumed, wake whoever might use it, and bring the pod back."""
        if self._is_aborted:
            return
        failure = Failure.of_status(status, on_node=on_node)
        self._undo(placement)
        freed = placement.pod.pod
        counted = self.cluster.pod(freed.uid)
        # Upstream wakes nobody if the watch has moved the pod elsewhere meanwhile; its room is free all the same.
        is_free = counted is None or counted.pod.spec.node_name != placement.node_name
        if is_free and not failure.is_rejection:
            self.queue.move_all(ASSIGNED_POD_DELETE, freed, None)
        self._fail(placement.info, placement.profile, failure, placement.started)
        if is_free and failure.is_rejection:
            self.queue.move_all(ASSIGNED_POD_DELETE, freed, None, lambda pod: pod.uid != freed.uid)
        self._after_failure(placement.profile, placement.decision)

    def _after_failure(self, profile: Profile, decision: Decision) -> None:
        """Let plugins give back what the failed attempt held at the API server."""
        for plugin, work in plugin_calls.after_failure(profile, decision):
            self._spawn(self._give_back(plugin, work, decision.pod.pod.key))

    @staticmethod
    async def _give_back(plugin: str, work: Coroutine[Any, Any, None], key: str) -> None:
        try:
            await work
        except ApiError as error:
            log.error(error, "What a failed attempt held could not be given back", plugin=plugin, pod=key)

    # ---- failure -----------------------------------------------------------------------------------------------

    def _fail(self, info: QueuedPodInfo, profile: Profile, failure: Failure, started: float) -> None:
        """Bring a pod back into the queue, and tell everybody why it has no node."""
        pod = info.pod_info.pod
        result = "unschedulable" if failure.is_rejection else "error"
        self.meters.profile(profile.scheduler_name).attempt(result, self._clock.monotonic() - started)
        self._log_failure(pod, failure)
        known = self.pods.get(pod.key)
        if known is None:
            log.info("Pod doesn't exist in informer cache", pod=pod.key)
            self.queue.done(pod.uid)
            self._tell_failure(pod, failure, patches=False)
            return
        if known.spec.node_name:
            log.info(
                "Pod has been assigned to node. Abort adding it back to queue.", pod=pod.key, node=known.spec.node_name
            )
            self.queue.done(pod.uid)
            return
        if known.uid != pod.uid:
            if _v2:
                _v2.info("Pod was recreated while handling scheduling failure.", pod=pod.key, newUID=known.uid)
            self.queue.done(pod.uid)
            return
        self.queue.add_unschedulable_if_not_present(
            info,
            unschedulable_plugins=failure.unschedulable_plugins,
            pending_plugins=failure.pending_plugins,
            pod=self.cluster.info(known),
            message=failure.message,
        )
        self.queue.nominator.add(known, failure.nominated_node)
        self._wake.set()  # its backoff may end before the loop would look
        self._tell_failure(known, failure, patches=True)

    @staticmethod
    def _log_failure(pod: Pod, failure: Failure) -> None:
        if failure.message == NO_NODES:
            if _v2:
                _v2.info("Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=pod.key)
        elif failure.is_fit_error:
            if _v2:
                _v2.info("Unable to schedule pod; no fit; waiting", pod=pod.key, err=failure.message)
        else:
            log.error(failure.message, "Error scheduling pod; retrying", pod=pod.key)

    def _tell_failure(self, pod: Pod, failure: Failure, *, patches: bool) -> None:
        self._event(pod, "Warning", "FailedScheduling", "Scheduling", failure.message)
        if not patches:
            return
        condition = pod_scheduled(pod, failure.reason, failure.message)
        if _v3:
            _v3.info(
                "Updating pod condition and nominated node name",
                pod=pod.key,
                conditionType=condition.type,
                conditionStatus=condition.status,
                conditionReason=condition.reason,
                nominatedNodeName=failure.nominated_node or "",
            )
        patch = status_patch(pod, self._clock.now(), condition=condition, nominated_node=failure.nominated_node)
        if patch is not None:
            self._patch(pod, patch)

    def _nominate(self, placement: Placement) -> asyncio.Future[None]:
        """Tell everybody which node a pod will get whose binding takes a while."""
        pod = self.pods.get(placement.info.key)
        patch = None
        if pod is not None and pod.uid == placement.pod.uid:
            patch = status_patch(pod, self._clock.now(), nominated_node=placement.node_name)
        if pod is None or patch is None:
            nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        return self._patch(pod, patch)

    def _patch(self, pod: Pod, patch: Patch) -> asyncio.Future[None]:
        before = self._patching.get(pod.uid)
        task = self._spawn(self._send_patch(pod, patch, before))
        self._patching[pod.uid] = task
        return task

    async def _send_patch(self, pod: Pod, patch: Patch, before: asyncio.Future[Any] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await self._writer.patch_pod_status(pod.namespace, pod.name, patch)
        except ApiError as error:
            if error.code != 404:
                log.error(error, "Error updating pod", pod=pod.key)
        finally:
            if self._patching.get(pod.uid) is asyncio.current_task():
                del self._patching[pod.uid]

    def _event(self, pod: Pod, type_: str, reason: str, action: str, note: str) -> None:
        controller = pod.spec.scheduler_name
        self._recorder.record(
            reference_to(pod), type=type_, reason=reason, action=action, note=note, controller=controller
        )


def _preemption(decision: Decision) -> Preemption:
    return Preemption(decision.post_filter_plugin, decision.pod.pod, decision.nominated_node or "")
