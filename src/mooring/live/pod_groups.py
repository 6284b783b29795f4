"""Attempts at pod groups: whether a group may be tried, and the consequences of a decision for its pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mooring.api.core import Pod
from mooring.api.errors import ApiError
from mooring.api.pod_groups import PodGroup
from mooring.api.times import format_time
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.pod_groups import INITIALLY_SCHEDULED, GroupDecision
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.queue.pod_group_queue import PodGroupQueue
from mooring.core.queue.queued_pod import QueuedPodGroupInfo, QueuedPodInfo
from mooring.live.context import SchedulerContext
from mooring.live.failure import SCHEDULER_ERROR, Failure, FailureHandler
from mooring.live.logs import get_logger

log = get_logger("mooring.live")
_v2 = log.v(2)
DEFAULT_POLICY = "PreemptLowerPriority"

Place = Callable[[QueuedPodInfo, Profile, ScheduleResult, float], None]


class GroupAttempts:
    """Begins and ends attempts at groups. ``place`` starts the binding of one pod."""

    def __init__(self, context: SchedulerContext, queue: PodGroupQueue, failures: FailureHandler, place: Place) -> None:
        self._context = context
        self._queue = queue
        self._failures = failures
        self._place = place
        self._groups_have_policy = context.options.features["PodGroupPreemptionPolicy"]

    def profile_for(self, entity: QueuedPodGroupInfo, is_skipped: Callable[[Pod], bool]) -> Profile | None:
        """Return the profile that tries the group, or None to skip it."""
        known = self._context.session.state.objects.get(PodGroup, entity.group.key)
        if known is not None:  # the queue's copy may be older
            entity.group = known
        objection = self._objection(entity, entity.group)
        if objection:
            self.refuse(entity, objection)
            return None
        name = entity.scheduler_name
        return self._context.session.profiles[name] if self._leave_out(entity, is_skipped) else None

    def _objection(self, entity: QueuedPodGroupInfo, group: PodGroup) -> str:
        """Return why a group may not be tried, or "": its pods must agree with it and with each other."""
        waiting = [member.pod_info.pod for member in entity.members]
        placed = [info.pod for info in self._context.session.state.groups.placed(group.key).values()]
        name = waiting[0].spec.scheduler_name
        policy = (group.spec.preemption_policy or DEFAULT_POLICY) if self._groups_have_policy else ""
        as_group = " as the pod group's preemption policy" if self._groups_have_policy else ""
        for pod in (*waiting, *placed):
            found = _disagreement(pod, name, group.priority, policy, as_group)
            if found:
                return found
            policy = policy or _policy(pod)
        return "" if self._queue.handles(name) else f'profile not found for scheduler name "{name}"'

    def refuse(self, entity: QueuedPodGroupInfo, text: str) -> None:
        """End an attempt without a decision."""
        started = self._context.clock.monotonic()
        for member in [*entity.members]:
            profile = self._context.session.profiles.get(member.scheduler_name)
            if profile is None:
                self._queue.done(member.uid)
            else:
                self._failures.fail(member, profile, Failure(SCHEDULER_ERROR, text), started)
        self._set_condition(entity.group, ("False", SCHEDULER_ERROR, text))
        self._queue.finish_group(entity, Status.error(text))

    def _leave_out(self, entity: QueuedPodGroupInfo, is_skipped: Callable[[Pod], bool]) -> bool:
        """Drop pods that are terminating or placed already; false if none is left, which ends the attempt."""
        for member in [*entity.members]:
            if is_skipped(member.pod_info.pod):
                self._queue.done(member.uid)
                entity.remove(member.key)
        if not entity.members:
            self._queue.finish_group(entity, SUCCESS)
        return bool(entity.members)

    def conclude(self, entity: QueuedPodGroupInfo, profile: Profile, decision: GroupDecision, started: float) -> None:
        """Bind the pods, or requeue them; then requeue the group itself if any pod is left."""
        took_s = self._context.clock.monotonic() - started
        for tell in self._context.observers.group_decided:
            tell(entity.members, profile, decision, took_s)
        self._failures.make_room(decision)
        for member, each in zip([*entity.members], decision.decisions, strict=True):
            for hear in self._context.observers.decided:
                hear(member, profile, each, took_s / len(decision.decisions))
            if each.outcome is Outcome.SCHEDULED:
                self._place(member, profile, each, started)
            else:
                self._failures.give_up(member, profile, each, started)
        if _v2:
            _v2.info("Attempted to schedule a pod group", podGroup=decision.info.key, status=decision.message)
        self._set_condition(decision.info.group, decision.condition)
        self._queue.finish_group(entity, decision.attempt_status)

    def _set_condition(self, group: PodGroup, wanted: tuple[str, str, str]) -> None:
        """Report the result in the group's condition. A group stays "scheduled" once it was."""
        known = next((each for each in group.status.conditions if each.type == INITIALLY_SCHEDULED), None)
        status, reason, message = wanted
        if known is not None:
            if known.status == "True" and status != "True":
                return
            if (known.status, known.reason, known.message) == wanted:
                return
        since = known.last_transition_time if known is not None and known.status == status else None
        condition = {
            "type": INITIALLY_SCHEDULED,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": group.metadata.generation,
            "lastTransitionTime": since or format_time(self._context.clock.now()),
        }
        self._context.tasks.spawn(self._patch(group, {"status": {"conditions": [condition]}}))

    async def _patch(self, group: PodGroup, patch: Mapping[str, Any]) -> None:
        try:
            await self._context.writer.patch_pod_group_status(group.namespace, group.name, patch)
        except ApiError as error:
            log.error(error, "Failed to update PodGroup status", podGroup=group.key)


def _policy(pod: Pod) -> str:
    return pod.spec.preemption_policy or DEFAULT_POLICY


def _disagreement(pod: Pod, scheduler_name: str, priority: int, policy: str, as_group: str) -> str:
    if pod.spec.scheduler_name != scheduler_name:
        return (
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            f'got: "{pod.spec.scheduler_name}" and "{scheduler_name}"'
        )
    if pod.priority != priority:
        return (
            "all pods in a single pod group should have the same priority as the pod group's priority, "
            f"got {pod.priority} and {priority}"
        )
    if policy and _policy(pod) != policy:
        said = f"all pods in a single pod group should have the same preemption policy{as_group}"
        return f"{said}, got {_policy(pod)} and {policy}"
    return ""
