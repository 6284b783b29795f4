"""What follows a failed attempt: preemption, requeueing, events and conditions.

```
no node ─▶ refused ─▶ evict victims ──┐
                                      ├─▶ fail: back into the queue, an event, the pod's condition ─▶ after
had a node ─▶ undo (binding.py) ──────┘
```
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import msgspec

from mooring.api.core import Pod
from mooring.api.errors import ApiError
from mooring.core.engine.decision import NO_NODES, Outcome, ScheduleResult
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.framework.cycle_state import CycleState, problem_of
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import Code, Status
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.cluster import group_of
from mooring.core.state.pod_info import PodInfo
from mooring.live.context import SchedulerContext
from mooring.live.logs import get_logger
from mooring.live.preemption import PreemptionExecutor, RunningPreemption
from mooring.live.status_patch import StatusPatches, is_condition_current, pod_scheduled, status_patch
from mooring.live.writer import reference_to

log = get_logger("mooring.live")
_v2, _v3 = log.v(2), log.v(3)

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed: what people read, and what the queue needs to wake the pod."""

    reason: str
    message: str
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominated_node: str | None = ""  # "": clear it; None: leave it
    is_fit_error: bool = False

    @staticmethod
    def of_decision(decision: ScheduleResult) -> Failure:
        return Failure(
            SCHEDULER_ERROR if decision.outcome is Outcome.ERROR else UNSCHEDULABLE,
            decision.message,
            decision.unschedulable_plugins,
            decision.pending_plugins,
            decision.nominated_node,
            decision.is_fit_error,
        )

    @staticmethod
    def of_status(status: Status, *, on_node: bool = False) -> Failure:
        """A failure after the decision. A refusal of the chosen node (``on_node``) reads like one of many nodes."""
        if not status.is_rejected:
            return Failure(SCHEDULER_ERROR, status.message)
        if not on_node:
            return Failure(UNSCHEDULABLE, status.message)
        counts = Counter(status.reasons)
        entries = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        plugins = frozenset((status.plugin,))
        is_pending = status.code is Code.PENDING
        return Failure(
            UNSCHEDULABLE,
            "0/1 nodes are available:" + (f" {entries}." if entries else ""),
            frozenset() if is_pending else plugins,
            plugins if is_pending else frozenset(),
            is_fit_error=True,
        )

    @staticmethod
    def of_error(error: Exception) -> Failure:
        """Make a failure of an unexpected exception."""
        return Failure(SCHEDULER_ERROR, f"{type(error).__name__}: {error}")

    @property
    def is_rejection(self) -> bool:
        return self.reason == UNSCHEDULABLE


