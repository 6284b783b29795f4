"""What a plugin may hold on to: the cluster, the clock, its writer, and whoever is nominated where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

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


class FilterRunner(Protocol):
    """Runs the profile's filters for a hypothesis: what preemption asks."""

    def passes_filters(self, state: Any, pod: PodInfo, nodes: NodeRows, *, nominated: bool = True) -> Any: ...


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

    def is_enabled(self, feature: str, default: bool = False) -> bool:
        return self.features.get(feature, default)
