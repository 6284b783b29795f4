"""A node with its pods, and the order of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Self

import msgspec

from mooring.api.core import Node
from mooring.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE
from mooring.core.state.pod_info import HostPort, PodInfo


class NodeInfo(msgspec.Struct, eq=False):
    """A node and its pods. Pods may precede their node, and outlast it: then ``node`` is None and ``row`` -1."""

    name: str
    node: Node | None = None
    pods: dict[str, PodInfo] = {}  # by uid
    # A set, as upstream keeps it: of two pods that share a port (bound past the scheduler), the first to go
    # takes the port with it.
    host_ports: set[HostPort] = msgspec.field(default_factory=set)
    row: int = -1
    # Only the table that owns it writes to it, and only if it has not been forked since ``stamp``.
    owner: object = None
    stamp: int = 0
    has_own_pods: bool = True  # otherwise ``pods`` and ``host_ports`` are copied before they are written

    if TYPE_CHECKING:

        def __copy__(self) -> Self: ...

    @property
    def labels(self) -> dict[str, str]:
        return {} if self.node is None else self.node.metadata.labels

    def copy(self, owner: object, stamp: int) -> NodeInfo:
        """Return a copy for another owner; the pods are shared until they are written."""
        copy = self.__copy__()  # in C: a drill copies thousands for each loss
        copy.has_own_pods = False
        copy.owner, copy.stamp = owner, stamp
        return copy

    def own_pods(self) -> None:
        self.pods = dict(self.pods)
        self.host_ports = set(self.host_ports)
        self.has_own_pods = True

    def __repr__(self) -> str:
        return f"NodeInfo({self.name}, row {self.row}, {len(self.pods)} pods)"


# ---- the order of nodes: one of each zone in turn
# ------------------------------------------------------------------------

ZONE_LABELS = (BETA_ZONE, ZONE)
REGION_LABELS = (BETA_REGION, REGION)


def zone_key(labels: Mapping[str, str]) -> str:
    """Return region and zone in one string; the deprecated labels win, as upstream."""
    zone = next((labels[key] for key in ZONE_LABELS if key in labels), "")
    region = next((labels[key] for key in REGION_LABELS if key in labels), "")
    return f"{region}:\x00:{zone}" if zone or region else ""


class NodeTree:
    """Zones in order of first appearance, nodes of each in order of arrival."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def copy(self) -> NodeTree:
        copy = NodeTree()
        copy._zones = {zone: dict(names) for zone, names in self._zones.items()}
        copy._zone_of = dict(self._zone_of)
        return copy

    def __len__(self) -> int:
        return len(self._zone_of)

    def add(self, name: str, labels: Mapping[str, str]) -> None:
        zone = zone_key(labels)
        if self._zone_of.get(name) == zone:
            return
        self.remove(name)
        self._zones.setdefault(zone, {})[name] = None
        self._zone_of[name] = zone

    def remove(self, name: str) -> None:
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]

    def by_zone(self) -> list[str]:
        """Return nodes zone by zone: adding them to an empty tree in this order gives the same tree."""
        return list(chain.from_iterable(self._zones.values()))

    def names(self) -> list[str]:
        """Return the first node of each zone, then the second of each, and so on."""
        rounds = zip_longest(*self._zones.values())
        return [name for name in chain.from_iterable(rounds) if name is not None]
