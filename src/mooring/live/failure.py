"""What follows a failed attempt: room is made, the pod goes back into the queue, and people are told why.

```
no node ─▶ refused ─▶ evict victims ──┐
                                      ├─▶ fail: back into the queue, an event, the pod's condition ─▶ after_failure
had a node ─▶ undo ─▶ binding_failed ─┘
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import structs

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.errors import ApiError
from mooring.api.meta import Object
from mooring.core.engine.decision import NO_NODES, ScheduleResult
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.framework.cluster_event import ClusterEvent
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import Status
from mooring.core.queue.events import ASSIGNED_POD_DELETE
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.state.cluster import ClusterState, group_of
from mooring.core.state.pod_info import PodInfo
from mooring.live import plugin_calls
from mooring.live.attempt import Failure, PodPlacement
from mooring.live.events import Recorder
from mooring.live.logs import get_logger
from mooring.live.observer import Observers
from mooring.live.preemption import PreemptionExecutor, RunningPreemption
from mooring.live.status_patch import StatusPatches, is_told, pod_scheduled, status_patch
from mooring.live.tasks import Tasks, Turnstile
from mooring.live.writer import reference_to

log = get_logger("mooring.live")
_v2, _v3 = log.v(2), log.v(3)


class Failures:
    """Ends attempts that failed. ``pods`` is what the watch last said of every pod, by ``namespace/name``."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        pods: Mapping[str, Pod],
        patches: StatusPatches,
        preemptions: PreemptionExecutor,
        recorder: Recorder,
        observers: Observers,
        tasks: Tasks,
        turnstile: Turnstile,
        clock: Clock,
        *,
        wake: Callable[[], None],
        evicts_in_background: bool = True,  # the gate SchedulerAsyncPreemption
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._pods = pods
        self._patches = patches
        self._preemptions = preemptions
        self._recorder = recorder
        self._observers = observers
        self._tasks = tasks
        self._turnstile = turnstile
        self._clock = clock
        self._wake = wake
        self._evicts_in_background = evicts_in_background
        self._freed: list[tuple[ClusterEvent, Object, Object]] | None = None  # None: nobody can have waited for it

    # ---- no node -----------------------------------------------------------------------------------------------

    def refused(
        self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, started: float
    ) -> asyncio.Future[None] | None:
        """No node fits. If a future is returned, the attempt ends with it, and no other pod is tried before that."""
        if decision.victims and decision.nominated_node:
            if not self._evicts_in_background:
                return self._tasks.spawn(self._evict_first(info, profile, decision, started))
            self._preemptions.start(_preemption(decision), decision.victims)
        self.give_up(info, profile, decision, started)
        return None

    def make_room(self, decision: GroupDecision) -> None:
        """Evict the victims that were chosen for a group, in the background."""
        if decision.victims:
            first = decision.info.pods[0].pod
            preemption = RunningPreemption(
                decision.post_filter_plugin,
                first,
                "cluster",
                decision.info.group,
                decision.pdb_violations,
                decision.disruptions,
            )
            self._preemptions.start(preemption, decision.victims)

    def give_up(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, started: float) -> None:
        """No node fits, and nobody is evicted for this pod alone."""
        self.fail(info, profile, Failure.of_decision(decision), started)
        self._after(profile, decision.state, decision.pod)

    async def _evict_first(
        self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, started: float
    ) -> None:
        """End an attempt only after its victims are evicted."""
        try:
            problem = await self._preemptions.evict_now(_preemption(decision), decision.victims)
            if problem is not None:  # the pod is nominated to no node then
                message = f"preemption: {problem}"
                decision = structs.replace(
                    decision, post_filter_message=message, nominated_node=None, victims=(), _message=None
                )
            self._turnstile(self.give_up, info, profile, decision, started)
        except Exception as error:  # our own mistake: it costs this pod an attempt
            log.error(error, "Unexpected error in an eviction", pod=info.key)
            self._turnstile(self.fail, info, profile, Failure.of_error(error), started)

    # ---- no binding --------------------------------------------------------------------------------------------

    def undo(self, placement: PodPlacement) -> None:
        """Take back what was reserved and assumed."""
        plugin_calls.take_back(self._cluster, placement)

    def freed(self, event: ClusterEvent, before: Object, after: Object) -> None:
        """A plugin gives back what it had reserved. Others were refused because of it only if that was some time ago:
        a reservation that ends with its own decision wakes nobody."""
        if self._freed is not None:
            self._freed.append((event, before, after))

    def not_permitted(self, placement: PodPlacement, status: Status) -> None:
        """Reserve or Permit said no."""
        self.undo(placement)
        self.fail(placement.info, placement.profile, Failure.of_status(status, on_node=True), placement.started)
        self._after(placement.profile, placement.state, placement.pod)

    def binding_failed(self, placement: PodPlacement, status: Status, on_node: bool) -> None:
        """Take back what was assumed, wake the pods that might use it, and bring the pod back."""
        if self._tasks.is_aborted:
            return
        failure = Failure.of_status(status, on_node=on_node)
        for tell in self._observers.binding_failed:
            tell(placement.info, failure.message)
        given_back = self._freed = []
        self.undo(placement)
        self._freed = None
        freed = placement.pod.pod
        counted = self._cluster.pod(freed.uid)
        # Upstream wakes no pod if the watch has moved the pod elsewhere meanwhile; its room is free all the same.
        is_free = counted is None or counted.pod.spec.node_name != placement.node_name
        self._preemptions.victim_goes(freed.key)
        if is_free and not failure.is_rejection:
            self._queue.move_all(ASSIGNED_POD_DELETE, freed, None)
        self.fail(placement.info, placement.profile, failure, placement.started)
        if is_free and failure.is_rejection:
            self._queue.move_all(ASSIGNED_POD_DELETE, freed, None, lambda pod: pod.uid != freed.uid)
        for event, before, after in given_back:
            self._queue.move_all(event, before, after, lambda pod: pod.uid != freed.uid)
        self._after(placement.profile, placement.state, placement.pod)

    def _after(self, profile: Profile, state: CycleState, pod: PodInfo) -> None:
        """Let plugins give back what the failed attempt held at the API server."""
        for plugin, work in plugin_calls.after_failure(profile, state, pod):
            self._tasks.spawn(_give_back(plugin, work, pod.pod.key))

    # ---- every failure -----------------------------------------------------------------------------------------

    def fail(self, info: QueuedPodInfo, profile: Profile, failure: Failure, started: float) -> None:
        """Bring a pod back into the queue, and tell people why it has no node."""
        pod = info.pod_info.pod
        for tell in self._observers.failed:
            tell(info, profile, failure.reason, failure.message, self._clock.monotonic() - started)
        _log(pod, failure)
        known = self._pods.get(pod.key)
        if known is None:
            log.info("Pod doesn't exist in informer cache", pod=pod.key)
            self._queue.done(pod.uid)
            self.event(pod, "Warning", "FailedScheduling", "Scheduling", failure.message)
            return
        if known.spec.node_name:
            log.info(
                "Pod has been assigned to node. Abort adding it back to queue.", pod=pod.key, node=known.spec.node_name
            )
            self._queue.done(pod.uid)
            return
        if known.uid != pod.uid:
            if _v2:
                _v2.info("Pod was recreated while handling scheduling failure.", pod=pod.key, newUID=known.uid)
            self._queue.done(pod.uid)
            return
        self._queue.add_unschedulable_if_not_present(
            info,
            unschedulable_plugins=failure.unschedulable_plugins,
            pending_plugins=failure.pending_plugins,
            pod=info.pod_info if pod is known else self._cluster.info(known),
            message=failure.message,
        )
        self._queue.nominator.add(known, failure.nominated_node)
        self._wake()  # its backoff may end before the loop would look
        self.event(known, "Warning", "FailedScheduling", "Scheduling", failure.message)
        self._patch_condition(known, failure)

    def _patch_condition(self, pod: Pod, failure: Failure) -> None:
        if not _v3 and is_told(pod, failure.reason, failure.message, failure.nominated_node):
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
            # A nomination keeps room: it is as urgent as an eviction. A condition is for people.
            self._patches.send(pod, patch, can_wait="nominatedNodeName" not in patch["status"])

    def event(self, pod: Pod, type_: str, reason: str, action: str, note: str) -> None:
        """Write an Event about a pod."""
        controller = pod.spec.scheduler_name
        self._recorder.record(
            reference_to(pod), type=type_, reason=reason, action=action, note=note, controller=controller
        )


def _log(pod: Pod, failure: Failure) -> None:
    if failure.message == NO_NODES:
        if _v2:
            _v2.info("Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=pod.key)
    elif failure.is_fit_error:
        if _v2:
            _v2.info("Unable to schedule pod; no fit; waiting", pod=pod.key, err=failure.message)
    elif failure.is_rejection and group_of(pod):
        if _v2:
            _v2.info("Unable to schedule pod belonging to a pod group; waiting", pod=pod.key, err=failure.message)
    else:
        log.error(failure.message, "Error scheduling pod; retrying", pod=pod.key)


async def _give_back(plugin: str, work: Coroutine[Any, Any, None], key: str) -> None:
    try:
        await work
    except ApiError as error:
        log.error(error, "What a failed attempt held could not be given back", plugin=plugin, pod=key)


def _preemption(decision: ScheduleResult) -> RunningPreemption:
    return RunningPreemption(
        decision.post_filter_plugin,
        decision.pod.pod,
        decision.nominated_node or "",
        pdb_violations=decision.pdb_violations,
    )
