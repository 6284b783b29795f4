"""Nominations: which pending pods are nominated to which node.

A pod's own status may be older than its nomination here: a nomination is made in memory first, and written to the API
server afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from mooring.api.core import Pod
from mooring.core.framework.handle import Nominations
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import ChangeLog

PodLookup = Callable[[str], Pod | None]  # "namespace/name" -> the pod as the API server last sent it
InfoLookup = Callable[[str], PodInfo | None]  # "namespace/name" -> the pending pod


class QueueNominator:
    """The nominations of pending pods, per node in the order in which they were made."""

    def __init__(self, waiting: InfoLookup | None = None, known: PodLookup | None = None) -> None:
        """``waiting`` is the queue's lookup; a queue that is created later sets it."""
        self.waiting: InfoLookup = waiting or (lambda key: None)
        self._known = known
        self._by_node: dict[str, dict[str, str]] = {}  # node name -> pod uid -> pod key
        self._node_of: dict[str, str] = {}  # pod uid -> node name
        self._uids_of: dict[str, dict[str, None]] = {}  # pod key -> uids of nominated pods of that name
        self.log: ChangeLog[str] = ChangeLog()  # nodes whose nominated pods changed; "" is no node

    # ---- queries of filters ---------------------------------------------------------------------------------------

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        """Yield the pending pods nominated to this node, except one that is being tried."""
        nominated = self._by_node.get(node_name)
        if not nominated:
            return ()
        return [info for key in nominated.values() if (info := self.waiting(key)) is not None]

    def nominated_nodes(self) -> Collection[str]:
        return [name for name in self._by_node if name]

    def node_of(self, uid: str) -> str | None:
        """Return the node that this pod is nominated to, or None."""
        return self._node_of.get(uid)

    def copy(self) -> Nominations:
        copy = Nominations()
        for name in self.nominated_nodes():
            for info in self.nominated_pods(name):
                copy.nominate(info, name)
        return copy

    # ---- changes by the scheduler ---------------------------------------------------------------------------------

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate the pod to a node: the given one (even ``""``), or None for the one in its status, if any.

        A pod that is deleted or has a node is not nominated.
        """
        self.withdraw(pod.metadata.uid)
        name = pod.status.nominated_node_name if node_name is None else node_name
        if node_name is None and not name:
            return
        if self._known is not None:
            known = self._known(pod.key)
            if known is None or known.spec.node_name:
                return
        self._node_of[pod.metadata.uid] = name
        self._by_node.setdefault(name, {})[pod.metadata.uid] = pod.key
        self._uids_of.setdefault(pod.key, {})[pod.metadata.uid] = None
        if name:
            self.log.note(name)

    def update(self, old: Pod, new: Pod) -> None:
        """Follow a change of the pod. If neither version names a node, a nomination made in memory is kept."""
        kept: str | None = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            kept = self._node_of.get(old.metadata.uid)
        self.withdraw(old.metadata.uid)
        self.add(new, kept)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        self.add(pod.pod, node_name)

    def withdraw(self, uid: str) -> None:
        name = self._node_of.pop(uid, None)
        if name is not None:
            nominated = self._by_node[name]
            key = nominated.pop(uid)
            if not nominated:
                del self._by_node[name]
            uids = self._uids_of[key]
            del uids[uid]
            if not uids:
                del self._uids_of[key]
            if name:
                self.log.note(name)

    def touch(self, key: str) -> None:
        """Note that the pod of this name has become pending, stopped being pending, or is another pod."""
        for uid in self._uids_of.get(key, ()):
            if name := self._node_of[uid]:
                self.log.note(name)
