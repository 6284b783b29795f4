"""The supported versions of Kubernetes and all their differences for scheduling, as tables.

A version is a value. Code that decides asks :class:`~mooring.core.config.features.Features` by name whether a gate is
on or a change is in, and never compares version numbers. To add a version: extend the tables below, add its tag to
``_TAGS``, and a recorded corpus under ``tests/parity``. ``docs/reference/versions.md`` is generated from this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import msgspec

from mooring.api.errors import UsageError
from mooring.api.version import UNKNOWN, Release, release_of


class Stage(Enum):
    """Maturity of a feature."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


class Gate(msgspec.Struct, frozen=True):
    """A feature gate; a locked one may be named, but only with its default."""

    name: str
    default: bool
    stage: Stage
    locked: bool = False

    def __str__(self) -> str:
        return f"{self.stage.value} {'on' if self.default else 'off'}"


class Change(msgspec.Struct, frozen=True):
    """A change without a gate."""

    name: str
    since: int  # the first minor version that has it
    about: str  # what it concerns
    says: str  # the behaviour since then, in one sentence
    upstream: str  # the pull request, or the enhancement proposal


# ---- changes without a gate
# --------------------------------------------------------------------------------------------

_CHANGES = {
    (35, "configuration"): {
        "GatesHaveDependencies": ("A gate that is on needs the gates that it depends on.", "kubernetes#133697"),
    },
    (35, "scores"): {
        "DevicesAreScored": (
            "DynamicResources scores nodes by the alternatives of prioritized lists that they can serve.",
            "kubernetes#134711",
        ),
    },
    (35, "devices"): {
        "PoolsCountEverywhere": (
            "A device pool is complete if all its slices are known, for whichever node, and only then yields devices.",
            "kubernetes#134189",
        ),
        "InvalidPoolsAreLeftOut": (
            "An invalid device pool is left out of a search; before, a search that met it failed the attempt.",
            "kubernetes#134189",
        ),
    },
    (35, "API server"): {
        "BindingCopiesTopologyLabels": (
            "A pod that is bound gets its node's zone and region as labels.",
            "kubernetes#135158",
        ),
    },
    (36, "scores"): {
        "BalanceCountsImprovement": (
            "NodeResourcesBalancedAllocation scores how much the pod improves a node's balance, not the balance then.",
            "kubernetes#135573",
        ),
        "ImageVolumesCount": ("ImageLocality counts the images of image volumes.", "kubernetes#130231"),
    },
    (36, "devices"): {
        "AllKeepsToItsAlternative": (
            "An alternative that asks for all devices gets its own ones; before, alternatives were mixed up.",
            "kubernetes#137347",
        ),
    },
    (36, "configuration"): {
        "CapacityRatioNeedsItsStrategy": (
            "requestedToCapacityRatio may be given only with the strategy of that name.",
            "kubernetes#132120",
        ),
    },
    (36, "requeueing"): {
        "OwnLabelsWake": (
            "A pod that inter-pod affinity refused is woken when its own labels change.",
            "kubernetes#135394",
        ),
        "DeletedObjectorsWake": (
            "A pod that inter-pod affinity refused is woken when a pod goes whose anti-affinity was about it.",
            "kubernetes#135325",
        ),
        "NominatedPodsWake": (
            "For affinity and topology spread, pods nominated to a node wake others as pods on a node do.",
            "kubernetes#135392",
        ),
    },
    (37, "messages"): {
        "DeallocationIsSilent": (
            "DynamicResources has no message if no claim can be released.",
            "kubernetes#140222",
        ),
        "PreemptorIsToldItsPlace": (
            "The message of a preemptor names the node and the number of victims.",
            "kubernetes#140180",
        ),
    },
    (37, "filters"): {
        "NodeNameComesFirst": (
            "NodeName runs before NodeUnschedulable and narrows the search in PreFilter.",
            "kubernetes#140000",
        ),
        "MergedNamespacesReplaceTheSelector": (
            "A namespaceSelector of the pod is no longer asked about empty labels.",
            "kubernetes#138198",
        ),
        "ResizesCountWholePods": (
            "A pod that is being resized holds the largest of three sums over its containers.",
            "kubernetes#140047",
        ),
        "GatedPodsHoldTheirNomination": (
            "A gated pod that is nominated to a node reserves its place there.",
            "kubernetes#139057",
        ),
    },
    (37, "scores"): {
        "ImageVolumesRaiseTheCeiling": (
            "ImageLocality counts image volumes in its upper threshold.",
            "kubernetes#138951",
        ),
        "BatchingRescoresTheLastNode": (
            "Batching scores the last node again instead of giving up when it is not full.",
            "kubernetes#140289",
        ),
    },
    (37, "devices"): {
        "DistinctAttributeSeesEveryDevice": (
            "distinctAttribute compares all devices of a request, not only the last.",
            "kubernetes#140600",
        ),
        "AllCountsFullDevices": (
            "A request for all devices fails if one of them has no capacity left.",
            "kubernetes#140769",
        ),
        "ConfigurationIsWrittenOnce": (
            "A configuration stands once in an allocation, for all requests if it is for each.",
            "kubernetes#139732",
        ),
        "SelectorErrorsNameTheDevice": (
            "An error of a device selector names the device, and hints at optional fields.",
            "kubernetes#136709",
        ),
        "SharesDrawCountersOnce": (
            "A shared device draws its counters once, also where shares consume no capacity.",
            "kubernetes#139040",
        ),
        "OddAmountsAreErrors": (
            "An amount of a device's capacity that is negative or too large fails the attempt.",
            "kubernetes#140442",
        ),
        "RoundedAmountsKeepNotation": (
            "An amount that is rounded up is written as its step is, not always in binary.",
            "kubernetes#140161",
        ),
        "CountersStayOnTheirNodes": (
            "Counters of a device pool concern the nodes that their slice is for.",
            "kubernetes#139795",
        ),
        "CompatibilityGroupsAreLeftOut": (
            "A pool is incomplete if a slice of it has compatibility groups.",
            "kubernetes#139795",
        ),
    },
    (37, "requeueing"): {
        "DeletedClaimsWake": (
            "A claim that is deleted while it has devices wakes pods that wait for some.",
            "kubernetes#140831",
        ),
        "EventsTellTargetPods": (
            "Events tell a pod's own updates (TargetPod) from those of assigned and of new pods.",
            "kubernetes#135905",
        ),
        "EventsTellGrowth": (
            "A pod that asks for more than before has an event of its own (UpdatePodScaleUp).",
            "kubernetes#140000",
        ),
        "TaintsWakeOnlyWhoAsks": (
            "A change of taints wakes only pods whose plugins ask for it, not for new nodes alone.",
            "kubernetes#138708",
        ),
        "WaitingVictimsWake": (
            "A preemptor is retried immediately if its last victim was only waiting to be bound.",
            "kubernetes#139162",
        ),
        "AnyAntiAffinityTermWakes": (
            "A pod with several anti-affinity terms is woken if any of them is concerned.",
            "kubernetes#139161",
        ),
    },
    (37, "binding"): {
        "BindingIsRetried": (
            "A Binding is sent again after a 500, a 503 or a refused connection.",
            "kubernetes#138855",
        ),
    },
    (37, "metrics"): {
        "MetricsCountEntities": (
            "Metrics count entities of the queue; the one of created claims has another name.",
            "kubernetes#139840",
        ),
        "MetricsTellOfFailedEvictions": (
            "Metrics tell preemptions that failed from those that succeeded.",
            "kubernetes#139373",
        ),
    },
    (38, "filters"): {
        "EmptySelectorsCountEveryPod": (
            "A topology spread constraint whose labelSelector is {} counts every pod of the namespace; before, none.",
            "kubernetes#141340",
        ),
    },
    (38, "messages"): {
        "GroupsSayTheirReason": (
            'A rejected pod group has its plugin\'s reason alone, without "pod group is unschedulable" before it.',
            "kubernetes#141253",
        ),
    },
    (38, "requeueing"): {
        "GroupsNameTheirPlugin": (
            "Pods of a group that PlacementFeasible rejects count the plugin among those that rejected them.",
            "kubernetes#141253",
        ),
    },
    (38, "extension points"): {
        "PlacementFeasibleIsConfigured": (
            "Plugins of users run at PlacementFeasible where a profile enables them; before, only GangScheduling.",
            "kubernetes#141314",
        ),
    },
}
CHANGES: Mapping[str, Change] = {
    name: Change(name, since, about, says, upstream)
    for (since, about), changes in _CHANGES.items()
    for name, (says, upstream) in changes.items()
}

