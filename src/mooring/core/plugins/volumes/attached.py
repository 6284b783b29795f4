"""Attached volumes of each CSI driver on each node, updated as pods and objects change.

A node is recounted only when its pods change, or a claim, volume or attachment that its count depends on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Volume
from mooring.api.errors import ParseError
from mooring.api.meta import Object
from mooring.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from mooring.core.plugins.volumes.claims import PodChanges, claim_class, claim_not_found, claim_of, ownership_problem
from mooring.core.plugins.volumes.csi_migration import (
    BY_NAME,
    inline_handle,
    inline_plugin,
    volume_plugin,
    volume_source,
)
from mooring.core.state.cluster import ClusterState, Objects
from mooring.core.state.node_rows import Mask
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import EVERYTHING, Changes, Cursor

NO_LIMIT = 1 << 62
# Upstream's value is random, so that no real handle equals it; a text that no driver uses is enough.
_UNPROVISIONED = "not-yet-provisioned"


class ClaimMissing(Exception):
    """The pod to be scheduled refers to a claim that does not exist."""


class CountError(Exception):
    """A pod's volumes cannot be counted: upstream fails the attempt."""


@dataclass(slots=True)
class Looked:
    """The claims and volumes that a count depends on."""

    claims: set[str] = field(default_factory=set)
    volumes: set[str] = field(default_factory=set)


class VolumeCounter:
    """Finds the CSI volumes behind pods' volumes: ``driver/handle`` -> driver."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def add(
        self, found: dict[str, str], pod: PodInfo, *, is_new: bool, has_csi_node: bool, looked: Looked | None = None
    ) -> None:
        """Add a pod's volumes. In-tree volumes count for their driver on nodes that have a CSINode."""
        for volume in pod.shape.volumes:
            ref = claim_of(pod.pod, volume)
            if ref is None:
                if has_csi_node:
                    _add_inline(found, volume)
                continue
            if not ref.name:
                raise CountError("PersistentVolumeClaim had no name")
            key = f"{pod.pod.metadata.namespace}/{ref.name}"
            if looked is not None:
                looked.claims.add(key)
            claim = self._objects.get(PersistentVolumeClaim, key)
            if claim is None:
                if is_new:
                    raise ClaimMissing(f"looking up PVC {key}: {claim_not_found(ref.name)}")
                continue
            if ref.ephemeral:
                problem = ownership_problem(pod.pod, claim)
                if problem:
                    raise CountError(problem)
            driver, handle = self._driver_of(claim, has_csi_node, looked)
            if driver and handle:
                found[f"{driver}/{handle}"] = driver

    def _driver_of(self, claim: PersistentVolumeClaim, has_csi_node: bool, looked: Looked | None) -> tuple[str, str]:
        name = claim.spec.volume_name
        if looked is not None and name:
            looked.volumes.add(name)
        volume = self._objects.get(PersistentVolume, name) if name else None
        if volume is None:
            return self._driver_of_class(claim, has_csi_node)
        if volume.spec.csi is not None:
            return volume.spec.csi.driver, volume.spec.csi.volume_handle
        plugin = volume_plugin(volume)
        if plugin is None or not plugin.migrated or not has_csi_node:
            return "", ""
        try:
            source = volume_source(plugin, volume)
        except ParseError:
            return "", ""
        return source.driver, source.volume_handle

    def _driver_of_class(self, claim: PersistentVolumeClaim, has_csi_node: bool) -> tuple[str, str]:
        """Return the driver that will provision a volume."""
        storage_class = self._objects.get(StorageClass, claim_class(claim))
        if storage_class is None:
            return "", ""
        handle = f"{_UNPROVISIONED}-{claim.namespace}/{claim.name}"
        plugin = BY_NAME.get(storage_class.provisioner)
        if plugin is None:
            return storage_class.provisioner, handle
        return (plugin.driver, handle) if plugin.migrated and has_csi_node else ("", "")

    def attachment(self, attachment: VolumeAttachment) -> tuple[str, str] | None:
        """Return (``driver/handle``, driver) of an attachment of a CSI volume."""
        name = attachment.spec.source.persistent_volume_name
        if not attachment.spec.attacher or name is None:
            return None
        volume = self._objects.get(PersistentVolume, name)
        if volume is None or volume.spec.csi is None:
            return None
        return f"{attachment.spec.attacher}/{volume.spec.csi.volume_handle}", attachment.spec.attacher


def _add_inline(found: dict[str, str], volume: Volume) -> None:
    plugin = inline_plugin(volume)
    if plugin is None or not plugin.migrated:
        return
    try:
        handle = inline_handle(plugin, volume)
    except ParseError as error:
        raise CountError(f"converting volume({volume.name}) from inline to csi: {error}") from None
    found[f"{plugin.driver}/{handle}"] = plugin.driver


