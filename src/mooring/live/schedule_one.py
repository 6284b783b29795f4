"""One attempt at a pod, from top to bottom: the scheduling cycle, and the binding cycle that follows it.

```
schedule_one ─▶ engine.decide ─▶ assume ─▶ reserve ─▶ permit ─▶ a task: the binding cycle
                     │                        │          │
                     └── no node ─────────────┴──────────┴──▶ failed: back into the queue, an event, the pod's condition

The scheduling cycle never waits for the API server: each pod is bound in its own task. An exception of a plugin becomes
the status of its pod, and never ends the process. failure.py handles failures.

The scheduling cycle never waits for the API server: each pod is bound in its own task. What a plugin raises becomes the
status of its pod, and never ends the process. What follows a failure is in failure.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.times import format_duration
from mooring.core.engine.cycle import release
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.framework.cluster_event import ClusterEvent
from mooring.core.framework.cycle_state import PODS_TO_ACTIVATE, CycleError, CycleState, place_of, problem_of
from mooring.core.framework.extender import ExtenderClient, ExtenderError
from mooring.core.framework.interfaces import PreFlight
from mooring.core.framework.pod_groups import PodGroupInfo
from mooring.core.framework.registry import ResolvedPlugin
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import CODE_NAMES, SKIP, SUCCESS, Code, Status
from mooring.core.queue.events import ASSIGNED_POD_DELETE
from mooring.core.queue.pod_group_queue import PodGroupQueue
from mooring.core.queue.queued_pod import QueuedEntity, QueuedPodGroupInfo, QueuedPodInfo
from mooring.core.session import Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.live.context import SchedulerContext
from mooring.live.failure import SCHEDULER_ERROR, Failure, FailureHandler
from mooring.live.logs import get_logger
from mooring.live.pod_groups import GroupAttempts
from mooring.live.preemption import PreemptionExecutor
from mooring.live.refusals import RepeatedRefusals, is_plain
from mooring.live.status_patch import StatusPatches, status_patch
from mooring.live.time_limits import ATTEMPT_TIMEOUT, NO_LIMIT, AttemptTimeout, DecisionThread, Limit, ThreadLeft
from mooring.live.waiting_pods import PermitWait, PreBinding
from mooring.live.writer import reference_to

log = get_logger("mooring.live")
T = TypeVar("T")
_v2, _v3, _v4 = log.v(2), log.v(3), log.v(4)

READY = PreFlight(SUCCESS)
NOT_TIMED = -1.0  # start time of an extension point that is not timed


class PodPlacement(msgspec.Struct):
    """A pod with its node while it is being bound. The decision is not kept: its columns take a lot of memory."""

    info: QueuedPodInfo
    profile: Profile
    state: CycleState
    pod: PodInfo  # assumed
    node_name: str
    started: float
    clock: Clock
    to_activate: dict[str, Pod]  # pods that its plugins want to be activated
    extenders: Sequence[ExtenderClient] = ()
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    waiting: PermitWait | None = None


class PodAttempts:
    """Tries pods, and binds those that got a node."""

    def __init__(
        self,
        context: SchedulerContext,
        preemptions: PreemptionExecutor,
        *,
        on_cut_off: Callable[[], None],
        draws: list[int],
        draw: Callable[[int], int],
    ) -> None:
        """``on_cut_off`` is called after an attempt that was interrupted.

        ``draws`` gathers from how many each random number is drawn; ``draw`` draws another one.
        """
        options = context.options
        self._context = context
        self._patches = StatusPatches(context.writer, context.tasks, options.condition_turn)
        self._failures = FailureHandler(context, self._patches, preemptions)
        self._preemptions = preemptions
        self.refusals = RepeatedRefusals(context, self._failures, draws, draw)
        self._on_cut_off = on_cut_off
        self._limits = options.limits
        self._attempt_timeout_s = options.attempt_timeout_s
        self._nominates_in_advance = options.features["NominatedNodeNameForExpectation"]
        self._groups: GroupAttempts | None = None
        if isinstance(context.queue, PodGroupQueue):  # where the gate GenericWorkload is on
            self._groups = GroupAttempts(context, context.queue, self._failures, self.place)
        self._thread: DecisionThread | None = None  # for decisions that ask extenders
        self._left: list[DecisionThread] = []  # threads that hang
        self._freed: list[tuple[ClusterEvent, Object, Object]] | None = None  # only while a failed binding is undone
        self.decisions = 0
        self.evicting: asyncio.Future[None] | None = None  # pending evictions that end before the next pod is tried
        self.under_way: set[str] = set()  # uids of pods whose binding is not acknowledged yet
        self.steps_before = 0  # how many of them wait for a request that precedes their binding

    @property
    def hanging(self) -> int:
        """Number of decisions that hang in abandoned threads. Callable in any thread."""
        return sum(left.is_alive for left in self._left)

    def close(self) -> None:
        """Let the thread for decisions end, if there is one."""
        if self._thread is not None:
            self._thread.close()

    # ---- the scheduling cycle ----------------------------------------------------------------------------------

    def schedule_one(self, info: QueuedEntity) -> None:
        """Try one pod, or one group of pods. An error costs only this attempt."""
        profile = self._profile_for(info)
        if profile is not None:
            started, detail = self._begin(info)
            self._try(info, profile, started, detail)

    def _try(self, info: QueuedEntity, profile: Profile, started: float, detail: bool) -> None:
        self.refusals.begin()
        decision = self._decide(info, self._context.session, profile, detail)
        self._conclude(info, profile, decision, started)
        if isinstance(info, QueuedPodInfo) and isinstance(decision, ScheduleResult) and decision.node is None:
            self.refusals.remember(info, profile, decision)
        else:
            self.refusals.forget()

    def refuse_next(self, most: int, until: float) -> int:
        """Try the next pods that are like one that was refused in this turn; returns how many there were."""
        count = self.refusals.refuse_next(most, until, self._try)
        self.decisions += count
        return count

    async def schedule_in_thread(self, info: QueuedEntity) -> None:
        """Try one pod, or one group of pods, in a thread: the event loop continues, and the cluster does not change."""
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
        # A deferred change may concern this very pod.
        if isinstance(info, QueuedPodInfo) and self._is_settled(info):
            self._context.queue.done(info.uid)
            return
        self._conclude(info, profile, decision, started)

    def _is_settled(self, info: QueuedPodInfo) -> bool:
        """Report whether the pod is deleted or has a node by now."""
        known = self._context.pods.get(info.key)
        is_other = known is None or known.uid != info.uid or bool(known.spec.node_name)
        return is_other or self._context.session.state.pod(info.uid) is not None

    def _profile_for(self, info: QueuedEntity) -> Profile | None:
        """Return the profile that tries the pod, or None to skip it."""
        if not isinstance(info, QueuedPodInfo):
            assert isinstance(info, QueuedPodGroupInfo)
            assert self._groups is not None, "only a queue for groups makes them"
            return self._groups.profile_for(info, self._is_skipped)
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
        """Return the start time of the attempt, and whether an observer wants the decision in detail."""
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
            if not self._attempt_timeout_s and isinstance(info, QueuedPodInfo):  # there is no limit to check
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
        except Exception as error:  # plugin errors are caught closer to the plugin; this is a bug in mooring
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
                self.evicting = self._failures.refused(info, profile, decision, started)
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
        assert self._groups is not None
        if isinstance(decision, GroupDecision):
            self._groups.conclude(entity, profile, decision, started)
        elif isinstance(decision, AttemptTimeout):
            self._groups.refuse(entity, self._timed_out(entity.members[0], profile, decision).message)
            self._on_cut_off()
        else:
            assert isinstance(decision, Exception)
            self._groups.refuse(entity, Failure.of_error(decision).message)

    def _timed_out(self, info: QueuedPodInfo, profile: Profile, error: AttemptTimeout) -> Failure:
        """Describe an attempt that ran out of time. After a repeated timeout the pod waits for the periodic flush."""
        took = format_duration(self._attempt_timeout_s)
        where = place_of(error, {type(plugin.plugin).__module__ for plugin in profile.plugins.values()})
        message = f"the attempt to find a node did not end within {took}{where}"
        waits = frozenset((ATTEMPT_TIMEOUT,)) if info.consecutive_errors_count else frozenset()
        return Failure(SCHEDULER_ERROR, message, waits)

    def place(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, started: float) -> None:
        """Start to bind a pod: assume, reserve, permit, and a task for the binding cycle."""
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
        is_brief = (
            not waits
            and self._context.options.binds_at_once(info.key)
            and self.refusals.is_pure(self._context.session, profile)
            and is_plain(info)
        )
        (self._context.tasks.spawn_brief if is_brief else self._context.tasks.spawn)(self.bind_pod(placement))

    def _not_permitted(self, placement: PodPlacement, status: Status) -> None:
        """Handle a Reserve or Permit plugin that rejected the node, or failed."""
        self.undo(placement)
        failure = Failure.of_status(status, on_node=True)
        self._failures.fail(placement.info, placement.profile, failure, placement.started)
        self._failures.after(placement.profile, placement.state, placement.pod)

    # ---- the binding cycle -------------------------------------------------------------------------------------

    async def bind_pod(self, placement: PodPlacement) -> None:
        """Bind a pod, or undo its reservation. Never raises, except when cancelled."""
        uid = placement.pod.uid
        self.under_way.add(uid)
        for tell in self._context.observers.binding:
            tell(placement.info)
        try:
            status, on_node = await self._attempt(placement)
        except Exception as error:  # a bug in mooring: it costs this pod an attempt
            log.error(error, "Unexpected error in a binding cycle", pod=placement.info.key)
            status, on_node = Status.error(f"{type(error).__name__}: {error}"), False
        finally:
            self.under_way.discard(uid)
            for tell in self._context.observers.binding_ended:
                tell(placement.info)
            if placement.waiting is not None:
                self._context.waiting_pods.remove(uid)
        if status is not SUCCESS and not status.is_success:
            self._context.changes(self._failed, placement, status, on_node)

    async def _attempt(self, placement: PodPlacement) -> tuple[Status, bool]:
        """Return the status, and whether it is a rejection of the chosen node."""
        started = start(placement)
        status, groups = pre_flights(placement)
        timed("PreBindPreFlight", placement, status, started)
        if status is not SUCCESS:
            return status, False
        if self._nominates_in_advance and (groups or placement.waiting is not None):
            await self._step_before(self._nominate(placement))
        if placement.waiting is not None:
            status = await self._wait_on_permit(placement)
            if not status.is_success:
                return status, True
        # From here on no cluster event can make this attempt succeed: a failure is retried after backoff.
        self._context.changes(self._context.queue.done, placement.pod.uid)
        if groups:
            started = start(placement)
            status = await self._step_before(self._pre_bind(placement, groups))
            timed("PreBind", placement, status, started)
            if not status.is_success:
                return status, False
        else:
            nothing_done("PreBind", placement)
        if _v3:
            _v3.info("Attempting to bind pod to node", pod=placement.info.key, node=placement.node_name)
        self._patches.drop(placement.pod.uid)
        status = await bind(placement)
        if status is SUCCESS or status.is_success:
            self._finish(placement)
        return status, False

    async def _step_before(self, step: Coroutine[Any, Any, T]) -> T:
        """Await a request that must precede the binding."""
        self.steps_before += 1
        try:
            return await step
        finally:
            self.steps_before -= 1

    async def _nominate(self, placement: PodPlacement) -> None:
        """Write the node into the status of a pod whose binding takes a while."""
        pod = self._context.pods.get(placement.info.key)
        if pod is None or pod.uid != placement.pod.uid:
            return
        patch = status_patch(pod, self._context.clock.now(), nominated_node=placement.node_name)
        if patch is not None:
            await self._patches.send(pod, patch)

    async def _wait_on_permit(self, placement: PodPlacement) -> Status:
        assert placement.waiting is not None
        if _v4:
            _v4.info("Pod waiting on permit", pod=placement.info.key)
        started = self._context.clock.monotonic()
        status = await placement.waiting.verdict()
        self._context.waiting_pods.remove(placement.pod.uid)
        for tell in self._context.observers.waited:
            tell(placement.info, status.code, self._context.clock.monotonic() - started)
        if status.is_success or status.is_rejected:
            return status
        return Status(Code.ERROR, (f"waiting on permit for pod: {status.message}",), status.plugin)

    async def _pre_bind(self, placement: PodPlacement, groups: Sequence[Sequence[ResolvedPlugin]]) -> Status:
        """Run the groups one after another; the pod may be cancelled in between."""
        uid = placement.pod.uid
        task = asyncio.create_task(self._run_groups(placement, groups), name=f"pre-bind {placement.info.key}")
        guard = self._context.waiting_pods.pre_binding[uid] = PreBinding(task)
        try:
            status = await task
        except asyncio.CancelledError:
            if not guard.stopped_by:
                task.cancel()
                raise
            status = Status.error(guard.stopped_by)
        finally:
            del self._context.waiting_pods.pre_binding[uid]
        if status.is_success and not guard.finish():
            return Status.error(guard.stopped_by)
        return status

    @staticmethod
    async def _run_groups(placement: PodPlacement, groups: Sequence[Sequence[ResolvedPlugin]]) -> Status:
        for group in groups:
            if len(group) == 1:
                status = await pre_bind(group[0], placement)
                if not status.is_success:
                    return status
                continue
            tasks = [asyncio.create_task(pre_bind(plugin, placement)) for plugin in group]
            try:
                for finished in asyncio.as_completed(tasks):
                    status = await finished
                    if not status.is_success:
                        return status  # the first failure stops the others
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return SUCCESS

    def _finish(self, placement: PodPlacement) -> None:
        info, pod = placement.info, placement.pod.pod
        if _v2:
            _v2.info(
                "Successfully bound pod to node",
                pod=info.key,
                node=placement.node_name,
                evaluatedNodes=placement.evaluated_nodes,
                feasibleNodes=placement.feasible_nodes,
            )
        self._context.recorder.record(
            reference_to(pod),
            type="Normal",
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {info.key} to {placement.node_name}",
            controller=placement.profile.scheduler_name,
        )
        took_s = self._context.clock.monotonic() - placement.started
        for tell in self._context.observers.bound:
            tell(info, placement.profile, placement.node_name, took_s)
        post_bind(placement)
        if placement.to_activate:
            self._context.changes(self._context.queue.activate, pods_to_activate(placement))

    # ---- failure -------------------------------------------------------------------------------------------------

    def undo(self, placement: PodPlacement) -> None:
        """Undo reservations and the assumption."""
        take_back(self._context.session.state, placement)

    def freed(self, event: ClusterEvent, before: Object, after: Object) -> None:
        """Handle a plugin that releases a reservation.

        Other pods are woken only if a binding failed: a reservation that ends within its own scheduling cycle was never
        visible to another pod.
        """
        if self._freed is not None:
            self._freed.append((event, before, after))

    def _failed(self, placement: PodPlacement, status: Status, on_node: bool) -> None:
        """Undo the assumption, wake pods that might use the room, and requeue the pod."""
        if self._context.tasks.is_aborted:
            return
        failure = Failure.of_status(status, on_node=on_node)
        for tell in self._context.observers.binding_failed:
            tell(placement.info, failure.message)
        given_back = self._freed = []
        self.undo(placement)
        self._freed = None
        freed = placement.pod.pod
        counted = self._context.session.state.pod(freed.uid)
        # Upstream wakes no pod if the watch has moved the pod elsewhere; its former room is free nevertheless.
        is_free = counted is None or counted.pod.spec.node_name != placement.node_name
        self._preemptions.victim_goes(freed.key)
        if is_free and not failure.is_rejection:
            self._context.queue.move_all(ASSIGNED_POD_DELETE, freed, None)
        self._failures.fail(placement.info, placement.profile, failure, placement.started)
        if is_free and failure.is_rejection:
            self._context.queue.move_all(ASSIGNED_POD_DELETE, freed, None, lambda pod: pod.uid != freed.uid)
        for event, before, after in given_back:
            self._context.queue.move_all(event, before, after, lambda pod: pod.uid != freed.uid)
        self._failures.after(placement.profile, placement.state, placement.pod)


# ---- plugins, after the decision ------------------------------------------------------------------------------------


def reserve(placement: PodPlacement) -> Status:
    """Run Reserve; the caller undoes a failure."""
    started = start(placement)
    try:
        status = placement.profile.run_reserve(placement.state, placement.pod, placement.node_name)
    except CycleError as error:
        status = error.status
    timed("Reserve", placement, status, started)
    return status


def permit(placement: PodPlacement) -> tuple[Status, dict[str, float]]:
    """Ask all Permit plugins until one rejects or fails. The second value maps plugins to their timeouts."""
    if not placement.profile.permit:
        nothing_done("Permit", placement)
        return SUCCESS, {}
    started = start(placement)
    status, waits = _permit(placement)
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


def pre_flights(placement: PodPlacement) -> tuple[Status, list[list[ResolvedPlugin]]]:
    """Ask which plugins have work before binding; plugins that may run in parallel share a group."""
    groups: list[list[ResolvedPlugin]] = []
    joinable = False
    state, pod, node_name, timer = placement.state, placement.pod, placement.node_name, placement.state.timer
    for plugin in placement.profile.pre_bind:
        ask = plugin.pre_bind_pre_flight
        try:
            if ask is None:
                flight = READY
            elif timer is None:
                flight = ask(state, pod, node_name)
            else:
                flight = call(plugin.name, ask, placement)
        except Exception as error:
            problem = problem_of(error, ask or plugin.pre_bind)
            return Status(Code.ERROR, (f'running PreBindPreFlight "{plugin.name}": {problem}',), plugin.name), []
        status = flight.status
        if status is SKIP:  # the usual case
            joinable &= flight.allow_parallel
        elif status.is_success:
            if flight.allow_parallel and joinable:
                groups[-1].append(plugin)
            else:
                groups.append([plugin])
            joinable = flight.allow_parallel
        elif status.code is Code.ERROR:
            return Status(Code.ERROR, (f'running PreBindPreFlight "{plugin.name}": {status.message}',), plugin.name), []
        elif not status.is_skip:
            name = CODE_NAMES[status.code]
            text = (
                f'PreBindPreFlight {plugin.name} returned "{name}", which is unsupported. '
                "It is supposed to return Success, Skip, or Error status"
            )
            return Status(Code.ERROR, (text,), plugin.name), []
        else:
            joinable &= flight.allow_parallel  # a skipped plugin also separates its neighbours
    return SUCCESS, groups


async def pre_bind(plugin: ResolvedPlugin, placement: PodPlacement) -> Status:
    return await _await_plugin("PreBind", plugin.name, plugin.pre_bind, placement)


async def bind(placement: PodPlacement) -> Status:
    """Let the first interested extender bind the pod, or else the first Bind plugin that does not skip it."""
    started = start(placement)
    status = await _bind_by_extender(placement) if placement.extenders else SKIP
    for plugin in placement.profile.bind:
        if not status.is_skip:
            break
        status = await _await_plugin("Bind", plugin.name, plugin.bind, placement)
    if status.is_skip:
        has_plugins = bool(placement.profile.bind)
        name = placement.profile.scheduler_name
        status = Status.error(
            "all Bind plugins skipped the pod" if has_plugins else f"no Bind plugin in the profile {name}"
        )
    timed("Bind", placement, status, started)
    return status


async def _bind_by_extender(placement: PodPlacement) -> Status:
    for extender in placement.extenders:
        if extender.is_binder and extender.is_interested(placement.pod):
            try:
                await asyncio.to_thread(extender.bind, placement.pod, placement.node_name)
                return SUCCESS
            except ExtenderError as error:
                if not extender.is_ignorable:
                    return Status.error(str(error))
                log.info(
                    "Skipping extender in bind as it returned error and has ignorable flag set",
                    extender=extender.name,
                    err=str(error),
                )
    return SKIP


async def _await_plugin(
    point: str, name: str, method: Callable[..., Awaitable[Status]], placement: PodPlacement
) -> Status:
    """Await a plugin's PreBind or Bind; exceptions become an error status. Only Bind may skip a pod."""
    timer = placement.state.timer
    started = 0.0 if timer is None else timer.now()
    answer: Status | Exception
    try:
        answer = await method(placement.state, placement.pod, placement.node_name)
    except Exception as error:
        answer = error
    if timer is not None:
        timer.tell(name, method, answer, started)
    if answer is SUCCESS:
        return SUCCESS
    if isinstance(answer, Exception):
        problem = problem_of(answer, method)
    elif answer.is_success or answer.is_rejected or (answer.is_skip and point == "Bind"):
        return answer.by(name)
    else:
        problem = answer.message
    return Status(Code.ERROR, (f'running {point} plugin "{name}": {problem}',), name)


