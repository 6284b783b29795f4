"""The versions of Kubernetes whose scheduler mooring can be, and everything in which they differ.

A version is a value. :class:`~mooring.core.config.features.Features` is made for one and answers, by name, whether a
feature gate is on and whether a change that upstream made without a gate is in. Nothing else asks which version it is.
A new version is an entry here: its gates, its changes, and a recorded corpus under ``tests/parity``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from mooring.api.errors import UsageError
from mooring.api.version import UNKNOWN, Release, release_of


class Stage(Enum):
    """How far a feature has come."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


class Gate(msgspec.Struct, frozen=True):
    """A switch; a locked one may be named, but only with its default."""

    name: str
    default: bool
    stage: Stage
    locked: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class KubernetesVersion:
    """One minor version of kube-scheduler, as recorded from its newest patch release."""

    minor: int
    tag: str  # what the recorded decisions come from
    gates: Mapping[str, Gate]
    depends_on: Mapping[str, tuple[str, ...]]
    elsewhere: frozenset[str]  # gates of other components: naming one is no mistake and has no effect
    merged: Mapping[str, str] = field(default_factory=dict)  # gates that are no more: the gate that now means the same
    changes: Mapping[str, str] = field(default_factory=dict)  # what is in without a gate: in one sentence
    unsupported: Mapping[str, str] = field(default_factory=dict)  # gates that are not heeded in this version, and why
    later_points: Mapping[str, str] = field(default_factory=dict)  # by plugin: the extension point that it lacks yet

    def __str__(self) -> str:
        return f"1.{self.minor}"


def _gates(stage: Stage, default: bool, names: str, *, locked: bool = False) -> list[Gate]:
    return [Gate(name, default, stage, locked) for name in names.split()]


def _by_name(gates: Iterable[Gate]) -> dict[str, Gate]:
    return {gate.name: gate for gate in gates}


def _without(names: Mapping[str, Gate], removed: str) -> dict[str, Gate]:
    return {name: gate for name, gate in names.items() if name not in removed.split()}


# ---- 1.36 ------------------------------------------------------------------------------------------------------

_GATES_1_36 = _by_name(
    (
        *_gates(
            Stage.GA,
            True,
            """SchedulerQueueingHints InPlacePodVerticalScaling SidecarContainers NodeInclusionPolicyInPodTopologySpread
        MatchLabelKeysInPodAffinity PodSchedulingReadiness VolumeAttributesClass MutableCSINodeAllocatableCount
        DynamicResourceAllocation DRAAdminAccess PodObservedGenerationTracking""",
            locked=True,
        ),
        *_gates(Stage.GA, True, "DRAPrioritizedList"),
        *_gates(
            Stage.BETA,
            True,
            """SchedulerPopFromBackoffQ SchedulerAsyncPreemption NominatedNodeNameForExpectation
        ClearingNominatedNodeNameAfterBinding OpportunisticBatching NodeDeclaredFeatures PodLevelResources
        InPlacePodLevelResourcesVerticalScaling MatchLabelKeysInPodTopologySpread
        MatchLabelKeysInPodTopologySpreadSelectorMerge DRAExtendedResource DRAPartitionableDevices
        DRAConsumableCapacity DRADeviceTaints DRADeviceBindingConditions DRAResourceClaimDeviceStatus
        DRASchedulerFilterTimeout ComponentFlagz ComponentStatusz""",
        ),
        *_gates(Stage.BETA, False, "SchedulerAsyncAPICalls DRADeviceTaintRules CoordinatedLeaderElection"),
        *_gates(
            Stage.ALPHA,
            False,
            """VolumeLimitScaling StorageCapacityScoring TaintTolerationComparisonOperators DRAListTypeAttributes
        DRANodeAllocatableResources DRAWorkloadResourceClaims GenericWorkload GangScheduling
        TopologyAwareWorkloadScheduling WorkloadAwarePreemption""",
        ),
    )
)

_DEPENDS_ON_1_36: dict[str, tuple[str, ...]] = {
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "GangScheduling": ("GenericWorkload",),
    "InPlacePodLevelResourcesVerticalScaling": ("PodLevelResources", "NodeDeclaredFeatures"),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
}

