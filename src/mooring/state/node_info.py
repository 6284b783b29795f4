"""One node with the pods on it."""

from __future__ import annotations

from mooring.api.core import Node
from mooring.state.pod_info import HostPort, PodInfo


class NodeInfo:
    """A node and its pods. Pods may come before their node, and stay after it: then ``node`` is None and ``row`` -1."""

    __slots__ = ("has_own_pods", "host_ports", "name", "node", "owner", "pods", "row", "stamp")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.pods: dict[str, PodInfo] = {}  # by uid
        # A set, as upstream keeps it: of two pods that share a port (bound past the scheduler), the first to go
        # takes the port with it.
        self.host_ports: set[HostPort] = set()
        self.row = -1
        # Only the table that owns it writes to it, and only if it has not been forked since ``stamp``.
        self.owner: object = None
        self.stamp = 0
        self.has_own_pods = True  # otherwise ``pods`` and ``host_ports`` are copied before they are written

    @property
    def labels(self) -> dict[str, str]:
        return {} if self.node is None else self.node.metadata.labels

    def copy(self, owner: object, stamp: int) -> NodeInfo:
        """The same node for another owner; the pods are shared until they are written."""
        copy = NodeInfo.__new__(NodeInfo)
        copy.name = self.name
        copy.node = self.node
        copy.pods = self.pods
        copy.host_ports = self.host_ports
        copy.row = self.row
        copy.has_own_pods = False
        copy.owner, copy.stamp = owner, stamp
        return copy

    def own_pods(self) -> None:
        self.pods = dict(self.pods)
        self.host_ports = set(self.host_ports)
        self.has_own_pods = True

    def __repr__(self) -> str:
        return f"NodeInfo({self.name}, row {self.row}, {len(self.pods)} pods)"
