"""Handlers for cluster events: they update the cache and the queue in upstream's order.

The live scheduler's informers and the replay of recorded histories use the same code. It is synchronous: when a call
returns, the cluster and the queue are up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping

from msgspec.structs import replace

from mooring.api.clock import Clock
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.pod_groups import CoschedulingPodGroup, PodGroup
from mooring.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.core.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    node_changes,
)
from mooring.core.queue.scheduling_queue import PreCheck, SchedulingQueue
from mooring.core.state.cluster import ClusterState
from mooring.live.context import SchedulerContext
from mooring.live.preemption import PreemptionExecutor

RESOURCES: dict[type[Object], EventResource] = {
    PersistentVolume: EventResource.PERSISTENT_VOLUME,
    PersistentVolumeClaim: EventResource.PERSISTENT_VOLUME_CLAIM,
    CSINode: EventResource.CSI_NODE,
    CSIDriver: EventResource.CSI_DRIVER,
    VolumeAttachment: EventResource.VOLUME_ATTACHMENT,
    CSIStorageCapacity: EventResource.CSI_STORAGE_CAPACITY,
    StorageClass: EventResource.STORAGE_CLASS,
    ResourceClaim: EventResource.RESOURCE_CLAIM,
    ResourceSlice: EventResource.RESOURCE_SLICE,
    DeviceClass: EventResource.DEVICE_CLASS,
    DeviceTaintRule: EventResource.DEVICE_TAINT_RULE,
    PodGroup: EventResource.POD_GROUP,
    CoschedulingPodGroup: EventResource.COSCHEDULING_POD_GROUP,
}
"""Kinds besides pods and nodes that can wake a pod; objects of other kinds are only cached."""

UNSCHEDULED_POD_DELETE = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.DELETE)

Observer = Callable[[str, float], None]  # the event's label, and how many seconds it took


def _timeless() -> float:
    """Stand in for the clock of handlers without an observer: no time is measured."""
    return 0.0


class EventHandlers:
    """Keeps a cluster and a queue up to date.

    ``pods`` has every unfinished pod as the API server last sent it, by ``namespace/name``, like upstream's pod lister.
    """

    declared_features = True  # the gate NodeDeclaredFeatures
    gang_scheduling = False  # whether a new pod can complete another one's group
    _observer: Observer | None = None  # receives the duration of each event under the label of upstream's metric
    _now: Callable[[], float] = staticmethod(_timeless)

    def __init__(
        self, cluster: ClusterState, queue: SchedulingQueue, pods: MutableMapping[str, Pod] | None = None
    ) -> None:
        self.pods: MutableMapping[str, Pod] = {} if pods is None else pods
        self._cluster = cluster
        self._queue = queue

    def observe(self, observer: Observer, clock: Clock) -> None:
        """Report the duration of each event from now on."""
        self._observer, self._now = observer, clock.monotonic

    # ---- hooks for subclasses ---------------------------------------------------------------------------------

    def _reject_waiting_pod(self, uid: str) -> bool:
        """Reject a pod that waits on permit and is being deleted; false if it does not wait."""
        return False

    def _on_leaving(self, key: str) -> None:
        """Handle a running or binding pod that is terminating or gone. The queue is notified afterwards.

        A pod that is removed without a grace period is reported only once it is gone.
        """

    # ---- what informers call -----------------------------------------------------------------------------------

    def put(self, obj: Object) -> None:
        """Handle a new or changed object; the previous version is looked up here."""
        if isinstance(obj, Pod):
            self._put_pod(obj)
        elif isinstance(obj, Node):
            self._put_node(obj)
        else:
            self._put_other(obj)

    def delete(self, obj: Object) -> None:
        """Handle a deleted object; unknown objects are ignored."""
        if isinstance(obj, Pod):
            self._delete_pod(obj)
        elif isinstance(obj, Node):
            self._delete_node(obj)
        else:
            self._delete_other(obj)

    def take_in_pending(self) -> None:
        """Queue pending pods whose profile was added by a reload of the configuration."""
        for pod in self.pods.values():
            is_ours = not pod.spec.node_name and self._queue.handles(pod.spec.scheduler_name)
            is_here = self._queue.get(pod.key) is not None or self._queue.is_in_flight(pod.uid)
            if is_ours and not is_here and not self._cluster.is_assumed(pod.uid):
                self._queue.add(self._cluster.info(pod))

    # ---- pods --------------------------------------------------------------------------------------------------

    def _put_pod(self, pod: Pod) -> None:
        key = pod.key
        old = self.pods.get(key)
        if old is not None and _is_another(old, pod):
            self._delete_pod(old)
            old = None
        if pod.is_finished:  # the live scheduler does not even watch those
            self._delete_pod(pod)
        elif old is None:
            self.pods[key] = pod
            self._add_pod(pod)
        elif not _is_same_version(old, pod):
            self.pods[key] = pod
            self._update_pod(old, pod)

    def _add_pod(self, pod: Pod) -> None:
        started = self._now()
        if pod.spec.node_name:
            self._cluster.set_pod(pod)
            self._queue.move_all(ASSIGNED_POD_ADD, None, pod)
            if self._observer is not None:
                self._took(ASSIGNED_POD_ADD, started)
        elif self._queue.handles(pod.spec.scheduler_name):
            self._cluster.note_member(pod)
            self._queue.add(self._cluster.info(pod))
            if self.gang_scheduling:
                self._queue.move_all(UNSCHEDULED_POD_ADD, None, pod)
            if self._observer is not None:
                self._took(UNSCHEDULED_POD_ADD, started)

    def _update_pod(self, old: Pod, new: Pod) -> None:
        started = self._now()
        if old.spec.node_name:
            self._cluster.set_pod(new)
            if new.is_terminating and not new.goes_at_once:
                self._on_leaving(new.key)
            self._move(self._queue.pod_changes(old, new), old, new, started)
            self._took(ASSIGNED_POD_UPDATE, started)
        elif new.spec.node_name:
            was_assumed = self._cluster.is_assumed(new.metadata.uid)
            self._cluster.set_pod(new)
            self._queue.move_all(ASSIGNED_POD_ADD, None, new)
            if self._observer is not None:
                self._took(ASSIGNED_POD_ADD, started)
            if self._queue.handles(old.spec.scheduler_name):
                started = self._now()
                if not was_assumed:  # a pod that this scheduler placed is no longer in the queue
                    self._queue.delete(old)
                if self._observer is not None:
                    self._took(UNSCHEDULED_POD_DELETE, started)
        elif self._queue.handles(old.spec.scheduler_name):
            self._update_pending(old, new)
            if self._observer is not None:
                for event in {UNSCHEDULED_POD_UPDATE, *self._queue.pod_changes(old, new)}:
                    self._took(event, started)

    def _update_pending(self, old: Pod, new: Pod) -> None:
        self._cluster.note_member(new)
        if self._cluster.is_assumed(new.uid):
            if new.is_terminating and not old.is_terminating:
                self._forget_assumed(new.uid)
            return  # other changes do not matter to a pod that has a node
        self._queue.update(old, self._cluster.info(new))
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.status.nominated_node_name:
            # Lower-priority pods had kept clear of that node.
            self._queue.move_all(ASSIGNED_POD_DELETE, old, None, _at_most(old.priority))

    def _delete_pod(self, pod: Pod) -> None:
        known = self.pods.pop(pod.key, None)
        if known is not None and known.uid != pod.uid:
            self.pods[pod.key] = known  # a late event of an earlier pod of the same name
            return
        if known is not None and known.spec.node_name and not pod.spec.node_name:
            pod = known
        started = self._now()
        if pod.spec.node_name:
            self._cluster.remove_pod(pod.uid)
            self._on_leaving(pod.key)
            if known is not None and not known.spec.node_name:  # bound and deleted before either event arrived
                self._queue.delete(known)
                self._cluster.forget_member(known)
            self._queue.move_all(ASSIGNED_POD_DELETE, pod, None)
            self._took(ASSIGNED_POD_DELETE, started)
        elif self._queue.handles(pod.spec.scheduler_name):
            self._queue.delete(pod)
            self._cluster.forget_member(pod)
            if self._cluster.is_assumed(pod.uid):
                self._forget_assumed(pod.uid)
            elif pod.status.nominated_node_name:
                self._queue.move_all(ASSIGNED_POD_DELETE, pod, None, _at_most(pod.priority))
            self._took(UNSCHEDULED_POD_DELETE, started)

    def _forget_assumed(self, uid: str) -> None:
        """Release what a pod holds that is deleted while being bound; its binding will fail by itself."""
        assumed = self._cluster.pod(uid)
        assert assumed is not None
        self._on_leaving(assumed.pod.key)
        if not self._reject_waiting_pod(uid):
            self._cluster.forget(uid)
        self._queue.move_all(ASSIGNED_POD_DELETE, assumed.pod, None)

    # ---- nodes -------------------------------------------------------------------------------------------------

    def _known_node(self, name: str) -> Node | None:
        info = self._cluster.table.nodes.get(name)
        return None if info is None else info.node

    def _put_node(self, node: Node) -> None:
        old = self._known_node(node.name)
        if old is not None and _is_same_version(old, node):
            return
        started = self._now()
        self._cluster.set_node(node)
        if old is None:
            self._queue.move_all(NODE_ADD, None, node)
            self._took(NODE_ADD, started)
            return
        self._move(node_changes(old, node, declared_features=self.declared_features), old, node, started)

    def _delete_node(self, node: Node) -> None:
        if self._known_node(node.name) is None:
            return
        started = self._now()
        self._queue.move_all(NODE_DELETE, node, None)  # upstream also notifies the queue first
        self._cluster.remove_node(node.name)
        self._took(NODE_DELETE, started)

    # ---- everything else ---------------------------------------------------------------------------------------

    def _put_other(self, obj: Object) -> None:
        old = self._cluster.objects.get(type(obj), obj.key)
        if old is not None and _is_same_version(old, obj):
            return
        self._cluster.objects.put(obj)
        if isinstance(obj, PodGroup):
            self._queue.put_group(obj)
        resource = RESOURCES.get(type(obj))
        if resource is not None:
            self._move_for(ClusterEvent(resource, ActionType.ADD if old is None else ActionType.UPDATE), old, obj)

    def _delete_other(self, obj: Object) -> None:
        known = self._cluster.objects.remove(type(obj), obj.key)
        if isinstance(obj, PodGroup):
            self._queue.delete_group(obj)
        resource = RESOURCES.get(type(obj))
        if known is not None and resource is not None:
            self._move_for(ClusterEvent(resource, ActionType.DELETE), obj, None)

    # ---- the clock ---------------------------------------------------------------------------------------------

    def _took(self, event: ClusterEvent, started: float) -> None:
        if self._observer is not None:
            self._observer(event.label, self._now() - started)

    def _move(self, events: Iterable[ClusterEvent], old: Object, new: Object, started: float) -> None:
        """Pass each event to the queue; its measured time includes that of caching the object."""
        taken_over = self._now() - started
        for event in events:
            began = self._now()
            self._queue.move_all(event, old, new)
            self._took(event, began - taken_over)

    def _move_for(self, event: ClusterEvent, old: Object | None, new: Object | None) -> None:
        started = self._now()
        self._queue.move_all(event, old, new)
        self._took(event, started)


def _is_same_version(old: Object, new: Object) -> bool:
    version = new.metadata.resource_version
    return bool(version) and version == old.metadata.resource_version and old.metadata.uid == new.metadata.uid


def _is_another(old: Pod, new: Pod) -> bool:
    """Report whether the pod was deleted and recreated without an event, or has lost its node.

    No API server allows the latter, but one that was restored to an older state does not know the binding.
    """
    return old.uid != new.uid or old.spec.node_name not in ("", new.spec.node_name)


def _at_most(priority: int) -> PreCheck:
    return lambda pod: pod.priority <= priority


class LiveEventHandlers(EventHandlers):
    """Handlers of a live scheduler: informer events are deferred while a decision is made in another thread.

    Informers call ``put``, ``update`` and ``delete``; ``take_in`` and ``forget`` are the same without waiting.
    """

    def __init__(self, context: SchedulerContext, preemptions: PreemptionExecutor, *, gang_scheduling: bool) -> None:
        super().__init__(context.session.state, context.queue, context.pods)
        self.declared_features = context.options.features["NodeDeclaredFeatures"]
        self.gang_scheduling = gang_scheduling
        self._changes = context.changes
        self._waiting_pods = context.waiting_pods
        self._preemptions = preemptions
        self._observers = context.observers
        self._view = view_of(context.options.features)
        self.take_in, self.forget = super().put, super().delete
        if self._observers.put or self._observers.delete:
            self.take_in, self.forget = self._observed_put, self._observed_delete

    def put(self, obj: Object) -> None:
        if self._view is not None:
            obj = self._view(obj)
        if self._changes.is_holding:
            self._changes(self.take_in, obj)
        else:  # the usual case: saves a call per object
            self.take_in(obj)

    def update(self, old: Object, new: Object) -> None:
        """Handle an update from an informer that passes both versions; the cached previous version is used."""
        self.put(new)

    def delete(self, obj: Object) -> None:
        self._changes(self.forget, obj if self._view is None else self._view(obj))

    def _observed_put(self, obj: Object) -> None:
        for tell in self._observers.put:
            tell(obj)
        super().put(obj)

    def _observed_delete(self, obj: Object) -> None:
        for tell in self._observers.delete:
            tell(obj)
        super().delete(obj)

    def _reject_waiting_pod(self, uid: str) -> bool:
        return self._waiting_pods.reject_deleted(uid)

    def _on_leaving(self, key: str) -> None:
        self._preemptions.victim_goes(key)


# --------------------------------------------------------------------------------------------------------------------
# Feature gates that are off: the scheduler does not see the fields that belong to them.
#
# | gate | without it |
# |---|---|
# | PodLevelResources | a pod asks for what its containers ask for |
# | InPlacePodLevelResourcesVerticalScaling | what a pod as a whole was resized to does not count |
# | MatchLabelKeysInPodTopologySpread | matchLabelKeys do not narrow a constraint's selector |
# | DRADeviceTaints | devices have no taints |

View = Callable[[Object], Object]


def view_of(features: Mapping[str, bool]) -> View | None:
    """Return how objects look to a scheduler with these gates, or None if they are unchanged."""
    views: list[tuple[type[Object], Callable[..., Object]]] = []
    if not features["PodLevelResources"]:
        views.append((Pod, _without_pod_level))
    if not features["InPlacePodLevelResourcesVerticalScaling"]:
        views.append((Pod, _without_resized_level))
    if not features["MatchLabelKeysInPodTopologySpread"]:
        views.append((Pod, _without_match_label_keys))
    if not features["DRADeviceTaints"]:
        views.append((ResourceSlice, _without_taints))

    def view(obj: Object) -> Object:
        for kind, hide in views:
            if isinstance(obj, kind):
                obj = hide(obj)
        return obj

    return view if views else None


def _without_pod_level(pod: Pod) -> Pod:
    return pod if pod.spec.resources is None else replace(pod, spec=replace(pod.spec, resources=None))


def _without_resized_level(pod: Pod) -> Pod:
    status = pod.status
    if status.resources is None and not status.allocated_resources:
        return pod
    return replace(pod, status=replace(status, resources=None, allocated_resources={}))


def _without_match_label_keys(pod: Pod) -> Pod:
    constraints = pod.spec.topology_spread_constraints
    if not any(constraint.match_label_keys for constraint in constraints):
        return pod
    plain = [replace(constraint, match_label_keys=[]) for constraint in constraints]
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=plain))


def _without_taints(resource_slice: ResourceSlice) -> ResourceSlice:
    devices = resource_slice.spec.devices
    if not any(device.taints for device in devices):
        return resource_slice
    untainted = [replace(device, taints=[]) for device in devices]
    return replace(resource_slice, spec=replace(resource_slice.spec, devices=untainted))
