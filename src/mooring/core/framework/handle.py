"""What a plugin may hold on to: the cluster, the clock, its writer, and what other parts of the scheduler know."""

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

# ---- what plugins ask other parts of the scheduler -----------------------------------------------------------------


class Devices(Protocol):
    """Extended resources that DeviceClasses stand for: some nodes offer them as devices instead of a number."""

    def backs(self, resource: str) -> bool:
        """Report whether a DeviceClass stands for the resource."""

    def totals(self, resource: str, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(matching devices, those of them that are allocated) per node."""

    def mapping_version(self) -> Hashable:
        """Something that differs after the answers of ``backs`` may have changed."""

    def get_ready(self, found: DeviceClass) -> None:
        """Do now what the first pod that asks for devices of this class would have to wait for."""


class NoDevices:
    """No DeviceClass stands for anything."""

    def backs(self, resource: str) -> bool:
        return False

    def totals(self, resource: str, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)

    def mapping_version(self) -> Hashable:
        return 0

    def get_ready(self, found: DeviceClass) -> None:
        pass


class Nominator(Protocol):
    """Knows which waiting pods are nominated to which node."""

    @property
    def log(self) -> ChangeLog[str]:
        """Names of the nodes whose nominated pods changed."""

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]: ...

    def nominated_nodes(self) -> Collection[str]:
        """Names of all nodes that some pod is nominated to: something that answers ``in`` quickly."""

    def node_of(self, uid: str) -> str | None:
        """The node that this pod is nominated to, or None."""

    def nominate(self, pod: PodInfo, node_name: str) -> None: ...

    def withdraw(self, uid: str) -> None: ...

    def copy(self) -> Nominations:
        """The nominations as they are now, for a fork of the cluster."""


class Nominations:
    """Nominations where there is no queue. Without any, no pod is nominated to any node."""

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

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        return [pod for node, pod in self._by_uid.values() if node == node_name]

    def nominated_nodes(self) -> Collection[str]:
        return {node for node, _ in self._by_uid.values()}


def put_object(state: ClusterState, nominations: Nominator, obj: Object) -> None:
    """Add or update an object. A pod is nominated as its status says, unless it has a node or has finished."""
    state.put(obj)
    if isinstance(obj, Pod):
        nominations.withdraw(obj.uid)
        node = obj.status.nominated_node_name
        if node and not obj.spec.node_name and not obj.is_finished:
            nominations.nominate(state.info(obj), node)


def remove_object(state: ClusterState, nominations: Nominator, obj: Object) -> None:
    """Remove an object; one that is not there is no mistake."""
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
    """A pod that a Permit plugin keeps waiting: its node is held, its binding has not begun."""

    @property
    def pod(self) -> PodInfo: ...

    @property
    def node_name(self) -> str: ...

    @property
    def pending_plugins(self) -> Sequence[str]:
        """The plugins that have not allowed it yet."""

    def allow(self, plugin: str) -> None:
        """Let it go as far as this plugin is concerned; when the last plugin allows it, the binding starts."""

    def reject(self, plugin: str, message: str) -> bool:
        """Reject it; false if its waiting has ended already."""


class WaitingPods(Protocol):
    """The pods that wait on permit. A plugin asks for them in any method, also for those of other pods."""

    def get(self, uid: str) -> WaitingPod | None: ...

    def all(self) -> Sequence[WaitingPod]: ...


class NobodyWaits:
    """There are no waiting pods: decisions are made without a scheduler."""

    def get(self, uid: str) -> WaitingPod | None:
        return None

    def all(self) -> Sequence[WaitingPod]:
        return ()


class CandidateLimits(msgspec.Struct, frozen=True):
    """How many candidate nodes are enough, as a share of those that may help and as a number; the larger counts."""

    min_percentage: int
    min_absolute: int


class PreemptionEvaluator(Protocol):
    """Looks for a node where evicting pods makes room. Each profile has its own, with its own filters."""

    def preempt(
        self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses, limits: CandidateLimits
    ) -> PostFilterResult:
        """Success with a node and its victims; UNSCHEDULABLE with the reason why no pod is evicted."""

    def preempt_group(self, info: PodGroupInfo) -> PodGroupPostFilterResult:
        """The same for a whole group: nodes for its pods, and the victims that make room for all of them."""


NOTHING: Mapping[str, str] = {}


class Preemptions(Protocol):
    """Evictions under way on behalf of pods: what DefaultPreemption and the queue ask of the scheduler's executor."""

    def is_running(self, uid: str) -> bool:
        """Whether victims of this pod or group are still being evicted."""

    def holds_back(self, plugin: str, key: str) -> bool:
        """Whether no event can help the pod that this plugin gates, because its last victim is still there."""


class BindWriter(Protocol):
    """What plugins of the binding cycle ask of the API server; the live scheduler brings it."""

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str] = NOTHING) -> None:
        """Bind the pod. The annotations are put on it in the same write."""


