"""Pods that have a node but are not bound yet: those that wait on permit, and those in PreBind.

Their node is reserved. A pod of higher priority can still cancel them without a request to the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from mooring.api.times import format_duration
from mooring.core.framework.status import SUCCESS, Code, Status
from mooring.core.state.cluster import group_of
from mooring.core.state.pod_info import PodInfo

MAX_WAIT_S = 15 * 60.0
"""Longest time that a plugin can keep a pod waiting."""


class PermitWait:
    """A waiting pod; the first rejection, or the last permission, is final."""

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
        """Make room for a pod of higher priority; unlike a rejection this does not make the pod unschedulable."""
        return self._decide(Status(Code.ERROR, (message,), plugin))

    def abandon(self) -> None:
        """Stop waiting without a verdict, because the process ends."""
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


class PreBinding:
    """A pod whose volumes or devices are being bound; a higher-priority pod may interrupt that."""

    __slots__ = ("_is_over", "_task", "stopped_by")

    def __init__(self, task: asyncio.Task[Status]) -> None:
        self._task = task
        self._is_over = False
        self.stopped_by = ""

    def cancel(self, why: str) -> bool:
        """Cancel it; false if it is too late."""
        if self._is_over or self._task.done():
            return False
        self.stopped_by = why
        self._task.cancel()
        return True

    def finish(self) -> bool:
        """End pre-binding, which cannot be cancelled from now on. False if it was cancelled."""
        self._is_over = True
        return not self.stopped_by


class WaitingPodsMap:
    """All waiting pods of the process, of all profiles; implements the framework's ``WaitingPods``."""

    def __init__(self) -> None:
        self._pods: dict[str, PermitWait] = {}
        self._of_group: dict[str, dict[str, PermitWait]] = {}
        self.pre_binding: dict[str, PreBinding] = {}  # by uid

    def add(self, pod: PodInfo, node_name: str, max_wait_s: Mapping[str, float]) -> PermitWait:
        """Let a pod wait for each plugin up to the given seconds, and at most 15 minutes."""
        bounded = {plugin: min(max(seconds, 0.0), MAX_WAIT_S) for plugin, seconds in max_wait_s.items()}
        self.remove(pod.uid)
        waiting = self._pods[pod.uid] = PermitWait(pod, node_name, bounded)
        group = group_of(pod.pod)
        if group:
            self._of_group.setdefault(group, {})[pod.uid] = waiting
        return waiting

    def remove(self, uid: str) -> None:
        waiting = self._pods.pop(uid, None)
        if waiting is None:
            return
        group = group_of(waiting.pod.pod)
        members = self._of_group.get(group)
        if members is not None:
            members.pop(uid, None)
            if not members:
                del self._of_group[group]

    def get(self, uid: str) -> PermitWait | None:
        return self._pods.get(uid)

    def all(self) -> Sequence[PermitWait]:
        return tuple(self._pods.values())

    def of_group(self, key: str) -> Sequence[PermitWait]:
        """Return the waiting pods of a pod group, in the order in which they began to wait."""
        members = self._of_group.get(key)
        return () if members is None else tuple(members.values())

    def reject_deleted(self, uid: str) -> bool:
        """Reject a pod that is being deleted; false if it does not wait here."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.reject("", "removed")
        return True

    def stop(self, uid: str, plugin: str) -> bool:
        """Cancel a pod's binding for a pod of higher priority; false if it is bound, or too far along."""
        waiting = self._pods.get(uid)
        if waiting is not None:
            return waiting.preempt(plugin, "preempted")
        pre_binding = self.pre_binding.get(uid)
        return pre_binding is not None and pre_binding.cancel(f"preempted by {plugin}")
