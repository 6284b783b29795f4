"""The devices that a node can reach: slices gathered into pools, per node.

A driver publishes a pool as one or more ResourceSlices of one generation. Devices are only taken from a pool whose
newest generation is completely known and consistent; the order of pools, slices and devices is the order of search.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from mooring.api.errors import MooringError
from mooring.api.resource import CounterSet, Device, ResourceSlice, ResourceSliceSpec
from mooring.core.state.node_selector import CompiledNodeSelector, compile_node_selector

# ---- details of the allocator that differ between Kubernetes versions
# -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rules:
    """Switches for changes in ``config.versions``, or gates; all are off in 1.36. 1.36 dropped the first ones."""

    sees_only_slices_of_the_node: bool = False
    fails_at_invalid_pools: bool = False
    mixes_alternatives: bool = False

    distinct_sees_every_device: bool = False
    all_counts_full_devices: bool = False
    writes_configuration_once: bool = False
    errors_name_the_device: bool = False
    shares_draw_counters_once: bool = False
    refuses_odd_amounts: bool = False
    keeps_notation: bool = False
    counts_milli: bool = False
    counters_have_nodes: bool = False
    leaves_out_groups: bool = False

    @classmethod
    def of(cls, features: Mapping[str, bool]) -> Rules:
        def is_enabled(name: str) -> bool:
            return features.get(name, False)

        return cls(
            sees_only_slices_of_the_node=not features.get("PoolsCountEverywhere", True),
            fails_at_invalid_pools=not features.get("InvalidPoolsAreLeftOut", True),
            mixes_alternatives=not features.get("AllKeepsToItsAlternative", True),
            distinct_sees_every_device=is_enabled("DistinctAttributeSeesEveryDevice"),
            all_counts_full_devices=is_enabled("AllCountsFullDevices"),
            writes_configuration_once=is_enabled("ConfigurationIsWrittenOnce"),
            errors_name_the_device=is_enabled("SelectorErrorsNameTheDevice"),
            shares_draw_counters_once=is_enabled("SharesDrawCountersOnce"),
            refuses_odd_amounts=is_enabled("OddAmountsAreErrors"),
            keeps_notation=is_enabled("RoundedAmountsKeepNotation"),
            counts_milli=is_enabled("DRAFractionalCapacityRange"),
            counters_have_nodes=is_enabled("CountersStayOnTheirNodes"),
            leaves_out_groups=is_enabled("CompatibilityGroupsAreLeftOut"),
        )


FIRST_RULES = Rules()


MAX_REACHES = 32_768  # nodes with cached pools
MAX_CONTENTS = 65_536  # numbered distinct devices, and distinct sets of them


class AllocationError(MooringError):
    """A claim, class or slice is invalid: scheduling of the pod stops with this text."""


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class PoolId(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


def pool_of(slice: ResourceSlice) -> PoolId:
    return PoolId(slice.spec.driver, slice.spec.pool.name)


@dataclass(slots=True, eq=False)
class PublishedDevice:
    """One published device. ``content`` is what CEL sees of it, encoded: equal devices share one object."""

    id: DeviceId
    device: Device
    slice: ResourceSlice
    content: bytes
    is_shareable: bool


@dataclass(slots=True, eq=False)
class Reach:
    """The pools of a node in search order, and all devices that can be taken from them.

    Nodes that the same slices target share it.

    Nodes with equivalent devices in the same order have the same ``likeness``: a search on one of them finds the
    positions for all. It is None where a search depends on more than that.
    """

    pools: list[Pool]
    devices: list[tuple[Pool, PublishedDevice]]
    ids: list[DeviceId]
    likeness: int | None
    taken: tuple[object, tuple[int, ...]] | None = None
    """The positions taken in an :class:`AllocatedState`, and that state."""


@dataclass(slots=True, eq=False)
class Pool:
    id: PoolId
    is_incomplete: bool = False
    invalid_reason: str = ""
    candidates: list[PublishedDevice] = field(default_factory=list)
    """Devices of slices that target the node, in search order."""
    elsewhere: list[PublishedDevice] = field(default_factory=list)
    """Devices of the pool's other slices: not for this node, but they may consume the same counters."""
    counter_sets: dict[str, CounterSet] = field(default_factory=dict)
    yields: bool = True
    """Whether its devices can be taken: not if it is incomplete or invalid. Until 1.34 an incomplete pool yields."""

    @property
    def is_usable(self) -> bool:
        return not self.is_incomplete and not self.invalid_reason


_Look = tuple[bytes, tuple[tuple[str, str, str], ...], DeviceId | None]


class _Built(NamedTuple):
    """A pool as seen by nodes that the same of its slices target; they share this object."""

    pool: Pool
    devices: list[tuple[Pool, PublishedDevice]]
    """Empty if nothing can be taken from the pool."""
    looks: list[_Look] | None
    """What a search reads of the devices; None if it depends on more than that."""


