"""One attempt at one pod after the decision: where it goes, or why it goes nowhere for now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.times import format_duration
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.extender import ExtenderClient
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import SUCCESS, Code, Status
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.pod_info import PodInfo

# --------------------------------------------------------------------------------------------------------------------
# Pods that wait on permit: their node is held, and plugins or a timer decide whether they are bound.

MAX_WAIT_S = 15 * 60.0
"""No plugin can keep a pod waiting for longer."""


class WaitingPod:
    """One waiting pod; the first word of refusal, or the last of permission, is final."""

    def __init__(self, pod: PodInfo, node_name: str, max_wait_s: Mapping[str, float]) -> None:
        loop = asyncio.get_running_loop()
        self.pod = pod
        self.node_name = node_name
        self._verdict: asyncio.Future[Status] = loop.create_future()
        self._timers = {
            plugin: loop.call_later(seconds, self._time_out, plugin, seconds) for plugin, seconds in max_wait_s.items()
        }

    @property
    def pending_plugins(self) -> Sequence[str]:
        return tuple(self._timers)

    def allow(self, plugin: str) -> None:
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        return self._decide(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Make room for a more important pod; unlike a refusal this does not make the pod unschedulable."""
        return self._decide(Status(Code.ERROR, (message,), plugin))

    def abandon(self) -> None:
        """The process ends: no verdict is needed any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._verdict.cancel()

    async def verdict(self) -> Status:
        return await self._verdict

    def _decide(self, status: Status) -> bool:
        for timer in self._timers.values():
            timer.cancel()
        if self._verdict.done():
            return False
        self._verdict.set_result(status)
        return True

    def _time_out(self, plugin: str, seconds: float) -> None:
        waited = format_duration(seconds)
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")


class WaitingPods:
    """All waiting pods of the process, of all profiles; implements the framework's ``WaitingPods``."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, pod: PodInfo, node_name: str, max_wait_s: Mapping[str, float]) -> WaitingPod:
        """Let a pod wait for each plugin at most the given seconds, and never longer than a quarter of an hour."""
        bounded = {plugin: min(max(seconds, 0.0), MAX_WAIT_S) for plugin, seconds in max_wait_s.items()}
        waiting = self._pods[pod.uid] = WaitingPod(pod, node_name, bounded)
        return waiting

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def all(self) -> Sequence[WaitingPod]:
        return tuple(self._pods.values())

    def reject_deleted(self, uid: str) -> bool:
        """Refuse a pod that is being deleted; false if it does not wait here."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.reject("", "removed")
        return True


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
        """Something broke that should not have."""
        return Failure(SCHEDULER_ERROR, f"{type(error).__name__}: {error}")

    @property
    def is_rejection(self) -> bool:
        return self.reason == UNSCHEDULABLE


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
    waiting: WaitingPod | None = None


# --------------------------------------------------------------------------------------------------------------------
# Pods whose volumes or devices are being bound just now.


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