# Gates that kube-scheduler takes although they concern other components; naming one is no mistake and has no effect.
_ELSEWHERE_1_36 = """
    APIResponseCompression APIServerIdentity APIServingWithRoutine AllowParsingUserUIDFromCertAuth
    AllowUnsafeMalformedObjectDeletion AtomicFIFO AuthorizePodWebsocketUpgradeCreatePermission CBORServingAndStorage
    CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CRDObservedGenerationTracking CRIListStreaming
    CSIVolumeHealth ClientsAllowCARotation ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR
    CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ClusterTrustBundle
    ClusterTrustBundleProjection ConcurrentWatchObjectDecode ConstrainedImpersonation ContainerCheckpoint
    ContainerRestartRules ContainerStopSignals ContextualLogging CrossNamespaceVolumeDataSource
    DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus DeclarativeValidationBeta
    DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles EventedPLEG ExtendWebSocketsToKubelet
    GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HPAScaleToZero
    HostnameOverride ImageVolumeWithDigest InOrderInformersBatchProcess InPlacePodVerticalScalingExclusiveCPUs
    InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletInUserNamespace KubeletSeparateDiskGC
    KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
    LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions LoggingBetaOptions
    ManifestBasedAdmissionControlConfig MaxUnavailableStatefulSet MemoryQoS MutablePVNodeAffinity
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NativeHistograms OpenAPIEnums
    PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodCertificateRequest
    PodDeletionCost PodLevelResourceManagers PodLogsQuerySplitStreams PodReadyToStartContainersCondition
    PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets PreventStaticPodAPIReferences QOSReserved
    ReduceDefaultCrashLoopBackOffDecay RelaxedServiceNameValidation ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RotateKubeletServerCertificate RuntimeClassInImageCriApi SELinuxMount
    ServiceAccountNodeAudienceRestriction ShardedListAndWatch SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
    StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionAPI StorageVersionHash
    StorageVersionMigrator StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
    UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO
    UserNamespacesHostNetworkSupport WatchCacheInitializationPostStartHook WatchList WatchListClient
    WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown WorkloadWithJob"""

V1_36 = KubernetesVersion(
    36,
    "v1.36.4",
    _GATES_1_36,
    _DEPENDS_ON_1_36,
    frozenset(_ELSEWHERE_1_36.split()),
    unsupported=dict.fromkeys(
        ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"),
        "pod groups are scheduled as Kubernetes 1.37 does (--kubernetes-version 1.37)",
    ),
    later_points={
        **dict.fromkeys(("NodeName", "NodeUnschedulable", "TaintToleration"), "preFilter"),
        **dict.fromkeys(("DefaultPreemption", "DynamicResources"), "podGroupPostFilter"),
    },
)

# ---- 1.37: what is different -----------------------------------------------------------------------------------

_GATES_1_37 = {
    **_without(_GATES_1_36, "SchedulerQueueingHints SidecarContainers GangScheduling WorkloadAwarePreemption"),
    **_by_name(
        (
            *_gates(
                Stage.GA,
                True,
                """DRADeviceTaintRules DRADeviceTaints DRAExtendedResource DRAResourceClaimDeviceStatus
                NodeDeclaredFeatures DRAPrioritizedList""",
                locked=True,
            ),
            *_gates(Stage.BETA, True, "StorageCapacityScoring VolumeLimitScaling"),
            # Also DRAFractionalCapacityRange: it is on only where nothing older than 1.37 must be compatible.
            *_gates(Stage.BETA, False, "GenericWorkload DRAWorkloadResourceClaims DRAFractionalCapacityRange"),
            *_gates(
                Stage.ALPHA,
                False,
                """CompositePodGroup PodGroupPreemptionPolicy SchedulerPreQueueingHints
                InterPodAffinityHostnameFastPath InPlacePodVerticalScalingSchedulerPreemption DRADerivedAttributes
                DRADeviceCompatibilityGroups DRAOptionalNodeOperations DRAPartitionableDevicesType""",
            ),
        )
    ),
}

_DEPENDS_ON_1_37 = {
    name: needed
    for name, needed in _DEPENDS_ON_1_36.items()
    if name not in ("GangScheduling", "WorkloadAwarePreemption")
} | {
    "CompositePodGroup": ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAPartitionableDevicesType": ("DRAPartitionableDevices",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
}

_NEW_ELSEWHERE_1_37 = """
    APIServerWebhookAuthenticationToken AtomicWriteVolumeUserFields ConsistentListFromCacheSkipTimeoutFallback
    DefaultPodSysctls EmptyDirVolumeMode EtcdRangeStream EvictionRequestAPI ExcludeAdmissionWebhookVirtualResources
    GRPCContainerProbeTLS H2CContainerProbe HPAGeneration HPAOptimizedSelectorStore HugepageAwareEviction
    InPlacePodVerticalScalingMemoryBackedVolumes KubeProxyIPVS KubeProxyNFTablesLocalhostNodePorts
    KubeletAllocatedPodsEndpoint NFTablesNetlink NodeControllerLeaseCircuitBreaker NodeLifecycleConditions
    PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass StaleControllerConsistencyHPA
    StatefulSetRecreateStrategy VolumeBindMountOptions WatchListCompression WebhookRoundTripLoadBalancing"""

