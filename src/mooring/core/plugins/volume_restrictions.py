"""VolumeRestrictions: disks that only one node or one pod may use at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring.api.core import Pod, Volume
from mooring.api.meta import Object
from mooring.api.storage import PersistentVolumeClaim
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import PreFilterResult, Remedy
from mooring.core.framework.status import SKIP, SKIP_FOR_TEMPLATE, SUCCESS, Status, Verdict
from mooring.core.plugins.volumes.claims import PodChanges, after_named_claim, claim_not_found, without_volumes
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

DISK_CONFLICT = Status.unschedulable("node(s) had no available disk")
CLAIM_IN_USE = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

DiskKey = tuple[str, ...]


@dataclass(slots=True)
class RestrictionState:
    """The pod's ReadWriteOncePod claims, and how many references other pods have to them."""

    claims: frozenset[str]
    conflicts: int

    def clone(self) -> RestrictionState:
        return RestrictionState(self.claims, self.conflicts)

    def count(self, pod: PodInfo, sign: int) -> None:
        """Add or subtract a pod's references, by name alone: upstream does not compare namespaces here."""
        self.conflicts += sign * sum(name in self.claims for name in pod.shape.claim_names)


class VolumeRestrictions:
    """Rejects nodes where another pod holds a disk that cannot be shared, and all nodes while a claim is in use.

    Evicting pods can help, so both are resolvable. Pods without such volumes are skipped.
    """

    name: ClassVar[str] = "VolumeRestrictions"

    def __init__(self, args: None, handle: Handle) -> None:
        self._cluster = handle.cluster
        self._disks = DiskIndex(handle)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.shape.signed_volumes(pod.pod.spec)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        if not pod.shape.volumes:
            return SKIP_FOR_TEMPLATE
        namespace, exclusive = pod.pod.metadata.namespace, set()
        for name in pod.shape.claim_names:
            claim = self._cluster.objects.get(PersistentVolumeClaim, f"{namespace}/{name}")
            if claim is None:
                return Status.unresolvable(claim_not_found(name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(name)
        conflicts = sum(self._is_used(namespace, name) for name in exclusive)
        if not conflicts and not any(disk_key(volume) for volume in pod.shape.volumes):
            return SKIP
        state.write(self.name, RestrictionState(frozenset(exclusive), conflicts))
        return SUCCESS

    def _is_used(self, namespace: str, name: str) -> bool:
        """Report whether a pod on a known node uses the claim; pods of deleted nodes do not count."""
        users = self._cluster.claim_users.get(f"{namespace}/{name}", 0)
        table = self._cluster.table
        if users and len(table.nodes) > len(table.infos):
            lost = (pod for info in table.nodes.values() if info.node is None for pod in info.pods.values())
            users -= sum(pod.shape.claim_names.count(name) for pod in lost if pod.pod.metadata.namespace == namespace)
        return users > 0

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status:
        return self._count(state, added, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status:
        return self._count(state, removed, -1)

    def _count(self, state: CycleState, pod: PodInfo, sign: int) -> Status:
        restrictions: RestrictionState | None = state.read(self.name)
        if restrictions is None:
            return Status.error(NO_STATE)
        restrictions.count(pod, sign)
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        restrictions: RestrictionState | None = state.read(self.name)
        if restrictions is None:
            return Verdict.where(np.ones(len(nodes), np.bool_), Status.error(NO_STATE))
        disks = [volume for volume in pod.shape.volumes if disk_key(volume)]
        in_use = restrictions.conflicts > 0
        ids = np.full(len(nodes), 2 if in_use else 0, np.int64)
        if disks:
            for i in self._suspects(disks, nodes):
                if any(disks_conflict(disks, other.shape.volumes) for other in nodes.pods(i)):
                    ids[i] = 1
        return Verdict.choose(ids, (DISK_CONFLICT, CLAIM_IN_USE)) if ids.any() else None

    def _suspects(self, disks: Sequence[Volume], nodes: NodeRows) -> set[int]:
        """Return positions of nodes where a pod has a disk of the same name, and of those changed in a dry run."""
        rows = self._disks.rows(disks)
        suspects = set(nodes.moved_since(self._cluster.table))
        if nodes.index is None:
            suspects |= rows
        elif rows:
            suspects.update(np.flatnonzero(np.isin(nodes.index, list(rows))).tolist())
        return suspects

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[Remedy]:
        return without_volumes(pod, self._cluster.objects)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(EventResource.POD, ActionType.DELETE, _after_pod_deleted),
            on(EventResource.NODE, ActionType.ADD),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, after_named_claim),
        )


NO_STATE = 'cannot read "PreFilterVolumeRestrictions" from cycleState'


class DiskIndex:
    """Index of nodes by the inline disks of their pods."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.cluster.table
        self._changes = PodChanges(self._table)
        self._nodes: dict[DiskKey, set[str]] = {}
        self._disks: dict[str, frozenset[DiskKey]] = {}

    def rows(self, disks: Iterable[Volume]) -> set[int]:
        changed, gone = self._changes.take()
        for name in gone:
            self._set(name, frozenset())
        for info in changed:
            keys = (disk_key(volume) for pod in info.pods.values() for volume in pod.shape.volumes)
            self._set(info.name, frozenset(key for key in keys if key))
        names = {name for volume in disks for name in self._nodes.get(disk_key(volume), ())}
        return {self._table.nodes[name].row for name in names}

    def _set(self, name: str, disks: frozenset[DiskKey]) -> None:
        for key in self._disks.pop(name, frozenset()):
            self._nodes[key].discard(name)
            if not self._nodes[key]:
                del self._nodes[key]
        for key in disks:
            self._nodes.setdefault(key, set()).add(name)
        if disks:
            self._disks[name] = disks


def disk_key(volume: Volume) -> DiskKey:
    """Return the key that conflicting volumes share; empty for volumes that never conflict."""
    if volume.gce_persistent_disk is not None:
        return "gce", volume.gce_persistent_disk.pd_name
    if volume.aws_elastic_block_store is not None:
        return "ebs", volume.aws_elastic_block_store.volume_id
    if volume.iscsi is not None:
        return "iscsi", volume.iscsi.iqn
    if volume.rbd is not None:
        return "rbd", volume.rbd.pool, volume.rbd.image
    return ()


def disks_conflict(disks: Iterable[Volume], others: Iterable[Volume]) -> bool:
    """Report whether one of these disks conflicts with one of the others."""
    others = [other for other in others if disk_key(other)]
    return any(_conflict(volume, other) for volume in disks for other in others)


def _conflict(volume: Volume, other: Volume) -> bool:
    if disk_key(volume) != disk_key(other):
        return False
    if volume.aws_elastic_block_store is not None:
        return True  # not even two readers
    if volume.rbd is not None and other.rbd is not None:
        shared = not set(volume.rbd.monitors).isdisjoint(other.rbd.monitors)
        return shared and not (volume.rbd.read_only and other.rbd.read_only)
    mine = volume.gce_persistent_disk or volume.iscsi
    theirs = other.gce_persistent_disk or other.iscsi
    return not (mine is not None and theirs is not None and mine.read_only and theirs.read_only)


def _after_pod_deleted(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, Pod):
        return Hint.QUEUE
    if old.metadata.namespace != pod.metadata.namespace:
        return Hint.SKIP
    disks = [volume for volume in pod.spec.volumes if disk_key(volume)]
    if disks and disks_conflict(disks, old.spec.volumes):
        return Hint.QUEUE
    return Hint.SKIP if _claim_names(pod).isdisjoint(_claim_names(old)) else Hint.QUEUE


def _claim_names(pod: Pod) -> set[str]:
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return {claim.claim_name for claim in claims if claim is not None}
