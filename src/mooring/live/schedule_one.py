"""The loop: takes pods from the queue, decides, and sends them on their way, one after another.

```
queue.pop ─▶ engine.decide ─▶ assume ─▶ reserve ─▶ permit ─▶ a task: wait, pre-bind, bind, post-bind
                   │                       │          │                        │
                   └── no node ────────────┴──────────┴──── failed ────────────┘
                            └──▶ back into the queue, an event, the pod's condition (failure.py)
```

The loop never waits for the API server. It decides for a few milliseconds and then lets others have a turn: watches,
bindings, timers. It has nothing to do until somebody calls ``wake``, or until the queue's next timer is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.times import format_duration
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.framework.cycle_state import PODS_TO_ACTIVATE, place_of
from mooring.core.framework.pod_groups import PodGroupInfo
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import SUCCESS
from mooring.core.queue.queued_pod import QueuedEntity, QueuedPodGroupInfo, QueuedPodInfo
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.session import Session
from mooring.core.state.cluster import ClusterState
from mooring.live import plugin_calls
from mooring.live.attempt import SCHEDULER_ERROR, Failure, PodPlacement, WaitingPods
from mooring.live.binding import BindingCycle
from mooring.live.failure import Failures
from mooring.live.logs import get_logger
from mooring.live.observer import Observers
from mooring.live.pod_groups import GroupAttempts
from mooring.live.tasks import Tasks, Turnstile
from mooring.live.time_limits import (
    ATTEMPT_TIMEOUT,
    NO_LIMIT,
    AttemptTimeout,
    DecisionThread,
    Limit,
    ThreadLeft,
    TimeLimits,
)

log = get_logger("mooring.live")
_v3 = log.v(3)

SLICE_S = 0.005
"""How long the loop decides before others get a turn."""
TIMERS_S = 1.0
"""How often a loop that is never at rest looks at the queue's timers, as upstream does."""
GATHER_S = 0.005
"""How long the thread stands still after it has decided on all pods that are ready. What comes meanwhile, answers and
watch events of several pods, is read in one go: waking up for each costs more than all the work in between."""
SHORT_GATHER_S = 0.001
"""It stands still for so long while a pod has steps before it is bound: each of them would wait otherwise."""
MOST_GATHER_S = 0.02
"""It stands still for twice as long each time, up to this, while it finds so many pods:"""
GATHER_MORE = 3
TURNS_TO_WRITE = 3
"""How many turns of the event loop it takes until bindings are on the wire: a task each, one write for all."""
TURNS_TO_DECIDE = 5
"""How many it takes from a watch event until its pod is decided on."""
MOST_AGAIN = 10
"""How often it stands still again, where many pods came, because bindings are not answered yet."""
MOST_TURNS = 12
"""After so many turns it stands still in any case: pods that come one in each turn are those who have most to gain."""


