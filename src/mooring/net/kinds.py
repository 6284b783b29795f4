"""The kinds that a scheduler watches, and the decoding of pods with shared equal parts.

Ten thousand pods of a Deployment carry ten thousand equal lists of containers. After a pod is decoded its equal parts
are replaced by those seen before, which takes little more than half the memory. Objects from an informer are never
changed, so sharing parts is safe.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from mooring.api.core import (
    ContainerStatus,
    Namespace,
    Node,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ReplicationController,
    ResourceList,
    Service,
    Volume,
)
from mooring.api.meta import Object, ObjectMeta, Struct
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
from mooring.api.workloads import PodDisruptionBudget, ReplicaSet, ResourceQuota, StatefulSet
from mooring.core.framework.cluster_event import EventResource
from mooring.net.informer import PODS_FIELD_SELECTOR
from mooring.net.watch_events import ResourceKind, TypedEvent, typed_kind

T = TypeVar("T")

LIMIT = 50_000
"""Maximum number of shared parts. Beyond it all are dropped, and later pods start sharing again."""
SPECS, SPECS_BYTES = 2_000, 4 << 20
"""Likewise for whole specs: the next version of a pod mostly arrives soon."""
SHORT_BYTES = 512
"""Statuses up to this length are shared whole: that of a pod that does not run yet has nothing unique."""
LIMIT_BYTES = 16 << 20
"""Maximum encoded length of shared parts. Decoded they take several times as much memory."""

# Fields that most pods lack, shared by all of them.
_NO_VOLUMES: list[Volume] = []
_NO_GATES: list[PodSchedulingGate] = []
_NO_CLAIMS: list[PodResourceClaim] = []
_NO_ANNOTATIONS: dict[str, str] = {}
_NO_FINALIZERS: list[str] = []
_NO_STATUSES: list[ContainerStatus] = []
_NO_RESOURCES: ResourceList = {}
_NO_CLAIM_STATUSES: list[PodResourceClaimStatus] = []


class _Remembered(dict[bytes, T]):
    """Decoded values by their encoding, cleared when there are too many."""

    def __init__(self, limit: int, limit_bytes: int) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._bytes = 0

    def remember(self, key: bytes, value: T) -> None:
        if len(self) >= self._limit or self._bytes >= self._limit_bytes:
            self.clear()
            self._bytes = 0
        self[key] = value
        self._bytes += len(key)


class PodSharing:
    """Replaces equal parts of pods by one and the same object."""

    def __init__(self, limit: int = LIMIT, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit
        self._encode = msgspec.msgpack.Encoder().encode
        self._parts: _Remembered[tuple[Any, ...]] = _Remembered(limit, limit_bytes)
        self._words: dict[str, str] = {}
        self.known = self._words.setdefault  # ``word`` without a method call: for many words of every pod

    def __len__(self) -> int:
        return len(self._parts)

    def __call__(self, pod: Pod) -> None:
        pod.kind, pod.api_version = self.word(pod.kind), self.word(pod.api_version)
        self.share_spec(pod.spec)
        self.share_metadata(pod.metadata)
        self.share_status(pod.status)

    def word(self, word: str) -> str:
        """Return the shared copy of a word: names of nodes and conditions, times."""
        return self.known(word, word)

    def share_spec(self, spec: PodSpec) -> None:
        spec.node_name = self.word(spec.node_name)
        spec.scheduler_name = self.word(spec.scheduler_name)
        if spec.preemption_policy is not None:
            spec.preemption_policy = self.word(spec.preemption_policy)
        if not spec.volumes:
            spec.volumes = _NO_VOLUMES
        if not spec.scheduling_gates:
            spec.scheduling_gates = _NO_GATES
        if not spec.resource_claims:
            spec.resource_claims = _NO_CLAIMS
        (
            spec.containers,
            spec.init_containers,
            spec.tolerations,
            spec.affinity,
            spec.topology_spread_constraints,
            spec.node_selector,
            spec.overhead,
        ) = self._shared(
            (
                spec.containers,
                spec.init_containers,
                spec.tolerations,
                spec.affinity,
                spec.topology_spread_constraints,
                spec.node_selector,
                spec.overhead,
            )
        )

    def share_metadata(self, meta: ObjectMeta) -> None:
        """Share metadata apart from the spec, because a StatefulSet gives each pod a label with its name."""
        if len(self._words) >= self._limit:
            self._words.clear()
        known = self.known
        meta.namespace = known(meta.namespace, meta.namespace)
        if (time := meta.creation_timestamp) is not None:
            meta.creation_timestamp = known(time, time)
        if not meta.annotations:
            meta.annotations = _NO_ANNOTATIONS
        if not meta.finalizers:
            meta.finalizers = _NO_FINALIZERS
        meta.labels, meta.owner_references = self._shared((meta.labels, meta.owner_references))

    def share_status(self, status: PodStatus) -> None:
        known = self.known
        status.phase = known(status.phase, status.phase)
        if (time := status.start_time) is not None:
            status.start_time = known(time, time)
        for condition in status.conditions:
            condition.type = known(condition.type, condition.type)
            condition.status = known(condition.status, condition.status)
            if (time := condition.last_transition_time) is not None:
                condition.last_transition_time = known(time, time)
        if not status.container_statuses:
            status.container_statuses = _NO_STATUSES
        if not status.init_container_statuses:
            status.init_container_statuses = _NO_STATUSES
        if not status.allocated_resources:
            status.allocated_resources = _NO_RESOURCES
        if not status.resource_claim_statuses:
            status.resource_claim_statuses = _NO_CLAIM_STATUSES

    def _shared(self, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        key = self._encode(parts)
        known = self._parts.get(key)
        if known is not None:
            return known
        self._parts.remember(key, parts)
        return parts


class _PodInParts(Object, kw_only=True):
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _NodeOnly(Struct):
    node_name: str = ""


_split = msgspec.json.Decoder(TypedEvent[_PodInParts]).decode
_node_of = msgspec.json.Decoder(_NodeOnly).decode
_spec_of = msgspec.json.Decoder(PodSpec).decode
_status_of = msgspec.json.Decoder(PodStatus).decode


_NODE_NAME = b'"nodeName":"'


class _KnownSpec:
    """A decoded spec without its node, and the position of the node in its bytes."""

    __slots__ = ("node_at", "spec")

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.node_at = -1  # not known yet


def _without(data: bytes, at: int, end: int) -> bytes:
    """Remove an entry and its comma from an encoded spec; return nothing if in doubt.

    kube-apiserver writes more entries after the node's name, and the embedded one writes it last.
    """
    if data[end + 1 : end + 2] == b",":
        return data[:at] + data[end + 2 :]
    is_last = data[at - 1 : at] == b"," and data[end + 1 :] == b"}"
    return data[: at - 1] + b"}" if is_last else b""


class PodEvents:
    """Decodes watch events of pods and shares equal parts, without decoding known ones again.

    Specs are compared as bytes and without the node: those of one template, and those of one pod before and after it is
    bound. So are short statuses: those of new pods are all alike, and those of pods that are bound within one second.
    """

    def __init__(self, share: PodSharing, limit: int = SPECS, limit_bytes: int = SPECS_BYTES) -> None:
        self._share = share
        self._specs: _Remembered[_KnownSpec] = _Remembered(limit, limit_bytes)
        self._statuses: _Remembered[PodStatus] = _Remembered(limit, limit_bytes)

    def __len__(self) -> int:
        return len(self._specs)

    def __call__(self, line: bytes) -> TypedEvent[Pod]:
        event = _split(line)
        found = event.object
        share, metadata = self._share, found.metadata
        share.share_metadata(metadata)
        pod = Pod(
            api_version=share.known(found.api_version, found.api_version),
            kind=share.known(found.kind, found.kind),
            metadata=metadata,
            spec=self._spec(bytes(found.spec)),
            status=self._status(bytes(found.status)),
        )
        return TypedEvent(event.type, pod)

    def _status(self, data: bytes) -> PodStatus:
        known = self._statuses.get(data)
        if known is None:
            known = _status_of(data)
            self._share.share_status(known)
            if len(data) <= SHORT_BYTES:
                self._statuses.remember(data, known)
        return known

    def _spec(self, data: bytes) -> PodSpec:
        at = data.find(b'"nodeName"')
        if at < 0:
            return self._known(data).spec
        value = at + len(_NODE_NAME)
        end = data.find(b'"', value)
        bare = _without(data, at, end)
        known = self._specs.get(bare)
        # The same bytes preceded the entry when it was decoded, so it is the same entry.
        if known is not None and known.node_at == at and data.startswith(_NODE_NAME, at):
            node = data[value:end]
            if b"\\" not in node:
                return self._on_node(known, node.decode())
        return self._spec_with_node(data, bare, at)

    def _spec_with_node(self, data: bytes, bare: bytes, at: int) -> PodSpec:
        node = _node_of(data).node_name
        entry = _NODE_NAME + node.encode() + b'"'
        # Only once: a selector may have the same key, and then it is ambiguous which of them the entry is.
        if not node or not bare or data.count(b'"nodeName"') != 1 or not data.startswith(entry, at):
            return self._decode(data)
        known = self._known(bare)
        known.node_at = at
        return self._on_node(known, node)

    def _known(self, data: bytes) -> _KnownSpec:
        known = self._specs.get(data)
        if known is None:
            known = _KnownSpec(self._decode(data))
            self._specs.remember(data, known)
        return known

    def _on_node(self, known: _KnownSpec, node: str) -> PodSpec:
        spec = known.spec.__copy__()
        spec.node_name = self._share.known(node, node)
        return spec

    def _decode(self, data: bytes) -> PodSpec:
        spec = _spec_of(data)
        self._share.share_spec(spec)
        return spec


# --------------------------------------------------------------------------------------------------------------------
# The kinds a scheduler watches, requested as kube-scheduler does when it starts.

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
RESOURCE_QUOTAS = typed_kind("resourcequotas", "v1", ResourceQuota)
DEVICE_TAINT_RULES = typed_kind(
    "devicetaintrules", "resource.k8s.io/v1", DeviceTaintRule, older=("resource.k8s.io/v1beta2",)
)
POD_GROUPS = typed_kind("podgroups", "scheduling.k8s.io/v1beta1", PodGroup)
COSCHEDULING_POD_GROUPS = typed_kind("podgroups", "scheduling.x-k8s.io/v1alpha1", CoschedulingPodGroup)

# Watched only if a plugin registers for their events.
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
"""All eighteen kinds."""
