"""The binding cycle: permit, pre-bind, bind, post-bind; one task per pod, beside the loop that decides."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from mooring.clock import Clock
from mooring.framework.cycle_state import PODS_TO_ACTIVATE
from mooring.framework.resolved import ResolvedPlugin
from mooring.framework.status import CODE_NAMES, SUCCESS, Code, Status
from mooring.observe.events import EventRecorder
from mooring.observe.logs import get_logger
from mooring.queue.scheduling_queue import SchedulingQueue
from mooring.scheduler import plugin_calls
from mooring.scheduler.attempt import Placement
from mooring.scheduler.meters import Meters
from mooring.scheduler.waiting_pods import WaitingPods
from mooring.scheduler.writer import reference_to

log = get_logger("mooring.scheduler.binding")
_v2, _v3, _v4 = log.v(2), log.v(3), log.v(4)

Nominate = Callable[[Placement], "asyncio.Future[None]"]


class PreBinding:
    """A pod whose volumes or devices are just being bound; a more important pod may stop that."""

    __slots__ = ("_is_over", "_task", "stopped_by")

    def __init__(self, task: asyncio.Task[Status]) -> None:
        self._task = task
        self._is_over = False
        self.stopped_by = ""

    def cancel(self, why: str) -> bool:
        """Stop it; false if it is too late for that."""
        if self._is_over or self._task.done():
            return False
        self.stopped_by = why
        self._task.cancel()
        return True

    def finish(self) -> bool:
        """Pre-binding is done: from now on it cannot be stopped. False if it was."""
        self._is_over = True
        return not self.stopped_by


class BindingCycle:
    """Runs binding cycles. What became of a pod is told to ``on_failure``; a success needs nobody's help."""

    def __init__(
        self,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        recorder: EventRecorder,
        meters: Meters,
        clock: Clock,
        pre_binding: dict[str, PreBinding],
        *,
        nominate: Nominate,
        on_failure: Callable[[Placement, Status, bool], None],
        nominates_in_advance: bool = True,  # the gate NominatedNodeNameForExpectation
        is_fenced: Callable[[], bool] = lambda: False,
    ) -> None:
        self._queue = queue
        self._waiting_pods = waiting_pods
        self._recorder = recorder
        self._meters = meters
        self._clock = clock
        self._nominate = nominate
        self._on_failure = on_failure
        self._nominates_in_advance = nominates_in_advance
        self._is_fenced = is_fenced
        self._pre_binding = pre_binding  # by uid

    async def run(self, placement: Placement) -> None:
        """Bind a pod, or undo what was done for it. Never raises, except when cancelled."""
        self._meters.bindings.inc()
        try:
            status, on_node = await self._attempt(placement)
        except Exception as error:  # our own mistake: it costs this pod an attempt
            log.error(error, "Unexpected error in a binding cycle", pod=placement.info.key)
            status, on_node = Status.error(f"{type(error).__name__}: {error}"), False
        finally:
            self._meters.bindings.dec()
            if placement.waiting is not None:
                self._waiting_pods.remove(placement.pod.uid)
        if not status.is_success:
            self._on_failure(placement, status, on_node)

    async def _attempt(self, placement: Placement) -> tuple[Status, bool]:
        """The status, and whether a refusal is one of the chosen node."""
        status, groups = plugin_calls.pre_flights(placement)
        if not status.is_success:
            return status, False
        if self._nominates_in_advance and (groups or placement.waiting is not None):
            await self._nominate(placement)
        if placement.waiting is not None:
            status = await self._wait_on_permit(placement)
            if not status.is_success:
                return status, True
        uid = placement.pod.uid
        self._queue.done(uid)  # what fails from here on is retried after backoff, whatever happens in the cluster
        if groups:
            started = self._clock.monotonic()
            status = await self._pre_bind(placement, groups)
            self._time("PreBind", placement, status, started)
            if not status.is_success:
                return status, False
        if self._is_fenced():
            return Status.error("the lease is lost: another replica may be binding this pod"), False
        if _v3:
            _v3.info("Attempting to bind pod to node", pod=placement.info.key, node=placement.node_name)
        started = self._clock.monotonic()
        status = await plugin_calls.bind(placement)
        self._time("Bind", placement, status, started)
        if status.is_success:
            self._finish(placement)
        return status, False

    async def _wait_on_permit(self, placement: Placement) -> Status:
        assert placement.waiting is not None
        if _v4:
            _v4.info("Pod waiting on permit", pod=placement.info.key)
        started = self._clock.monotonic()
        status = await placement.waiting.verdict()
        self._waiting_pods.remove(placement.pod.uid)
        waited_s = self._clock.monotonic() - started
        self._meters.metrics.permit_wait_duration.labels(CODE_NAMES[status.code]).observe(waited_s)
        if status.is_success or status.is_rejected:
            return status
        return Status(Code.ERROR, (f"waiting on permit for pod: {status.message}",), status.plugin)

    async def _pre_bind(self, placement: Placement, groups: Sequence[Sequence[ResolvedPlugin]]) -> Status:
        """Run the groups one after another; the pod may be stopped meanwhile."""
        uid = placement.pod.uid
        task = asyncio.create_task(self._run_groups(placement, groups), name=f"pre-bind {placement.info.key}")
        guard = self._pre_binding[uid] = PreBinding(task)
        try:
            status = await task
        except asyncio.CancelledError:
            if not guard.stopped_by:
                task.cancel()
                raise
            status = Status.error(guard.stopped_by)
        finally:
            del self._pre_binding[uid]
        if status.is_success and not guard.finish():
            return Status.error(guard.stopped_by)
        return status

    @staticmethod
    async def _run_groups(placement: Placement, groups: Sequence[Sequence[ResolvedPlugin]]) -> Status:
        for group in groups:
            if len(group) == 1:
                status = await plugin_calls.pre_bind(group[0], placement)
                if not status.is_success:
                    return status
                continue
            tasks = [asyncio.create_task(plugin_calls.pre_bind(plugin, placement)) for plugin in group]
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

    def _finish(self, placement: Placement) -> None:
        info, pod = placement.info, placement.pod.pod
        if _v2:
            _v2.info(
                "Successfully bound pod to node",
                pod=info.key,
                node=placement.node_name,
                evaluatedNodes=placement.decision.evaluated_nodes,
                feasibleNodes=placement.decision.feasible_nodes,
            )
        self._recorder.record(
            reference_to(pod),
            type="Normal",
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {info.key} to {placement.node_name}",
            controller=placement.profile.scheduler_name,
        )
        now = self._clock.monotonic()
        self._meters.profile(placement.profile.scheduler_name).attempt("scheduled", now - placement.started)
        self._meters.scheduled(info, now)
        plugin_calls.post_bind(placement)
        activated = placement.decision.state.read(PODS_TO_ACTIVATE)
        if activated:
            with contextlib.suppress(AttributeError):
                self._queue.activate(activated.values())

    def _time(self, point: str, placement: Placement, status: Status, started: float) -> None:
        meters = self._meters.profile(placement.profile.scheduler_name)
        meters.extension_point(point, CODE_NAMES[status.code], self._clock.monotonic() - started)
