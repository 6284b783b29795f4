"""The plugins that come with mooring, by name."""

from __future__ import annotations

from functools import cache

from mooring.framework.registry import Registry
from mooring.plugins.coscheduling import Coscheduling
from mooring.plugins.default_binder import DefaultBinder
from mooring.plugins.default_preemption import DefaultPreemption
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.gang_scheduling import GangScheduling
from mooring.plugins.gpu_best_fit import GpuBestFit
from mooring.plugins.gpu_clustering import GpuClustering
from mooring.plugins.gpu_dot_product import GpuDotProduct
from mooring.plugins.gpu_fragmentation import GpuFragmentation
from mooring.plugins.gpu_packing import GpuPacking
from mooring.plugins.gpu_random import GpuRandom
from mooring.plugins.gpu_share import GpuShare
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_number import NodeNumber
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources_fit import NodeResourcesFit
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.node_volume_limits import NodeVolumeLimits
from mooring.plugins.pod_group_pods_count import PodGroupPodsCount
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.plugins.priority_sort import PrioritySort
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.plugins.taint_toleration import TaintToleration
from mooring.plugins.topology_placement_generator import TopologyPlacementGenerator
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.plugins.volume_zone import VolumeZone

IN_TREE: tuple[type, ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)

# Not kube-scheduler's: a profile may name them.
OPTIONAL: tuple[type, ...] = (
    Coscheduling,
    NodeNumber,
    GpuShare,
    GpuRandom,
    GpuDotProduct,
    GpuClustering,
    GpuPacking,
    GpuBestFit,
    GpuFragmentation,
)


def in_tree_registry() -> Registry:
    """All plugins that come with mooring, in a registry to which others can be added."""
    return _checked().copy()


@cache
def _checked() -> Registry:
    """Looking at every declaration takes most of the time in which an engine is built: a test does it for these."""
    return Registry.of_checked((*IN_TREE, *OPTIONAL))