# ---- feature gates -------------------------------------------------------------------------------------------------

# A gate of the scheduler, its enhancement proposal, and from which minor version on it has which stage and default.
_GATES = """
    ClearingNominatedNodeNameAfterBinding            5278  34 alpha off, 35 beta on
    ComponentFlagz                                   4828  34 alpha off, 36 beta on
    ComponentStatusz                                 4827  34 alpha off, 36 beta on
    CompositePodGroup                                6012  37 alpha off, 38 beta off
    CoordinatedLeaderElection                        4355  34 beta off
    DRAAdminAccess                                   5018  34 beta on, 36 ga locked
    DRAConsumableCapacity                            5075  34 alpha off, 36 beta on
    DRADerivedAttributes                             6080  37 alpha off
    DRADeviceBindingConditions                       5007  34 alpha off, 36 beta on
    DRADeviceCompatibilityGroups                     5963  37 alpha off
    DRADeviceTaintRules                              5055  35 alpha off, 36 beta off, 37 ga on
    DRADeviceTaints                                  5055  34 alpha off, 36 beta on, 37 ga on
    DRAExtendedResource                              5004  34 alpha off, 36 beta on, 37 ga locked
    DRAFractionalCapacityRange                       5075  37 beta off
    DRAListTypeAttributes                            5491  36 alpha off
    DRANodeAllocatableResources                      5517  36 alpha off
    DRAOptionalNodeOperations                        5945  37 alpha off
    DRAPartitionableDevices                          4815  34 alpha off, 36 beta on
    DRAPartitionableDevicesType                      5677  37 alpha off
    DRAPrioritizedList                               4816  34 beta on, 36 ga on, 37 ga locked
    DRAResourceClaimDeviceStatus                     4817  34 beta on, 37 ga locked
    DRASchedulerFilterTimeout                        4381  34 beta on
    DRAWorkloadResourceClaims                        5729  36 alpha off, 37 beta off
    DynamicResourceAllocation                        4381  34 ga on, 35 ga locked
    GangScheduling                                      -  35 alpha off, 37 gone
    GenericWorkload                                  4671  35 alpha off, 37 beta off, 38 ga on
    InPlacePodLevelResourcesVerticalScaling          5419  35 alpha off, 36 beta on
    InPlacePodVerticalScaling                        1287  34 beta on, 35 ga locked
    InPlacePodVerticalScalingSchedulerPreemption     5836  37 alpha off
    InterPodAffinityHostnameFastPath                    -  37 alpha off
    MatchLabelKeysInPodAffinity                      3633  34 ga locked
    MatchLabelKeysInPodTopologySpread                3243  34 beta on
    MatchLabelKeysInPodTopologySpreadSelectorMerge   3243  34 beta on
    MutableCSINodeAllocatableCount                   4876  34 beta off, 35 beta on, 36 ga locked
    NodeDeclaredFeatures                             5328  35 alpha off, 36 beta on, 37 ga locked
    NodeInclusionPolicyInPodTopologySpread           3094  34 ga locked
    NominatedNodeNameForExpectation                  5278  34 alpha off, 35 beta on
    OpportunisticBatching                            5598  35 beta on
    PodGroupPreemptionPolicy                         5710  37 alpha off
    PodLevelResources                                2837  34 beta on
    PodObservedGenerationTracking                    5067  34 beta on, 35 ga locked
    PodSchedulingReadiness                           3521  34 ga locked
    SchedulerAsyncAPICalls                           5229  34 beta off
    SchedulerAsyncPreemption                         4832  34 beta on
    SchedulerPopFromBackoffQ                         5142  34 beta on
    SchedulerPreQueueingHints                        6132  37 alpha off
    SchedulerQueueingHints                           4247  34 ga locked, 37 gone
    SidecarContainers                                 753  34 ga locked, 37 gone
    StorageCapacityScoring                           4049  34 alpha off, 37 beta on
    TaintTolerationComparisonOperators               5471  35 alpha off
    TopologyAwareWorkloadScheduling                  5732  36 alpha off, 38 beta off
    VolumeAttributesClass                            3751  34 ga on, 36 ga locked
    VolumeLimitScaling                               5030  35 alpha off, 37 beta on
    WorkloadAwarePreemption                          5710  36 alpha off, 37 gone
"""
_KEPS: dict[str, str] = {}
_STAGES: dict[str, list[tuple[int, Gate | None]]] = {}
for _line in _GATES.strip().splitlines():
    _name, _kep, _history = _line.split(maxsplit=2)
    _KEPS[_name], _STAGES[_name] = _kep.strip("-"), []
    for _minor, _stage, *_default in (_part.split() for _part in _history.split(", ")):
        _gate = Gate(_name, _default != ["off"], Stage(_stage.upper()), _default == ["locked"]) if _default else None
        _STAGES[_name].append((int(_minor), _gate))

