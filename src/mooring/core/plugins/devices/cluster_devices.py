"""State of devices that outlives one attempt: published, allocated, and about to be allocated.

There is one per cluster, shared by all profiles: two profiles must not allocate the same device.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from mooring.api.resource import (
    AllocationResult,
    Device,
    DeviceClass,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from mooring.api.selectors import parse_int64
from mooring.core.plugins.devices.cel import CelError, CelSelectors
from mooring.core.plugins.devices.extended import AllocatedState, ClassResolver, device_totals
from mooring.core.plugins.devices.pools import FIRST_RULES, AllocationError, Inventory, Rules
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.sharing import EVERYTHING

# ---- DeviceTaintRules: taints that an administrator puts on devices, independently of their drivers
# -------------------


def applies_to(rule: DeviceTaintRule, published: ResourceSlice) -> bool:
    """Report whether the rule may taint a device of the slice. A missing selector selects everything."""
    selector = rule.spec.device_selector
    if selector is None:
        return True
    spec = published.spec
    return selector.driver in (None, spec.driver) and selector.pool in (None, spec.pool.name)


def tainted(published: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Return the slice with the taints of all rules after those of its driver; the same object if no rule applies."""
    matching = [rule for rule in rules if applies_to(rule, published)]
    if not matching:
        return published
    devices = []
    for device in published.spec.devices:
        more = [rule.spec.taint for rule in matching if _names(rule, device.name)]
        devices.append(replace(device, taints=[*device.taints, *more]) if more else device)
    return replace(published, spec=replace(published.spec, devices=devices))


def taints(rule: DeviceTaintRule, published: ResourceSlice, device: str) -> bool:
    """Report whether the rule taints this device of the slice."""
    return applies_to(rule, published) and _names(rule, device)