@dataclass(slots=True)
class NodeVolumes:
    """Volumes attached to one node."""

    volumes: dict[str, str] = field(default_factory=dict)  # those of pods: driver/handle -> driver
    counts: dict[str, int] = field(default_factory=dict)  # driver -> distinct volumes, attachments included
    error: str = ""
    looked: Looked = field(default_factory=Looked)


class AttachedVolumes:
    """Columns over all rows of the table; call ``refresh`` first."""

    def __init__(self, cluster: ClusterState) -> None:
        self._objects, self._table = cluster.objects, cluster.table
        self._counter = VolumeCounter(cluster.objects)
        self._pods = PodChanges(cluster.table)
        self._nodes: dict[str, NodeVolumes] = {}
        self._claim_nodes: dict[str, set[str]] = {}  # claim -> nodes whose count depends on it
        self._volume_nodes: dict[str, set[str]] = {}  # persistent volume -> nodes whose count depends on it
        self._users: dict[str, set[str]] = {}  # driver/handle -> nodes where a pod uses it
        self._attachments: dict[str, dict[str, VolumeAttachment]] = {}  # node -> name -> attachment
        self._attached_to: dict[str, str] = {}  # name of an attachment -> node
        self._cursors: dict[type[Object], Cursor[str]] = {}
        self._layout = -1
        self._counts: dict[str, NDArray[np.int64]] = {}  # driver -> [node]
        self._limits: dict[str, NDArray[np.int64]] = {}  # driver -> [node], NO_LIMIT where there is none
        self.has_csi_node: Mask = np.zeros(0, np.bool_)
        self.has_limits: Mask = np.zeros(0, np.bool_)
        self.failing: dict[str, str] = {}  # nodes with a pod whose volumes cannot be counted, and why

    # ---- queries ------------------------------------------------------------------------------------------------

    def count(self, driver: str) -> NDArray[np.int64]:
        return self._counts.get(driver, np.zeros(len(self._table), np.int64))

    def limit(self, driver: str) -> NDArray[np.int64] | None:
        """Return each node's limit for the driver; None if no node has a limit."""
        return self._limits.get(driver)

    def limits_of(self, name: str) -> dict[str, int]:
        return limits(self._objects.get(CSINode, name))

    def installed(self, driver: str) -> Mask:
        """Return the nodes whose CSINode lists the driver."""
        mask = np.zeros(len(self._table), np.bool_)
        for row, info in enumerate(self._table.infos):
            csi_node = self._objects.get(CSINode, info.name)
            mask[row] = csi_node is not None and any(d.name == driver for d in csi_node.spec.drivers or ())
        return mask

    def users(self, volume: str) -> set[str]:
        """Return names of the nodes where a pod uses the volume (``driver/handle``)."""
        return self._users.get(volume, set())

    def rows_using(self, volume: str) -> NDArray[np.int64]:
        users = self.users(volume)
        return np.fromiter((self._table.nodes[name].row for name in users), np.int64, len(users))

    def of_new_pod(self, pod: PodInfo, *, has_csi_node: bool) -> dict[str, str]:
        """Return the volumes of the pod to be scheduled; raise ClaimMissing or CountError."""
        found: dict[str, str] = {}
        self._counter.add(found, pod, is_new=True, has_csi_node=has_csi_node)
        return found

    def tally(self, name: str, pods: Iterable[PodInfo]) -> NodeVolumes:
        """Count the volumes of these pods and the node's attachments."""
        node = NodeVolumes()
        try:
            for pod in pods:
                if pod.shape.volumes:
                    self._counter.add(node.volumes, pod, is_new=False, has_csi_node=True, looked=node.looked)
        except CountError as error:
            node.error = str(error)
        attached = dict(node.volumes)
        for attachment in self._attachments.get(name, {}).values():
            node.looked.volumes.add(attachment.spec.source.persistent_volume_name or "")
            found = self._counter.attachment(attachment)
            if found is not None:
                attached.setdefault(*found)
        for driver in attached.values():
            node.counts[driver] = node.counts.get(driver, 0) + 1
        return node

    # ---- updates -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Recount what has changed since the last call. Without any limit nothing is counted: no one asks."""
        csi_nodes = self._changed(CSINode)
        if self._layout != self._table.generation or csi_nodes is EVERYTHING:
            self._lay_out()
        else:
            for name in csi_nodes:
                self._write_limits(name)
        if self._limits:
            self._recount()
        elif self._nodes or self._attached_to:
            self._forget()

    def _forget(self) -> None:
        """Drop all counts after the last limit has gone; with the next one everything is counted anew."""
        self._pods = PodChanges(self._table)
        for known in (self._nodes, self._claim_nodes, self._volume_nodes, self._users, self.failing):
            known.clear()
        self._attachments.clear()
        self._attached_to.clear()
        self._cursors = {kind: cursor for kind, cursor in self._cursors.items() if kind is CSINode}
        for counts in self._counts.values():
            counts[:] = 0

    def _recount(self) -> None:
        changed, gone = self._pods.take()
        stale = {info.name for info in changed}
        for name in gone:
            self._link(name, self._nodes.pop(name), present=False)
        stale |= self._take_attachments()
        claims, volumes = self._changed(PersistentVolumeClaim), self._changed(PersistentVolume)
        classes = self._changed(StorageClass)
        if classes or claims is EVERYTHING or volumes is EVERYTHING:
            stale.update(info.name for info in self._table.infos)
        else:
            stale.update(*(self._claim_nodes.get(key, ()) for key in claims))
            stale.update(*(self._volume_nodes.get(key, ()) for key in volumes))
        for name in stale:
            info = self._table.nodes.get(name)
            if info is not None and info.row >= 0:
                self._set(name, self.tally(name, info.pods.values()))

    def _changed(self, kind: type[Object]) -> Changes[str]:
        """Return keys of this kind that changed since the last call."""
        cursor = self._cursors.get(kind)
        if cursor is None:
            cursor = self._cursors[kind] = self._objects.log(kind).cursor()
        return cursor.take()

    def _take_attachments(self) -> set[str]:
        """Process changed attachments; return the nodes that they concern."""
        keys = self._changed(VolumeAttachment)
        if keys is EVERYTHING:
            keys = [*self._attached_to, *(attachment.key for attachment in self._objects.all(VolumeAttachment))]
        stale = set()
        for key in keys:
            node = self._attached_to.pop(key, None)
            if node is not None:
                del self._attachments[node][key]
                stale.add(node)
            attachment = self._objects.get(VolumeAttachment, key)
            if attachment is not None:
                node = self._attached_to[key] = attachment.spec.node_name
                self._attachments.setdefault(node, {})[key] = attachment
                stale.add(node)
        return stale

    def _set(self, name: str, node: NodeVolumes) -> None:
        old = self._nodes.get(name)
        if old is not None:
            self._link(name, old, present=False)
        self._nodes[name] = node
        self._link(name, node, present=True)
        row = self._table.nodes[name].row
        for driver in old.counts if old is not None else ():
            self._counts[driver][row] = 0
        self._write_counts(row, node)

    def _link(self, name: str, node: NodeVolumes, *, present: bool) -> None:
        """Add or remove the node in the index of everything that its count depends on."""
        for index, keys in (
            (self._claim_nodes, node.looked.claims),
            (self._volume_nodes, node.looked.volumes),
            (self._users, node.volumes),
        ):
            for key in keys:
                if present:
                    index.setdefault(key, set()).add(name)
                else:
                    index[key].discard(name)
                    if not index[key]:
                        del index[key]
        self.failing.pop(name, None)
        if present and node.error:
            self.failing[name] = node.error

    def _write_counts(self, row: int, node: NodeVolumes) -> None:
        for driver, count in node.counts.items():
            column = self._counts.get(driver)
            if column is None:
                column = self._counts[driver] = np.zeros(len(self._table), np.int64)
            column[row] = count

    def _write_limits(self, name: str) -> None:
        info = self._table.nodes.get(name)
        if info is None or info.row < 0:
            return
        csi_node = self._objects.get(CSINode, name)
        by_driver = limits(csi_node)
        self.has_csi_node[info.row] = csi_node is not None
        self.has_limits[info.row] = bool(by_driver)
        for column in self._limits.values():
            column[info.row] = NO_LIMIT
        for driver, count in by_driver.items():
            if driver not in self._limits:
                self._limits[driver] = np.full(len(self._table), NO_LIMIT, np.int64)
            self._limits[driver][info.row] = count

    def _lay_out(self) -> None:
        n = len(self._table)
        self._layout = self._table.generation
        self._counts, self._limits = {}, {}
        self.has_csi_node, self.has_limits = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        for csi_node in self._objects.all(CSINode):
            self._write_limits(csi_node.name)
        for name, node in self._nodes.items():
            info = self._table.nodes.get(name)
            if info is not None and info.row >= 0:
                self._write_counts(info.row, node)


def limits(csi_node: CSINode | None) -> dict[str, int]:
    """Return each driver's limit on a node; drivers without one are left out."""
    drivers = (csi_node.spec.drivers if csi_node is not None else None) or ()
    return {
        driver.name: driver.allocatable.count
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
