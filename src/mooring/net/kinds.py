"""The kinds a scheduler watches: what kube-scheduler asks for when it starts, in the same words."""

from __future__ import annotations

from typing import Any

from mooring.api.core import Namespace, Node, Pod, ReplicationController, Service
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
from mooring.api.workloads import PodDisruptionBudget, ReplicaSet, StatefulSet
from mooring.core.framework.cluster_event import EventResource
from mooring.net.informer import PODS_FIELD_SELECTOR
from mooring.net.sharing import PodEvents, PodSharing
from mooring.net.watch_events import ResourceKind, typed_kind

NODES = typed_kind("nodes", "v1", Node)
_SHARING = PodSharing()
PODS = typed_kind(
    "pods", "v1", Pod, field_selector=PODS_FIELD_SELECTOR, share=_SHARING, decode_event=PodEvents(_SHARING)
)
NAMESPACES = typed_kind("namespaces", "v1", Namespace)
SERVICES = typed_kind("services", "v1", Service)
REPLICATION_CONTROLLERS = typed_kind("replicationcontrollers", "v1", ReplicationController)
REPLICA_SETS = typed_kind("replicasets", "apps/v1", ReplicaSet)
STATEFUL_SETS = typed_kind("statefulsets", "apps/v1", StatefulSet)
POD_DISRUPTION_BUDGETS = typed_kind("poddisruptionbudgets", "policy/v1", PodDisruptionBudget)
PERSISTENT_VOLUMES = typed_kind("persistentvolumes", "v1", PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = typed_kind("persistentvolumeclaims", "v1", PersistentVolumeClaim)
STORAGE_CLASSES = typed_kind("storageclasses", "storage.k8s.io/v1", StorageClass)
CSI_NODES = typed_kind("csinodes", "storage.k8s.io/v1", CSINode)
CSI_DRIVERS = typed_kind("csidrivers", "storage.k8s.io/v1", CSIDriver)
CSI_STORAGE_CAPACITIES = typed_kind("csistoragecapacities", "storage.k8s.io/v1", CSIStorageCapacity)
VOLUME_ATTACHMENTS = typed_kind("volumeattachments", "storage.k8s.io/v1", VolumeAttachment)
RESOURCE_CLAIMS = typed_kind("resourceclaims", "resource.k8s.io/v1", ResourceClaim)
RESOURCE_SLICES = typed_kind("resourceslices", "resource.k8s.io/v1", ResourceSlice)
DEVICE_CLASSES = typed_kind("deviceclasses", "resource.k8s.io/v1", DeviceClass)
DEVICE_TAINT_RULES = typed_kind(
    "devicetaintrules", "resource.k8s.io/v1", DeviceTaintRule, older=("resource.k8s.io/v1beta2",)
)
POD_GROUPS = typed_kind("podgroups", "scheduling.k8s.io/v1beta1", PodGroup)
COSCHEDULING_POD_GROUPS = typed_kind("podgroups", "scheduling.x-k8s.io/v1alpha1", CoschedulingPodGroup)

# Watched only where a plugin registers for their events.
EXTRA_KINDS: dict[EventResource, ResourceKind[Any]] = {
    EventResource.DEVICE_TAINT_RULE: DEVICE_TAINT_RULES,
    EventResource.POD_GROUP: POD_GROUPS,
    EventResource.COSCHEDULING_POD_GROUP: COSCHEDULING_POD_GROUPS,
}

SCHEDULER_KINDS: tuple[ResourceKind[Any], ...] = (
    NODES,
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    PODS,
)
"""All eighteen."""
