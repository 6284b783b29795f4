"""One node with the pods on it."""

from __future__ import annotations

from mooring.api.core import Node
from mooring.state.pod_info import HostPort, PodInfo


class NodeInfo:
    """A node and its pods. Pods may come before their node, and stay after it: then ``node`` is None and ``row`` -1."""

    __slots__ = ("host_ports", "name", "node", "pods", "row", "table_generation")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.pods: dict[str, PodInfo] = {}  # by uid
        # A set, as upstream keeps it: of two pods that share a port (bound past the scheduler), the first to go
        # takes the port with it.
        self.host_ports: set[HostPort] = set()
        self.row = -1
        self.table_generation = -1  # the layout of the table that ``row`` belongs to

    @property
    def labels(self) -> dict[str, str]:
        return {} if self.node is None else self.node.metadata.labels

    def __repr__(self) -> str:
        return f"NodeInfo({self.name}, row {self.row}, {len(self.pods)} pods)"
