"""Feature gates of kube-scheduler 1.36: the ones that change scheduling, and what ``--feature-gates`` may say."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from mooring.errors import UsageError


class Stage(Enum):
    """How far a feature has come."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


@dataclass(frozen=True, slots=True)
class Gate:
    """A switch; a locked one may be named, but only with its default."""

    name: str
    default: bool
    stage: Stage
    locked: bool = False


def _gates(stage: Stage, default: bool, names: str, *, locked: bool = False) -> list[Gate]:
    return [Gate(name, default, stage, locked) for name in names.split()]


GATES: Mapping[str, Gate] = {
    gate.name: gate
    for gate in (
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
}

_DEPENDS_ON = {
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "GangScheduling": ("GenericWorkload",),
    "InPlacePodLevelResourcesVerticalScaling": ("PodLevelResources", "NodeDeclaredFeatures"),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
}

UNSUPPORTED: Mapping[str, str] = {
    "DRAPartitionableDevices": "devices that share counters are always understood",
    "DRAConsumableCapacity": "devices that several claims share are always understood",
    "DRADeviceBindingConditions": "binding conditions of devices are always waited for",
    "DRAResourceClaimDeviceStatus": "the status of devices is always read",
    "DRADeviceTaintRules": "DeviceTaintRules are not watched",
    "DRAListTypeAttributes": "attributes of devices that are lists are not understood",
    "DRANodeAllocatableResources": "devices are not counted as a node's resources",
    "DRAWorkloadResourceClaims": "claims of pod groups are not understood",
    "GenericWorkload": "pod groups are scheduled by the Coscheduling plugin only",
    "GangScheduling": "pod groups are scheduled by the Coscheduling plugin only",
    "TopologyAwareWorkloadScheduling": "pod groups are scheduled by the Coscheduling plugin only",
    "WorkloadAwarePreemption": "preemption does not know pod groups",
    "CoordinatedLeaderElection": "leaders are elected by leases alone",
}
"""Gates that a scheduler takes only with their default, and why. All others are heeded, or have nothing to do here:
writes never hold up a decision, with SchedulerAsyncAPICalls or without it, and the API server alone heeds
ClearingNominatedNodeNameAfterBinding and MatchLabelKeysInPodTopologySpreadSelectorMerge."""

# Gates that kube-scheduler takes although they concern other components; naming one is no mistake and has no effect.
_ELSEWHERE = """
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
ELSEWHERE = frozenset(_ELSEWHERE.split())
_ALL = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}


class Features(Mapping[str, bool]):
    """Which gates are on: ``features["NodeDeclaredFeatures"]``; an immutable, hashable mapping over all of GATES."""

    __slots__ = ("_on",)

    def __init__(self, **overrides: bool) -> None:
        for name in overrides:
            if name not in GATES:
                raise KeyError(name)
        self._on = {name: overrides.get(name, gate.default) for name, gate in GATES.items()}

    def __getitem__(self, name: str) -> bool:
        return self._on[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._on)

    def __len__(self) -> int:
        return len(self._on)

    def __hash__(self) -> int:
        return hash(frozenset(name for name, on in self._on.items() if on))

    def __repr__(self) -> str:
        changed = ", ".join(f"{n}={on}" for n, on in self._on.items() if on != GATES[n].default)
        return f"Features({changed})"

    def changed(self) -> dict[str, bool]:
        """Return the gates that differ from their defaults."""
        return {name: on for name, on in self._on.items() if on != GATES[name].default}


DEFAULT_FEATURES = Features()


def parse_feature_gates(texts: Iterable[str]) -> Features:
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
            elif name in GATES:
                gate = GATES[name]
                if gate.locked and on != gate.default:
                    raise UsageError(
                        f"--feature-gates: cannot set feature gate {name} to {str(on).lower()}, "
                        f"feature is locked to {str(gate.default).lower()}"
                    )
                wanted[name] = on
            elif name not in ELSEWHERE:
                raise UsageError(f"--feature-gates: unrecognized feature gate: {name}{_suggest(name)}")
    # AllAlpha and AllBeta speak only for the gates that are not named.
    named_by_stage = {g.name: groups[g.stage] for g in GATES.values() if g.stage in groups and not g.locked}
    features = Features(**{**named_by_stage, **wanted})
    _check_dependencies(features)
    return features


def check_supported(features: Features) -> None:
    """Refuse gates that this scheduler cannot heed: it would decide differently than its operator expects."""
    problems = [
        f"{name}={str(on).lower()} is not supported: {UNSUPPORTED[name]}"
        for name, on in features.changed().items()
        if name in UNSUPPORTED
    ]
    if problems:
        raise UsageError(f"--feature-gates: {'; '.join(problems)}")


def _check_dependencies(features: Features) -> None:
    for name, dependencies in _DEPENDS_ON.items():
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


def _suggest(name: str) -> str:
    near = difflib.get_close_matches(name, [*GATES, *_ALL], n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
