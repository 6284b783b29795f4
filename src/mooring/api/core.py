"""Pods, nodes and namespaces: the fields that scheduling reads, and no others."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.meta import Condition, LabelSelector, Object, Struct

# On the wire a quantity is a string; in a person's YAML it may be a bare number.
Quantity = str | int | float
ResourceList = dict[str, Quantity]


class ContainerClaim(Struct):
    name: str = ""
    request: str = ""


class ResourceRequirements(Struct):
    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: list[ContainerClaim] = []


class ContainerPort(Struct):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(Struct):
    action: str = ""


class Container(Struct):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    ports: list[ContainerPort] = []
    restart_policy: str = ""
    restart_policy_rules: list[RestartRule] = []


class Toleration(Struct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(Struct):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: list[str] = []


class NodeSelectorTerm(Struct):
    match_expressions: list[NodeSelectorRequirement] = []
    match_fields: list[NodeSelectorRequirement] = []


class NodeSelector(Struct):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(Struct):
    weight: int = 0
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(Struct):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredSchedulingTerm] = msgspec.field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct):
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []  # the API server merges them into the selector; no rule reads them
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(Struct):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(Struct):
    """Also the shape of podAntiAffinity."""

    required: list[PodAffinityTerm] = msgspec.field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] = msgspec.field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class PersistentVolumeClaimVolume(Struct):
    claim_name: str = ""
    read_only: bool = False


class ClaimTemplate(Struct):
    """What the claim of an ephemeral volume is made of. Scheduling does not read it; a simulation makes the claim."""

    spec: dict[str, Any] = {}


class EphemeralVolume(Struct):
    """A generic ephemeral volume; its claim is made by a controller."""

    volume_claim_template: ClaimTemplate | None = None


class GcePersistentDisk(Struct):
    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(Struct):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class Iscsi(Struct):
    iqn: str = ""
    read_only: bool = False


class Rbd(Struct):
    monitors: list[str] = []
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class AzureDisk(Struct):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class Cinder(Struct):
    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(Struct):
    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureFile(Struct):
    secret_name: str = ""
    share_name: str = ""


class VsphereVolume(Struct):
    volume_path: str = ""


class CsiVolume(Struct):
    driver: str = ""
    read_only: bool | None = None


class ImageVolume(Struct):
    reference: str = ""


class Present(Struct):
    """Something whose content is not read."""


class Volume(Struct):
    """A pod's volume; the many kinds that scheduling ignores decode to just a name."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    csi: CsiVolume | None = None
    image: ImageVolume | None = None
    config_map: Present | None = None
    secret: Present | None = None
    empty_dir: Present | None = None
    host_path: Present | None = None

    def is_relevant(self) -> bool:
        """Report whether any plugin looks at this volume."""
        return (
            self.persistent_volume_claim is not None
            or self.ephemeral is not None
            or self.image is not None
            or self.gce_persistent_disk is not None
            or self.aws_elastic_block_store is not None
            or self.iscsi is not None
            or self.rbd is not None
            or self.azure_disk is not None
            or self.azure_file is not None
            or self.cinder is not None
            or self.portworx_volume is not None
            or self.vsphere_volume is not None
            or self.csi is not None
        )


class PodSchedulingGate(Struct):
    name: str = ""


class PodResourceClaim(Struct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Struct):
    """What makes a pod a member of a pod group."""

    pod_group_name: str | None = None


class PodSpec(Struct):
    node_name: str = ""
    scheduler_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    volumes: list[Volume] = []
    scheduling_gates: list[PodSchedulingGate] = []
    resource_claims: list[PodResourceClaim] = []
    host_network: bool = False
    host_users: bool | None = None
    runtime_class_name: str | None = None
    termination_grace_period_seconds: int | None = None
    scheduling_group: PodSchedulingGroup | None = None


class ContainerStatus(Struct):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodResourceClaimStatus(Struct):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Struct):
    request_mappings: list[ContainerExtendedResourceRequest] = []
    resource_claim_name: str = ""


class PodStatus(Struct):
    phase: str = ""
    conditions: list[Condition] = []
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    resource_claim_statuses: list[PodResourceClaimStatus] = []
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(Object, kw_only=True):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def node_name(self) -> str:
        return self.spec.node_name

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def goes_at_once(self) -> bool:
        """Report whether the next event will be this pod's deletion: no finalizer, and no grace period left."""
        meta = self.metadata
        return meta.deletion_grace_period_seconds == 0 and not meta.finalizers

    @property
    def scheduled_condition(self) -> Condition | None:
        """The condition in which a scheduler says what became of the pod."""
        return next((condition for condition in self.status.conditions if condition.type == "PodScheduled"), None)

    @property
    def is_finished(self) -> bool:
        """Report whether kube-scheduler does not see this pod at all: it has succeeded or failed."""
        return self.status.phase in ("Succeeded", "Failed")


def recreated_pod(pod: Pod, uid: str = "") -> Pod:
    """The same pod, to be placed: without a node, a nomination, a phase and a deletion. The given pod stays as it is.

    With ``uid`` it is another pod that a controller makes in place of this one: it has not started, and it has no
    conditions yet. Without ``uid`` it is this pod before it was placed, and keeps its start time, which preemption
    compares. Metadata, spec and status are copies; what they hold is shared.
    """
    new = pod.__copy__()
    new.metadata, new.spec, new.status = pod.metadata.__copy__(), pod.spec.__copy__(), pod.status.__copy__()
    new.metadata.deletion_timestamp = None
    new.spec.node_name = new.status.nominated_node_name = new.status.phase = ""
    if uid:
        new.metadata.uid = uid
        new.status.start_time, new.status.conditions = None, []
    return new


class NodeSpec(Struct):
    unschedulable: bool = False
    taints: list[Taint] = []
    provider_id: str = msgspec.field(default="", name="providerID")


class ContainerImage(Struct):
    names: list[str] = []
    size_bytes: int = 0


class NodeStatus(Struct):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: list[Condition] = []
    images: list[ContainerImage] = []
    declared_features: list[str] = []


class Node(Object, kw_only=True):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Namespace(Object, kw_only=True):
    pass


class ServiceSpec(Struct):
    selector: dict[str, str] | None = None


class Service(Object, kw_only=True):
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class ReplicationControllerSpec(Struct):
    selector: dict[str, str] | None = None


class ReplicationController(Object, kw_only=True):
    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)
