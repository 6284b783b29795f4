"""The handle of plugins: the cluster, the clock, a writer, and the state of other parts of the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.clock import Clock, SystemClock
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.resource import DeviceClass
from mooring.core.framework.cluster_event import ClusterEvent
from mooring.core.framework.cycle_state import CycleState, PluginTimer
from mooring.core.framework.extender import ExtenderClient
from mooring.core.framework.pod_groups import PodGroupInfo, PodGroupPostFilterResult
from mooring.core.framework.status import Code, NodeStatuses, PostFilterResult
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import ChangeLog

# ---- interfaces to other parts of the scheduler ----------------------------------------------------------------------


class Devices(Protocol):
    """Extended resources backed by DeviceClasses: some nodes provide them as devices instead of a number."""

    def backs(self, resource: str) -> bool:
        """Report whether a DeviceClass backs the resource."""

    def totals(self, resource: str, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (matching devices, allocated ones of these) per node."""

    def mapping_version(self) -> Hashable:
        """Return a value that changes whenever an answer of ``backs`` may."""

    def get_ready(self, found: DeviceClass) -> None:
        """Compile the class now, so that the first pod that requests its devices need not wait."""


class NoDevices:
    """Stands in where there are no DeviceClasses."""

    def backs(self, resource: str) -> bool:
        return False

    def totals(self, resource: str, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)

    def mapping_version(self) -> Hashable:
        return 0

    def get_ready(self, found: DeviceClass) -> None:
        pass


class Nominator(Protocol):
    """Tracks which pending pods are nominated to which node."""

    @property
    def log(self) -> ChangeLog[str]:
        """Names of the nodes whose nominated pods changed."""

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]: ...

    def nominated_nodes(self) -> Collection[str]:
        """Names of all nodes with a nominated pod, with a fast ``in``."""

    def node_of(self, uid: str) -> str | None:
        """Return the node that this pod is nominated to, or None."""

    def nominate(self, pod: PodInfo, node_name: str) -> None: ...

    def withdraw(self, uid: str) -> None: ...

    def copy(self) -> Nominations:
        """Return a copy of the nominations, for a fork of the cluster."""


class Nominations:
    """Nominations without a queue; initially there are none."""

    def __init__(self) -> None:
        self.log: ChangeLog[str] = ChangeLog()
        self._by_uid: dict[str, tuple[str, PodInfo]] = {}

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        self.withdraw(pod.uid)
        self._by_uid[pod.uid] = (node_name, pod)
        self.log.note(node_name)

    def withdraw(self, uid: str) -> None:
        old = self._by_uid.pop(uid, None)
        if old is not None:
            self.log.note(old[0])

    def node_of(self, uid: str) -> str | None:
        known = self._by_uid.get(uid)
        return None if known is None else known[0]

    def copy(self) -> Nominations:
        copy = Nominations()
        copy._by_uid = dict(self._by_uid)
        return copy

    def all(self) -> Iterable[tuple[str, PodInfo]]:
        """The nodes and the pods nominated to them, in the order of the nominations."""
        return self._by_uid.values()

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        return [pod for node, pod in self._by_uid.values() if node == node_name]

    def nominated_nodes(self) -> Collection[str]:
        return {node for node, _ in self._by_uid.values()}


def put_object(state: ClusterState, nominations: Nominator, obj: Object) -> None:
    """Add or update an object. A pod is nominated as in its status, unless it has a node or has finished."""
    state.put(obj)
    if isinstance(obj, Pod):
        nominations.withdraw(obj.uid)
        node = obj.status.nominated_node_name
        if node and not obj.spec.node_name and not obj.is_finished:
            nominations.nominate(state.info(obj), node)


def remove_object(state: ClusterState, nominations: Nominator, obj: Object) -> None:
    """Remove an object; a missing one is ignored."""
    if isinstance(obj, Pod):
        nominations.withdraw(obj.uid)
        state.remove_pod(obj.uid)
        state.forget_member(obj)
    elif isinstance(obj, Node):
        if obj.name in state.table.nodes:
            state.remove_node(obj.name)
    else:
        state.objects.remove(type(obj), obj.key)


class WaitingPod(Protocol):
    """A pod that a Permit plugin keeps waiting: its node is reserved, its binding has not begun."""

    @property
    def pod(self) -> PodInfo: ...

    @property
    def node_name(self) -> str: ...

    @property
    def pending_plugins(self) -> Sequence[str]:
        """Return the plugins that have not allowed it yet."""

    def allow(self, plugin: str) -> None:
        """Allow it for this plugin; when the last plugin allows it, the binding starts."""

    def reject(self, plugin: str, message: str) -> bool:
        """Reject it; false if its waiting has ended already."""


class WaitingPods(Protocol):
    """The pods that wait on permit, accessible to plugins in any method."""

    def get(self, uid: str) -> WaitingPod | None: ...

    def all(self) -> Sequence[WaitingPod]: ...

    def of_group(self, key: str) -> Sequence[WaitingPod]: ...


class NobodyWaits:
    """Stands in where there are no waiting pods: decisions are made without a scheduler."""

    def get(self, uid: str) -> WaitingPod | None:
        return None

    def all(self) -> Sequence[WaitingPod]:
        return ()

    def of_group(self, key: str) -> Sequence[WaitingPod]:
        return ()


