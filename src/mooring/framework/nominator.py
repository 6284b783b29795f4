"""Which waiting pods are nominated to which node, as plugins and the engine ask for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from mooring.state.change_log import ChangeLog
from mooring.state.pod_info import PodInfo


class Nominator(Protocol):
    """Knows which waiting pods are nominated to which node."""

    @property
    def log(self) -> ChangeLog[str]:
        """Names of the nodes whose nominated pods changed."""

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]: ...

    def nominated_nodes(self) -> Collection[str]:
        """Names of all nodes that some pod is nominated to: something that answers ``in`` quickly."""


class NoNominations:
    """No pod is nominated to any node."""

    def __init__(self) -> None:
        self.log: ChangeLog[str] = ChangeLog()

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        return ()

    def nominated_nodes(self) -> Collection[str]:
        return ()
