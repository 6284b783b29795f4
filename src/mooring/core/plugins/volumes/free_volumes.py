"""Persistent volumes available to claims, by class and smallest first.

For a claim the question is, on every node: which is the smallest volume that fits and is reachable from here? Volumes
are grouped by their node affinity, because thousands share one (a zone), or thousands of groups have a single node
(local disks): the smallest fitting volume per group, applied to the group's rows, answers it for all nodes together.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.api.errors import ParseError
from mooring.api.meta import Object
from mooring.api.quantity import parse_quantity
from mooring.api.selectors import Selector
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.core.plugins.volumes.claims import volume_class
from mooring.core.plugins.volumes.node_topology import EVERYWHERE, Affinity, NodeTopology, compile_affinity
from mooring.core.state.cluster import ClusterState, Objects
from mooring.core.state.sharing import EVERYTHING

# ---- objects as the scheduler expects them to become, on top of what the API server has said so far ----------------
# ---- objects with assumed changes, on top of the API server's state
# ----------------------------------------------------
#
# A volume that was reserved for a claim, and a claim for which a node was chosen, are visible to the next decision
# although the API server does not have the change yet. Later news from the API server takes precedence.

T = TypeVar("T", bound=Object)


class OutOfSync(Exception):
    """The object was changed or deleted since the decision."""


class AssumeCache(Generic[T]):
    """Assumed versions of one kind of object."""

    def __init__(self, kind: type[T], objects: Objects, resource: str) -> None:
        self._kind = kind
        self._objects = objects
        self._resource = resource
        self._assumed: dict[str, tuple[T, T]] = {}  # key -> (assumed, stored version that it was made from)
        self.version = 0  # grows with every assumption that is made or dropped
        self.touched: set[str] = set()  # keys whose view may have changed; its follower clears it

    def stored(self, key: str) -> T | None:
        """Return the object as the API server has it."""
        return self._objects.get(self._kind, key)

    def get(self, key: str) -> T | None:
        """Return the object for later decisions."""
        stored = self._objects.get(self._kind, key)
        if key not in self._assumed:
            return stored
        # An assumption holds only for the version that it was made from. The first reader after the API server has sent
        # another one drops it, so no event has to be handled in any order.
        assumed, base = self._assumed[key]
        if stored is None or not _same_version(stored, base):
            del self._assumed[key]
            return stored
        return assumed

    def assume(self, obj: T) -> None:
        """Assume a change of the object; it must be made from the stored version."""
        key, stored = obj.key, self.stored(obj.key)
        if stored is None:
            raise OutOfSync(f'{self._resource} "{key}" not found')
        mine, theirs = obj.metadata.resource_version, stored.metadata.resource_version
        if mine != theirs:
            raise OutOfSync(f'"{key}" is out of sync (stored: {theirs}, assume: {mine})')
        self._assumed[key] = (obj, stored)
        self.touched.add(key)
        self.version += 1

    def restore(self, obj: T) -> None:
        """Drop the assumption, unless a newer version has been assumed since."""
        assumed = self._assumed.get(obj.key)
        if assumed is not None and assumed[0].metadata.resource_version == obj.metadata.resource_version:
            del self._assumed[obj.key]
            self.touched.add(obj.key)
            self.version += 1


def _same_version(stored: Object, base: Object) -> bool:
    """Compare by version; objects that never were in an API server have none. A relist repeats equal objects."""
    if stored is base:
        return True
    version = stored.metadata.resource_version
    return bool(version) and version == base.metadata.resource_version


NONE = np.iinfo(np.int64).max  # no volume at this row
Column = NDArray[np.int64]  # [node], position of a volume in its class, or NONE
Traits = tuple[str, str, frozenset[str]]  # volume mode, attributes class, access modes
FEW = 32


def storage_request(claim: PersistentVolumeClaim) -> Fraction:
    """Return the requested size, 0 if missing; raise ParseError for an invalid one."""
    requests = claim.spec.resources.requests
    return parse_quantity(requests["storage"]) if "storage" in requests else Fraction(0)


def capacity_of(volume: PersistentVolume) -> Fraction:
    capacity = volume.spec.capacity
    return parse_quantity(capacity["storage"]) if "storage" in capacity else Fraction(0)


def same_kind(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Report whether volume mode and attributes class agree, and the volume is not terminating."""
    return (
        (claim.spec.volume_mode or "Filesystem") == (volume.spec.volume_mode or "Filesystem")
        and (claim.spec.volume_attributes_class_name or "") == (volume.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Report whether the volume is reserved for, or bound to, this claim."""
    ref = volume.spec.claim_ref
    return (
        ref is not None
        and ref.name == claim.name
        and ref.namespace == claim.namespace
        and (not ref.uid or ref.uid == claim.uid)
    )


class ClassVolumes:
    """The free volumes of one class in columns, ordered by capacity, then name."""

    def __init__(self, topology: NodeTopology) -> None:
        self._topology = topology
        self._keys: list[tuple[Fraction, str]] = []
        self._volumes: list[PersistentVolume] = []
        self._traits: NDArray[np.int64] = np.empty(0, np.int64)  # [volume], index into _trait_list
        self._groups: NDArray[np.int64] = np.empty(0, np.int64)  # [volume], index into _affinities
        self._trait_ids: dict[Traits, int] = {}
        self._affinity_ids: dict[Affinity, int] = {EVERYWHERE: 0}
        self._pair_group: NDArray[np.int64] = np.empty(0, np.int64)  # [pair], a group other than 0 ...
        self._pair_row: NDArray[np.int64] = np.empty(0, np.int64)  # [pair], ... and a row that it reaches
        self._paired = 0  # number of groups that the pairs cover
        self._stamp = -1
        self._by_name: dict[str, tuple[Fraction, str]] = {}
        self._pending: dict[str, PersistentVolume] = {}

    def __len__(self) -> int:
        return len(self._by_name) + len(self._pending)

    def add(self, volume: PersistentVolume) -> None:
        self._pending[volume.name] = volume

    def remove(self, name: str) -> None:
        self._pending.pop(name, None)
        key = self._by_name.pop(name, None)
        if key is not None:
            at = bisect_left(self._keys, key)
            del self._keys[at], self._volumes[at]
            self._traits = np.delete(self._traits, at)
            self._groups = np.delete(self._groups, at)

    def at(self, position: int) -> PersistentVolume:
        return self._volumes[position]

    def smallest(
        self, claim: PersistentVolumeClaim, size: Fraction, selector: Selector | None, taken: list[Column]
    ) -> Column:
        """Return per row the smallest volume that fits the claim and is not taken there already."""
        self._settle()
        fitting = self._fitting(claim, size, selector)
        best = np.full(self._topology.size, NONE, np.int64)
        for _ in range(len(taken) + 1):  # of a group at most n + 1 volumes matter where n may be taken
            smallest = np.full(len(self._affinity_ids), NONE, np.int64)
            np.minimum.at(smallest, self._groups[fitting], fitting)
            everywhere = np.full(len(best), smallest[0], np.int64)
            for column in taken:
                everywhere[everywhere == column] = NONE
            np.minimum(best, everywhere, out=best)
            candidates = smallest[self._pair_group]
            for column in taken:
                candidates[candidates == column[self._pair_row]] = NONE
            np.minimum.at(best, self._pair_row, candidates)
            if taken:
                used = np.zeros(len(self._keys), np.bool_)
                used[smallest[smallest != NONE]] = True
                fitting = fitting[~used[fitting]]
        return best

    def _fitting(self, claim: PersistentVolumeClaim, size: Fraction, selector: Selector | None) -> Column:
        """Return positions of suitable volumes, wherever they are."""
        mode = claim.spec.volume_mode or "Filesystem"
        attributes, modes = claim.spec.volume_attributes_class_name or "", set(claim.spec.access_modes)
        suits = np.fromiter(
            (t[0] == mode and t[1] == attributes and modes <= t[2] for t in self._trait_ids),
            np.bool_,
            len(self._trait_ids),
        )
        start = bisect_left(self._keys, (size,))
        fitting = start + np.flatnonzero(suits[self._traits[start:]])
        if selector is not None:
            chosen = [at for at in fitting.tolist() if selector.matches(self._volumes[at].metadata.labels)]
            fitting = np.array(chosen, np.int64)
        return fitting

    def _settle(self) -> None:
        """Add new volumes, and recompute the groups' rows if nodes have changed."""
        if len(self._pending) > FEW or len(self._affinity_ids) > 2 * len(self) + FEW:
            self._merge()
        else:
            for volume in self._pending.values():
                self._insert(volume)
        self._pending.clear()
        stamp = self._topology.refresh()
        if stamp != self._stamp:
            self._stamp, self._paired = stamp, 0
            self._pair_group = self._pair_row = np.empty(0, np.int64)
        if self._paired < len(self._affinity_ids):
            self._pair()

    def _insert(self, volume: PersistentVolume) -> None:
        described = self._describe(volume)
        if described is None:
            return
        key, traits, group = described
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        self._volumes.insert(at, volume)
        self._traits = np.insert(self._traits, at, traits)
        self._groups = np.insert(self._groups, at, group)
        self._by_name[volume.name] = key

    def _merge(self) -> None:
        """Sort everything, and drop groups without a volume."""
        volumes = [*self._volumes, *self._pending.values()]
        self._trait_ids.clear()
        self._affinity_ids = {EVERYWHERE: 0}
        self._stamp = -1
        found = [(d, volume) for volume in volumes if (d := self._describe(volume)) is not None]
        found.sort(key=lambda item: item[0][0])
        self._keys = [d[0] for d, _ in found]
        self._volumes = [volume for _, volume in found]
        self._traits = np.fromiter((d[1] for d, _ in found), np.int64, len(found))
        self._groups = np.fromiter((d[2] for d, _ in found), np.int64, len(found))
        self._by_name = {key[1]: key for key in self._keys}

    def _describe(self, volume: PersistentVolume) -> tuple[tuple[Fraction, str], int, int] | None:
        """Return its sort key, its traits and its group; None for a volume with an invalid capacity."""
        spec = volume.spec
        try:
            key = (capacity_of(volume), volume.name)
        except ParseError:
            return None
        traits = (
            spec.volume_mode or "Filesystem",
            spec.volume_attributes_class_name or "",
            frozenset(spec.access_modes),
        )
        affinity = compile_affinity(spec.node_affinity)
        return (
            key,
            self._trait_ids.setdefault(traits, len(self._trait_ids)),
            self._affinity_ids.setdefault(affinity, len(self._affinity_ids)),
        )

    def _pair(self) -> None:
        affinities = list(self._affinity_ids)[max(self._paired, 1) :]
        rows = [self._topology.rows(affinity) for affinity in affinities]
        first = len(self._affinity_ids) - len(affinities)
        groups = np.repeat(np.arange(first, first + len(rows)), [len(r) for r in rows])
        self._pair_group = np.concatenate((self._pair_group, groups))
        self._pair_row = np.concatenate((self._pair_row, *rows))
        self._paired = len(self._affinity_ids)


class FreeVolumes:
    """All classes; follows changes by the API server and by reservations."""

    def __init__(self, cluster: ClusterState, cache: AssumeCache[PersistentVolume], topology: NodeTopology) -> None:
        self._objects = cluster.objects
        self._cache = cache
        self._topology = topology
        self._changes = cluster.objects.log(PersistentVolume).cursor()
        self._classes: dict[str, ClassVolumes] = {}
        self._free: dict[str, str] = {}  # volume -> class, of those that are free
        self._claimed: dict[tuple[str, str, str], set[str]] = {}  # (class, namespace, claim) -> volumes reserved for it
        self._claims: dict[str, tuple[str, str, str]] = {}  # volume -> its key in _claimed
        self.changes = 0  # grows when an answer may have changed

    def refresh(self) -> int:
        """Process changes; the number tells whether earlier answers still hold."""
        keys = self._changes.take()
        if keys is EVERYTHING:
            known = [*self._free, *self._claims]
            keys = [*known, *(volume.name for volume in self._objects.all(PersistentVolume))]
        self._cache.touched.update(keys)
        if self._cache.touched:
            for name in self._cache.touched:
                self._place(name)
            self._cache.touched.clear()
            self.changes += 1
        return self.changes

    def of_class(self, name: str) -> ClassVolumes | None:
        return self._classes.get(name)

    def reserved_for(self, class_name: str, claim: PersistentVolumeClaim, size: Fraction) -> list[PersistentVolume]:
        """Return volumes of the class that are reserved for the claim and large enough, by name."""
        names = self._claimed.get((class_name, claim.namespace, claim.name), ())
        volumes = (self._cache.get(name) for name in sorted(names))
        return [
            v
            for v in volumes
            if v is not None and is_bound_to(v, claim) and _is_enough(v, size) and same_kind(claim, v)
        ]

    def _place(self, name: str) -> None:
        self._displace(name)
        volume = self._cache.get(name)
        if volume is None:
            return
        class_name, ref = volume_class(volume), volume.spec.claim_ref
        if ref is not None:
            key = self._claims[name] = (class_name, ref.namespace, ref.name)
            self._claimed.setdefault(key, set()).add(name)
        elif volume.status.phase == "Available" and volume.metadata.deletion_timestamp is None:
            self._free[name] = class_name
            if class_name not in self._classes:
                self._classes[class_name] = ClassVolumes(self._topology)
            self._classes[class_name].add(volume)

    def _displace(self, name: str) -> None:
        class_name = self._free.pop(name, None)
        if class_name is not None:
            self._classes[class_name].remove(name)
        key = self._claims.pop(name, None)
        if key is not None:
            self._claimed[key].discard(name)
            if not self._claimed[key]:
                del self._claimed[key]


def _is_enough(volume: PersistentVolume, size: Fraction) -> bool:
    try:
        return capacity_of(volume) >= size
    except ParseError:
        return False