# A gate that is on needs these gates on, in the versions that have them.
_DEPENDS_ON: dict[str, tuple[str, ...]] = {
    "CompositePodGroup": ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAPartitionableDevicesType": ("DRAPartitionableDevices",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "GangScheduling": ("GenericWorkload",),
    "InPlacePodLevelResourcesVerticalScaling": ("PodLevelResources", "NodeDeclaredFeatures"),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
}

# Removed gates, and the gate that now means the same.
_MERGED = {"GangScheduling": (37, "GenericWorkload"), "WorkloadAwarePreemption": (37, "GenericWorkload")}

# Gates that are rejected away from their default up to a minor version, and why.
_UNSUPPORTED = {
    "pod groups are scheduled as Kubernetes 1.37 does (--kubernetes-version 1.37)": (
        36,
        ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"),
    ),
    "this works as in Kubernetes 1.36 (--kubernetes-version 1.36)": (
        35,
        (
            "DRADeviceTaintRules",
            "DRADeviceTaints",
            "DRAExtendedResource",
            "InPlacePodLevelResourcesVerticalScaling",
            "NodeDeclaredFeatures",
            "VolumeLimitScaling",
        ),
    ),
}

# Gates that kube-scheduler accepts although they concern other components, with the first and last minor version that
# knows them: naming one is no mistake and has no effect.
_ELSEWHERE: dict[tuple[int, int | None], str] = {
    (34, 34): """
        UserNamespacesPodSecurityStandards""",
    (34, 35): """
        InTreePluginPortworxUnregister""",
    (34, 36): """
        PreventStaticPodAPIReferences""",
    (34, None): """
        APIResponseCompression APIServerIdentity APIServingWithRoutine AllowParsingUserUIDFromCertAuth
        AllowUnsafeMalformedObjectDeletion CBORServingAndStorage CPUManagerPolicyAlphaOptions
        CPUManagerPolicyBetaOptions CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
        CloudControllerManagerWebhook ClusterTrustBundle ClusterTrustBundleProjection
        ConcurrentWatchObjectDecode ContainerCheckpoint ContainerRestartRules ContainerStopSignals
        ContextualLogging CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod DeclarativeValidation
        DeclarativeValidationTakeover DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency
        DisableCPUQuotaWithExclusiveCPUs EnvFiles EventedPLEG ExternalServiceAccountTokenSigner
        GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HPAScaleToZero
        HostnameOverride ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory JobManagedBy KubeletCrashLoopBackOffMax
        KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz KubeletInUserNamespace KubeletPSI
        KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletSeparateDiskGC
        KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
        LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions LoggingBetaOptions
        MaxUnavailableStatefulSet MemoryQoS MutatingAdmissionPolicy NodeLogQuery OpenAPIEnums
        PodAndContainerStatsFromCRI PodCertificateRequest PodDeletionCost PodLogsQuerySplitStreams
        PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
        PreferSameTrafficDistribution ProcMountType QOSReserved ReduceDefaultCrashLoopBackOffDecay
        RelaxedServiceNameValidation ReloadKubeletServerCertificateFile RemoteRequestHeaderUID
        ResourceHealthStatus RotateKubeletServerCertificate RuntimeClassInImageCriApi SELinuxChangePolicy
        SELinuxMount SELinuxMountReadWriteOncePod ServiceAccountNodeAudienceRestriction
        SizeBasedListCostEstimate StatefulSetSemanticRevisionComparison StorageVersionAPI StorageVersionHash
        StorageVersionMigrator StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
        SupplementalGroupsPolicy SystemdWatchdog TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
        UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UserNamespacesSupport
        WatchCacheInitializationPostStartHook WatchList WatchListClient WindowsCPUAndMemoryAffinity
        WindowsGracefulNodeShutdown""",
    (35, None): """
        AuthorizePodWebsocketUpgradeCreatePermission CRDObservedGenerationTracking CSIServiceAccountTokenSecrets
        CloudControllerManagerWatchBasedRoutesReconciliation ConstrainedImpersonation
        InOrderInformersBatchProcess MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs
        MutableSchedulingDirectivesForSuspendedJobs RestartAllContainersOnContainerExits
        StructuredAuthenticationConfigurationJWKSMetrics UserNamespacesHostNetworkSupport""",
    (36, None): """
        AtomicFIFO CRIListStreaming ClientsAllowCARotation ClientsAllowTLSCacheGC
        DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus DeclarativeValidationBeta
        ExtendWebSocketsToKubelet ImageVolumeWithDigest InPlacePodVerticalScalingInitContainers
        ManifestBasedAdmissionControlConfig NativeHistograms PLEGOnDemandRelist
        PersistentVolumeClaimUnusedSinceTime PodLevelResourceManagers PodsAPI ReloadKubeletClientCAFile
        ResourceHealthStatusMessage ShardedListAndWatch StaleControllerConsistencyDaemonSet
        StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
        UnlockWhileProcessingFIFO WorkloadWithJob""",
    (37, None): """
        APIServerWebhookAuthenticationToken AtomicWriteVolumeUserFields
        ConsistentListFromCacheSkipTimeoutFallback DefaultPodSysctls EmptyDirVolumeMode EtcdRangeStream
        EvictionRequestAPI ExcludeAdmissionWebhookVirtualResources GRPCContainerProbeTLS H2CContainerProbe
        HPAGeneration HPAOptimizedSelectorStore HugepageAwareEviction
        InPlacePodVerticalScalingMemoryBackedVolumes KubeProxyNFTablesLocalhostNodePorts
        KubeletAllocatedPodsEndpoint NFTablesNetlink NodeControllerLeaseCircuitBreaker NodeLifecycleConditions
        PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass StaleControllerConsistencyHPA
        StatefulSetRecreateStrategy VolumeBindMountOptions WatchListCompression WebhookRoundTripLoadBalancing""",
}

