"""Events in a cluster, and which of them could help a rejected pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntFlag

from mooring.api.core import Pod
from mooring.api.meta import Object


class ActionType(IntFlag):
    """Kinds of changes of an object; the bits are those of 1.36, followed by later ones."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE_POD_SCALE_UP = 8192
    UPDATE = 16380
    ALL = 16383


class EventResource(Enum):
    """Kinds that events are about; the values are upstream's names."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"  # a pod without a node; its updates concern only that pod
    TARGET_POD = "TargetPod"  # only registered: an update of the waiting pod itself
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    DEVICE_TAINT_RULE = "resource.k8s.io/DeviceTaintRule"  # upstream: an update of the slices that the rule concerns
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    COSCHEDULING_POD_GROUP = "podgroups.v1alpha1.scheduling.x-k8s.io"  # as scheduler-plugins names it
    WILDCARD = "*"


_ACTION_LABELS = {
    ActionType.ADD: "Add",
    ActionType.DELETE: "Delete",
    ActionType.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    ActionType.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    ActionType.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    ActionType.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    ActionType.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    ActionType.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    ActionType.UPDATE_POD_LABEL: "UpdatePodLabel",
    ActionType.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    ActionType.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    ActionType.UPDATE_POD_SCALE_UP: "UpdatePodScaleUp",
    ActionType.UPDATE: "Update",
    ActionType.ALL: "All",
}


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event in the cluster, or one that a plugin registers for."""

    resource: EventResource
    action: ActionType
    custom_label: str = ""
    label: str = field(init=False, repr=False, compare=False)
    """The name in metrics and logs, such as ``AssignedPodDelete``."""
    is_wildcard: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Precompute answers to frequent questions; hashing enums is slow."""
        set_once = object.__setattr__
        label = self.custom_label or self.resource.value + _ACTION_LABELS.get(self.action, str(int(self.action)))
        set_once(self, "label", label)
        set_once(self, "is_wildcard", self.resource is EventResource.WILDCARD and self.action == ActionType.ALL)
        set_once(self, "_hash", hash((self.resource, self.action, self.custom_label)))

    def __hash__(self) -> int:
        return self._hash

    def covers(self, happened: ClusterEvent) -> bool:
        """Report whether this registration covers the event."""
        if self.is_wildcard:
            return True
        same = (
            self.resource is happened.resource
            or self.resource is EventResource.WILDCARD
            or (
                self.resource is EventResource.POD
                and happened.resource in (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD)
            )
            or (
                self.resource is EventResource.TARGET_POD
                and happened.resource is EventResource.UNSCHEDULABLE_POD
                and happened.action not in (ActionType.ADD, ActionType.DELETE)
            )
        )
        return same and bool(self.action & happened.action) and happened.action <= self.action


class Hint(Enum):
    """A plugin's opinion whether an event could make a pod schedulable that it had rejected."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"


# (the pending pod, the object before, the object after): None where there is no before or after.
QueueingHint = Callable[[Pod, Object | None, Object | None], Hint]


@dataclass(frozen=True, slots=True)
class EventRegistration:
    """An event that a plugin registers for; without a hint every such event justifies another attempt."""

    event: ClusterEvent
    hint: QueueingHint | None = None


def on(resource: EventResource, action: ActionType, hint: QueueingHint | None = None) -> EventRegistration:
    return EventRegistration(ClusterEvent(resource, action), hint)
