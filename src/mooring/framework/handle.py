"""What a plugin may hold on to: the cluster, the clock, its writer, and whoever is nominated where."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mooring.clock import Clock, SystemClock
from mooring.state.cluster import Cluster
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


class Nominator(Protocol):
    """Knows which waiting pods are promised which node."""

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]: ...

    def nominated_nodes(self) -> Iterable[str]:
        """Names of all nodes that some pod is nominated to."""


class NoNominations:
    """Nobody is nominated anywhere."""

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        return ()

    def nominated_nodes(self) -> Iterable[str]:
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


@dataclass(slots=True)
class Handle:
    """Given to every plugin when it is made."""

    cluster: Cluster
    clock: Clock = field(default_factory=SystemClock)
    nominator: Nominator = field(default_factory=NoNominations)
    features: Mapping[str, bool] = field(default_factory=dict)
    writer: Writer | None = None
    devices: Devices = field(default_factory=NoDevices)

    def is_enabled(self, feature: str, default: bool = False) -> bool:
        return self.features.get(feature, default)
