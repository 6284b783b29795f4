"""VolumeZone: restricts pods with bound volumes to the volumes' zones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import PreFilterResult, Remedy
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP, SKIP_FOR_TEMPLATE, SUCCESS, Status, Verdict
from mooring.core.plugins.volumes.claims import (
    WAIT_FOR_FIRST_CONSUMER,
    after_named_claim,
    claim_class,
    claim_not_found,
    class_not_found,
    volume_not_found,
    without_volumes,
)
from mooring.core.plugins.volumes.csi_migration import ZONE_DELIMITER
from mooring.core.state.node_rows import Mask, NodeRows
from mooring.core.state.pod_info import PodInfo

CONFLICT = Status.unresolvable("node(s) had no available volume zone")
LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_SUCCESSORS = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class VolumeTopology(msgspec.Struct, frozen=True):
    """A topology label of a volume, and the values that a node may have for it."""

    key: str
    values: frozenset[str]


class VolumeZone:
    """Rejects nodes that carry topology labels, but not those of the pod's bound volumes (unresolvable).

    A node without any topology label passes: it counts as part of a single-zone cluster.
    """

    name: ClassVar[str] = "VolumeZone"
    traits: ClassVar[Traits] = Traits(filter_reads=Reads.LOCAL)

    def __init__(self, args: None, handle: Handle) -> None:
        self._objects = handle.cluster.objects

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.shape.signed_volumes(pod.pod.spec)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        if not pod.shape.volumes:
            return SKIP_FOR_TEMPLATE
        topologies = self._topologies(pod)
        if isinstance(topologies, Status):
            return topologies
        if not topologies:
            return SKIP
        state.write(self.name, topologies)
        return SUCCESS

    def _topologies(self, pod: PodInfo) -> Status | list[VolumeTopology]:
        topologies: list[VolumeTopology] = []
        for name in pod.shape.claim_names:
            if not name:
                return Status.unresolvable("PersistentVolumeClaim had no name")
            claim = self._objects.get(PersistentVolumeClaim, f"{pod.pod.metadata.namespace}/{name}")
            if claim is None:
                return Status.unresolvable(claim_not_found(name))
            if not claim.spec.volume_name:
                problem = self._why_unbound(claim)
                if problem:
                    return Status.unresolvable(problem)
                continue
            volume = self._objects.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                return Status.unresolvable(volume_not_found(claim.spec.volume_name))
            topologies += volume_topologies(volume)
        return topologies

    def _why_unbound(self, claim: PersistentVolumeClaim) -> str:
        """Return the problem of an unbound claim; empty if it just waits for its first consumer."""
        name = claim_class(claim)
        if not name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self._objects.get(StorageClass, name)
        if storage_class is None:
            return class_not_found(name)
        if storage_class.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{name}"'
        return "" if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        topologies = state.read(self.name)
        if topologies is None:  # its PreFilter is disabled
            topologies = self._topologies(pod)
            if isinstance(topologies, Status):
                return Verdict.where(np.ones(len(nodes), np.bool_), topologies)
        fits = np.ones(len(nodes), np.bool_)
        for topology in topologies:
            here = nodes.label_ids(topology.key) >= 0
            fits &= _has_value(nodes, topology.key, topology.values) | (
                ~here & _has_value(nodes, _SUCCESSORS.get(topology.key, topology.key), topology.values)
            )
        rejected = ~fits
        if rejected.any():
            rejected &= _is_labelled(nodes)
        return Verdict.where(rejected, CONFLICT) if rejected.any() else None

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[Remedy]:
        return without_volumes(pod, self._objects)

    def events_to_register(self) -> Sequence[EventRegistration]:
        change = ActionType.ADD | ActionType.UPDATE
        return (
            on(EventResource.STORAGE_CLASS, ActionType.ADD, _after_class_added),
            on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, change, after_named_claim),
            on(EventResource.PERSISTENT_VOLUME, change, _after_volume_changed),
        )


def volume_topologies(volume: PersistentVolume) -> list[VolumeTopology]:
    """Return the topology labels of a volume, whose values are separated by ``__``; malformed ones are ignored."""
    found = []
    for key in LABELS:
        text = volume.metadata.labels.get(key)
        if text is None:
            continue
        values = [value.strip() for value in text.split(ZONE_DELIMITER)]
        if all(values):
            found.append(VolumeTopology(key, frozenset(values)))
    return found


def _has_value(nodes: NodeRows, key: str, values: frozenset[str]) -> Mask:
    column, ids = nodes.label(key), nodes.label_ids(key)
    mask = np.zeros(len(nodes), np.bool_)
    for value in values:
        mask |= ids == column.id_of(value)
    return mask


def _is_labelled(nodes: NodeRows) -> Mask:
    mask = np.zeros(len(nodes), np.bool_)
    for key in LABELS:
        mask |= nodes.label_ids(key) >= 0
    return mask


def _after_class_added(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if isinstance(new, StorageClass) and new.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return Hint.SKIP
    return Hint.QUEUE


def _after_volume_changed(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, PersistentVolume) or not isinstance(new, PersistentVolume):
        return Hint.QUEUE
    return Hint.SKIP if volume_topologies(old) == volume_topologies(new) else Hint.QUEUE