class Inventory:
    """All ResourceSlices, indexed. A node's pools are gathered on first use and cached until they may have changed."""

    def __init__(self, slices: Iterable[ResourceSlice] = (), rules: Rules = FIRST_RULES) -> None:
        self._rules = rules
        self._slices: dict[str, ResourceSlice] = {}
        self._on_node: defaultdict[str, dict[str, ResourceSlice]] = defaultdict(dict)  # node -> name -> slice
        self._shared: dict[str, ResourceSlice] = {}
        self._by_pool: defaultdict[PoolId, dict[str, ResourceSlice]] = defaultdict(dict)
        # By name of the slice, then of the device; "" is the slice's own selector.
        self._matchers: defaultdict[str, dict[str, CompiledNodeSelector]] = defaultdict(dict)
        self._candidates: dict[str, list[PublishedDevice]] = {}  # by name of the slice
        self._built: defaultdict[PoolId, dict[tuple[str, ...], _Built | None]] = defaultdict(dict)  # by names of slices
        self._contents: dict[bytes, bytes] = {}
        self._likenesses: dict[tuple[_Look, ...], int] = {}
        self._numbers = itertools.count()
        self._reach: dict[str, tuple[Mapping[str, str], Reach]] = {}
        self._alike: dict[tuple[str, ...], Reach] = {}  # by names of slices: shared by nodes that reach the same
        self._nodes_of_pool: defaultdict[PoolId, set[str]] = defaultdict(set)
        for slice in slices:
            self.put(slice)

    def put(self, slice: ResourceSlice) -> None:
        """Add a slice, or replace the one of this name."""
        self.remove(slice.name)
        self._slices[slice.name] = slice
        self._group_of(slice)[slice.name] = slice
        self._by_pool[pool_of(slice)][slice.name] = slice
        self._forget(slice)

    def remove(self, name: str) -> None:
        slice = self._slices.pop(name, None)
        if slice is None:
            return
        del self._group_of(slice)[name]
        del self._by_pool[pool_of(slice)][name]
        if not self._by_pool[pool_of(slice)]:
            del self._by_pool[pool_of(slice)]
        self._candidates.pop(name, None)
        self._matchers.pop(name, None)
        self._forget(slice)
        node_name = slice.spec.node_name or ""
        if node_name in self._on_node and not self._on_node[node_name]:
            del self._on_node[node_name]

    def _group_of(self, slice: ResourceSlice) -> dict[str, ResourceSlice]:
        name = slice.spec.node_name
        return self._on_node[name] if name and not self._is_for_all(slice) else self._shared

    def _is_for_all(self, slice: ResourceSlice) -> bool:
        """Report whether the slice concerns every node, whatever its node selection: counters did once."""
        return bool(slice.spec.shared_counters) and not self._rules.counters_have_nodes

    def _is_left_out(self, slice: ResourceSlice) -> bool:
        """Report whether its devices have fields that the allocator does not support; their pool is then incomplete."""
        return self._rules.leaves_out_groups and any(
            consumption.compatibility_groups
            for device in slice.spec.devices
            for consumption in device.consumes_counters
        )

    def _forget(self, slice: ResourceSlice) -> None:
        """Drop what was gathered for nodes that the slice, or another one of its pool, concerns."""
        self._alike.clear()
        self._built.pop(pool_of(slice), None)
        if self._group_of(slice) is self._shared:
            self._forget_all()
            return
        for node_name in (slice.spec.node_name or "", *self._nodes_of_pool.pop(pool_of(slice), ())):
            self._reach.pop(node_name, None)

    def forget_taken(self, pool: PoolId) -> None:
        """Drop the taken devices of nodes that reach the pool."""
        for node_name in self._nodes_of_pool.get(pool, ()):
            if (known := self._reach.get(node_name)) is not None:
                known[1].taken = None

    def _forget_all(self) -> None:
        self._alike.clear()
        self._reach.clear()
        self._nodes_of_pool.clear()

    def reach_of(self, node_name: str, labels: Mapping[str, str]) -> Reach:
        """Return the pools and devices that the node can reach."""
        known = self._reach.get(node_name)
        if known is not None and (known[0] is labels or known[0] == labels):
            return known[1]
        if len(self._reach) >= MAX_REACHES:
            self._forget_all()  # nodes are added and removed without notice here
            self._built.clear()
        targeting = self._targeting(node_name, labels)
        for id in targeting:
            self._nodes_of_pool[id].add(node_name)
        names = tuple([slice.name for slices in targeting.values() for slice in slices])
        reach = self._alike.get(names)
        if reach is None:
            built = self._pools(targeting)
            devices = [each for pool in built for each in pool.devices]
            ids = [candidate.id for _, candidate in devices]
            reach = self._alike[names] = Reach([each.pool for each in built], devices, ids, self._likeness(built))
        self._reach[node_name] = (labels, reach)
        return reach

    def published_for(self, node_name: str, labels: Mapping[str, str]) -> Iterable[PublishedDevice]:
        """Yield every device published for the node, of any generation: published, not necessarily available."""
        for slice in self._slices_for(node_name):
            spec = slice.spec
            if spec.per_device_node_selection:
                for candidate in self._candidates_of(slice):
                    if self.device_matches_node(candidate, node_name, labels):
                        yield candidate
            elif self._slice_matches_node(slice, node_name, labels):
                yield from self._candidates_of(slice)

    def device_matches_node(self, candidate: PublishedDevice, node_name: str, labels: Mapping[str, str]) -> bool:
        """Evaluate a device's own node selection (perDeviceNodeSelection)."""
        return self._matches_node(candidate.device, candidate.slice.name, candidate.device.name, node_name, labels)

    def _slice_matches_node(self, slice: ResourceSlice, node_name: str, labels: Mapping[str, str]) -> bool:
        return self._matches_node(slice.spec, slice.name, "", node_name, labels)

    def _matches_node(
        self, where: ResourceSliceSpec | Device, slice_name: str, device: str, node_name: str, labels: Mapping[str, str]
    ) -> bool:
        if where.node_name:
            return where.node_name == node_name
        if where.all_nodes:
            return True
        if where.node_selector is None:
            return False
        matchers = self._matchers[slice_name]
        matcher = matchers.get(device)
        if matcher is None:
            matcher = compile_node_selector(where.node_selector)
            problem = next((term.error for term in matcher.terms if term.error), "")
            if problem:
                raise AllocationError(f"failed to parse node selector: {problem}")
            matchers[device] = matcher
        return matcher.matches(node_name, labels)

    def _slices_for(self, node_name: str) -> Iterable[ResourceSlice]:
        own = self._on_node.get(node_name)
        return (*own.values(), *self._shared.values()) if own else self._shared.values()

    def _is_relevant(self, slice: ResourceSlice, node_name: str, labels: Mapping[str, str]) -> bool:
        spec = slice.spec
        if self._is_for_all(slice):
            return True
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            try:
                return self._slice_matches_node(slice, node_name, labels)
            except AllocationError as error:
                raise AllocationError(f"failed to perform node selection for slice {slice.name}: {error}") from None
        if not spec.per_device_node_selection:
            return False
        for device in spec.devices:
            try:
                if self._matches_node(device, slice.name, device.name, node_name, labels):
                    return True
            except AllocationError as error:
                where = f"device {device.name} in slice {slice.name}"
                raise AllocationError(f"failed to perform node selection for {where}: {error}") from None
        return False

    def _targeting(self, node_name: str, labels: Mapping[str, str]) -> dict[PoolId, list[ResourceSlice]]:
        """Return the slices of the newest generation that target the node, by pool, both in order."""
        newest: dict[PoolId, list[ResourceSlice]] = {}
        for slice in self._slices_for(node_name):
            if self._is_left_out(slice):
                continue
            try:
                if not self._is_relevant(slice, node_name, labels):
                    continue
            except AllocationError as error:
                raise AllocationError(f"gather pool information: {error}") from None
            id = pool_of(slice)
            known = newest.get(id)
            if known is None or slice.spec.pool.generation > known[0].spec.pool.generation:
                newest[id] = [slice]
            elif slice.spec.pool.generation == known[0].spec.pool.generation:
                known.append(slice)
        return {id: sorted(newest[id], key=lambda slice: slice.name) for id in sorted(newest)}

    def _pools(self, targeting: Mapping[PoolId, list[ResourceSlice]]) -> list[_Built]:
        plain: list[_Built] = []
        binding: list[_Built] = []
        for id, slices in targeting.items():
            built = self._pool(id, slices)
            if built is None:
                continue
            waits = any(candidate.device.binding_conditions for candidate in built.pool.candidates)
            (binding if waits else plain).append(built)
        return plain + binding

    def _pool(self, id: PoolId, targeting: list[ResourceSlice]) -> _Built | None:
        known, names = self._built[id], tuple([slice.name for slice in targeting])
        if names not in known:
            pool = self._build(id, targeting)
            if pool is None:
                known[names] = None
            else:
                devices = [(pool, candidate) for candidate in pool.candidates] if pool.yields else []
                known[names] = _Built(pool, devices, _looks(pool) if pool.is_usable else None)
        return known[names]

    def _build_of_node(self, id: PoolId, targeting: list[ResourceSlice]) -> Pool:
        """Build as until 1.34: slices for other nodes are ignored, and an incomplete pool yields its devices."""
        pool = Pool(id, is_incomplete=len(targeting) != targeting[0].spec.pool.resource_slice_count)
        pool.invalid_reason = _duplicate_device(targeting)
        pool.yields = not pool.invalid_reason
        if pool.yields:
            pool.candidates = [candidate for slice in targeting for candidate in self._candidates_of(slice)]
        return pool

    def _build(self, id: PoolId, targeting: list[ResourceSlice]) -> Pool | None:
        """Build a pool of the slices that target a node; None if a newer generation exists elsewhere."""
        if self._rules.sees_only_slices_of_the_node:
            return self._build_of_node(id, targeting)
        # Slices that disagree about their number are a driver's mistake; upstream meets the node's own ones first.
        first = next((slice for slice in targeting if self._group_of(slice) is not self._shared), targeting[0])
        generation, count = first.spec.pool.generation, first.spec.pool.resource_slice_count
        everywhere = targeting
        if len(targeting) != count:
            everywhere = []
            for slice in self._by_pool[id].values():
                if slice.spec.pool.generation > generation:
                    return None
                if slice.spec.pool.generation == generation and not self._is_left_out(slice):
                    everywhere.append(slice)
            if len(everywhere) != count:
                return Pool(id, is_incomplete=True, yields=False)
        names = {slice.name for slice in targeting}
        others = [slice for slice in everywhere if slice.name not in names]
        pool = Pool(id)
        pool.invalid_reason = (
            _duplicate_device(targeting)
            or _add_counter_sets(pool.counter_sets, everywhere)
            or _unknown_counter(pool.counter_sets, targeting)
            or _unknown_counter(pool.counter_sets, others)
        )
        pool.yields = not pool.invalid_reason
        if pool.yields:
            pool.candidates = [c for s in targeting if not s.spec.shared_counters for c in self._candidates_of(s)]
            pool.elsewhere = [c for s in others if not s.spec.shared_counters for c in self._candidates_of(s)]
        return pool

    def _likeness(self, pools: list[_Built]) -> int | None:
        looks: list[_Look] = []
        for pool in pools:
            if pool.looks is None:
                return None
            looks += pool.looks
        key = tuple(looks)
        known = self._likenesses.get(key)
        if known is None:
            if len(self._likenesses) >= MAX_CONTENTS:
                self._likenesses.clear()
            known = self._likenesses[key] = next(self._numbers)  # a number is never reused for another likeness
        return known

    def _candidates_of(self, slice: ResourceSlice) -> list[PublishedDevice]:
        known = self._candidates.get(slice.name)
        if known is None:
            driver, pool = slice.spec.driver, slice.spec.pool.name
            known = [
                PublishedDevice(
                    DeviceId(driver, pool, device.name),
                    device,
                    slice,
                    self._content_of(driver, device),
                    bool(device.allow_multiple_allocations),
                )
                for device in slice.spec.devices
            ]
            self._candidates[slice.name] = known
        return known

    def _content_of(self, driver: str, device: Device) -> bytes:
        seen = msgspec.msgpack.encode((driver, device.allow_multiple_allocations, device.attributes, device.capacity))
        if len(self._contents) >= MAX_CONTENTS:
            self._contents.clear()  # equal contents share less from now on; nothing else depends on it
        return self._contents.setdefault(seen, seen)