# ---- extension points ----------------------------------------------------------------------------------------------

# By plugin and extension point: the first minor version in which the plugin runs there.
_POINTS_SINCE = {
    ("DynamicResources", "score"): 35,
    ("NodeResourcesFit", "placementScore"): 36,
    ("NodeName", "preFilter"): 37,
    ("NodeUnschedulable", "preFilter"): 37,
    ("TaintToleration", "preFilter"): 37,
    ("DefaultPreemption", "podGroupPostFilter"): 37,
    ("DynamicResources", "podGroupPostFilter"): 37,
    ("GangScheduling", "placementFeasible"): 38,
}

# By plugin and extension point: the last minor version in which the plugin runs there.
_POINTS_UNTIL = {("GangScheduling", "permit"): 37}

# Fields of a profile's plugins in the configuration: the first minor version that supports them.
_FIELDS_SINCE = {"placementGenerate": 36, "placementScore": 36, "podGroupPostFilter": 37, "placementFeasible": 38}


# ---- the API of the embedded control plane -------------------------------------------------------------------------

# Served kinds that are newer than the oldest version, by the first minor version that serves them like this.
_KINDS_SINCE = {
    "resource.k8s.io/v1 DeviceTaintRule": 37,
    "scheduling.k8s.io/v1beta1 PodGroup": 37,
    "scheduling.k8s.io/v1beta1 Workload": 37,
}

