"""The plan for a pod's claims on every node: the volume that each would get, or capacity to provision one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.api.errors import ParseError
from mooring.api.quantity import ceil_value, value_of
from mooring.api.selectors import Selector, compile_selector
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.core.plugins.volumes.claims import SELECTED_NODE, claim_class
from mooring.core.plugins.volumes.csi_migration import (
    migrated_plugins,
    translated_affinity,
    volume_plugin,
    volume_source,
)
from mooring.core.plugins.volumes.free_volumes import NONE, AssumeCache, Column, FreeVolumes, storage_request
from mooring.core.plugins.volumes.node_topology import NodeTopology, compile_affinity, compile_topologies
from mooring.core.state.cluster import ClusterState, Objects
from mooring.core.state.node_rows import Mask

# ---- storage capacity of a class per node: CSIStorageCapacity objects as a column ------------------------------------


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return the size of the largest volume that can be provisioned: the maximum if set, else all that is free."""
    text = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    if text is None:
        return None
    try:
        return value_of(text)
    except ParseError:
        return None


class StorageCapacities:
    """Columns per class, recomputed when a capacity or a node changes."""

    def __init__(self, objects: Objects, topology: NodeTopology) -> None:
        self._objects = objects
        self._topology = topology
        self._made_from = (-1, -1)
        self._columns: dict[str, NDArray[np.int64]] = {}

    def limits(self, class_name: str) -> NDArray[np.int64]:
        """Return per row the size of the largest volume that the class can provide, -1 where it cannot."""
        now = (self._objects.version(CSIStorageCapacity), self._topology.refresh())
        if now != self._made_from:
            self._made_from = now
            self._columns.clear()
        column = self._columns.get(class_name)
        if column is None:
            column = self._columns[class_name] = self._column(class_name)
        return column

    def _column(self, class_name: str) -> NDArray[np.int64]:
        column = np.full(self._topology.size, -1, np.int64)
        for capacity in self._objects.all(CSIStorageCapacity):
            limit, selector = volume_limit(capacity), _selector(capacity)
            if capacity.storage_class_name == class_name and limit is not None and not selector.matches_nothing:
                rows = self._topology.rows((selector.requirements,))
                column[rows] = np.maximum(column[rows], limit)
        return column

    def reachable(self, class_name: str, labels: dict[str, str], size: int) -> CSIStorageCapacity | None:
        """Return the first capacity (by name) that is large enough and that a node with these labels can use."""
        for capacity in sorted(self._objects.all(CSIStorageCapacity), key=lambda c: c.key):
            limit = volume_limit(capacity)
            if capacity.storage_class_name != class_name or limit is None or limit < size:
                continue
            if _selector(capacity).matches(labels):
                return capacity
        return None


def _selector(capacity: CSIStorageCapacity) -> Selector:
    """Return the selector of nodes that reach the storage: none without a topology, nor with an invalid one."""
    try:
        return compile_selector(capacity.node_topology)
    except ParseError:
        return Selector(matches_nothing=True)


NO_PROVISIONER = "kubernetes.io/no-provisioner"

# Why a node is unusable; the bits are in the order of upstream's reasons.
NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING, ERROR = 1, 2, 4, 8, 16
REASONS = {
    NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    VOLUME_MISSING: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


@dataclass(slots=True)
class PodClaims:
    """A pod's claims: bound ones, and those that wait for a node."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)


@dataclass(slots=True)
class BindingInfo:
    """A claim and the existing volume that it gets."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


@dataclass(slots=True)
class PodVolumes:
    """Writes for a pod's claims on one node."""

    bindings: list[BindingInfo] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)


@dataclass(slots=True)
class VolumeMatch:
    """The volumes that one claim would get: per row a position among ``volumes``, or NONE."""

    claim: PersistentVolumeClaim
    column: Column
    at: list[PersistentVolume] | None = None  # the volumes of positions; None: those of the claim's class
    class_name: str = ""


