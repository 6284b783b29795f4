"""Nominations without a queue: which pod is nominated to which node, by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mooring.state.change_log import ChangeLog
from mooring.state.pod_info import PodInfo


class Nominations:
    """A plain list; implements :class:`mooring.framework.nominator.Nominator`."""

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

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        return [pod for node, pod in self._by_uid.values() if node == node_name]

    def nominated_nodes(self) -> Collection[str]:
        return {node for node, _ in self._by_uid.values()}