# Fields of served kinds by the first minor version that has them.
_API_FIELDS_SINCE = {
    35: """
        core.v1.NodeStatus.declaredFeatures core.v1.PodCertificateProjection.userAnnotations
        core.v1.PodStatus.allocatedResources core.v1.PodStatus.resources
        storage.v1.CSIDriverSpec.serviceAccountTokenInSecrets""",
    36: """
        core.v1.PodSpec.schedulingGroup core.v1.PodStatus.nodeAllocatableResourceClaimStatuses
        core.v1.ResourceHealth.message core.v1.VolumeMountStatus.volumeStatus
        resource.v1.Device.nodeAllocatableResourceMappings resource.v1.DeviceAttribute.bools
        resource.v1.DeviceAttribute.ints resource.v1.DeviceAttribute.strings resource.v1.DeviceAttribute.versions
        storage.v1.CSIDriverSpec.preventPodSchedulingIfMissing""",
    37: """
        authentication.v1.TokenRequestSpec.attestations batch.v1.JobSpec.scheduling
        core.v1.ClusterTrustBundleProjection.user core.v1.ConfigMapVolumeSource.defaultUser
        core.v1.DownwardAPIVolumeFile.user core.v1.DownwardAPIVolumeSource.defaultUser
        core.v1.EmptyDirVolumeSource.mode core.v1.GRPCAction.mode core.v1.HTTPGetAction.protocol core.v1.KeyToPath.user
        core.v1.NodeAllocatableResourceClaimStatus.mapping core.v1.NodeAllocatableResourceClaimStatus.overhead
        core.v1.NodeSpec.podPreemptionPolicy core.v1.NodeSystemInfo.runningInUserNamespace
        core.v1.PersistentVolumeClaimStatus.healthStatus core.v1.PodCertificateProjection.user
        core.v1.PodSpec.evictionResponders core.v1.PodStatus.volumeHealth core.v1.ProjectedVolumeSource.defaultUser
        core.v1.SecretVolumeSource.defaultUser core.v1.ServiceAccountTokenProjection.user
        core.v1.VolumeMount.bindMountOptions resource.v1.Device.nodeAllocatableResources
        resource.v1.DeviceCounterConsumption.compatibilityGroups
        resource.v1.DeviceRequestAllocationResult.skipNodeOperations
        resource.v1.DeviceSubRequest.derivedAttributes resource.v1.ExactDeviceRequest.derivedAttributes
        resource.v1.ResourceSliceSpec.partitionTypeAttribute resource.v1.ResourceSliceSpec.skipNodeOperations
        storage.v1.CSINode.status""",
}

