"""The scheduling cycle: take a pod from the queue, decide, assume, reserve, permit, and start its binding cycle.

```
queue.pop ─▶ engine.decide ─▶ assume ─▶ reserve ─▶ permit ─▶ a task: the binding cycle (binding.py)
                   │                       │          │                  │
                   └── no node ────────────┴──────────┴──── failed ──────┘
                            └──▶ back into the queue, an event, the pod's condition (failure.py)
```

The loop never waits for the API server. It decides for a few milliseconds and then gives the event loop a turn for
watches, bindings and timers. When nothing is ready it rests until ``wake`` is called, or until the queue's next timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.api.core import Pod
from mooring.api.times import format_duration
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.framework.cycle_state import PODS_TO_ACTIVATE, CycleError, place_of, problem_of
from mooring.core.framework.pod_groups import PodGroupInfo
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import SUCCESS, Code, Status
from mooring.core.queue.queued_pod import QueuedEntity, QueuedPodGroupInfo, QueuedPodInfo
from mooring.core.session import Session
from mooring.live.binding import BindingCycle, PodPlacement, call, nothing_done, pods_to_activate, start, timed
from mooring.live.context import SchedulerContext
from mooring.live.failure import SCHEDULER_ERROR, Failure, FailureHandler
from mooring.live.gather import GatherPause
from mooring.live.logs import get_logger
from mooring.live.pod_groups import GroupAttempts
from mooring.live.time_limits import ATTEMPT_TIMEOUT, NO_LIMIT, AttemptTimeout, DecisionThread, Limit, ThreadLeft

log = get_logger("mooring.live")
_v3 = log.v(3)

SLICE_S = 0.005
"""How long the loop decides before the event loop gets a turn."""
TIMERS_S = 1.0
"""How often a loop that is never at rest looks at the queue's timers, as upstream does."""