class CandidateLimits(msgspec.Struct, frozen=True):
    """Number of candidate nodes to look for, as a share of possible ones and as a minimum; the larger counts."""

    min_percentage: int
    min_absolute: int


class PreemptionEvaluator(Protocol):
    """Finds a node where evicting pods makes room. Each profile has its own, with its own filters."""

    def preempt(
        self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses, limits: CandidateLimits
    ) -> PostFilterResult:
        """Return success with a node and its victims, or UNSCHEDULABLE with the reason why no pod is evicted."""

    def preempt_group(self, info: PodGroupInfo) -> PodGroupPostFilterResult:
        """Return nodes for a group's pods, and the victims that make room for all of them."""


NOTHING: Mapping[str, str] = {}


class Preemptions(Protocol):
    """Running evictions by preemptor, as DefaultPreemption and the queue need them."""

    def is_running(self, uid: str) -> bool:
        """Report whether victims of this pod or group are still being evicted."""

    def holds_back(self, plugin: str, key: str) -> bool:
        """Report whether no event can help the pod that this plugin gates, because its last victim is still there."""


class BindWriter(Protocol):
    """The API server for plugins of the binding cycle; implemented by the live scheduler."""

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str] = NOTHING) -> None:
        """Bind the pod, and add the annotations in the same write."""


class PluginMeters:
    """Metrics of plugins and of group cycles.

    The live scheduler implements it; this base class does nothing.
    """

    def claim_created(self, *, is_created: bool) -> None:
        """Count a ResourceClaim that was created, or failed to be."""

    def devices_waited_for(
        self, drivers: Iterable[str], conditional: Iterable[str], status: str, seconds: float
    ) -> None:
        """Observe the wait for a pod's devices: ``drivers`` of all, ``conditional`` of those that needed preparation;
        ``status`` is success, failure, timeout or error.
        """

    def preemption_attempted(self) -> None:
        """Count a plugin's attempt to find victims."""

    def group_preemption_attempted(self, code: Code) -> None:
        """Count a plugin's attempt to find victims for a whole group, by result."""

    def preemption_evaluated(self, preemptor: str, code: Code, seconds: float) -> None:
        """Observe a search for victims for a ``pod`` or a ``podgroup``."""

    def group_tried(self, seconds: float) -> None:
        """Observe how long the pods of a group were tried."""

    def placements_generated(self, count: int) -> None:
        """Observe the number of placements for a group."""

    def placement_evaluated(self, *, is_feasible: bool, seconds: float) -> None:
        """Observe a group's attempt in one placement."""

    def volume_stage_failed(self, operation: str) -> None:
        """Count volumes that could not be matched (``predicate``), reserved (``assume``) or bound (``bind``)."""


# ---- the handle ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Handle:
    """Passed to every plugin when it is created. The plugins of one profile share one."""

    cluster: ClusterState
    clock: Clock = field(default_factory=SystemClock)
    nominator: Nominator = field(default_factory=Nominations)
    features: Mapping[str, bool] = field(default_factory=dict)
    writer: BindWriter | None = None
    devices: Devices = field(default_factory=NoDevices)
    claims_are_served: Callable[[], bool] = lambda: True  # whether the API server has resource.k8s.io/v1
    preemption: PreemptionEvaluator | None = None  # of the profile that the plugin belongs to
    preemptions: Preemptions | None = None
    waiting_pods: WaitingPods = field(default_factory=NobodyWaits)
    pods: Mapping[str, Pod] = field(default_factory=dict)  # every pod in the API server, by namespace/name
    free: Callable[[ClusterEvent, Object, Object], None] = lambda event, before, after: None
    """For ``unreserve``: reports what of an object is free again, because no watch event will."""
    extenders: Sequence[ExtenderClient] = ()
    meters: Callable[[str], PluginMeters] = lambda scheduler_name: PluginMeters()  # of the pod
    pick: Callable[[int], int] = lambda n: 0  # chooses one of n where upstream chooses at random
    fork: Callable[[], Any] | None = None  # opens a fork of the session, for plugins that ask what-ifs
    points: Mapping[str, Collection[str]] | None = None  # the profile's plugins by extension point; None: no profile

    def is_enabled(self, feature: str, default: bool = False) -> bool:
        return self.features.get(feature, default)

    def is_enabled_at(self, point: str, plugin: str) -> bool:
        """Report whether the profile runs the plugin at this extension point; true without a profile."""
        return self.points is None or plugin in self.points.get(point, ())


class CycleObserver(Protocol):
    """Called after each extension point of a scheduling cycle; called often, so it must be fast."""

    def extension_point(self, point: str, status: str, seconds: float) -> None: ...

    def evaluated(self, point: str, plugins: Sequence[Any], times: int) -> None:
        """These plugins (or pairs of plugin and weight) ran ``times`` times; equal lists are the same object."""

    def plugin_timer(self) -> PluginTimer | None:
        """Return a timer for the plugins of the attempt that begins now; None for most attempts."""

    def node_hint(self, *, is_hinted: bool, flushed: str, seconds: float) -> None:
        """Batching was asked for a node; ``flushed`` is why its stored state is unusable, if there is any."""

    def batch_rescored(self, seconds: float) -> None:
        """Batching scored the previous pod's node again."""

    def batch_stored(self, hint: bool | None, flushed: str, seconds: float) -> None:
        """Batching stored a placement. ``hint``: whether its hint was used, None if there was none."""