# ---- versions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class KubernetesVersion:
    """One minor version of kube-scheduler, as recorded from its newest patch release."""

    minor: int
    tag: str  # source of the recorded decisions
    gates: Mapping[str, Gate]
    depends_on: Mapping[str, tuple[str, ...]]
    elsewhere: frozenset[str]
    merged: Mapping[str, str]
    changes: frozenset[str]  # names in CHANGES
    later_kinds: frozenset[str]  # "group/version Kind" that this API server does not serve yet
    later_api_fields: frozenset[str]  # "type.field" that it does not know yet
    unsupported: Mapping[str, str]  # gates that are not honoured in this version, and why
    is_preview: bool  # not released yet: includes what is merged upstream so far

    def __str__(self) -> str:
        return f"1.{self.minor}"

    @property
    def later_fields(self) -> frozenset[str]:
        """Fields of a profile's plugins that this version does not support yet."""
        return frozenset(name for name, since in _FIELDS_SINCE.items() if since > self.minor)

    def other_points(self, plugin: str) -> frozenset[str]:
        """The extension points at which a plugin does not run yet, or no more."""
        later = (point for (name, point), since in _POINTS_SINCE.items() if name == plugin and since > self.minor)
        earlier = (point for (name, point), until in _POINTS_UNTIL.items() if name == plugin and until < self.minor)
        return frozenset((*later, *earlier))


