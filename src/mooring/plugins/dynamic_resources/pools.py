"""Which devices a node can reach: slices gathered into pools, per node.

A driver publishes a pool as one or more ResourceSlices of one generation. Devices are only taken from a pool whose
newest generation is completely known and consistent; the order of pools, slices and devices is the order of search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from mooring.api.core import NodeSelector
from mooring.api.resource import CounterSet, Device, ResourceSlice
from mooring.errors import MooringError
from mooring.state.node_selector import CompiledNodeSelector, compile_node_selector


class AllocationError(MooringError):
    """Something is wrong with a claim, class or slice: scheduling of the pod stops with this text."""


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


@dataclass(slots=True, eq=False)
class Candidate:
    """One published device. ``content`` is what CEL sees of it, encoded: equal devices share one object."""

    id: DeviceId
    device: Device
    slice: ResourceSlice
    content: bytes
    is_shareable: bool


@dataclass(slots=True, eq=False)
class Reach:
    """What one node can reach: its pools in search order, and all devices that can be taken from them."""

    pools: list[Pool]
    devices: list[tuple[Pool, Candidate]]


@dataclass(slots=True, eq=False)
class Pool:
    id: PoolId
    is_incomplete: bool = False
    invalid_reason: str = ""
    candidates: list[Candidate] = field(default_factory=list)
    """Devices of slices that target the node, in search order."""
    elsewhere: list[Candidate] = field(default_factory=list)
    """Devices of the pool's other slices: not for this node, but they may draw on the same counters."""
    counter_sets: dict[str, CounterSet] = field(default_factory=dict)

    @property
    def is_usable(self) -> bool:
        return not self.is_incomplete and not self.invalid_reason


