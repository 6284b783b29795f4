"""Which waiting pods are promised which node.

A pod's own status may say less than what is known here: a nomination is made
in memory first, and written to the API server afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from mooring.api.core import Pod
from mooring.state.pod_info import PodInfo

PodLookup = Callable[[str], Pod | None]  # "namespace/name" -> the pod as the API server last told of it
InfoLookup = Callable[[str], PodInfo | None]  # "namespace/name" -> the pod as it waits now
MAX_LOG = 10_000


class QueueNominator:
    """The nominations of pending pods, per node in the order in which they were made."""

    def __init__(self, waiting: InfoLookup, known: PodLookup | None = None) -> None:
        self._waiting = waiting
        self._known = known
        self._by_node: dict[str, dict[str, str]] = {}  # node name -> pod uid -> pod key
        self._node_of: dict[str, str] = {}  # pod uid -> node name
        self._uids_of: dict[str, dict[str, None]] = {}  # pod key -> uids of promises made to a pod of that name
        self._log: list[str] = []  # nodes whose promises changed, in order
        self._logged = 0  # how many that were, those that the log has forgotten included

    # ---- what filters ask --------------------------------------------------------------------------------------

    def nominated_pods(self, node_name: str) -> Iterable[PodInfo]:
        """The pods promised this node, as they wait now; one that is just being tried is not among them."""
        promised = self._by_node.get(node_name)
        if not promised:
            return ()
        return [info for key in promised.values() if (info := self._waiting(key)) is not None]

    def nominated_nodes(self) -> Collection[str]:
        return [name for name in self._by_node if name]

    def changes_since(self, position: int) -> tuple[Sequence[str] | None, int]:
        """Names of the nodes whose ``nominated_pods`` may differ from what they were at that position, and the next
        position. None: too long ago to know."""
        behind = self._logged - position
        if not 0 <= behind <= len(self._log):
            return None, self._logged
        return self._log[len(self._log) - behind :] if behind else (), self._logged

    def node_of(self, uid: str) -> str | None:
        """The node that this pod is promised, or None."""
        return self._node_of.get(uid)

    # ---- what the scheduler says -------------------------------------------------------------------------------

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Promise a node: the given one (even ``""``), or None for the one in the pod's status, if any.

        A pod that is gone or runs somewhere already is promised nothing.
        """
        self.delete(pod.metadata.uid)
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
        self._note(name)

    def update(self, old: Pod, new: Pod) -> None:
        """Follow a change of the pod. If neither version names a node, a promise made in memory stands."""
        kept: str | None = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            kept = self._node_of.get(old.metadata.uid)
        self.delete(old.metadata.uid)
        self.add(new, kept)

    def delete(self, uid: str) -> None:
        name = self._node_of.pop(uid, None)
        if name is not None:
            promised = self._by_node[name]
            key = promised.pop(uid)
            if not promised:
                del self._by_node[name]
            uids = self._uids_of[key]
            del uids[uid]
            if not uids:
                del self._uids_of[key]
            self._note(name)

    def touch(self, key: str) -> None:
        """The pod of this name waits now, or waits no more, or is another one: what it is promised looks different."""
        for uid in self._uids_of.get(key, ()):
            self._note(self._node_of[uid])

    def _note(self, name: str) -> None:
        if len(self._log) >= MAX_LOG:
            self._log.clear()
        self._log.append(name)
        self._logged += 1