def _looks(pool: Pool) -> list[_Look] | None:
    looks: list[_Look] = []
    for candidate in pool.candidates:
        spec, device = candidate.slice.spec, candidate.device
        selector = spec.node_selector
        if spec.per_device_node_selection or (selector is not None and len(selector.node_selector_terms) > 1):
            return None
        # What its pool's counters still offer depends on other devices: such a device is equivalent to no other.
        itself = candidate.id if device.consumes_counters else None
        looks.append((candidate.content, tuple((t.key, t.value, t.effect) for t in device.taints), itself))
    return looks


def _duplicate_device(slices: Iterable[ResourceSlice]) -> str:
    names = set()
    for slice in slices:
        if slice.spec.shared_counters:
            continue
        for device in slice.spec.devices:
            if device.name in names:
                return f"duplicate device name {device.name}"
            names.add(device.name)
    return ""


def _add_counter_sets(known: dict[str, CounterSet], slices: Iterable[ResourceSlice]) -> str:
    for slice in slices:
        for counter_set in slice.spec.shared_counters:
            if counter_set.name in known:
                return f"duplicate counter set name {counter_set.name}"
            known[counter_set.name] = counter_set
    return ""


def _unknown_counter(known: Mapping[str, CounterSet], slices: Iterable[ResourceSlice]) -> str:
    for slice in slices:
        for device in slice.spec.devices:
            for consumption in device.consumes_counters:
                counter_set = known.get(consumption.counter_set)
                if counter_set is None:
                    return f"counter set {consumption.counter_set} not found"
                for name in consumption.counters:
                    if name not in counter_set.counters:
                        return f"counter {name} not found in counter set {counter_set.name}"
    return ""