def post_bind(placement: PodPlacement) -> None:
    """Run all PostBind plugins, even if one fails."""
    if not placement.profile.post_bind:
        nothing_done("PostBind", placement)
        return
    started = start(placement)
    for plugin in placement.profile.post_bind:
        try:
            call(plugin.name, plugin.post_bind, placement)
        except Exception as error:
            problem = problem_of(error, plugin.post_bind)
            log.error(problem, "PostBind failed", plugin=plugin.name, pod=placement.info.key)
    timed("PostBind", placement, SUCCESS, started)


def take_back(cluster: ClusterState, placement: PodPlacement) -> None:
    """Undo all reservations, even if a plugin fails, and the assumption."""
    started = start(placement)
    for problem in release(cluster, placement.profile, placement.state, placement.pod):
        log.error(problem.message, "Unreserve failed", plugin=problem.plugin, pod=placement.info.key)
    timed("Unreserve", placement, SUCCESS, started)


def pods_to_activate(placement: PodPlacement) -> list[Pod]:
    """Remove and return the pods that plugins want to be activated."""
    asked = placement.to_activate
    pods = [pod for pod in asked.values() if isinstance(pod, Pod)]
    if len(pods) != len(asked):
        log.error(None, "A plugin asked to activate something that is not a Pod", pod=placement.info.key)
    asked.clear()
    return pods


# ---- calls and their durations -------------------------------------------------------------------------------------


def start(placement: PodPlacement) -> float:
    """Return the start time of an extension point, for ``timed``."""
    return NOT_TIMED if placement.profile.observer is None else placement.clock.monotonic()


def timed(point: str, placement: PodPlacement, status: Status, started: float) -> None:
    """Report the duration of an extension point to the profile's observer."""
    observer = placement.profile.observer
    if observer is not None:
        observer.extension_point(point, CODE_NAMES[status.code], placement.clock.monotonic() - started)


def nothing_done(point: str, placement: PodPlacement) -> None:
    """Report an extension point without plugins to run, which takes no time."""
    observer = placement.profile.observer
    if observer is not None:
        observer.extension_point(point, "Success", 0.0)


def call(name: str, method: Callable[..., T], placement: PodPlacement) -> T:
    """Call a plugin's method about a placement, timed in sampled attempts."""
    state, timer = placement.state, placement.state.timer
    if timer is None:
        return method(state, placement.pod, placement.node_name)
    started = timer.now()
    try:
        answer = method(state, placement.pod, placement.node_name)
    except Exception as error:
        timer.tell(name, method, error, started)
        raise
    timer.tell(name, method, answer, started)
    return answer