class SchedulingLoop:
    """``run`` is the loop; ``schedule_one`` is one round of it, without extenders."""

    def __init__(
        self,
        context: SchedulerContext,
        binding: BindingCycle,
        failures: FailureHandler,
        *,
        on_cut_off: Callable[[], None],
    ) -> None:
        """``on_cut_off`` is called after an attempt that was interrupted in the middle."""
        options = context.options
        self.groups: GroupAttempts | None = None  # where the gate GenericWorkload is on
        self.decisions = 0
        self._context = context
        self._binding = binding
        self._failures = failures
        self._limits = options.limits
        self._attempt_timeout_s = options.attempt_timeout_s
        self._on_cut_off = on_cut_off
        self._pause = GatherPause(options.stand_still, binding, context.tasks) if options.stand_still else None
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
        if self._context.options.is_held():
            self._is_resting = True
            return
        try:
            awaited = self._decide_for_a_while()
            if awaited is not None:
                awaited.add_done_callback(self._go_on)
            elif self._context.queue.has_ready:
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
        queue, now = self._context.queue, self._context.clock.monotonic
        started = now()
        if started >= self._timers_at or not queue.has_ready:
            queue.run_timers()
            self._timers_at = started + TIMERS_S
        until = started + SLICE_S
        while self._evicting is None and (info := queue.pop()) is not None:
            if self._context.session.handle.extenders:
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
        if self._pause is not None:
            self._pause.rest(self.decisions)
        due = self._context.queue.next_wakeup()
        if due is None:  # only what wakes can change that
            return
        if self._alarm is not None:
            if self._alarm_at <= due:
                return
            self._alarm.cancel()
        rest_s = max(0.0, due - self._context.clock.monotonic())
        self._alarm = asyncio.get_running_loop().call_later(rest_s, self._ring)
        self._alarm_at = due

    def _ring(self) -> None:
        self._alarm = None
        self.wake()

    # ---- one pod -----------------------------------------------------------------------------------------------

    def schedule_one(self, info: QueuedEntity) -> None:
        """Try one pod, or one group of pods. Whatever goes wrong costs it an attempt, nothing else."""
        profile = self._profile_for(info)
        if profile is not None:
            started, detail = self._begin(info)
            decision = self._decide(info, self._context.session, profile, detail)
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

        work = thread.run(self._decide, info, self._context.session, profile, detail, leave)
        decision: ScheduleResult | GroupDecision | Exception
        try:
            decision = await self._context.changes.held_during(work)
        except ThreadLeft:
            self._left = [*(left for left in self._left if left.is_alive), thread]
            self._thread = None
            decision = AttemptTimeout()
        # A change that was held back meanwhile may have been about this very pod.
        if isinstance(info, QueuedPodInfo) and self._is_settled(info):
            self._context.queue.done(info.uid)
            return
        self._conclude(info, profile, decision, started)

    def _is_settled(self, info: QueuedPodInfo) -> bool:
        """Whether the pod is gone, or has a node by now."""
        known = self._context.pods.get(info.key)
        is_other = known is None or known.uid != info.uid or bool(known.spec.node_name)
        return is_other or self._context.session.state.pod(info.uid) is not None

    def _profile_for(self, info: QueuedEntity) -> Profile | None:
        """The profile that tries the pod, or None if it is not to be tried."""
        if not isinstance(info, QueuedPodInfo):
            assert isinstance(info, QueuedPodGroupInfo)
            assert self.groups is not None, "only a queue for groups makes them"
            return self.groups.profile_for(info, self._is_skipped)
        pod = info.pod_info.pod
        profile = self._context.session.profiles.get(pod.spec.scheduler_name)
        if profile is None or self._is_skipped(pod):
            self._context.queue.done(info.uid)
            return None
        return profile

    def _is_skipped(self, pod: Pod) -> bool:
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.key}"
            self._failures.event(pod, "Warning", "FailedScheduling", "Scheduling", note)
            return True
        return self._context.session.state.pod(pod.metadata.uid) is not None

    def _begin(self, info: QueuedEntity) -> tuple[float, bool]:
        """When the attempt began, and whether an observer wants the decision in detail."""
        if _v3:
            _v3.info("Attempting to schedule pod", pod=info.key)
        self.decisions += 1
        return self._context.clock.monotonic(), self._context.observers.wants_detail()

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
            took_s = self._context.clock.monotonic() - started
            for tell in self._context.observers.decided:
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
            self.groups.conclude(entity, profile, decision, started)
        elif isinstance(decision, AttemptTimeout):
            self.groups.refuse(entity, self._timed_out(entity.members[0], profile, decision).message)
            self._on_cut_off()
        else:
            assert isinstance(decision, Exception)
            self.groups.refuse(entity, Failure.of_error(decision).message)

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
            assumed = self._context.session.assume(decision.pod, node_name)
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
            self._context.clock,
            to_activate,
            self._context.session.handle.extenders,
            decision.evaluated_nodes,
            decision.feasible_nodes,
        )
        status = reserve(placement)
        waits: dict[str, float] = {}
        if status is SUCCESS or status.is_success:
            status, waits = permit(placement)
        if status is not SUCCESS and not status.is_success:
            self._not_permitted(placement, status)
            return
        if waits:
            placement.waiting = self._context.waiting_pods.add(assumed, node_name, waits)
            for tell in self._context.observers.waiting:
                tell(info, node_name, placement.waiting.pending_plugins)
        if to_activate:
            self._context.queue.activate(pods_to_activate(placement))
        tasks, work = self._context.tasks, self._binding.run(placement)
        if profile.scheduler_name in self._context.custom_binders:
            tasks.spawn(work)
        else:
            tasks.begin(work)

    def _not_permitted(self, placement: PodPlacement, status: Status) -> None:
        """A Reserve or Permit plugin refused the node, or failed."""
        self._binding.undo(placement)
        failure = Failure.of_status(status, on_node=True)
        self._failures.fail(placement.info, placement.profile, failure, placement.started)
        self._failures.after(placement.profile, placement.state, placement.pod)


# ---- plugins of the scheduling cycle, after the decision ------------------------------------------------------------


def reserve(placement: PodPlacement) -> Status:
    """Run Reserve; the caller undoes a failure."""
    started = start(placement)
    try:
        status = placement.profile.run_reserve(placement.state, placement.pod, placement.node_name)
    except CycleError as error:
        status = error.status
    if started is not None:
        timed("Reserve", placement, status, started)
    return status


def permit(placement: PodPlacement) -> tuple[Status, dict[str, float]]:
    """Ask all; a refusal or failure stops. The second value says for which plugins to wait, and how long."""
    if not placement.profile.permit:
        if placement.profile.observer is not None:
            nothing_done("Permit", placement.profile.observer)
        return SUCCESS, {}
    started = start(placement)
    status, waits = _permit(placement)
    if started is not None:
        timed("Permit", placement, Status(Code.WAIT) if waits else status, started)
    return status, waits


def _permit(placement: PodPlacement) -> tuple[Status, dict[str, float]]:
    waits: dict[str, float] = {}
    for plugin in placement.profile.permit:
        text = f'running Permit plugin "{plugin.name}": '
        try:
            status, seconds = call(plugin.name, plugin.permit, placement)
        except Exception as error:
            return Status(Code.ERROR, (text + problem_of(error, plugin.permit),), plugin.name), {}
        if status.is_success:
            continue
        if status.is_rejected:
            return status.by(plugin.name), {}
        if status.code is not Code.WAIT:
            return Status(Code.ERROR, (text + status.message,), plugin.name), {}
        waits[plugin.name] = seconds
    return SUCCESS, waits
