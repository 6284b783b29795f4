"""The DaemonSet pods of a node that does not exist yet: other pods get only what these leave."""

from __future__ import annotations

from copy import copy

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.controlplane.cluster.pod_sets import made_for, nodes_for
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.groups.workloads import DAEMON_SETS
from mooring.controlplane.registry.verbs import Api, Options
from mooring.controlplane.storage.store import StoredEntry
from mooring.controlplane.types.status import StatusError


class PlannedDaemons:
    """The API server completes the pod of each DaemonSet in a dry run: defaults, priority class and overhead."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: dict[str, tuple[int, Pod | None]] = {}  # by the DaemonSet's uid, of one version

    def on(self, node: Node) -> list[Pod]:
        """Return the pods that would run on the node."""
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

    def _pod_of(self, entry: StoredEntry) -> Pod | None:
        """Return the pod without a node; None if the API server rejects it."""
        version, pod = self._made.get(entry.uid, (-1, None))
        if version != entry.rv:
            try:
                wanted = made_for(entry.object())
                # a random name would change the names of the next pods
                wanted["metadata"]["name"] = f"{entry.name}-planned"
                pod = from_plain(Pod, self._api.create(PODS, entry.namespace, wanted, Options(dry_run=True)).object())
            except StatusError:
                pod = None
            self._made[entry.uid] = entry.rv, pod
        return pod
