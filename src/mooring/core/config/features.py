"""The versions of Kubernetes whose scheduler mooring can be, everything in which they differ, and the feature gates.

A version is a value. :class:`Features` is made for one and says, by name, whether a feature gate is on and whether a
change is in that upstream made without a gate. Nothing else asks which version it is. To add a version, add an entry
here (its gates and its changes) and a recorded corpus under ``tests/parity``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from mooring.api.errors import UsageError
from mooring.api.text import nearest
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


def _gates(by_stage: Mapping[tuple[Stage, bool], str], *, locked: str) -> dict[str, Gate]:
    """Return the gates by name; the names are listed by stage and default. The locked ones are on and stay on."""
    gates = [Gate(name, True, Stage.GA, locked=True) for name in locked.split()]
    gates += [Gate(name, default, stage) for (stage, default), names in by_stage.items() for name in names.split()]
    return {gate.name: gate for gate in gates}


# ---- 1.36 ------------------------------------------------------------------------------------------------------

_GATES_1_36 = _gates(
    {
        (Stage.GA, True): "DRAPrioritizedList",
        (Stage.BETA, True): """SchedulerPopFromBackoffQ SchedulerAsyncPreemption NominatedNodeNameForExpectation
            ClearingNominatedNodeNameAfterBinding OpportunisticBatching NodeDeclaredFeatures PodLevelResources
            InPlacePodLevelResourcesVerticalScaling MatchLabelKeysInPodTopologySpread
            MatchLabelKeysInPodTopologySpreadSelectorMerge DRAExtendedResource DRAPartitionableDevices
            DRAConsumableCapacity DRADeviceTaints DRADeviceBindingConditions DRAResourceClaimDeviceStatus
            DRASchedulerFilterTimeout ComponentFlagz ComponentStatusz""",
        (Stage.BETA, False): "SchedulerAsyncAPICalls DRADeviceTaintRules CoordinatedLeaderElection",
        (Stage.ALPHA, False): """VolumeLimitScaling StorageCapacityScoring TaintTolerationComparisonOperators
            DRAListTypeAttributes DRANodeAllocatableResources DRAWorkloadResourceClaims GenericWorkload GangScheduling
            TopologyAwareWorkloadScheduling WorkloadAwarePreemption""",
    },
    locked="""SchedulerQueueingHints InPlacePodVerticalScaling SidecarContainers NodeInclusionPolicyInPodTopologySpread
        MatchLabelKeysInPodAffinity PodSchedulingReadiness VolumeAttributesClass MutableCSINodeAllocatableCount
        DynamicResourceAllocation DRAAdminAccess PodObservedGenerationTracking""",
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

_GATES_1_37 = _GATES_1_36 | _gates(
    {
        (Stage.BETA, True): "StorageCapacityScoring VolumeLimitScaling",
        # Also DRAFractionalCapacityRange: it is on only where nothing older than 1.37 must be compatible.
        (Stage.BETA, False): "GenericWorkload DRAWorkloadResourceClaims DRAFractionalCapacityRange",
        (Stage.ALPHA, False): """CompositePodGroup PodGroupPreemptionPolicy SchedulerPreQueueingHints
            InterPodAffinityHostnameFastPath InPlacePodVerticalScalingSchedulerPreemption DRADerivedAttributes
            DRADeviceCompatibilityGroups DRAOptionalNodeOperations DRAPartitionableDevicesType""",
    },
    locked="""DRADeviceTaintRules DRADeviceTaints DRAExtendedResource DRAResourceClaimDeviceStatus NodeDeclaredFeatures
        DRAPrioritizedList""",
)
for _gone in ("SchedulerQueueingHints", "SidecarContainers", "GangScheduling", "WorkloadAwarePreemption"):
    del _GATES_1_37[_gone]

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


UNSUPPORTED: Mapping[str, str] = {
    "DRAPartitionableDevices": "devices that share counters are always understood",
    "DRAConsumableCapacity": "devices that several claims share are always understood",
    "DRADeviceBindingConditions": "binding conditions of devices are always waited for",
    "DRAResourceClaimDeviceStatus": "the status of devices is always read",
    "DRAListTypeAttributes": "attributes of devices that are lists are not understood",
    "DRANodeAllocatableResources": "devices are not counted as a node's resources",
    "CoordinatedLeaderElection": "leaders are elected by leases alone",
    "CompositePodGroup": "trees of pod groups are not understood",
    "InPlacePodVerticalScalingSchedulerPreemption": "nothing is evicted for a pod that waits to be resized",
    "DRADerivedAttributes": "attributes of devices that follow from others are not understood",
    "DRADeviceCompatibilityGroups": "groups of compatible devices are not understood",
}
"""Gates that a scheduler of any version takes only with their default, and why; a version adds its own. All others are
heeded, or have nothing to do here:
writes never hold up a decision, with SchedulerAsyncAPICalls or without it, and the API server alone heeds
ClearingNominatedNodeNameAfterBinding and MatchLabelKeysInPodTopologySpreadSelectorMerge."""

_ALL = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}


class Features(Mapping[str, bool]):
    """What is on in one version: ``features["NodeDeclaredFeatures"]``; immutable and hashable.

    It iterates over the version's gates. It also answers for the names in :data:`CHANGES`, which nobody can set, and
    for gates that only other versions have: one that was merged into another is as that one is, others are off.
    """

    __slots__ = ("_on", "version")

    def __init__(self, version: KubernetesVersion = DEFAULT_VERSION, /, **overrides: bool) -> None:
        for name in overrides:
            if name not in version.gates:
                raise KeyError(name)
        self.version = version
        self._on = {name: overrides.get(name, gate.default) for name, gate in version.gates.items()}

    def __getitem__(self, name: str) -> bool:
        on = self._on.get(name)
        if on is not None:
            return on
        if name in self.version.merged:
            return self._on[self.version.merged[name]]
        if name in CHANGES:
            return name in self.version.changes
        if any(name in version.gates for version in VERSIONS.values()):
            return False
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self._on

    def __iter__(self) -> Iterator[str]:
        return iter(self._on)

    def __len__(self) -> int:
        return len(self._on)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self.version is other.version and self._on == other._on

    def __hash__(self) -> int:
        return hash((self.version.minor, frozenset(name for name, on in self._on.items() if on)))

    def __repr__(self) -> str:
        return f"Features({', '.join((str(self.version), *(f'{n}={on}' for n, on in self.changed().items())))})"

    def changed(self) -> dict[str, bool]:
        """Return the gates that differ from their defaults."""
        return {name: on for name, on in self._on.items() if on != self.version.gates[name].default}


DEFAULT_FEATURES = Features()


def parse_feature_gates(texts: Iterable[str], version: KubernetesVersion = DEFAULT_VERSION) -> Features:
    """Read ``--feature-gates`` values, each ``[kube:]Name=true|false,…``; a later word on a gate wins."""
    wanted: dict[str, bool] = {}
    groups: dict[Stage, bool] = {}
    for text in texts:
        for pair in filter(None, (p.strip() for p in text.split(","))):
            name, equals, value = pair.partition("=")
            component, colon, bare = name.partition(":")
            name = (bare if colon else name).strip()
            if not equals:
                raise UsageError(f"--feature-gates: missing bool value for {name}; write {name}=true or {name}=false")
            if colon and component.strip() != "kube":
                raise UsageError(f'--feature-gates: component not registered: {component.strip()}; only "kube" is')
            on = _bool(name, value.strip())
            if name in _ALL:
                groups[_ALL[name]] = on
            elif name in version.gates:
                gate = version.gates[name]
                if gate.locked and on != gate.default:
                    raise UsageError(
                        f"--feature-gates: cannot set feature gate {name} to {str(on).lower()}, "
                        f"feature is locked to {str(gate.default).lower()}"
                    )
                wanted[name] = on
            elif name not in version.elsewhere:
                raise UsageError(f"--feature-gates: unrecognized feature gate: {name}{_suggest(name, version)}")
    # AllAlpha and AllBeta speak only for the gates that are not named.
    named_by_stage = {g.name: groups[g.stage] for g in version.gates.values() if g.stage in groups and not g.locked}
    features = Features(version, **{**named_by_stage, **wanted})
    _check_dependencies(features)
    return features


def check_supported(features: Features) -> None:
    """Refuse gates that this scheduler cannot heed: it would decide differently than its operator expects."""
    unsupported = {**UNSUPPORTED, **features.version.unsupported}
    problems = [
        f"{name}={str(on).lower()} is not supported: {unsupported[name]}"
        for name, on in features.changed().items()
        if name in unsupported
    ]
    if problems:
        raise UsageError(f"--feature-gates: {'; '.join(problems)}")


def _check_dependencies(features: Features) -> None:
    for name, dependencies in features.version.depends_on.items():
        disabled = [dependency for dependency in dependencies if not features[dependency]]
        if features[name] and disabled:
            raise UsageError(
                f"--feature-gates: {name} is enabled, but depends on features that are disabled: [{' '.join(disabled)}]"
            )


def _bool(name: str, value: str) -> bool:
    # The spellings of Go's strconv.ParseBool.
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise UsageError(f'--feature-gates: invalid value of {name}={value}, found "{value}", want true or false')


def _suggest(name: str, version: KubernetesVersion) -> str:
    others = [str(other) for other in VERSIONS.values() if name in other.gates]
    if others:
        return f"; Kubernetes {' and '.join(others)} has it, {version} has not"
    near = nearest(name, [*version.gates, *_ALL])
    return f"; did you mean {near}?" if near else ""