def _names(rule: DeviceTaintRule, device: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or selector.device in (None, device)


@dataclass(slots=True)
class _InFlight:
    """An allocation that Reserve decided and PreBind has not stored yet."""

    claim: ResourceClaim
    allocation: AllocationResult
    cycle: object | None = None  # of a pod group, whose pods may share it
    sharers: int = 1


class ClusterDevices:
    """Listers over the cluster's objects, with derived state that is valid until those objects change."""

    def __init__(
        self, cluster: ClusterState, *, extended: bool = True, taint_rules: bool = False, rules: Rules = FIRST_RULES
    ) -> None:
        """``extended`` is the gate DRAExtendedResource: whether a class can back an extended resource.

        ``taint_rules`` is the gate DRADeviceTaintRules.
        """
        self._extended = extended
        self._has_rules = taint_rules
        self.rules = rules
        self.selectors = CelSelectors()
        self._objects = cluster.objects
        self._inventory = Inventory(rules=rules)
        self._slices = cluster.objects.log(ResourceSlice).cursor()
        self._rules_version = -1
        self._rules: list[DeviceTaintRule] = []
        self._resolver = ClassResolver()
        self._resolver_version = -1
        self._allocated = AllocatedState()
        self._counted: dict[str, ResourceClaim] = {}
        self._claims = cluster.objects.log(ResourceClaim).cursor()
        self._in_flight: dict[str, _InFlight] = {}  # by uid of the claim
        self._assumed: dict[str, ResourceClaim] = {}  # by key: stored by this scheduler, not yet seen in the watch
        self._created: dict[str, int] = {}  # key of an assumed claim that is new -> version of the objects then

    def is_of(self, cluster: ClusterState) -> bool:
        return self._objects is cluster.objects

    def on(self, cluster: ClusterState) -> ClusterDevices:
        """Return the same state for a fork of the cluster; pending allocations are included."""
        other = ClusterDevices(cluster, extended=self._extended, taint_rules=self._has_rules, rules=self.rules)
        other.selectors = self.selectors  # compiled expressions, independent of the cluster
        other._assumed = dict(self._assumed)
        other._created = dict.fromkeys(self._created, cluster.objects.version(ResourceClaim))
        for uid, found in self._in_flight.items():
            other.add_pending(uid, found.claim, found.allocation, found.cycle)
        for key in self._assumed:
            other._recount(key)
        return other

    # ---- what is published -------------------------------------------------------------------------------------

    def inventory(self) -> Inventory:
        changed = self._slices.take()
        if self._take_rules() or changed is EVERYTHING:
            slices = (tainted(each, self._rules) for each in self._objects.all(ResourceSlice))
            self._inventory = Inventory(slices, self.rules)
            return self._inventory
        for name in changed:
            slice = self._objects.get(ResourceSlice, name)
            if slice is None:
                self._inventory.remove(name)
            else:
                self._inventory.put(tainted(slice, self._rules))
        return self._inventory

    def _take_rules(self) -> bool:
        """Update the rules; report whether they have changed."""
        version = self._objects.version(DeviceTaintRule)
        if not self._has_rules or version == self._rules_version:
            return False
        before, self._rules_version = self._rules, version
        self._rules = sorted(self._objects.all(DeviceTaintRule), key=lambda rule: rule.name)
        return bool(before or self._rules)

    def taints_differ(self, before: DeviceTaintRule | None, after: DeviceTaintRule | None) -> bool:
        """Report whether some published device has another taint than before, or one more or less."""
        alike = before is not None and after is not None and before.spec.taint == after.spec.taint
        for published in self._objects.all(ResourceSlice):
            for device in published.spec.devices:
                was, is_now = (rule is not None and taints(rule, published, device.name) for rule in (before, after))
                if was != is_now or (was and not alike):
                    return True
        return False

    def device_class(self, name: str) -> DeviceClass | None:
        return self._objects.get(DeviceClass, name)

    def get_ready(self, found: DeviceClass) -> None:
        """Compile the class's selectors, and set up CEL with the first one.

        Invalid selectors are reported to pods that use them.
        """
        for selector in found.spec.selectors:
            if selector.cel is not None:
                with suppress(CelError):
                    self.selectors.compile(selector.cel.expression)

    def resolver(self) -> ClassResolver:
        version = self._objects.version(DeviceClass)
        if self._extended and version != self._resolver_version:
            self._resolver = ClassResolver(self._objects.all(DeviceClass))
            self._resolver_version = version
        return self._resolver

    # ---- claims ------------------------------------------------------------------------------------------------

    def claim(self, key: str) -> ResourceClaim | None:
        """Return the claim as the watch shows it, or as this scheduler stored it if that is newer."""
        stored = self._objects.get(ResourceClaim, key)
        assumed = self._assumed.get(key)
        if assumed is None:
            return stored
        if stored is None and self._is_unseen(key):
            return assumed
        if stored is None or stored.uid != assumed.uid or not _is_newer(assumed, stored):
            self._forget(key)
            return stored
        return assumed

    def _is_unseen(self, key: str) -> bool:
        """Report whether this scheduler created the claim and the watch has not shown it since."""
        since = self._created.get(key)
        changed = EVERYTHING if since is None else self._objects.log(ResourceClaim).since(since)
        return changed is not EVERYTHING and key not in changed

    def _forget(self, key: str) -> None:
        self._assumed.pop(key, None)
        self._created.pop(key, None)

    def claims(self) -> Iterable[ResourceClaim]:
        for claim in self._objects.all(ResourceClaim):
            known = self.claim(claim.key) if self._assumed else claim
            if known is not None:
                yield known

    def assume(self, claim: ResourceClaim, *, is_new: bool = False) -> None:
        """Keep a claim as the API server returned it, until the watch shows it."""
        key = claim.key
        self._assumed[key] = claim
        if is_new and self._objects.get(ResourceClaim, key) is None:
            self._created[key] = self._objects.version(ResourceClaim)
        self._recount(key)

    def forget(self, claim: ResourceClaim) -> None:
        """Drop the assumed state of a deleted claim."""
        self._forget(claim.key)
        self._recount(claim.key)

    def pending_allocation(self, uid: str) -> AllocationResult | None:
        found = self._in_flight.get(uid)
        return None if found is None else found.allocation

    def shared_allocation(self, uid: str, cycle: object | None) -> AllocationResult | None:
        """Return what a pod that is tried in the same cycle of a group has reserved."""
        found = self._in_flight.get(uid)
        return found.allocation if found is not None and cycle is not None and found.cycle is cycle else None

    def add_pending(
        self, uid: str, claim: ResourceClaim, allocation: AllocationResult, cycle: object | None = None
    ) -> None:
        """Count an allocation from now on, although no claim has it yet; pods of one cycle count it once."""
        if self.shared_allocation(uid, cycle) is not None:
            self._in_flight[uid].sharers += 1
            return
        self.remove_pending(uid)
        self._in_flight[uid] = _InFlight(claim, allocation, cycle)
        self._allocated.add(allocation)

    def release_pending(self, uid: str) -> bool:
        """Release a pod's use of the allocation, which others may share. Report whether its devices are free now."""
        found = self._in_flight.get(uid)
        if found is not None and found.sharers > 1:
            found.sharers -= 1
            return False
        return self.remove_pending(uid)

    def remove_pending(self, uid: str) -> bool:
        """Stop counting an allocation; report whether it was counted."""
        found = self._in_flight.pop(uid, None)
        if found is not None:
            self._allocated.remove(found.allocation)
        return found is not None

    def allocated(self) -> AllocatedState:
        """Return what is allocated now; it keeps changing, so use it within one attempt only."""
        changed = self._claims.take()
        if changed is EVERYTHING:
            changed = [*self._counted, *(claim.key for claim in self._objects.all(ResourceClaim))]
        for key in changed:
            self._recount(key)
        self._allocated.tell(self._inventory)
        return self._allocated

    def _recount(self, key: str) -> None:
        old, new = self._counted.get(key), self.claim(key)
        if new is old:
            return
        if old is not None and old.status.allocation is not None:
            self._allocated.remove(old.status.allocation)
        self._counted.pop(key, None)
        if new is not None and new.status.allocation is not None:
            self.remove_pending(new.uid)
            self._allocated.add(new.status.allocation)
            self._counted[key] = new

    # ---- extended resources, for NodeResourcesFit ----------------------------------------------------------------

    def backs(self, resource: str) -> bool:
        return self.resolver().is_backed(resource)

    def totals(self, resource: str, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        devices, taken = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
        device_class = self.resolver().get(resource)
        if device_class is None:
            return devices, taken
        inventory, allocated = self.inventory(), self.allocated()
        for i, node in enumerate(nodes.infos):
            with suppress(AllocationError, CelError):  # upstream also scores such a node as if it had none
                devices[i], taken[i] = device_totals(
                    inventory, self.selectors, allocated, device_class, node.name, node.labels
                )
        return devices, taken

    def mapping_version(self) -> Hashable:
        return self._objects.version(DeviceClass)


def _is_newer(assumed: ResourceClaim, stored: ResourceClaim) -> bool:
    mine, theirs = (parse_int64(claim.metadata.resource_version) for claim in (assumed, stored))
    return mine is not None and theirs is not None and mine > theirs


# ---- device taints, and which requests tolerate them ---------------------------------------------------------------


def prevents_allocation(device: Device, tolerations: Sequence[DeviceToleration]) -> bool:
    """Report whether a taint prevents the device from being allocated; unknown effects do not."""
    return any(
        taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(t, taint) for t in tolerations)
        for taint in device.taints
    )


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
