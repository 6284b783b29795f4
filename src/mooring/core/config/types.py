"""KubeSchedulerConfiguration v1 as decoded values with their defaults.

Names are upstream's in snake_case. A field that upstream fills in when it is absent has that value as its default here,
so ``NodeResourcesFitArgs()`` is what an empty ``args`` means. What depends on other fields or on feature gates is
filled in by :mod:`mooring.core.config.defaults`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from mooring.api.core import NodeAffinity, TopologySpreadConstraint
from mooring.api.text import without_secrets
from mooring.core.framework import extension_points

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = GROUP + "/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

# Seconds here, Go's duration text ("1m30s") on the wire.
Duration = Annotated[float, msgspec.Meta(extra={"wire": "duration"})]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ConfigStruct(msgspec.Struct, rename="camel", frozen=True):
    """A part of the configuration: an immutable value, camelCase on the wire."""


class Plugin(ConfigStruct, frozen=True):
    """A plugin's entry in a set; weight 0 means unset and counts as 1 where it scores."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(ConfigStruct, frozen=True):
    enabled: list[Plugin] = []
    disabled: list[Plugin] = []


class Plugins(ConfigStruct, frozen=True):
    """Which plugins run where; ``multi_point`` enables a plugin wherever it can run."""

    pre_enqueue: PluginSet = msgspec.field(default_factory=PluginSet)
    queue_sort: PluginSet = msgspec.field(default_factory=PluginSet)
    pre_filter: PluginSet = msgspec.field(default_factory=PluginSet)
    filter: PluginSet = msgspec.field(default_factory=PluginSet)
    post_filter: PluginSet = msgspec.field(default_factory=PluginSet)
    pre_score: PluginSet = msgspec.field(default_factory=PluginSet)
    score: PluginSet = msgspec.field(default_factory=PluginSet)
    reserve: PluginSet = msgspec.field(default_factory=PluginSet)
    permit: PluginSet = msgspec.field(default_factory=PluginSet)
    pre_bind: PluginSet = msgspec.field(default_factory=PluginSet)
    bind: PluginSet = msgspec.field(default_factory=PluginSet)
    post_bind: PluginSet = msgspec.field(default_factory=PluginSet)
    multi_point: PluginSet = msgspec.field(default_factory=PluginSet)
    placement_generate: PluginSet = msgspec.field(default_factory=PluginSet)
    placement_score: PluginSet = msgspec.field(default_factory=PluginSet)
    pod_group_post_filter: PluginSet = msgspec.field(default_factory=PluginSet)
    placement_feasible: PluginSet = msgspec.field(default_factory=PluginSet)


# The extension points by their wire names, in the order in which a pod passes them; multiPoint is only a notation.
EXTENSION_POINTS: tuple[str, ...] = tuple(point.name for point in extension_points.EXTENSION_POINTS)
_ATTRIBUTES = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}


def plugin_set(plugins: Plugins, point: str) -> PluginSet:
    """Return the set of one extension point, or of ``multiPoint``, by its wire name."""
    found: PluginSet = getattr(plugins, _ATTRIBUTES[point])
    return found


def enabled_names(plugins: Plugins) -> set[str]:
    """Return the names of the plugins that are enabled anywhere."""
    return {plugin.name for point in _ATTRIBUTES for plugin in plugin_set(plugins, point).enabled}


class PluginArgs(ConfigStruct, frozen=True):
    """Arguments of an in-tree plugin; ``plugin`` is its registered name."""

    plugin: ClassVar[str]

    @classmethod
    def kind(cls) -> str:
        return cls.plugin + "Args"


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    plugin = "DefaultPreemption"

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """The timeouts are None when their feature gates are off."""

    plugin = "DynamicResources"

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None


class InterPodAffinityArgs(PluginArgs, frozen=True):
    plugin = "InterPodAffinity"

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(PluginArgs, frozen=True):
    plugin = "NodeAffinity"

    added_affinity: NodeAffinity | None = None


class ResourceSpec(ConfigStruct, frozen=True):
    name: str = ""
    weight: Int64 = 1


def _cpu_and_memory() -> list[ResourceSpec]:
    return [ResourceSpec("cpu", 1), ResourceSpec("memory", 1)]


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    plugin = "NodeResourcesBalancedAllocation"

    resources: list[ResourceSpec] = msgspec.field(default_factory=_cpu_and_memory)


class UtilizationShapePoint(ConfigStruct, frozen=True):
    """A point of a scoring function: utilisation in percent, score from 0 to 10."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(ConfigStruct, frozen=True):
    shape: list[UtilizationShapePoint] = []


class ScoringStrategy(ConfigStruct, frozen=True):
    """Strategy of NodeResourcesFit's score; unlike the strategy itself, its ``type`` has no default once one is
    written.
    """

    type: str = ""
    resources: list[ResourceSpec] = msgspec.field(default_factory=_cpu_and_memory)
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    plugin = "NodeResourcesFit"

    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategy = msgspec.field(default_factory=lambda: ScoringStrategy(type="LeastAllocated"))


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    plugin = "PodTopologySpread"

    default_constraints: list[TopologySpreadConstraint] = []
    defaulting_type: str = "System"


class VolumeBindingArgs(PluginArgs, frozen=True):
    """``shape`` is None unless the gate StorageCapacityScoring is on or the configuration has one."""

    plugin = "VolumeBinding"

    bind_timeout_seconds: Int64 = 600
    shape: list[UtilizationShapePoint] | None = None


ARGS_TYPES: dict[str, type[PluginArgs]] = {
    args.plugin: args
    for args in (
        DefaultPreemptionArgs,
        DynamicResourcesArgs,
        InterPodAffinityArgs,
        NodeAffinityArgs,
        NodeResourcesBalancedAllocationArgs,
        NodeResourcesFitArgs,
        PodTopologySpreadArgs,
        VolumeBindingArgs,
    )
}


class PluginConfig(ConfigStruct, frozen=True):
    """One plugin's arguments: typed for in-tree plugins, the plain JSON value for all others."""

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(ConfigStruct, frozen=True):
    """After loading, ``plugins`` has the defaults merged in, ``plugin_config`` an entry per plugin with arguments."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = msgspec.field(default_factory=Plugins)
    plugin_config: list[PluginConfig] = []


class ExtenderManagedResource(ConfigStruct, frozen=True):
    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(ConfigStruct, frozen=True):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(ConfigStruct, frozen=True):
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = 0.0  # see request_timeout_s
    node_cache_capable: bool = False
    managed_resources: list[ExtenderManagedResource] = []
    ignorable: bool = False

    @property
    def shown_url(self) -> str:
        """Return the URL without secrets, for logs, metrics and pages."""
        return without_secrets(self.url_prefix)

    @property
    def request_timeout_s(self) -> float:
        """Return the request timeout; five seconds if none is set."""
        return self.http_timeout or 5.0


class LeaderElectionConfiguration(ConfigStruct, frozen=True):
    leader_elect: bool = True
    lease_duration: Duration = 15.0
    renew_deadline: Duration = 10.0
    retry_period: Duration = 2.0
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(ConfigStruct, frozen=True):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class KubeSchedulerConfiguration(ConfigStruct, frozen=True):
    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = msgspec.field(default_factory=LeaderElectionConfiguration)
    client_connection: ClientConnectionConfiguration = msgspec.field(default_factory=ClientConnectionConfiguration)
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None  # filled in from enableProfiling
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: list[KubeSchedulerProfile] = []
    extenders: list[Extender] = []
    delay_cache_until_active: bool = False
