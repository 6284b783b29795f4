"""The binding cycle: permit, pre-bind, bind, post-bind; one task per pod, beside the loop that decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.core.framework.registry import ResolvedPlugin
from mooring.core.framework.status import SUCCESS, Code, Status
from mooring.live import plugin_calls
from mooring.live.attempt import PodPlacement, PreBinding, WaitingPods
from mooring.live.events import Recorder
from mooring.live.logs import get_logger
from mooring.live.observer import Observers
from mooring.live.status_patch import StatusPatches, status_patch
from mooring.live.writer import reference_to

log = get_logger("mooring.live.binding")
T = TypeVar("T")
_v2, _v3, _v4 = log.v(2), log.v(3), log.v(4)


class BindingCycle:
    """Runs binding cycles. A failure is told to ``on_failure``; nothing has to follow a success.

    ``pods`` is what the watch last said of every pod, by ``namespace/name``. ``done`` and ``activate`` are the queue's.
    """

    def __init__(
        self,
        waiting_pods: WaitingPods,
        patches: StatusPatches,
        pods: Mapping[str, Pod],
        recorder: Recorder,
        observers: Observers,
        clock: Clock,
        pre_binding: dict[str, PreBinding],
        *,
        done: Callable[[str], None],
        activate: Callable[[Iterable[Pod]], None],
        on_failure: Callable[[PodPlacement, Status, bool], None],
        nominates_in_advance: bool = True,  # the gate NominatedNodeNameForExpectation
    ) -> None:
        self._waiting_pods = waiting_pods
        self._patches = patches
        self._pods = pods
        self._recorder = recorder
        self._observers = observers
        self._clock = clock
        self._pre_binding = pre_binding  # by uid
        self._done = done
        self._activate = activate
        self._on_failure = on_failure
        self._nominates_in_advance = nominates_in_advance
        self.under_way: set[str] = set()  # uids of pods whose binding is not acknowledged yet
        self.steps_before = 0  # how many of them wait for answers that other requests follow before they are bound

    async def run(self, placement: PodPlacement) -> None:
        """Bind a pod, or undo what was done for it. Never raises, except when cancelled."""
        uid = placement.pod.uid
        self.under_way.add(uid)
        for tell in self._observers.binding:
            tell(placement.info)
        try:
            status, on_node = await self._attempt(placement)
        except Exception as error:  # our own mistake: it costs this pod an attempt
            log.error(error, "Unexpected error in a binding cycle", pod=placement.info.key)
            status, on_node = Status.error(f"{type(error).__name__}: {error}"), False
        finally:
            self.under_way.discard(uid)
            for tell in self._observers.binding_ended:
                tell(placement.info)
            if placement.waiting is not None:
                self._waiting_pods.remove(uid)
        if status is not SUCCESS and not status.is_success:
            self._on_failure(placement, status, on_node)

    async def _attempt(self, placement: PodPlacement) -> tuple[Status, bool]:
        """The status, and whether a refusal is one of the chosen node."""
        status, groups = plugin_calls.pre_flights(placement)
        if status is not SUCCESS:
            return status, False
        if self._nominates_in_advance and (groups or placement.waiting is not None):
            await self._step_before(self._nominate(placement))
        if placement.waiting is not None:
            status = await self._wait_on_permit(placement)
            if not status.is_success:
                return status, True
        self._done(placement.pod.uid)  # what fails from here on is retried after backoff, whatever has happened
        if groups:
            started = plugin_calls.start(placement)
            status = await self._step_before(self._pre_bind(placement, groups))
            if started is not None:
                plugin_calls.timed("PreBind", placement, status, started)
            if not status.is_success:
                return status, False
        elif placement.profile.observer is not None:
            plugin_calls.nothing_done("PreBind", placement.profile.observer)
        if _v3:
            _v3.info("Attempting to bind pod to node", pod=placement.info.key, node=placement.node_name)
        self._patches.drop(placement.pod.uid)
        status = await plugin_calls.bind(placement)
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
        pod = self._pods.get(placement.info.key)
        if pod is None or pod.uid != placement.pod.uid:
            return
        patch = status_patch(pod, self._clock.now(), nominated_node=placement.node_name)
        if patch is not None:
            await self._patches.send(pod, patch)

    async def _wait_on_permit(self, placement: PodPlacement) -> Status:
        assert placement.waiting is not None
        if _v4:
            _v4.info("Pod waiting on permit", pod=placement.info.key)
        started = self._clock.monotonic()
        status = await placement.waiting.verdict()
        self._waiting_pods.remove(placement.pod.uid)
        for tell in self._observers.waited:
            tell(placement.info, status.code, self._clock.monotonic() - started)
        if status.is_success or status.is_rejected:
            return status
        return Status(Code.ERROR, (f"waiting on permit for pod: {status.message}",), status.plugin)

    async def _pre_bind(self, placement: PodPlacement, groups: Sequence[Sequence[ResolvedPlugin]]) -> Status:
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
    async def _run_groups(placement: PodPlacement, groups: Sequence[Sequence[ResolvedPlugin]]) -> Status:
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
        self._recorder.record(
            reference_to(pod),
            type="Normal",
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {info.key} to {placement.node_name}",
            controller=placement.profile.scheduler_name,
        )
        took_s = self._clock.monotonic() - placement.started
        for tell in self._observers.bound:
            tell(info, placement.profile, placement.node_name, took_s)
        plugin_calls.post_bind(placement)
        if placement.to_activate:
            self._activate(plugin_calls.pods_to_activate(placement))