_CHANGES_1_37 = {
    "DeallocationIsSilent": "DynamicResources says nothing where no claim can be given back.",
    "PreemptorIsToldItsPlace": "A pod that preempts is told the node and the number of victims.",
    "NodeNameComesFirst": "NodeName runs before NodeUnschedulable and narrows the search in PreFilter.",
    "ImageVolumesRaiseTheCeiling": "ImageLocality counts image volumes in its upper threshold.",
    "MergedNamespacesReplaceTheSelector": "A namespaceSelector of the pod is no longer asked about empty labels.",
    "BatchingRescoresTheLastNode": "Batching scores the last node again instead of giving up when it is not full.",
    "ResizesCountWholePods": "A pod that is being resized holds the largest of three sums over its containers.",
    "DistinctAttributeSeesEveryDevice": "distinctAttribute compares all devices of a request, not only the last.",
    "AllCountsFullDevices": "A request for all devices fails if one of them has no capacity left.",
    "ConfigurationIsWrittenOnce": "A configuration stands once in an allocation, for all requests if it is for each.",
    "SelectorErrorsNameTheDevice": "An error of a device selector names the device, and hints at optional fields.",
    "SharesDrawCountersOnce": "A shared device draws its counters once, also where shares consume no capacity.",
    "OddAmountsAreErrors": "An amount of a device's capacity that is negative or too large fails the attempt.",
    "RoundedAmountsKeepNotation": "An amount that is rounded up is written as its step is, not always in binary.",
    "CountersStayOnTheirNodes": "Counters of a device pool concern the nodes that their slice is for.",
    "CompatibilityGroupsAreLeftOut": "A pool is incomplete if a slice of it has compatibility groups.",
    "DeletedClaimsWake": "A claim that is deleted while it has devices wakes pods that wait for some.",
    "GatedPodsHoldTheirNomination": "A gated pod that is nominated to a node reserves its place there.",
    "BindingIsRetried": "A Binding is sent again after a 500, a 503 or a refused connection.",
    "EventsTellTargetPods": "Events tell a pod's own updates (TargetPod) from those of assigned and of new pods.",
    "EventsTellGrowth": "A pod that asks for more than before has an event of its own (UpdatePodScaleUp).",
    "TaintsWakeOnlyWhoAsks": "A change of taints wakes only pods whose plugins ask for it, not for new nodes alone.",
    "MetricsCountEntities": "Metrics count entities of the queue; the one of created claims has another name.",
    "MetricsTellOfFailedEvictions": "Metrics tell preemptions that failed from those that succeeded.",
    "WaitingVictimsWake": "A preemptor is tried again at once if its last victim was only waiting to be bound.",
    "AnyAntiAffinityTermWakes": "A pod with several anti-affinity terms is woken if any of them is concerned.",
}

V1_37 = KubernetesVersion(
    37,
    "v1.37.0-rc.1",
    _GATES_1_37,
    _DEPENDS_ON_1_37,
    V1_36.elsewhere - {"PreventStaticPodAPIReferences"} | frozenset(_NEW_ELSEWHERE_1_37.split()),
    merged={"GangScheduling": "GenericWorkload", "WorkloadAwarePreemption": "GenericWorkload"},
    changes=_CHANGES_1_37,
)

# ---- which one -------------------------------------------------------------------------------------------------

VERSIONS: Mapping[str, KubernetesVersion] = {str(version): version for version in (V1_36, V1_37)}
DEFAULT_VERSION = V1_36
CHANGES = frozenset(name for version in VERSIONS.values() for name in version.changes)


def parse_version(text: str, where: str = "--kubernetes-version") -> KubernetesVersion:
    """Read a version that somebody asked for, such as ``1.37`` or ``v1.37.2``; another one is a UsageError."""
    version = VERSIONS.get("{}.{}".format(*release_of(text)))
    if version is None:
        raise UsageError(f"{where}: found {text!r}, expected one of {', '.join(VERSIONS)}")
    return version


def nearest_version(release: Release) -> tuple[KubernetesVersion, str]:
    """The version to be for a cluster of this release (major, minor), and a warning if it is another one."""
    if release == UNKNOWN:  # the cluster does not say
        return DEFAULT_VERSION, ""
    versions = list(VERSIONS.values())
    oldest, newest = versions[0], versions[-1]
    if release < (1, oldest.minor):
        chosen, differs = oldest, f"features and texts that came with {oldest} or before may differ"
    elif release > (1, newest.minor):
        chosen, differs = newest, f"what changed after {newest} is not known here"
    else:
        return VERSIONS[f"{release[0]}.{release[1]}"], ""
    return chosen, (
        f"the cluster is Kubernetes {release[0]}.{release[1]}; deciding as {chosen}, the nearest version: {differs}"
    )
