"""The pods of workloads: they come from a stream and go again, and no API server stores them.

Plays the API server and the kubelets for these pods, in the loop's own time. A write of the scheduler is carried out
at once, and the scheduler is told as a watch would tell it. A pod that is bound runs at once. It ends after its run
time if it has one. A pod that is evicted goes after its grace period. A pod that is gone is forgotten.
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
from mooring.errors import ApiError, InputError
from mooring.framework.handle import NOTHING
from mooring.state.pod_info import PodInfo

DEFAULT_GRACE_S = 30

Put = Callable[[Object], None]


class StreamedPods:
    """Pods by ``namespace/name``, and what becomes of them; implements the scheduler's writer for them."""

    def __init__(self, clock: Clock) -> None:
        self.pods: dict[str, Pod] = {}
        self.arrived = 0
        self.ended = 0  # by themselves, after their run time
        self.ahead = 0  # ends and deletions that are still to come
        self._clock = clock
        self._timers = asyncio.get_running_loop()
        self._put: Put = _nobody
        self._delete: Put = _nobody
        self._run_s: dict[str, float] = {}  # by uid, of pods that end by themselves
        self._version = 0

    def connect(self, put: Put, delete: Put) -> None:
        """Tell this scheduler from now on what a watch would tell it."""
        self._put, self._delete = put, delete

    # ---- what happens to pods ------------------------------------------------------------------------------------

    def arrive(self, pod: Pod, run_s: float | None = None) -> None:
        """A pod is created; once it is bound it runs for so long, or for ever."""
        if pod.key in self.pods:
            raise InputError(f"pod {pod.key} is there already; give each pod a name of its own")
        if run_s is not None:
            self._run_s[pod.uid] = run_s
        self.arrived += 1
        self._store(pod, copy(pod.metadata))

    def remove(self, pod: Pod) -> bool:
        """A pod is gone at once; false if it was gone before."""
        known = self._current(pod)
        if known is None:
            return False
        del self.pods[known.key]
        self._run_s.pop(known.uid, None)
        self._delete(known)
        return True

    def node_gone(self, name: str) -> None:
        """The pods of a node go with it."""
        for pod in [pod for pod in self.pods.values() if pod.spec.node_name == name]:
            self.remove(pod)

    def _current(self, pod: Pod) -> Pod | None:
        """The pod as it is now; None if it is gone, even if another of its name has come."""
        known = self.pods.get(pod.key)
        return known if known is not None and known.uid == pod.uid else None

    def _store(self, pod: Pod, metadata: Any) -> None:
        """Tell of a pod under a version of its own: an API server never hands out the same one twice."""
        self._version += 1
        stored = copy(pod)
        stored.metadata = metadata
        metadata.resource_version = str(self._version)
        self.pods[stored.key] = stored
        self._put(stored)

    def _later(self, seconds: float, pod: Pod, *, is_end: bool = False) -> None:
        """Remove the pod after so many seconds."""
        self.ahead += 1

        def due() -> None:
            self.ahead -= 1
            if self.remove(pod) and is_end:
                self.ended += 1

        self._timers.call_later(seconds, due)

    # ---- what the scheduler writes -------------------------------------------------------------------------------

    def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str] = NOTHING) -> None:
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
        metadata = copy(known.metadata)
        if annotations:
            metadata.annotations = {**metadata.annotations, **annotations}
        self._store(bound, metadata)
        run_s = self._run_s.get(known.uid)
        if run_s is not None:
            self._later(run_s, known, is_end=True)

    def patch_status(self, key: str, patch: Mapping[str, Any]) -> None:
        known = self.pods[key]
        changed, status = copy(known), patch["status"]
        changed.status = copy(known.status)
        if "nominatedNodeName" in status:
            changed.status.nominated_node_name = status["nominatedNodeName"] or ""
        for condition in status.get("conditions", ()):
            changed.status.conditions = _with_condition(changed.status.conditions, condition)
        self._store(changed, copy(known.metadata))

    def delete(self, pod: Pod, grace_s: float | None = None) -> None:
        """Begin to delete a pod. Without a grace period it has its own."""
        known = self._current(pod)
        if known is None:
            raise ApiError(f'pods "{pod.name}" not found', code=404)
        if known.metadata.deletion_timestamp is not None:
            return
        if grace_s is None:
            grace_s = known.spec.termination_grace_period_seconds
        seconds = DEFAULT_GRACE_S if grace_s is None else grace_s
        if not seconds or not known.spec.node_name:
            self.remove(known)
            return
        metadata = copy(known.metadata)
        metadata.deletion_timestamp = format_time(self._clock.now() + seconds)
        self._store(known, metadata)
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
