"""Cluster events: changes between two versions of a node or a pod, and events during an attempt."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from mooring.api.core import Node, Pod, Quantity
from mooring.api.errors import ParseError
from mooring.api.meta import Condition, Object
from mooring.api.quantity import parse_quantity
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.core.queue.profile import QueueRecorder
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.requests import milli, pod_requests

ASSIGNED_POD_ADD = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
ASSIGNED_POD_UPDATE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE)
UNSCHEDULED_POD_ADD = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
UNSCHEDULED_POD_UPDATE = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE)
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(EventResource.NODE, ActionType.DELETE)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")
CONFIGURATION_CHANGE = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ConfigurationChange")  # not upstream's
FORCE_ACTIVATE = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")
PREEMPTION_BROKE = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "PreemptionBroke")  # not upstream's

# Labels of entries into a queue that no cluster event caused.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
RESTORED = "Restored"  # not upstream's: a simulation continues with a record's queue


# Created once: events are compared and looked up for every change in the cluster.
_NODE_EVENTS = {
    action: ClusterEvent(EventResource.NODE, action)
    for action in (
        ActionType.UPDATE_NODE_TAINT,
        ActionType.UPDATE_NODE_ALLOCATABLE,
        ActionType.UPDATE_NODE_LABEL,
        ActionType.UPDATE_NODE_CONDITION,
        ActionType.UPDATE_NODE_ANNOTATION,
        ActionType.UPDATE_NODE_DECLARED_FEATURE,
    )
}


def node_changes(old: Node, new: Node, *, declared_features: bool = True) -> list[ClusterEvent]:
    """Return the events of a node's update, in upstream's order; none for a heartbeat."""
    actions = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if not _same_quantities(old.status.allocatable, new.status.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    if old.spec.taints != new.spec.taints:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _statuses(old.status.conditions) != _statuses(new.status.conditions):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if declared_features and old.status.declared_features != new.status.declared_features:
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return [_NODE_EVENTS[action] for action in actions]


def pod_changes(old: Pod, new: Pod, *, whole_resizes: bool = False, tells_growth: bool = False) -> list[ClusterEvent]:
    """Return the events of a pod's update; a plain Update if nothing with a named event changed.

    ``whole_resizes``: a pod that is being resized counts as a whole, since 1.37. ``tells_growth``: a pod that requests
    more has its own event, also since 1.37.
    """
    actions = []
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    less, more = _scaled(old, new, whole_resizes)
    if less:
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if more and tells_growth:
        actions.append(ActionType.UPDATE_POD_SCALE_UP)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    if len(old.spec.tolerations) != len(new.spec.tolerations):  # the API only allows additions
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if (
        old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
    ):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    if not actions:  # the usual case
        return [ASSIGNED_POD_UPDATE if new.spec.node_name else UNSCHEDULED_POD_UPDATE]
    resource = EventResource.ASSIGNED_POD if new.spec.node_name else EventResource.UNSCHEDULABLE_POD
    return [ClusterEvent(resource, action) for action in actions]


def _same_quantities(old: Mapping[str, Quantity], new: Mapping[str, Quantity]) -> bool:
    """Compare amounts, not spellings: ``1`` is ``1000m``. Unparsable values are compared as text."""
    if old == new:
        return True
    if old.keys() != new.keys():
        return False
    try:
        return all(parse_quantity(amount) == parse_quantity(new[name]) for name, amount in old.items())
    except ParseError:
        return False


def _statuses(conditions: list[Condition]) -> dict[str, str]:
    return {condition.type: condition.status for condition in conditions}


def _scaled(old: Pod, new: Pod, whole_resizes: bool) -> tuple[bool, bool]:
    """Report whether the pod now requests less of anything, or was granted such a reduction; and whether more."""
    if _asks_alike(old, new):
        return False, False
    try:
        before, after = (pod_requests(pod, whole_resizes=whole_resizes) for pod in (old, new))
    except ParseError:
        return False, False
    return _has_more(before, after), _has_more(after, before)


def _has_more(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return any(name not in other or milli(amount) > milli(other[name]) for name, amount in one.items())


def _asks_alike(old: Pod, new: Pod) -> bool:
    """Report whether everything that requests are computed from is the same: true for nearly all updates."""
    before, after = old.spec, new.spec
    if before is not after and (  # a change of only the status keeps the spec
        before.containers != after.containers
        or before.init_containers != after.init_containers
        or before.resources != after.resources
        or before.overhead != after.overhead
    ):
        return False
    was, is_now = old.status, new.status
    return (
        was.container_statuses == is_now.container_statuses
        and was.init_container_statuses == is_now.init_container_statuses
        and was.resources == is_now.resources
        and was.allocated_resources == is_now.allocated_resources
        and _resize_reason(was.conditions) == _resize_reason(is_now.conditions)
    )


def _resize_reason(conditions: list[Condition]) -> str:
    return next((condition.reason for condition in conditions if condition.type == "PodResizePending"), "")


# ---- what happened while pods were being tried ---------------------------------------------------------------------
# ---- events while pods are being tried
# ---------------------------------------------------------------------------------
#
# A pod in the middle of an attempt cannot be woken. So events are kept while any pod is in flight, and a rejected pod
# is shown those that it missed. Otherwise an event between the decision and the requeueing would be lost, and the pod
# would wait five minutes.

POD_POPPED = "PodPopped"


class Happening(NamedTuple):
    """An event with the object before and after."""

    event: ClusterEvent
    old: Object | None
    new: Object | None


class InFlight:
    """Pods that are being tried, each with the position in the list of events where its attempt began."""

    def __init__(self, recorder: QueueRecorder | None = None) -> None:
        self._pods: dict[str, tuple[int, QueuedPodInfo]] = {}  # by uid, oldest attempt first
        self._events: deque[Happening] = deque()
        self._dropped = 0  # number of pruned events: the position of the first one kept
        self._recorder = recorder

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> QueuedPodInfo | None:
        started = self._pods.get(uid)
        return None if started is None else started[1]

    @property
    def event_count(self) -> int:
        return len(self._events)

    def pods(self) -> list[QueuedPodInfo]:
        return [info for _, info in self._pods.values()]

    def start(self, info: QueuedPodInfo) -> bool:
        """Note the start of an attempt; false for a uid that is already in flight."""
        uid = info.uid
        if uid in self._pods:
            return False
        self._pods[uid] = (self._dropped + len(self._events), info)
        if self._recorder is not None:
            self._recorder.in_flight_events(POD_POPPED, 1)
        return True

    def note(self, event: ClusterEvent, old: Object | None, new: Object | None) -> None:
        """Keep an event if a pod in flight might need it."""
        if self._pods:
            self._events.append(Happening(event, old, new))
            if self._recorder is not None:
                self._recorder.in_flight_events(event.label, 1)

    def since(self, uid: str) -> list[Happening] | None:
        """Return the events since this pod's attempt began, or None if it is not in flight."""
        started = self._pods.get(uid)
        return None if started is None else list(islice(self._events, started[0] - self._dropped, None))

    def done(self, uid: str) -> None:
        """Note the end of an attempt, and drop the events that only it could have needed."""
        if self._pods.pop(uid, None) is None:
            return
        if self._recorder is not None:
            self._recorder.in_flight_events(POD_POPPED, -1)
        # Pods are listed in the order in which their attempts began: the first one needs the oldest event.
        first_needed = next(iter(self._pods.values()))[0] if self._pods else self._dropped + len(self._events)
        while self._dropped < first_needed:
            dropped = self._events.popleft()
            self._dropped += 1
            if self._recorder is not None:
                self._recorder.in_flight_events(dropped.event.label, -1)
