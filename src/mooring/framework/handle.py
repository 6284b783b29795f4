"""What a plugin may hold on to: the cluster, the clock, its writer, and what other parts of the scheduler know."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.clock import Clock, SystemClock
from mooring.framework.cluster_event import ClusterEvent
from mooring.framework.devices import Devices, NoDevices
from mooring.framework.extender import Extender
from mooring.framework.nominator import Nominator, NoNominations
from mooring.framework.plugin_meters import NobodyCounts, PluginMeters
from mooring.framework.preemption import Preemption
from mooring.framework.waiting_pods import NobodyWaits, WaitingPods
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo

NOTHING: Mapping[str, str] = {}


class Preemptions(Protocol):
    """Evictions under way on behalf of pods."""

    def is_running(self, uid: str) -> bool: ...


class Writer(Protocol):
    """What plugins of the binding cycle ask of the API server; the live scheduler brings it."""

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str] = NOTHING) -> None:
        """Bind the pod. The annotations are put on it in the same write."""


def _first(n: int) -> int:
    return 0


def _nobody_waits(event: ClusterEvent, before: Object, after: Object) -> None: ...


def _nobody_counts(scheduler_name: str) -> PluginMeters:
    return NobodyCounts()


@dataclass(slots=True)
class Handle:
    """Given to every plugin when it is made. The plugins of one profile share one."""

    cluster: Cluster
    clock: Clock = field(default_factory=SystemClock)
    nominator: Nominator = field(default_factory=NoNominations)
    features: Mapping[str, bool] = field(default_factory=dict)
    writer: Writer | None = None
    devices: Devices = field(default_factory=NoDevices)
    claims_are_served: Callable[[], bool] = lambda: True  # whether the API server has resource.k8s.io/v1
    preemption: Preemption | None = None  # of the profile that the plugin belongs to
    preemptions: Preemptions | None = None
    waiting_pods: WaitingPods = field(default_factory=NobodyWaits)
    pods: Mapping[str, Pod] = field(default_factory=dict)  # every pod that the API server knows, by namespace/name
    free: Callable[[ClusterEvent, Object, Object], None] = _nobody_waits
    """For ``unreserve``: tell pods that wait what of an object is free again, because no watch will."""
    extenders: Sequence[Extender] = ()
    meters: Callable[[str], PluginMeters] = _nobody_counts  # by the scheduler name that a pod asks for
    pick: Callable[[int], int] = _first  # chooses one of n where upstream draws a random number
    points: Mapping[str, Collection[str]] | None = None  # the profile's plugins by extension point; None: no profile

    def is_enabled(self, feature: str, default: bool = False) -> bool:
        return self.features.get(feature, default)

    def is_enabled_at(self, point: str, plugin: str) -> bool:
        """Report whether the profile runs the plugin at this extension point; without a profile, yes."""
        return self.points is None or plugin in self.points.get(point, ())
