"""The in-tree plugins by name."""

from __future__ import annotations

from functools import cache

from mooring.core.framework.registry import Registry
from mooring.core.plugins.coscheduling import Coscheduling
from mooring.core.plugins.default_binder import DefaultBinder
from mooring.core.plugins.default_preemption import DefaultPreemption
from mooring.core.plugins.dynamic_resources import DynamicResources
from mooring.core.plugins.gang_scheduling import GangScheduling
from mooring.core.plugins.gpu_policies import (
    GpuBestFit,
    GpuClustering,
    GpuDotProduct,
    GpuFragmentation,
    GpuPacking,
    GpuRandom,
    GpuShare,
)
from mooring.core.plugins.image_locality import ImageLocality
from mooring.core.plugins.inter_pod_affinity import InterPodAffinity
from mooring.core.plugins.node_affinity import NodeAffinity
from mooring.core.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.core.plugins.node_name import NodeName
from mooring.core.plugins.node_number import NodeNumber
from mooring.core.plugins.node_ports import NodePorts
from mooring.core.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.core.plugins.node_resources_fit import NodeResourcesFit
from mooring.core.plugins.node_unschedulable import NodeUnschedulable
from mooring.core.plugins.node_volume_limits import NodeVolumeLimits
from mooring.core.plugins.pod_topology_spread import PodTopologySpread
from mooring.core.plugins.priority_sort import PrioritySort
from mooring.core.plugins.scheduling_gates import SchedulingGates
from mooring.core.plugins.taint_toleration import TaintToleration
from mooring.core.plugins.topology_placement_generator import PodGroupPodsCount, TopologyPlacementGenerator
from mooring.core.plugins.volume_binding import VolumeBinding
from mooring.core.plugins.volume_restrictions import VolumeRestrictions
from mooring.core.plugins.volume_zone import VolumeZone

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

# Not in kube-scheduler: a profile may name them.
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
    """Return all in-tree plugins, in a registry to which others can be added."""
    return _checked().copy()


@cache
def _checked() -> Registry:
    """Return a registry without checking declarations, which takes most of an engine's start: a test checks these."""
    return Registry.of_checked((*IN_TREE, *OPTIONAL))
