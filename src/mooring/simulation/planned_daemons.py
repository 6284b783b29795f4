"""The pods that DaemonSets would put on a node that does not exist yet: its other pods have only what these leave."""

from __future__ import annotations

from copy import copy

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.controlplane.cluster.controllers.daemon_sets import made_for, nodes_for
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.groups.apps import DAEMON_SETS
from mooring.controlplane.registry.verbs import Api, Options
from mooring.controlplane.storage.store import Entry
from mooring.controlplane.types.status import StatusError


class PlannedDaemons:
    """Asks the API server, without writing, what becomes of the pod of each DaemonSet: defaults, class and overhead."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: dict[str, tuple[int, Pod | None]] = {}  # by the DaemonSet's uid, of one version

    def on(self, node: Node) -> list[Pod]:
        """Those that would run there."""
        found: list[Pod] = []
        for entry in self._api.store.iterate(DAEMON_SETS):
            like = self._pod_of(entry)
            if like is not None and nodes_for(like)(node):
                pod = copy(like)
                pod.metadata, pod.spec = copy(like.metadata), copy(like.spec)
                pod.metadata.name = f"{entry.name}-{node.name}"
                pod.metadata.uid = f"{entry.uid}/{node.name}"
                pod.spec.node_name = node.name
                found.append(pod)
        return found

    def _pod_of(self, entry: Entry) -> Pod | None:
        """The pod before it has a node; None if the API server refuses it."""
        version, pod = self._made.get(entry.uid, (-1, None))
        if version != entry.rv:
            try:
                wanted = made_for(entry.object())
                wanted["metadata"]["name"] = f"{entry.name}-planned"  # one by lot would change those of the next pods
                pod = from_plain(Pod, self._api.create(PODS, entry.namespace, wanted, Options(dry_run=True)).object())
            except StatusError:
                pod = None
            self._made[entry.uid] = entry.rv, pod
        return pod