class FailureHandler:
    """Ends failed attempts."""

    def __init__(self, context: SchedulerContext, patches: StatusPatches, preemptions: PreemptionExecutor) -> None:
        self._context = context
        self._patches = patches
        self._preemptions = preemptions
        self._evicts_in_background = context.options.features["SchedulerAsyncPreemption"]

    # ---- no node -----------------------------------------------------------------------------------------------

    def refused(
        self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, started: float
    ) -> asyncio.Future[None] | None:
        """Handle a pod that fits no node. If a future is returned, no other pod is tried until it is done."""
        if decision.victims and decision.nominated_node:
            if not self._evicts_in_background:
                return self._context.tasks.spawn(self._evict_first(info, profile, decision, started))
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
        """Handle a pod that fits no node where preemption for this pod alone is not possible."""
        self.fail(info, profile, Failure.of_decision(decision), started)
        self.after(profile, decision.state, decision.pod)

    async def _evict_first(
        self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, started: float
    ) -> None:
        """End an attempt only after its victims are evicted."""
        try:
            problem = await self._preemptions.evict_now(_preemption(decision), decision.victims)
            if problem is not None:  # the pod is nominated to no node in this case
                message = f"preemption: {problem}"
                decision = msgspec.structs.replace(
                    decision, post_filter_message=message, nominated_node=None, victims=(), _message=None
                )
            self._context.changes(self.give_up, info, profile, decision, started)
        except Exception as error:  # a bug in mooring: it costs this pod an attempt
            log.error(error, "Unexpected error in an eviction", pod=info.key)
            self._context.changes(self.fail, info, profile, Failure.of_error(error), started)

    def after(self, profile: Profile, state: CycleState, pod: PodInfo) -> None:
        """Notify plugins of a failed attempt, and let them release what the pod held in the API server."""
        for plugin, work in after_failure(profile, state, pod):
            self._context.tasks.spawn(_give_back(plugin, work, pod.pod.key))

    # ---- every failure -----------------------------------------------------------------------------------------

    def fail(self, info: QueuedPodInfo, profile: Profile, failure: Failure, started: float) -> None:
        """Requeue a pod, and report in an event and its condition why it has no node."""
        context, queue, pod = self._context, self._context.queue, info.pod_info.pod
        for tell in context.observers.failed:
            tell(info, profile, failure.reason, failure.message, context.clock.monotonic() - started)
        _log(pod, failure)
        known = context.pods.get(pod.key)
        if known is None:
            log.info("Pod doesn't exist in informer cache", pod=pod.key)
            queue.done(pod.uid)
            self.event(pod, "Warning", "FailedScheduling", "Scheduling", failure.message)
            return
        if known.spec.node_name:
            log.info(
                "Pod has been assigned to node. Abort adding it back to queue.", pod=pod.key, node=known.spec.node_name
            )
            queue.done(pod.uid)
            return
        if known.uid != pod.uid:
            if _v2:
                _v2.info("Pod was recreated while handling scheduling failure.", pod=pod.key, newUID=known.uid)
            queue.done(pod.uid)
            return
        queue.add_unschedulable_if_not_present(
            info,
            unschedulable_plugins=failure.unschedulable_plugins,
            pending_plugins=failure.pending_plugins,
            pod=info.pod_info if pod is known else context.session.state.info(known),
            message=failure.message,
        )
        queue.nominator.add(known, failure.nominated_node)
        context.wake()  # its backoff may end before the loop would look
        self.event(known, "Warning", "FailedScheduling", "Scheduling", failure.message)
        self.patch_condition(known, failure)

    def patch_condition(self, pod: Pod, failure: Failure) -> None:
        """Write into the pod's status why it has no node, unless that stands there."""
        if not _v3 and is_condition_current(pod, failure.reason, failure.message, failure.nominated_node):
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
        patch = status_patch(pod, self._context.clock.now(), condition=condition, nominated_node=failure.nominated_node)
        if patch is not None:
            # A nomination reserves room, so it is as urgent as an eviction. A condition only informs people.
            self._patches.send(pod, patch, can_wait="nominatedNodeName" not in patch["status"])

    def event(self, pod: Pod, type_: str, reason: str, action: str, note: str) -> None:
        """Write an Event about a pod."""
        controller = pod.spec.scheduler_name
        self._context.recorder.record(
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


def after_failure(profile: Profile, state: CycleState, pod: PodInfo) -> list[tuple[str, Coroutine[Any, Any, None]]]:
    """Notify plugins of a failed attempt; return their remaining work, by plugin."""
    left = []
    for plugin in profile.told_of_failures:
        assert plugin.after_failure is not None
        try:
            work = plugin.after_failure(state, pod)
        except Exception as error:
            problem = problem_of(error, plugin.after_failure)
            log.error(problem, "AfterFailure failed", plugin=plugin.name, pod=pod.pod.key)
            continue
        if work is not None:
            left.append((plugin.name, work))
    return left


async def _give_back(plugin: str, work: Coroutine[Any, Any, None], key: str) -> None:
    try:
        await work
    except ApiError as error:
        log.error(error, "Failed to release what a failed attempt held", plugin=plugin, pod=key)


def _preemption(decision: ScheduleResult) -> RunningPreemption:
    return RunningPreemption(
        decision.post_filter_plugin,
        decision.pod.pod,
        decision.nominated_node or "",
        pdb_violations=decision.pdb_violations,
    )