@dataclass(slots=True)
class VolumePlan:
    """The result for all rows, for one state of the volumes and nodes."""

    made_from: tuple[int, ...]
    codes: NDArray[np.int64]  # [node], bits of REASONS, or ERROR; 0: the node can be used
    errors: dict[int, str] = field(default_factory=dict)  # by row
    selected: list[PersistentVolumeClaim] = field(default_factory=list)  # to be provisioned where they were before
    matches: list[VolumeMatch] = field(default_factory=list)  # the other delayed claims, smallest first


class Planner:
    """Makes plans from the existing volumes, classes and capacities."""

    def __init__(self, cluster: ClusterState, volumes: AssumeCache[PersistentVolume]) -> None:
        self._objects, self._table = cluster.objects, cluster.table
        self._volumes = volumes
        self._topology = NodeTopology(cluster)
        self._free = FreeVolumes(cluster, volumes, self._topology)
        self._moved_columns: dict[str, Mask] = {}
        self._moved_from = (-1, -1)
        self.capacities = StorageCapacities(cluster.objects, self._topology)

    def state(self) -> tuple[int, ...]:
        """Return a value that changes whenever a plan may."""
        kinds = (StorageClass, CSIDriver, CSINode, CSIStorageCapacity)
        return (
            self._volumes.version,
            self._objects.version(PersistentVolume),
            self._topology.refresh(),
            self._table.generation,
            *(self._objects.version(kind) for kind in kinds),
        )

    def plan(self, claims: PodClaims) -> VolumePlan:
        plan = VolumePlan(self.state(), np.zeros(self._topology.size, np.int64))
        self._check_bound(plan, claims.bound)
        if claims.delayed:
            self._find_volumes(plan, claims.delayed)
        for row in plan.errors:
            plan.codes[row] = ERROR
        return plan

    def volumes_on(self, plan: VolumePlan, row: int) -> PodVolumes:
        """Return the plan for one node."""
        found = PodVolumes(provisions=list(plan.selected))
        for match in plan.matches:
            position = int(match.column[row])
            if position == NONE:
                found.provisions.append(match.claim)
            else:
                found.bindings.append(BindingInfo(match.claim, self._volume_at(match, position)))
        return found

    def _volume_at(self, match: VolumeMatch, position: int) -> PersistentVolume:
        if position < 0:  # reserved for the claim, counted from the end
            assert match.at is not None
            return match.at[position]
        volumes = self._free.of_class(match.class_name)
        assert volumes is not None
        return volumes.at(position)

    # ---- bound claims --------------------------------------------------------------------------------------------

    def _check_bound(self, plan: VolumePlan, claims: Sequence[PersistentVolumeClaim]) -> None:
        undecided = np.ones(len(plan.codes), np.bool_)  # the first claim that does not fit decides a node
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                plan.codes[undecided] |= VOLUME_MISSING
                return
            fits = self._reach(plan, volume, undecided)
            plan.codes[undecided & ~fits] |= NODE_CONFLICT
            undecided &= fits

    def _reach(self, plan: VolumePlan, volume: PersistentVolume, undecided: Mask) -> Mask:
        """Return where the volume can be used; migrated in-tree volumes by their driver's terms."""
        fits = self._topology.mask(compile_affinity(volume.spec.node_affinity))
        plugin = volume_plugin(volume)
        if plugin is None or not plugin.migrated:
            return fits
        moved = self._moved(plugin.name)
        if not moved.any():
            return fits
        try:
            volume_source(plugin, volume)
        except ParseError as error:
            for row in np.flatnonzero(moved & undecided).tolist():
                plan.errors.setdefault(row, f"could not translate pv: {error}")
            return fits
        translated = self._topology.mask(compile_affinity(translated_affinity(plugin, volume)))
        return np.where(moved, translated, fits)

    def _moved(self, plugin: str) -> Mask:
        """Return nodes that have migrated the in-tree plugin to its driver."""
        now = (self._objects.version(CSINode), self._table.generation)
        if now != self._moved_from:
            self._moved_from = now
            self._moved_columns.clear()
        moved = self._moved_columns.get(plugin)
        if moved is None:
            moved = self._moved_columns[plugin] = np.zeros(len(self._table), np.bool_)
            for csi_node in self._objects.all(CSINode):
                row = self._topology.row(csi_node.name)
                if row >= 0 and plugin in migrated_plugins(csi_node):
                    moved[row] = True
        return moved

    # ---- claims that wait for a node ---------------------------------------------------------------------------

    def _find_volumes(self, plan: VolumePlan, claims: Sequence[PersistentVolumeClaim]) -> None:
        self._free.refresh()  # here, because pods with bound claims alone do not need it
        eligible = np.ones(len(plan.codes), np.bool_)
        others = []
        for claim in claims:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                others.append(claim)
                continue
            plan.selected.append(claim)
            elsewhere = np.arange(len(eligible)) != self._topology.row(selected)
            eligible[elsewhere] = False
        plan.codes[~eligible] |= BIND_CONFLICT
        try:
            for claim in sorted(others, key=storage_request):
                plan.matches.append(self._match(plan, claim))
        except ParseError as error:
            for row in np.flatnonzero(eligible).tolist():
                plan.errors.setdefault(row, str(error))
            return
        undecided = eligible
        for claim in plan.selected:
            self._provision(plan, claim, undecided, undecided)
        for match in plan.matches:
            self._provision(plan, match.claim, undecided & (match.column == NONE), undecided)

    def _match(self, plan: VolumePlan, claim: PersistentVolumeClaim) -> VolumeMatch:
        class_name, size = claim_class(claim), storage_request(claim)
        match = VolumeMatch(claim, np.full(len(plan.codes), NONE, np.int64), class_name=class_name)
        try:
            selector = None if claim.spec.selector is None else compile_selector(claim.spec.selector)
        except ParseError as error:
            raise ParseError(f"error creating internal label selector for claim: {claim.key}: {error}") from None
        earlier = [other for other in plan.matches if other.class_name == class_name]
        reserved = self._free.reserved_for(class_name, claim, size)
        free = self._free.of_class(class_name)
        if free is not None:
            match.column = free.smallest(claim, size, selector, [other.column for other in earlier])
        if reserved:
            self._prefer_reserved(match, reserved, earlier)
        return match

    def _prefer_reserved(
        self, match: VolumeMatch, reserved: list[PersistentVolume], earlier: list[VolumeMatch]
    ) -> None:
        """Make a volume reserved for the claim the only choice where it is not taken."""
        match.at = reserved
        reachable = self._topology.mask(compile_affinity(reserved[0].spec.node_affinity))
        first = -len(reserved)
        taken = np.zeros(len(reachable), np.bool_)  # only if a pod names one claim twice
        for other in earlier:
            if other.at is not None and other.at[0].name == reserved[0].name:
                taken |= other.column == first
        match.column = np.where(taken, match.column, np.where(reachable, first, NONE))

    # ---- claims that need a new volume -------------------------------------------------------------------------

    def _provision(self, plan: VolumePlan, claim: PersistentVolumeClaim, needed: Mask, undecided: Mask) -> None:
        """Reject nodes where a new volume cannot be provisioned; the first claim that fails decides a node."""
        if not needed.any():
            return
        class_name = claim_class(claim)
        storage_class = self._objects.get(StorageClass, class_name)
        if storage_class is None:
            for row in np.flatnonzero(needed).tolist():
                plan.errors.setdefault(row, f'failed to find storage class "{class_name}"')
            undecided &= ~needed
            return
        possible = needed.copy()
        if storage_class.provisioner in ("", NO_PROVISIONER):
            possible[:] = False
        elif storage_class.allowed_topologies:
            possible &= self._topology.mask(compile_topologies(storage_class.allowed_topologies))
        impossible = needed & ~possible
        plan.codes[impossible] |= BIND_CONFLICT
        short = possible & ~self._has_capacity(claim, storage_class)
        plan.codes[short] |= NOT_ENOUGH_SPACE
        undecided &= ~(impossible | short)

    def _has_capacity(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Mask:
        if not self.tracks_capacity(claim, storage_class):
            return np.ones(self._topology.size, np.bool_)
        return self.capacities.limits(storage_class.name) >= ceil_value(storage_request(claim))

    def tracks_capacity(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
        """Report whether the driver publishes its capacity, and the claim has a size."""
        driver = self._objects.get(CSIDriver, storage_class.provisioner)
        return (
            driver is not None and driver.spec.storage_capacity is True and "storage" in claim.spec.resources.requests
        )
