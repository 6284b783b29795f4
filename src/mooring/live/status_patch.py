"""Patches of a pod's status, as kube-scheduler sends them: the difference between two versions of the status.

A condition that is the pod's first is sent whole. Otherwise only changed fields are sent, under the merge key ``type``,
with the order of all conditions. An unchanged status is not sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mooring.api.core import Pod
from mooring.api.errors import ApiError
from mooring.api.meta import Condition
from mooring.api.times import format_time
from mooring.live.context import SchedulerWriter, Tasks
from mooring.live.logs import get_logger

log = get_logger("mooring.live")

Patch = dict[str, Any]
Turn = Callable[[], Awaitable[None]]

POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"


@dataclass(slots=True, eq=False)
class _Waiting:
    """A patch that waits for its turn; newer patches of the pod update it."""

    pod: Pod
    patch: Patch
    task: asyncio.Future[None] | None = None


class StatusPatches:
    """Sends status patches in the background, in order for each pod.

    A pod has at most one waiting patch: a newer one replaces it, because it includes the older one's changes.
    """

    def __init__(self, writer: SchedulerWriter, tasks: Tasks, turn: Turn | None = None) -> None:
        """``turn`` delays patches that can wait."""
        self._writer = writer
        self._tasks = tasks
        self._turn = turn
        self._last: dict[str, asyncio.Future[Any]] = {}  # by uid: the patch that is being sent, or is about to be
        self._waiting: dict[str, _Waiting] = {}  # by uid

    def send(self, pod: Pod, patch: Patch, *, can_wait: bool = False) -> asyncio.Future[None]:
        """Send a patch after earlier ones of the pod; a waiting one is replaced."""
        waiting = self._waiting.get(pod.uid)
        if not can_wait or self._turn is None:
            self._waiting.pop(pod.uid, None)
            return self._send_after_others(pod, patch)
        if waiting is not None and waiting.task is not None:
            waiting.pod, waiting.patch = pod, patch
            return waiting.task
        waiting = self._waiting[pod.uid] = _Waiting(pod, patch)
        waiting.task = self._tasks.spawn(self._send_in_turn(waiting, self._turn))
        return waiting.task

    def drop(self, uid: str) -> None:
        """Drop waiting patches: the pod is about to be bound, which would make its condition outdated."""
        self._waiting.pop(uid, None)

    async def _send_in_turn(self, waiting: _Waiting, turn: Turn) -> None:
        uid = waiting.pod.uid
        try:
            while (before := self._last.get(uid)) is not None:  # it may hang, and newer patches arrive in the meantime
                await asyncio.wait([before])
            await turn()
            is_wanted = self._waiting.get(uid) is waiting
        finally:
            if self._waiting.get(uid) is waiting:
                del self._waiting[uid]
        if is_wanted:  # sent in this task: the turn's request must not be granted twice
            before, self._last[uid] = self._last.get(uid), _current()
            await self._send(waiting.pod, waiting.patch, before)

    def _send_after_others(self, pod: Pod, patch: Patch) -> asyncio.Future[None]:
        task = self._tasks.spawn(self._send(pod, patch, self._last.get(pod.uid)))
        if not task.done():
            self._last[pod.uid] = task
        return task

    async def _send(self, pod: Pod, patch: Patch, before: asyncio.Future[Any] | None) -> None:
        try:
            if before is not None:
                await asyncio.wait([before])
            await self._writer.patch_pod_status(pod.namespace, pod.name, patch)
        except ApiError as error:
            if error.code != 404:
                log.error(error, "Error updating pod", pod=pod.key)
        finally:
            if (last := self._last.get(pod.uid)) is not None and last is asyncio.current_task():
                del self._last[pod.uid]


def _current() -> asyncio.Future[Any]:
    """Return the running task."""
    task = asyncio.current_task()
    assert task is not None
    return task


def status_patch(
    pod: Pod, now: float, *, condition: Condition | None = None, nominated_node: str | None = None
) -> Patch | None:
    """Return the patch that gives the pod this condition and nomination (None: unchanged), or None if it has both."""
    status: Patch = {}
    is_nomination_new = nominated_node is not None and nominated_node != pod.status.nominated_node_name
    if condition is not None:
        status |= _condition_patch(pod, condition, now, is_sent_anyway=is_nomination_new)
    if is_nomination_new:
        status["nominatedNodeName"] = nominated_node or None
    return {"status": status} if status else None


def is_condition_current(pod: Pod, reason: str, message: str, nominated_node: str | None) -> bool:
    """Report whether the status of an unschedulable pod already says this, so that no patch is needed."""
    status = pod.status
    if nominated_node is not None and nominated_node != status.nominated_node_name:
        return False
    for condition in status.conditions:
        if condition.type == POD_SCHEDULED:
            return condition.message == message and condition.reason == reason and condition.status == "False"
    return False


def pod_scheduled(pod: Pod, reason: str, message: str) -> Condition:
    """Return the condition of an unschedulable pod."""
    return Condition(POD_SCHEDULED, "False", reason, message, pod.metadata.generation)


def disruption_target(pod: Pod, scheduler_name: str, kind: str = "pod") -> Condition:
    """The condition of a victim of a pod, or of a podgroup."""
    message = f"{scheduler_name}: preempting to accommodate a higher priority {kind}"
    return Condition(DISRUPTION_TARGET, "True", "PreemptionByScheduler", message, pod.metadata.generation)


def _condition_patch(pod: Pod, wanted: Condition, now: float, *, is_sent_anyway: bool) -> Patch:
    """Return the changed condition fields. A new generation alone is sent only if something else is sent anyway."""
    known = pod.status.conditions
    old = next((condition for condition in known if condition.type == wanted.type), None)
    if old is None:
        changed = {"lastProbeTime": None} | {
            key: value for key, value in _fields(wanted, format_time(now)).items() if value
        }
        order = [*known, wanted]
    else:
        is_same = (old.status, old.reason, old.message) == (wanted.status, wanted.reason, wanted.message)
        if is_same and not is_sent_anyway:
            return {}
        since = old.last_transition_time if old.status == wanted.status else format_time(now)
        before = _fields(old, old.last_transition_time)
        changed = {key: value or None for key, value in _fields(wanted, since).items() if value != before[key]}
        if not changed:
            return {}
        order = known
    patch: Patch = {}
    if known:
        patch["$setElementOrder/conditions"] = [{"type": condition.type} for condition in order]
    patch["conditions"] = [{**changed, "type": wanted.type}]
    return patch


def _fields(condition: Condition, since: str | None) -> Patch:
    return {
        "lastTransitionTime": since,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
        "reason": condition.reason,
        "status": condition.status,
    }