def _version(minor: int, tag: str, *, is_preview: bool = False) -> KubernetesVersion:
    states = {name: [gate for since, gate in history if since <= minor] for name, history in _STAGES.items()}
    gates = {name: reached[-1] for name, reached in states.items() if reached and reached[-1] is not None}
    known = {
        name
        for (since, until), names in _ELSEWHERE.items()
        if since <= minor <= (until or minor)
        for name in names.split()
    }
    return KubernetesVersion(
        minor,
        tag,
        gates,
        {name: tuple(filter(gates.get, needed)) for name, needed in _DEPENDS_ON.items() if name in gates},
        frozenset(known),
        {old: new for old, (since, new) in _MERGED.items() if since <= minor},
        frozenset(name for name, change in CHANGES.items() if change.since <= minor),
        frozenset(kind for kind, since in _KINDS_SINCE.items() if since > minor),
        frozenset(field for since, fields in _API_FIELDS_SINCE.items() if since > minor for field in fields.split()),
        {
            name: why
            for why, (until, names) in _UNSUPPORTED.items()
            if minor <= until
            for name in names
            if name in gates
        },
        is_preview,
    )


V1_34 = _version(34, "v1.34.11")
V1_35 = _version(35, "v1.35.8")
V1_36 = _version(36, "v1.36.4")
V1_37 = _version(37, "v1.37.0-rc.1")
V1_38 = _version(38, "v1.38.0-alpha.0", is_preview=True)
VERSIONS: Mapping[str, KubernetesVersion] = {str(version): version for version in (V1_34, V1_35, V1_36, V1_37, V1_38)}
DEFAULT_VERSION = V1_36


def parse_version(text: str, where: str = "--kubernetes-version") -> KubernetesVersion:
    """Parse a requested version, such as ``1.37`` or ``v1.37.2``; an unknown one is a UsageError."""
    version = VERSIONS.get("{}.{}".format(*release_of(text)))
    if version is None:
        raise UsageError(f"{where}: found {text!r}, expected one of {', '.join(VERSIONS)}")
    return version


def nearest_version(release: Release) -> tuple[KubernetesVersion, str]:
    """Return the version to emulate for a cluster of this release (major, minor), and a warning if they differ."""
    if release == UNKNOWN:  # the cluster does not report it
        return DEFAULT_VERSION, ""
    versions = list(VERSIONS.values())
    oldest, newest = versions[0], versions[-1]
    if release < (1, oldest.minor):
        chosen, differs = oldest, f"features and texts that came with {oldest} or before may differ"
    elif release > (1, newest.minor):
        chosen, differs = newest, f"what changed after {newest} is not known here"
    else:
        version = VERSIONS[f"{release[0]}.{release[1]}"]
        preview = f"{version} is a preview here: it has what was merged or announced upstream by September 2026"
        return version, preview if version.is_preview else ""
    return chosen, (
        f"the cluster is Kubernetes {release[0]}.{release[1]}; deciding as {chosen}, the nearest version: {differs}"
    )


# ---- differences
# ------------------------------------------------------------------------------------------------------


def differences(old: KubernetesVersion, new: KubernetesVersion) -> Iterator[Change]:
    """Yield all changes for scheduling after the older version, up to the newer one, gates last."""
    yield from (change for change in CHANGES.values() if old.minor < change.since <= new.minor)
    for kind, since in _KINDS_SINCE.items():
        if old.minor < since <= new.minor:
            yield Change(kind.partition(" ")[2], since, "API server", f"{kind.partition(' ')[0]} has it.", "")
    for name, since in _FIELDS_SINCE.items():
        if old.minor < since <= new.minor:
            yield Change(name, since, "configuration", f"Profiles have the field plugins.{name}.", "")
    for (plugin, point), since in _POINTS_SINCE.items():
        if old.minor < since <= new.minor:
            yield Change(plugin, since, "extension points", f"{plugin} runs at {point}.", "")
    for (plugin, point), until in _POINTS_UNTIL.items():
        if old.minor <= until < new.minor:
            says = f"{plugin} no longer runs at {point}."
            yield Change(plugin, until + 1, "extension points", says, "kubernetes#141182")
    for name, history in _STAGES.items():
        before, after = old.gates.get(name), new.gates.get(name)
        if before != after:
            since = max(minor for minor, _ in history if minor <= new.minor)
            says = f"{before or 'unknown'} → {after or 'gone'}{', locked' if after and after.locked else ''}"
            yield Change(name, since, "feature gates", says, f"KEP-{_KEPS[name]}" if _KEPS[name] else "")
