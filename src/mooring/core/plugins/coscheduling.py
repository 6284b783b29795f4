"""Coscheduling: the pods of a group are bound together or not at all.

In-tree but off by default. A pod names its group with the label ``scheduling.x-k8s.io/pod-group`` or with
``spec.schedulingGroup``; a PodGroup of ``scheduling.x-k8s.io`` has the minimum number of members.

| | kube-scheduler's GangScheduling | here |
|---|---|---|
| membership | ``spec.schedulingGroup`` | the same, or the label that scheduler-plugins uses |
| waiting | five minutes, then each pod gives up on its own | the group's time-out, then all give up together |
| search | the whole group in one cycle, with its gate | pod by pod; nodes are held while the others come |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec

from mooring.api.core import Pod
from mooring.api.errors import ConfigError
from mooring.api.meta import Object
from mooring.api.pod_groups import CoschedulingPodGroup
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import PODS_TO_ACTIVATE, CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.state.pod_info import PodClass, PodInfo

LABEL = "scheduling.x-k8s.io/pod-group"
DEFAULT_WAIT_S = 60.0


class CoschedulingArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """``pluginConfig`` of Coscheduling: how long a pod waits for the rest of its group, unless the group sets it."""

    permit_waiting_time_seconds: float = DEFAULT_WAIT_S


def group_name(pod: Pod) -> str:
    """Return the group that a pod belongs to, or ""."""
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return group.pod_group_name
    return pod.metadata.labels.get(LABEL, "")


class Coscheduling:
    """Holds a group's pods out of the queue until enough exist, and off their nodes until enough have one.

    A pod whose group is incomplete waits in Permit, with its node reserved. When the last one needed arrives, all are
    allowed; when one is rejected, all are.
    """

    name: ClassVar[str] = "Coscheduling"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._handle = handle
        try:
            self._args = msgspec.convert(args or {}, CoschedulingArgs)
        except msgspec.ValidationError as error:
            raise ConfigError(f"args: {error}") from None

    # ---- before the queue --------------------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status:
        name = group_name(pod)
        if not name:
            return SUCCESS
        group = self._group(pod.metadata.namespace, name)
        if group is None:
            return Status.unresolvable(f'waiting for pod group "{name}" to appear')
        known = sum(1 for _ in self._members(pod.metadata.namespace, name))
        if known < group.minimum:
            return Status.unresolvable(f'pod group "{name}" has {known} of the {group.minimum} pods it needs')
        return SUCCESS

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(EventResource.POD, ActionType.ADD, self._same_group),
            on(EventResource.COSCHEDULING_POD_GROUP, ActionType.ADD | ActionType.UPDATE, self._own_group),
        )

    def _same_group(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        same = (
            isinstance(new, Pod)
            and new.metadata.namespace == pod.metadata.namespace
            and group_name(new) == group_name(pod)
        )
        return Hint.QUEUE if same else Hint.SKIP

    def _own_group(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        own = new is not None and new.namespace == pod.metadata.namespace and new.name == group_name(pod)
        return Hint.QUEUE if own else Hint.SKIP

    # ---- on the node -------------------------------------------------------------------------------------------

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        name, namespace = group_name(pod.pod), pod.pod.metadata.namespace
        group = self._group(namespace, name) if name else None
        if group is None:
            return SUCCESS, 0.0
        if self._placed(namespace, name) >= group.minimum:
            for other in self._waiting(namespace, name):
                other.allow(self.name)
            return SUCCESS, 0.0
        self._call_the_others(state, pod.pod, namespace, name)
        timeout = group.spec.schedule_timeout_seconds
        return Status.wait(), self._args.permit_waiting_time_seconds if timeout is None else float(timeout)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Reject the other members after one was rejected."""
        name, namespace = group_name(pod.pod), pod.pod.metadata.namespace
        if not name:
            return
        for other in self._waiting(namespace, name):
            if other.pod.uid != pod.uid:
                other.reject(self.name, f'pod group "{name}": {pod.pod.key} could not be placed')

    def _call_the_others(self, state: CycleState, pod: Pod, namespace: str, name: str) -> None:
        holder = state.read(PODS_TO_ACTIVATE)
        if isinstance(holder, dict):
            holder.update((other.key, other) for other in self._members(namespace, name) if other.uid != pod.uid)

    # ---- queries ------------------------------------------------------------------------------------------------

    def _group(self, namespace: str, name: str) -> CoschedulingPodGroup | None:
        return self._handle.cluster.objects.get(CoschedulingPodGroup, f"{namespace}/{name}")

    def _members(self, namespace: str, name: str) -> Iterable[Pod]:
        """Yield the group's pods that the API server has, pending or placed."""
        for pod in self._handle.pods.values():
            if pod.metadata.namespace == namespace and not pod.is_terminating and group_name(pod) == name:
                yield pod

    def _placed(self, namespace: str, name: str) -> int:
        """Count the members that have a node, reserved or bound."""

        def labelled(cls: PodClass) -> bool:
            return cls.namespace == namespace and cls.labels.get(LABEL) == name and not cls.terminating

        index = self._handle.cluster.pod_index
        by_label = index.column(("pod group", namespace, name), labelled, (namespace,), ((LABEL, name),)).total
        by_field = sum(
            1
            for pod in self._members(namespace, name)
            if LABEL not in pod.metadata.labels and self._handle.cluster.pod(pod.uid) is not None
        )
        return by_label + by_field

    def _waiting(self, namespace: str, name: str) -> list[Any]:
        return [
            waiting
            for waiting in self._handle.waiting_pods.all()
            if waiting.pod.pod.metadata.namespace == namespace and group_name(waiting.pod.pod) == name
        ]
