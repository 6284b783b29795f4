"""What a plugin may hold on to: the cluster, the clock, its writer, and whoever is nominated where."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.clock import Clock, SystemClock
from mooring.framework.cycle_state import CycleState
from mooring.framework.extender import Extender
from mooring.framework.observer import NobodyCounts, PluginMeters
from mooring.state.change_log import ChangeLog
from mooring.state.cluster import Cluster
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

if TYPE_CHECKING:
    from mooring.framework.runtime import FilterOutcome


class Nominator(Protocol):
    """Knows which waiting pods are nominated to which node."""

    @property
    def log(self) -> ChangeLog[str]:
        """Names of the nodes whose nominated pods changed."""

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]: ...

    def nominated_nodes(self) -> Collection[str]:
        """Names of all nodes that some pod is nominated to: something that answers ``in`` quickly."""


class NoNominations:
    """No pod is nominated anywhere."""

    def __init__(self) -> None:
        self.log: ChangeLog[str] = ChangeLog()

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        return ()

    def nominated_nodes(self) -> Collection[str]:
        return ()


class FilterRunner(Protocol):
    """A profile's filters, asked about hypotheses: what preemption needs."""

    def nominated(self) -> ChangeLog[int]:
        """The rows whose nominated pods have changed, up to now."""

    def shared(self, state: CycleState, pod: PodInfo) -> tuple[Hashable, Hashable] | None:
        """What tells apart pods that the filters judge differently, and what else verdicts depend on besides the node;
        None if verdicts may not be kept from one pod to the next."""

    def passed_node_filters(self, state: CycleState, pod: PodInfo) -> NDArray[np.bool_]:
        """The rows of the table that pass all filters that no pod can sway; only where verdicts are ``shared``."""

    def fullness(self, state: CycleState, pod: PodInfo, row: int) -> Hashable | None:
        """How full a node is and whom it is promised to, where filters that a pod can sway read no more than that:
        nodes that pass all others and are equally full get equal answers. None: they read more."""

    def is_local(self, state: CycleState) -> bool:
        """Report whether a change on one node cannot matter to another: many can then be tried at once."""

    def judge(self, state: CycleState, pod: PodInfo, nodes: NodeRows, *, pods_only: bool = False) -> FilterOutcome:
        """Run all filters, nominated pods counted in; ``pods_only`` leaves out those that no pod can sway."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None: ...

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None: ...


class Preemptions(Protocol):
    """Evictions under way on behalf of pods."""

    def is_running(self, uid: str) -> bool: ...


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
        """Let it go as far as this plugin is concerned; the last one's word starts the binding."""

    def reject(self, plugin: str, message: str) -> bool:
        """Refuse it; false if somebody was faster."""


class WaitingPods(Protocol):
    """The pods that wait on permit. A plugin asks for them in any method, also for those of other pods."""

    def get(self, uid: str) -> WaitingPod | None: ...

    def all(self) -> Sequence[WaitingPod]: ...


class NobodyWaits:
    """There are no waiting pods: a decision is made in thought only."""

    def get(self, uid: str) -> WaitingPod | None:
        return None

    def all(self) -> Sequence[WaitingPod]:
        return ()


class Devices(Protocol):
    """Extended resources that DeviceClasses stand for: some nodes offer them as devices instead of a number."""

    def backs(self, resource: str) -> bool:
        """Report whether a DeviceClass stands for the resource."""

    def totals(self, resource: str, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(matching devices, those of them that are allocated) per node."""

    def mapping_version(self) -> Hashable:
        """Something that differs after ``backs`` may have changed its mind."""


class NoDevices:
    """No DeviceClass stands for anything."""

    def backs(self, resource: str) -> bool:
        return False

    def totals(self, resource: str, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)

    def mapping_version(self) -> Hashable:
        return 0


class Writer(Protocol):
    """What plugins of the binding cycle ask of the API server; the live scheduler brings it."""

    async def bind(self, pod: PodInfo, node_name: str) -> None: ...


def _first(n: int) -> int:
    return 0


def _nobody_counts(scheduler_name: str) -> PluginMeters:
    return NobodyCounts()


@dataclass(slots=True)
class Handle:
    """Given to every plugin when it is made."""

    cluster: Cluster
    clock: Clock = field(default_factory=SystemClock)
    nominator: Nominator = field(default_factory=NoNominations)
    features: Mapping[str, bool] = field(default_factory=dict)
    writer: Writer | None = None
    devices: Devices = field(default_factory=NoDevices)
    filters: FilterRunner | None = None  # of the profile that the plugin belongs to
    preemptions: Preemptions | None = None
    waiting_pods: WaitingPods = field(default_factory=NobodyWaits)
    pods: Mapping[str, Pod] = field(default_factory=dict)  # every pod that the API server knows, by namespace/name
    extenders: Sequence[Extender] = ()
    meters: Callable[[str], PluginMeters] = _nobody_counts  # by the scheduler name that a pod asks for
    pick: Callable[[int], int] = _first  # chooses one of n where upstream draws a random number

    def is_enabled(self, feature: str, default: bool = False) -> bool:
        return self.features.get(feature, default)
