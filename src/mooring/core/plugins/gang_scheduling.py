"""GangScheduling: the pods of a gang are bound together or not at all. On with the gate GenericWorkload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.pod_groups import PodGroup
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import PODS_TO_ACTIVATE, CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.pod_groups import PodGroupInfo, Progress
from mooring.core.framework.status import SUCCESS, Code, Status
from mooring.core.state.cluster import group_of
from mooring.core.state.pod_info import PodInfo

PERMIT_TIMEOUT_S = 300.0


class GangScheduling:
    """Holds a gang's pods back until enough exist, and binds them only together.

    More pods of the group, the group itself, or a smaller ``minCount`` can make a rejected pod schedulable.
    """

    name: ClassVar[str] = "GangScheduling"

    def __init__(self, args: object, handle: Handle) -> None:
        self._handle = handle
        self._tries_groups = handle.is_enabled("GenericWorkload")

    # ---- before the queue --------------------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status:
        key = group_of(pod)
        if not key:
            return SUCCESS
        group = self._group(key)
        if group is None:
            name = key.partition("/")[2]
            return Status.unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        if self._handle.cluster.groups.count(key) < _needed(group):
            return Status.unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return SUCCESS

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(EventResource.UNSCHEDULABLE_POD, ActionType.ADD, _same_group),
            on(EventResource.ASSIGNED_POD, ActionType.ADD, _same_group),
            on(EventResource.POD_GROUP, ActionType.ADD, _own_group),
            on(EventResource.POD_GROUP, ActionType.UPDATE, _needs_fewer),
        )

    # ---- while the group is tried ------------------------------------------------------------------------------

    def placement_feasible(self, group: PodGroupInfo, progress: Progress) -> Status:
        scheduled, remaining = progress
        minimum = group.group.minimum
        if scheduled + remaining < minimum:
            text = f"minCount ({minimum}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
            return Status.unschedulable(text)
        if scheduled < minimum:
            text = f"minCount ({minimum}) is not yet satisfied: {scheduled} scheduled, {remaining} remaining"
            return Status(Code.WAIT, (text,))
        return SUCCESS

    # ---- on the node -------------------------------------------------------------------------------------------

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        key = group_of(pod.pod)
        if not key:
            return SUCCESS, 0.0
        group, members = self._group(key), self._handle.cluster.groups
        if group is None:
            return Status.error(f"failed to get podGroup {key}: podgroup not found"), 0.0
        placed = members.placed(key)
        if len(placed) < _needed(group):
            holder = state.read(PODS_TO_ACTIVATE)
            if isinstance(holder, dict):
                # Where a group waits as one, any of its pods stands for it. A gang of 10,000 would list all of them for
                # each.
                others = [pod.pod] if self._tries_groups else members.unplaced(key)
                holder.update((other.key, other) for other in others)
            text = "waiting for minCount pods from a gang to be scheduled"
            return Status(Code.WAIT, (text,)), PERMIT_TIMEOUT_S
        # Not all placed members: in a group of 10,000 with a small minCount, each would ask about all before it.
        for waiting in self._handle.waiting_pods.of_group(key):
            waiting.allow(self.name)
        return SUCCESS, 0.0

    def _group(self, key: str) -> PodGroup | None:
        return self._handle.cluster.objects.get(PodGroup, key)


def _needed(group: PodGroup) -> int:
    """Return the number of pods that must exist; a group that is not a gang waits for none."""
    return group.minimum if group.spec.scheduling_policy.gang is not None else 0


def _same_group(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    is_one = isinstance(new, Pod) and bool(group_of(new)) and group_of(new) == group_of(pod)
    return Hint.QUEUE if is_one else Hint.SKIP


def _own_group(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    return Hint.QUEUE if new is not None and new.key == group_of(pod) else Hint.SKIP


def _needs_fewer(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, PodGroup) or not isinstance(new, PodGroup) or new.key != group_of(pod):
        return Hint.SKIP
    before, now = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
    is_smaller = before is not None and now is not None and now.min_count < before.min_count
    return Hint.QUEUE if is_smaller else Hint.SKIP
