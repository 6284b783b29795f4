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


class Nominations:
    """Nominations that somebody makes by hand, without a queue."""

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

    def copy(self) -> Nominations:
        """The same nominations, for a fork of the cluster."""
        copy = Nominations()
        copy._by_uid = dict(self._by_uid)
        return copy

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        return [pod for node, pod in self._by_uid.values() if node == node_name]

    def nominated_nodes(self) -> Collection[str]:
        return {node for node, _ in self._by_uid.values()}