class Inventory:
    """All ResourceSlices, indexed; a new one is made when slices change.

    Pools per node are gathered on first use and kept as long as the node's labels stay the same.
    """

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._on_node: defaultdict[str, list[ResourceSlice]] = defaultdict(list)
        self._shared: list[ResourceSlice] = []
        self._by_pool: defaultdict[PoolId, list[ResourceSlice]] = defaultdict(list)
        self._matchers: dict[int, CompiledNodeSelector] = {}
        self._candidates: dict[int, list[Candidate]] = {}
        self._contents: dict[bytes, bytes] = {}
        self._reach: dict[str, tuple[Mapping[str, str], Reach]] = {}
        for slice in slices:
            spec = slice.spec
            if not spec.node_name or spec.shared_counters:
                self._shared.append(slice)
            else:
                self._on_node[spec.node_name].append(slice)
            self._by_pool[PoolId(spec.driver, spec.pool.name)].append(slice)

    def reach_of(self, node_name: str, labels: Mapping[str, str]) -> Reach:
        """Return the pools and devices that the node can reach."""
        known = self._reach.get(node_name)
        if known is not None and (known[0] is labels or known[0] == labels):
            return known[1]
        pools = self._gather(node_name, labels)
        reach = Reach(pools, [(pool, candidate) for pool in pools if pool.is_usable for candidate in pool.candidates])
        self._reach[node_name] = (labels, reach)
        return reach

    def published_for(self, node_name: str, labels: Mapping[str, str]) -> Iterable[Candidate]:
        """Yield every device published for the node, of any generation: what is counted, not what can be taken."""
        for slice in (*self._on_node.get(node_name, ()), *self._shared):
            spec = slice.spec
            if spec.per_device_node_selection:
                for candidate in self._candidates_of(slice):
                    if self.device_matches_node(candidate, node_name, labels):
                        yield candidate
            elif self._node_matches(spec.node_name, spec.all_nodes, spec.node_selector, node_name, labels):
                yield from self._candidates_of(slice)

    def device_matches_node(self, candidate: Candidate, node_name: str, labels: Mapping[str, str]) -> bool:
        """Judge a device that names its own nodes (perDeviceNodeSelection)."""
        device = candidate.device
        return self._node_matches(device.node_name, device.all_nodes, device.node_selector, node_name, labels)

    def _node_matches(
        self,
        wanted: str | None,
        all_nodes: bool | None,
        selector: NodeSelector | None,
        node_name: str,
        labels: Mapping[str, str],
    ) -> bool:
        if wanted:
            return wanted == node_name
        if all_nodes:
            return True
        if selector is None:
            return False
        matcher = self._matchers.get(id(selector))
        if matcher is None:
            matcher = compile_node_selector(selector)
            problem = next((term.error for term in matcher.terms if term.error), "")
            if problem:
                raise AllocationError(f"failed to parse node selector: {problem}")
            self._matchers[id(selector)] = matcher
        return matcher.matches(node_name, labels)

    def _is_relevant(self, slice: ResourceSlice, node_name: str, labels: Mapping[str, str]) -> bool:
        spec = slice.spec
        if spec.shared_counters:
            return True
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            try:
                return self._node_matches(spec.node_name, spec.all_nodes, spec.node_selector, node_name, labels)
            except AllocationError as error:
                raise AllocationError(f"failed to perform node selection for slice {slice.name}: {error}") from None
        if not spec.per_device_node_selection:
            return False
        for device in spec.devices:
            try:
                if self._node_matches(device.node_name, device.all_nodes, device.node_selector, node_name, labels):
                    return True
            except AllocationError as error:
                where = f"device {device.name} in slice {slice.name}"
                raise AllocationError(f"failed to perform node selection for {where}: {error}") from None
        return False

    def _gather(self, node_name: str, labels: Mapping[str, str]) -> list[Pool]:
        newest: dict[PoolId, list[ResourceSlice]] = {}
        for slice in (*self._on_node.get(node_name, ()), *self._shared):
            try:
                if not self._is_relevant(slice, node_name, labels):
                    continue
            except AllocationError as error:
                raise AllocationError(f"gather pool information: {error}") from None
            id = PoolId(slice.spec.driver, slice.spec.pool.name)
            known = newest.get(id)
            if known is None or slice.spec.pool.generation > known[0].spec.pool.generation:
                newest[id] = [slice]
            elif slice.spec.pool.generation == known[0].spec.pool.generation:
                known.append(slice)
        plain: list[Pool] = []
        binding: list[Pool] = []
        for id in sorted(newest):
            pool = self._build(id, newest[id])
            if pool is None:
                continue
            waits = any(candidate.device.binding_conditions for candidate in pool.candidates)
            (binding if waits else plain).append(pool)
        return plain + binding

    def _build(self, id: PoolId, targeting: list[ResourceSlice]) -> Pool | None:
        """Make a pool of the slices that target a node; None if a newer generation exists elsewhere."""
        generation, count = targeting[0].spec.pool.generation, targeting[0].spec.pool.resource_slice_count
        everywhere = targeting
        if len(targeting) != count:
            everywhere = []
            for slice in self._by_pool[id]:
                if slice.spec.pool.generation > generation:
                    return None
                if slice.spec.pool.generation == generation:
                    everywhere.append(slice)
            if len(everywhere) != count:
                return Pool(id, is_incomplete=True)
        targeting = sorted(targeting, key=lambda slice: slice.name)
        names = {slice.name for slice in targeting}
        others = [slice for slice in everywhere if slice.name not in names]
        pool = Pool(id)
        pool.invalid_reason = (
            _duplicate_device(targeting)
            or _add_counter_sets(pool.counter_sets, targeting)
            or _unknown_counter(pool.counter_sets, targeting)
            or _unknown_counter(pool.counter_sets, others)
        )
        if not pool.invalid_reason:
            pool.candidates = [c for s in targeting if not s.spec.shared_counters for c in self._candidates_of(s)]
            pool.elsewhere = [c for s in others for c in self._candidates_of(s)]
        return pool

    def _candidates_of(self, slice: ResourceSlice) -> list[Candidate]:
        known = self._candidates.get(id(slice))
        if known is None:
            driver, pool = slice.spec.driver, slice.spec.pool.name
            known = [
                Candidate(
                    DeviceId(driver, pool, device.name),
                    device,
                    slice,
                    self._content_of(driver, device),
                    bool(device.allow_multiple_allocations),
                )
                for device in slice.spec.devices
            ]
            self._candidates[id(slice)] = known
        return known

    def _content_of(self, driver: str, device: Device) -> bytes:
        seen = msgspec.msgpack.encode((driver, device.allow_multiple_allocations, device.attributes, device.capacity))
        return self._contents.setdefault(seen, seen)


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