class PluginMeters:
    """What plugins and the cycle of a pod group count for kube-scheduler's metrics.

    The live scheduler brings one that counts; this one does nothing.
    """

    def claim_created(self, *, is_created: bool) -> None:
        """A ResourceClaim was sent to the API server, which took it or not."""

    def devices_waited_for(
        self, drivers: Iterable[str], conditional: Iterable[str], status: str, seconds: float
    ) -> None:
        """A pod's devices became ready or did not: ``drivers`` of all, ``conditional`` of those that had to be waited
        for; ``status`` is success, failure, timeout or error."""

    def preemption_attempted(self) -> None:
        """A plugin looked for pods to evict."""

    def group_preemption_attempted(self, code: Code) -> None:
        """A plugin looked for pods to evict for a whole group, and this came of it."""

    def preemption_evaluated(self, preemptor: str, code: Code, seconds: float) -> None:
        """Victims were looked for, for a ``pod`` or a ``podgroup``."""

    def group_tried(self, seconds: float) -> None:
        """The pods of a group were tried, for so long."""

    def placements_generated(self, count: int) -> None:
        """This many placements were found for a group."""

    def placement_evaluated(self, *, is_feasible: bool, seconds: float) -> None:
        """A group was tried in one place."""

    def volume_stage_failed(self, operation: str) -> None:
        """Volumes could not be matched (``predicate``), reserved (``assume``) or bound (``bind``)."""


# ---- the handle ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Handle:
    """Given to every plugin when it is made. The plugins of one profile share one."""

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
    pods: Mapping[str, Pod] = field(default_factory=dict)  # every pod that the API server knows, by namespace/name
    free: Callable[[ClusterEvent, Object, Object], None] = lambda event, before, after: None
    """For ``unreserve``: tell pods that wait what of an object is free again, because no watch will."""
    extenders: Sequence[ExtenderClient] = ()
    meters: Callable[[str], PluginMeters] = lambda scheduler_name: PluginMeters()  # of the pod
    pick: Callable[[int], int] = lambda n: 0  # chooses one of n where upstream draws a random number
    points: Mapping[str, Collection[str]] | None = None  # the profile's plugins by extension point; None: no profile

    def is_enabled(self, feature: str, default: bool = False) -> bool:
        return self.features.get(feature, default)

    def is_enabled_at(self, point: str, plugin: str) -> bool:
        """Report whether the profile runs the plugin at this extension point; without a profile, yes."""
        return self.points is None or plugin in self.points.get(point, ())


class CycleObserver(Protocol):
    """Told after each extension point of a scheduling cycle; called often, so it must be quick."""

    def extension_point(self, point: str, status: str, seconds: float) -> None: ...

    def evaluated(self, point: str, plugins: Sequence[Any], times: int) -> None:
        """These plugins (or pairs of plugin and weight) ran this many times; equal lists are the same object."""

    def plugin_timer(self) -> PluginTimer | None:
        """Observer that times the plugins of the attempt that begins now; None for most attempts."""

    def node_hint(self, *, is_hinted: bool, flushed: str, seconds: float) -> None:
        """Batching was asked for a node; ``flushed`` says why what it remembers is of no use, if it remembers any."""

    def batch_rescored(self, seconds: float) -> None:
        """Batching scored the node of the pod before again."""

    def batch_stored(self, hint: bool | None, flushed: str, seconds: float) -> None:
        """Batching recorded a placement. ``hint``: whether its hint was used, None if there was none."""
