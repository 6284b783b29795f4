"""The cluster of a simulation: plays the API server and the kubelets for one scheduler, in the loop's own time.

A write of the scheduler is carried out at once, and the scheduler is told as a watch would tell it. A pod that is
bound runs at once. It ends after its run time if it has one. A pod that is evicted goes after its grace period.
Volumes and device claims are not bound: a pod that needs that stays pending and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from mooring.api.core import Pod
from mooring.api.meta import Condition, Object
from mooring.api.times import format_time
from mooring.clock import Clock
from mooring.errors import ApiError
from mooring.state.pod_info import PodInfo

DEFAULT_GRACE_S = 30

Put = Callable[[Object], None]


class World:
    """Objects and what becomes of them; implements the scheduler's writer. ``pods`` are by ``namespace/name``."""

    def __init__(self, clock: Clock) -> None:
        self.pods: dict[str, Pod] = {}
        self._clock = clock
        self._timers = asyncio.get_running_loop()
        self._put: Put = _nobody
        self._delete: Put = _nobody
        self._run_s: dict[str, float] = {}  # by uid, of pods that end by themselves
        self._version = 0
        self.ahead = 0  # ends and deletions that are still to come

    def connect(self, put: Put, delete: Put) -> None:
        """Tell this scheduler from now on what a watch would tell it."""
        self._put, self._delete = put, delete

    # ---- what happens to the cluster -----------------------------------------------------------------------------

    def put(self, obj: Object) -> None:
        """An object comes or changes."""
        stored = self._stored(obj)
        if isinstance(stored, Pod):
            self.pods[stored.key] = stored
        self._put(stored)

    def arrive(self, pod: Pod, run_s: float | None = None) -> None:
        """A pod is created; once it is bound it runs for so long, or for ever."""
        if run_s is not None:
            self._run_s[pod.uid] = run_s
        self.put(pod)

    def remove(self, obj: Object) -> None:
        """An object is gone at once."""
        if isinstance(obj, Pod):
            if self._current(obj) is None:
                return
            obj = self.pods.pop(obj.key)
            self._run_s.pop(obj.uid, None)
        self._delete(obj)

    def _current(self, pod: Pod) -> Pod | None:
        """The pod as it is now; None if it is gone, even if another of its name has come."""
        known = self.pods.get(pod.key)
        return known if known is not None and known.uid == pod.uid else None

    def _stored(self, obj: Object) -> Any:
        """A copy with a version of its own: an API server never hands out the same one twice."""
        self._version += 1
        stored = copy(obj)
        stored.metadata = copy(obj.metadata)
        stored.metadata.resource_version = str(self._version)
        return stored

    def _later(self, seconds: float, pod: Pod) -> None:
        """Remove the pod after so many seconds."""
        self.ahead += 1

        def due() -> None:
            self.ahead -= 1
            self.remove(pod)

        self._timers.call_later(seconds, due)

    # ---- what the scheduler writes -------------------------------------------------------------------------------

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        known = self._current(pod.pod)
        if known is None:
            raise ApiError(f'pods "{pod.pod.name}" not found', code=404)
        if known.spec.node_name:
            raise ApiError(f'pod {known.name} is already assigned to node "{known.spec.node_name}"', code=409)
        bound = copy(known)
        bound.spec, bound.status = copy(known.spec), copy(known.status)
        bound.spec.node_name = node_name
        bound.status.phase, bound.status.start_time = "Running", format_time(self._clock.now())
        bound.status.nominated_node_name = ""
        self.put(bound)
        run_s = self._run_s.get(known.uid)
        if run_s is not None:
            self._later(run_s, known)

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        known = self.pods.get(f"{namespace}/{name}")
        if known is None:
            raise ApiError(f'pods "{name}" not found', code=404)
        changed, status = copy(known), patch["status"]
        changed.status = copy(known.status)
        if "nominatedNodeName" in status:
            changed.status.nominated_node_name = status["nominatedNodeName"] or ""
        for condition in status.get("conditions", ()):
            changed.status.conditions = _with_condition(changed.status.conditions, condition)
        self.put(changed)

    async def delete_pod(self, pod: Pod) -> None:
        known = self._current(pod)
        if known is None:
            raise ApiError(f'pods "{pod.name}" not found', code=404)
        if known.metadata.deletion_timestamp is not None:
            return
        grace_s = known.spec.termination_grace_period_seconds
        seconds = DEFAULT_GRACE_S if grace_s is None else grace_s
        if not seconds or not known.spec.node_name:
            self.remove(known)
            return
        going = copy(known)
        going.metadata = copy(known.metadata)
        going.metadata.deletion_timestamp = format_time(self._clock.now() + seconds)
        self.put(going)
        self._later(seconds, known)


def _with_condition(known: list[Condition], changed: Mapping[str, Any]) -> list[Condition]:
    """The conditions with one of them changed or added."""
    kept = [condition for condition in known if condition.type != changed["type"]]
    before = next((condition for condition in known if condition.type == changed["type"]), None)
    fresh = Condition(type=changed["type"]) if before is None else copy(before)  # a patch names only what differs
    fresh.status = changed.get("status", fresh.status)
    fresh.reason = changed.get("reason", fresh.reason)
    fresh.message = changed.get("message", fresh.message)
    return [*kept, fresh]


def _nobody(obj: Object) -> None:
    raise AssertionError("connect a scheduler first")
