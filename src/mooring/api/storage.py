"""Volumes, claims, classes and CSI objects."""

from __future__ import annotations

import msgspec

from mooring.api.core import (
    AwsElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    GcePersistentDisk,
    NodeSelector,
    PortworxVolume,
    Quantity,
    ResourceList,
    ResourceRequirements,
    VsphereVolume,
)
from mooring.api.meta import LabelSelector, Object, Struct


class ObjectReference(Struct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


class PersistentVolumeClaimSpec(Struct):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] = []
    volume_mode: str | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Struct):
    phase: str = ""


class PersistentVolumeClaim(Object, kw_only=True):
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = msgspec.field(default_factory=PersistentVolumeClaimStatus)


class CsiSource(Struct):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct):
    capacity: ResourceList = {}
    access_modes: list[str] = []
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeStatus(Struct):
    phase: str = ""


class PersistentVolume(Object, kw_only=True):
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = msgspec.field(default_factory=PersistentVolumeStatus)


class TopologySelectorRequirement(Struct):
    key: str = ""
    values: list[str] = []


class TopologySelectorTerm(Struct):
    match_label_expressions: list[TopologySelectorRequirement] = []


class StorageClass(Object, kw_only=True):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] = []


class CsiNodeDriverAllocatable(Struct):
    count: int | None = None


class CsiNodeDriver(Struct):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: list[str] | None = None
    allocatable: CsiNodeDriverAllocatable | None = None


class CsiNodeSpec(Struct):
    drivers: list[CsiNodeDriver] | None = None  # the API server writes null for none


class CSINode(Object, kw_only=True):
    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class CsiDriverSpec(Struct):
    storage_capacity: bool | None = None
    attach_required: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, kw_only=True):
    spec: CsiDriverSpec = msgspec.field(default_factory=CsiDriverSpec)


class CSIStorageCapacity(Object, kw_only=True):
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(Struct):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = msgspec.field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(Object, kw_only=True):
    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)