class SchedulingLoop:
    """``run`` is the loop; ``schedule_one`` is one round of it, without extenders."""

    def __init__(
        self,
        session: Session,
        cluster: ClusterState,
        queue: SchedulingQueue,
        pods: Mapping[str, Pod],
        waiting_pods: WaitingPods,
        binding: BindingCycle,
        failures: Failures,
        observers: Observers,
        tasks: Tasks,
        turnstile: Turnstile,
        limits: TimeLimits,
        clock: Clock,
        *,
        attempt_timeout_s: float,
        on_cut_off: Callable[[], None],
        is_held: Callable[[], bool] = lambda: False,
        stand_still: Callable[[float], None] | None = None,
    ) -> None:
        """``on_cut_off`` follows an attempt that was ended in the middle.

        While ``is_held``, nothing is decided; whoever holds it back wakes it afterwards.
        ``stand_still`` blocks the thread for some seconds; without it, every event is handled when it comes.
        """
        self.session = session
        self.groups: GroupAttempts | None = None  # where the gate GenericWorkload is on
        self.decisions = 0
        self._cluster = cluster
        self._queue = queue
        self._pods = pods
        self._waiting_pods = waiting_pods
        self._binding = binding
        self._failures = failures
        self._observers = observers
        self._tasks = tasks
        self._turnstile = turnstile
        self._limits = limits
        self._clock = clock
        self._attempt_timeout_s = attempt_timeout_s
        self._on_cut_off = on_cut_off
        self._is_held = is_held
        self._stand_still = stand_still
        self._gathered = 0  # how many decisions there were when the thread last stood still
        self._gather_s = GATHER_S
        self._turns_to_write = self._turns_left = 0  # until it does so again
        self._again_left = 0
        self._is_resting = False
        self._over: asyncio.Future[None] | None = None  # while it runs
        self._alarm: asyncio.TimerHandle | None = None  # for the queue's next timer
        self._alarm_at = 0.0
        self._timers_at = 0.0  # when the queue's timers are looked at however much there is to do
        self._asking: asyncio.Future[None] | None = None  # the decision that a thread is making
        self._evicting: asyncio.Future[None] | None = None  # what has to end before the next pod is tried
        self._thread: DecisionThread | None = None  # for decisions that ask extenders
        self._left: list[DecisionThread] = []  # those that hang

    @property
    def hanging(self) -> int:
        """How many decisions hang in threads that were left behind. Any thread may ask."""
        return sum(left.is_alive for left in self._left)

    async def run(self) -> None:
        """Schedule until cancelled."""
        self._over = over = asyncio.get_running_loop().create_future()
        with self._limits:
            try:
                self._turn()
                await over
            finally:
                self._over, self._is_resting = None, False
                if self._alarm is not None:
                    self._alarm.cancel()
                    self._alarm = None
                if self._asking is not None:
                    self._asking.cancel()
                if self._thread is not None:
                    self._thread.close()

    def wake(self) -> None:
        """Say that there may be something to do."""
        if self._is_resting and self._over is not None:
            self._is_resting = False
            self._over.get_loop().call_soon(self._get_up)

    def _get_up(self) -> None:
        """Let what happens at the same moment come first: the most important of these pods is tried first."""
        if self._over is not None:
            self._over.get_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Decide for a while. A plain function, no task: nothing is waited for while all goes well."""
        if self._over is None or self._over.done():
            return
        if self._is_held():
            self._is_resting = True
            return
        try:
            awaited = self._decide_for_a_while()
            if awaited is not None:
                awaited.add_done_callback(self._go_on)
            elif self._queue.has_ready:
                self._over.get_loop().call_soon(self._turn)
            else:
                self._rest()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the loop with an error, unless it has ended already."""
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def _go_on(self, awaited: asyncio.Future[None]) -> None:
        """Take the next turn when what was waited for has come."""
        if awaited is self._asking:
            self._asking = None
            if not awaited.cancelled() and (error := awaited.exception()) is not None:
                self._fail(error)
        self._turn()

    def _decide_for_a_while(self) -> asyncio.Future[None] | None:
        """Try the pods that are ready, unless there are too many; returns what has to end before the next one."""
        queue, now = self._queue, self._clock.monotonic
        started = now()
        if started >= self._timers_at or not queue.has_ready:
            queue.run_timers()
            self._timers_at = started + TIMERS_S
        until = started + SLICE_S
        while self._evicting is None and (info := queue.pop()) is not None:
            if self.session.handle.extenders:
                self._asking = asyncio.ensure_future(self._schedule_in_thread(info))
                return self._asking
            self.schedule_one(info)
            if now() >= until:
                break
        evicting, self._evicting = self._evicting, None
        return evicting

    def _rest(self) -> None:
        """Wait for a pod, or for the queue's next timer."""
        self._is_resting = True
        if self._stand_still is not None and self.decisions != self._gathered:
            has_many = self.decisions - self._gathered >= GATHER_MORE
            self._gather_s = min(2 * self._gather_s, MOST_GATHER_S) if has_many else GATHER_S
            self._gathered = self.decisions
            self._again_left = MOST_AGAIN if self._gather_s > GATHER_S else 0
            self._gather_soon(TURNS_TO_WRITE)
        due = self._queue.next_wakeup()
        if due is None:  # only what wakes can change that
            return
        if self._alarm is not None:
            if self._alarm_at <= due:
                return
            self._alarm.cancel()
        rest_s = max(0.0, due - self._clock.monotonic())
        self._alarm = asyncio.get_running_loop().call_later(rest_s, self._ring)
        self._alarm_at = due

    def _gather_soon(self, turns: int) -> None:
        """Stand still after so many turns; once for all that is decided until then."""
        is_coming = self._turns_left > 0
        self._turns_to_write = turns
        if not is_coming:
            self._turns_left = MOST_TURNS
            asyncio.get_running_loop().call_soon(self._gather)

    def _gather(self) -> None:
        self._turns_to_write -= 1
        self._turns_left -= 1
        if self._turns_to_write and self._turns_left:
            asyncio.get_running_loop().call_soon(self._gather)
        elif self._stand_still is not None:
            self._turns_left = 0
            if self._binding.steps_before:  # nominations, claims, volumes
                self._stand_still(SHORT_GATHER_S)
            elif len(self._tasks) > len(self._binding.under_way):  # evictions: other requests follow them, too
                self._stand_still(GATHER_S)
            else:
                self._stand_still(self._gather_s)
                if self._binding.under_way and self._again_left:
                    self._again_left -= 1
                    self._gather_soon(TURNS_TO_DECIDE)

    def _ring(self) -> None:
        self._alarm = None
        self.wake()

    # ---- one pod -----------------------------------------------------------------------------------------------

    def schedule_one(self, info: QueuedEntity) -> None:
        """Try one pod, or one group of pods. Whatever goes wrong costs it an attempt, nothing else."""
        profile = self._profile_for(info)
        if profile is not None:
            started, detail = self._begin(info)
            decision = self._decide(info, self.session, profile, detail)
            self._conclude(info, profile, decision, started)

    async def _schedule_in_thread(self, info: QueuedEntity) -> None:
        """The same where extenders are asked: meanwhile the event loop goes on, and the cluster stands still."""
        profile = self._profile_for(info)
        if profile is None:
            return
        started, detail = self._begin(info)
        thread = self._thread = self._thread or DecisionThread()
        loop = asyncio.get_running_loop()

        def leave() -> None:
            loop.call_soon_threadsafe(thread.leave)

        work = thread.run(self._decide, info, self.session, profile, detail, leave)
        decision: ScheduleResult | GroupDecision | Exception
        try:
            decision = await self._turnstile.closed_during(work)
        except ThreadLeft:
            self._left = [*(left for left in self._left if left.is_alive), thread]
            self._thread = None
            decision = AttemptTimeout()
        # What waited at the turnstile may have been about this very pod.
        if isinstance(info, QueuedPodInfo) and self._is_settled(info):
            self._queue.done(info.uid)
            return
        self._conclude(info, profile, decision, started)

    def _is_settled(self, info: QueuedPodInfo) -> bool:
        """Whether the pod is gone, or has a node by now."""
        known = self._pods.get(info.key)
        is_other = known is None or known.uid != info.uid or bool(known.spec.node_name)
        return is_other or self._cluster.pod(info.uid) is not None

    def _profile_for(self, info: QueuedEntity) -> Profile | None:
        """The profile that tries the pod, or None if it is not to be tried."""
        if not isinstance(info, QueuedPodInfo):
            assert isinstance(info, QueuedPodGroupInfo)
            return self._profile_for_group(info)
        pod = info.pod_info.pod
        profile = self.session.profiles.get(pod.spec.scheduler_name)
        if profile is None or self._is_skipped(pod):
            self._queue.done(info.uid)
            return None
        return profile

    def _profile_for_group(self, entity: QueuedPodGroupInfo) -> Profile | None:
        assert self.groups is not None, "the queue makes groups only where there is somebody who can try them"
        group = self.groups.group_of(entity) or entity.group
        entity.group = group
        objection = self.groups.objection(entity, group)
        if objection:
            self.groups.refuse(entity, self.session.profiles, group, objection)
            return None
        name = entity.scheduler_name
        return self.session.profiles[name] if self.groups.leave_out(entity, self._is_skipped) else None

    def _is_skipped(self, pod: Pod) -> bool:
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.key}"
            self._failures.event(pod, "Warning", "FailedScheduling", "Scheduling", note)
            return True
        return self._cluster.pod(pod.metadata.uid) is not None

    def _begin(self, info: QueuedEntity) -> tuple[float, bool]:
        """When the attempt began, and whether an observer wants the decision in detail."""
        if _v3:
            _v3.info("Attempting to schedule pod", pod=info.key)
        self.decisions += 1
        return self._clock.monotonic(), self._observers.wants_detail()

    def _decide(
        self,
        info: QueuedEntity,
        session: Session,
        profile: Profile,
        detail: bool,
        on_stuck: Callable[[], None] | None = None,
    ) -> ScheduleResult | GroupDecision | Exception:
        try:
            if not self._attempt_timeout_s and isinstance(info, QueuedPodInfo):  # nobody would look at a limit
                return session.engine.decide(info.pod_info, profile, detail=detail)
            timeout_s = self._attempt_timeout_s * len(info.members) or NO_LIMIT
            limit = Limit("attempt", self._limits.clock.monotonic() + timeout_s, AttemptTimeout(), on_stuck=on_stuck)
            if isinstance(info, QueuedPodGroupInfo):
                pods = [member.pod_info for member in info.members]
                group = PodGroupInfo(info.group, pods)
                decide = session.groups(profile).decide
                return self._limits.run(limit, decide, group, detail=detail, budget=limit)
            assert isinstance(info, QueuedPodInfo)
            return self._limits.run(limit, session.engine.decide, info.pod_info, profile, detail=detail, budget=limit)
        except AttemptTimeout as error:
            return error
        except Exception as error:  # a plugin's mistake is caught closer to it; this one is ours
            log.error(error, "Unexpected error in a scheduling cycle", pod=info.key)
            return error

    def _conclude(
        self, info: QueuedEntity, profile: Profile, decision: ScheduleResult | GroupDecision | Exception, started: float
    ) -> None:
        if not isinstance(info, QueuedPodInfo):
            assert isinstance(info, QueuedPodGroupInfo)
            self._conclude_group(info, profile, decision, started)
        elif isinstance(decision, ScheduleResult):
            took_s = self._clock.monotonic() - started
            for tell in self._observers.decided:
                tell(info, profile, decision, took_s)
            if decision.outcome is Outcome.SCHEDULED:
                self.place(info, profile, decision, started)
            else:
                self._evicting = self._failures.refused(info, profile, decision, started)
        elif isinstance(decision, AttemptTimeout):
            self._failures.fail(info, profile, self._timed_out(info, profile, decision), started)
            self._on_cut_off()
        else:
            assert isinstance(decision, Exception)
            self._failures.fail(info, profile, Failure.of_error(decision), started)

    def _conclude_group(
        self,
        entity: QueuedPodGroupInfo,
        profile: Profile,
        decision: ScheduleResult | GroupDecision | Exception,
        started: float,
    ) -> None:
        assert self.groups is not None
        if isinstance(decision, GroupDecision):
            took_s = self._clock.monotonic() - started
            self.groups.conclude(entity, profile, decision, started, took_s)
            return
        assert isinstance(decision, Exception)
        if isinstance(decision, AttemptTimeout):
            text = self._timed_out(entity.members[0], profile, decision).message
        else:
            text = Failure.of_error(decision).message
        self.groups.refuse(entity, self.session.profiles, entity.group, text)
        if isinstance(decision, AttemptTimeout):
            self._on_cut_off()

    def _timed_out(self, info: QueuedPodInfo, profile: Profile, error: AttemptTimeout) -> Failure:
        """Why an attempt ran out of time. A pod to which that happens again waits until long waiters are tried."""
        took = format_duration(self._attempt_timeout_s)
        where = place_of(error, {type(plugin.plugin).__module__ for plugin in profile.plugins.values()})
        message = f"the attempt to find a node did not end within {took}{where}"
        waits = frozenset((ATTEMPT_TIMEOUT,)) if info.consecutive_errors_count else frozenset()
        return Failure(SCHEDULER_ERROR, message, waits)

    def place(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, started: float) -> None:
        """Send a pod on its way: assume, reserve, permit, and a task that binds it."""
        node_name = decision.node or ""
        try:
            assumed = self.session.assume(decision.pod, node_name)
        except ValueError as error:
            self._failures.fail(info, profile, Failure(SCHEDULER_ERROR, str(error)), started)
            return
        state = decision.state
        to_activate: dict[str, Pod] = state.read(PODS_TO_ACTIVATE) or {}
        state.write(PODS_TO_ACTIVATE, to_activate)
        placement = PodPlacement(
            info,
            profile,
            state,
            assumed,
            node_name,
            started,
            self._clock,
            to_activate,
            self.session.handle.extenders,
            decision.evaluated_nodes,
            decision.feasible_nodes,
        )
        status = plugin_calls.reserve(placement)
        waits: dict[str, float] = {}
        if status is SUCCESS or status.is_success:
            status, waits = plugin_calls.permit(placement)
        if status is not SUCCESS and not status.is_success:
            self._failures.not_permitted(placement, status)
            return
        if waits:
            placement.waiting = self._waiting_pods.add(assumed, node_name, waits)
            for tell in self._observers.waiting:
                tell(info, node_name, placement.waiting.pending_plugins)
        if to_activate:
            self._queue.activate(plugin_calls.pods_to_activate(placement))
        self._tasks.begin(self._binding.run(placement))
