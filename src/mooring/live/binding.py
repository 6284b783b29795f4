"""The binding cycle of a pod that has a node: wait on permit, pre-bind, bind, post-bind; or undo all of it.

```
run ─▶ pre-flight ─▶ nominate ─▶ wait on permit ─▶ pre-bind ─▶ bind ─▶ post-bind
                                       └───────────────┴─────────┴──▶ failed: unreserve, forget, back into the queue
```

Each pod has a task of its own, so that the scheduling cycle never waits for the API server. Whatever a plugin raises
becomes the status of its pod, and never ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.core.engine.cycle import release
from mooring.core.framework.cluster_event import ClusterEvent
from mooring.core.framework.cycle_state import CycleState, PluginTimer, problem_of
from mooring.core.framework.extender import ExtenderClient, ExtenderError
from mooring.core.framework.handle import CycleObserver
from mooring.core.framework.interfaces import PreFlight
from mooring.core.framework.registry import ResolvedPlugin
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import CODE_NAMES, SKIP, SUCCESS, Code, Status
from mooring.core.queue.events import ASSIGNED_POD_DELETE
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.live.context import SchedulerContext
from mooring.live.failure import Failure, FailureHandler
from mooring.live.logs import get_logger
from mooring.live.preemption import PreemptionExecutor
from mooring.live.status_patch import StatusPatches, status_patch
from mooring.live.waiting_pods import PermitWait, PreBinding
from mooring.live.writer import reference_to

log = get_logger("mooring.live.binding")
T = TypeVar("T")
_v2, _v3, _v4 = log.v(2), log.v(3), log.v(4)

READY = PreFlight(SUCCESS)


class PodPlacement(msgspec.Struct):
    """A pod with its node, on the way to be bound. The decision is not held: its columns take a lot of memory."""

    info: QueuedPodInfo
    profile: Profile
    state: CycleState
    pod: PodInfo  # assumed
    node_name: str
    started: float
    clock: Clock
    to_activate: dict[str, Pod]  # which pods its plugins want to be tried at once
    extenders: Sequence[ExtenderClient] = ()
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    waiting: PermitWait | None = None


class BindingCycle:
    """Runs binding cycles."""

    def __init__(
        self,
        context: SchedulerContext,
        patches: StatusPatches,
        failures: FailureHandler,
        preemptions: PreemptionExecutor,
    ) -> None:
        self._context = context
        self._patches = patches
        self._failures = failures
        self._preemptions = preemptions
        self._nominates_in_advance = context.options.features["NominatedNodeNameForExpectation"]
        self._freed: list[tuple[ClusterEvent, Object, Object]] | None = None  # only while a failed binding is undone
        self.under_way: set[str] = set()  # uids of pods whose binding is not acknowledged yet
        self.steps_before = 0  # how many of them wait for answers that other requests follow before they are bound

    async def run(self, placement: PodPlacement) -> None:
        """Bind a pod, or undo what was done for it. Never raises, except when cancelled."""
        uid = placement.pod.uid
        self.under_way.add(uid)
        for tell in self._context.observers.binding:
            tell(placement.info)
        try:
            status, on_node = await self._attempt(placement)
        except Exception as error:  # our own mistake: it costs this pod an attempt
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
        """The status, and whether a refusal is one of the chosen node."""
        status, groups = pre_flights(placement)
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
            if started is not None:
                timed("PreBind", placement, status, started)
            if not status.is_success:
                return status, False
        elif placement.profile.observer is not None:
            nothing_done("PreBind", placement.profile.observer)
        if _v3:
            _v3.info("Attempting to bind pod to node", pod=placement.info.key, node=placement.node_name)
        self._patches.drop(placement.pod.uid)
        status = await bind(placement)
        if status is SUCCESS or status.is_success:
            self._finish(placement)
        return status, False

    async def _step_before(self, step: Coroutine[Any, Any, T]) -> T:
        """Do something that has to be done before a pod is bound."""
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
        """Run the groups one after another; the pod may be stopped meanwhile."""
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
        """Take back what was reserved and assumed."""
        take_back(self._context.session.state, placement)

    def freed(self, event: ClusterEvent, before: Object, after: Object) -> None:
        """A plugin gives back what it had reserved. Other pods are told only if a binding failed: a reservation that
        ends with its own scheduling cycle was never seen by another pod."""
        if self._freed is not None:
            self._freed.append((event, before, after))

    def _failed(self, placement: PodPlacement, status: Status, on_node: bool) -> None:
        """Take back what was assumed, wake the pods that might use it, and bring the pod back."""
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
        # Upstream wakes no pod if the watch has moved the pod elsewhere meanwhile; its room is free all the same.
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


# ---- plugins of the binding cycle ----------------------------------------------------------------------------------


def pre_flights(placement: PodPlacement) -> tuple[Status, list[list[ResolvedPlugin]]]:
    """Ask which plugins have something to do before binding; those that may run side by side stand in one group."""
    if placement.profile.observer is None:
        return _pre_flights(placement)
    started = placement.clock.monotonic()
    status, groups = _pre_flights(placement)
    timed("PreBindPreFlight", placement, status, started)
    return status, groups


def _pre_flights(placement: PodPlacement) -> tuple[Status, list[list[ResolvedPlugin]]]:
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
        if status is SKIP:  # nearly always
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
            joinable &= flight.allow_parallel  # also one that is skipped separates its neighbours
    return SUCCESS, groups


async def pre_bind(plugin: ResolvedPlugin, placement: PodPlacement) -> Status:
    text = f'running PreBind plugin "{plugin.name}": '
    try:
        status = await _wait_for(plugin.name, plugin.pre_bind, placement)
    except Exception as error:
        return Status(Code.ERROR, (text + problem_of(error, plugin.pre_bind),), plugin.name)
    if status.is_success or status.is_rejected:
        return status.by(plugin.name)
    return Status(Code.ERROR, (text + status.message,), plugin.name)


def bind(placement: PodPlacement) -> Awaitable[Status]:
    """Let the first extender bind that does so for this pod, or else the first Bind plugin that does not skip it."""
    work = _bind(placement) if placement.extenders else _bind_by_plugin(placement)
    return work if placement.profile.observer is None else _timed_bind(placement, work)


async def _timed_bind(placement: PodPlacement, work: Awaitable[Status]) -> Status:
    started = placement.clock.monotonic()
    status = await work
    timed("Bind", placement, status, started)
    return status


async def _bind(placement: PodPlacement) -> Status:
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
    return await _bind_by_plugin(placement)


async def _bind_by_plugin(placement: PodPlacement) -> Status:
    for plugin in placement.profile.bind:
        try:
            status = await _wait_for(plugin.name, plugin.bind, placement)
        except Exception as error:
            problem = problem_of(error, plugin.bind)
        else:
            if status is SUCCESS:
                return status
            if status.is_skip:
                continue
            if status.is_success or status.is_rejected:
                return status.by(plugin.name)
            problem = status.message
        return Status(Code.ERROR, (f'running Bind plugin "{plugin.name}": {problem}',), plugin.name)
    if not placement.profile.bind:
        return Status.error(f"no Bind plugin in the profile {placement.profile.scheduler_name}")
    return Status.error("all Bind plugins skipped the pod")


def post_bind(placement: PodPlacement) -> None:
    """Run PostBind, whichever plugin fails."""
    if not placement.profile.post_bind:
        if placement.profile.observer is not None:
            nothing_done("PostBind", placement.profile.observer)
        return
    started = start(placement)
    for plugin in placement.profile.post_bind:
        try:
            call(plugin.name, plugin.post_bind, placement)
        except Exception as error:
            problem = problem_of(error, plugin.post_bind)
            log.error(problem, "PostBind failed", plugin=plugin.name, pod=placement.info.key)
    if started is not None:
        timed("PostBind", placement, SUCCESS, started)


def take_back(cluster: ClusterState, placement: PodPlacement) -> None:
    """Undo what was reserved, whichever plugin fails, and what was assumed."""
    started = start(placement)
    for problem in release(cluster, placement.profile, placement.state, placement.pod):
        log.error(problem.message, "Unreserve failed", plugin=problem.plugin, pod=placement.info.key)
    if started is not None:
        timed("Unreserve", placement, SUCCESS, started)


def pods_to_activate(placement: PodPlacement) -> list[Pod]:
    """Take out the pods that plugins want to be tried at once."""
    asked = placement.to_activate
    pods = [pod for pod in asked.values() if isinstance(pod, Pod)]
    if len(pods) != len(asked):
        log.error(None, "A plugin asked to activate something that is not a Pod", pod=placement.info.key)
    asked.clear()
    return pods


# ---- calls and their durations -------------------------------------------------------------------------------------


def start(placement: PodPlacement) -> float | None:
    """When an extension point begins; None if nobody wants to know."""
    return None if placement.profile.observer is None else placement.clock.monotonic()


def timed(point: str, placement: PodPlacement, status: Status, started: float) -> None:
    """Tell the profile's observer how long an extension point took."""
    observer = placement.profile.observer
    if observer is not None:
        observer.extension_point(point, CODE_NAMES[status.code], placement.clock.monotonic() - started)


def nothing_done(point: str, observer: CycleObserver) -> None:
    """Tell of an extension point that has nothing to do, which takes no time."""
    observer.extension_point(point, "Success", 0.0)


def call(name: str, method: Callable[..., T], placement: PodPlacement) -> T:
    """Call a plugin's method about a placement, with a look at the clock in attempts that are timed."""
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


def _wait_for(name: str, method: Callable[..., Awaitable[Status]], placement: PodPlacement) -> Awaitable[Status]:
    """The same for a method that waits."""
    timer = placement.state.timer
    if timer is None:
        return method(placement.state, placement.pod, placement.node_name)
    return _time_wait(name, method, placement, timer)


async def _time_wait(
    name: str, method: Callable[..., Awaitable[Status]], placement: PodPlacement, timer: PluginTimer
) -> Status:
    started = timer.now()
    try:
        status = await method(placement.state, placement.pod, placement.node_name)
    except Exception as error:
        timer.tell(name, method, error, started)
        raise
    timer.tell(name, method, status, started)
    return status
