"""Which devices are taken, as the claims of the cluster say."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from mooring.api.quantity import parse_quantity
from mooring.api.resource import AllocationResult
from mooring.devices.pools import DeviceId, Inventory, PoolId, Reach


@dataclass(slots=True)
class AllocatedState:
    """Devices that one claim holds alone, devices that are shared, and how much of a shared one is consumed.

    Admin access does not take a device away from others, so it does not count here.
    """

    devices: dict[DeviceId, int] = field(default_factory=dict)  # change through ``add`` and ``remove``
    shares: dict[DeviceId, int] = field(default_factory=dict)
    capacity: dict[DeviceId, dict[str, Fraction]] = field(default_factory=dict)
    changed: set[tuple[str, str]] = field(default_factory=set)
    """Pools of which a device was taken or given back since ``tell``."""

    def taken(self, reach: Reach) -> tuple[int, ...]:
        """Positions of the node's devices that a claim holds alone; kept in ``reach`` until ``tell``."""
        known = reach.taken
        if known is None or known[0] is not self:
            devices = self.devices
            known = reach.taken = (self, tuple([i for i, id in enumerate(reach.ids) if id in devices]))
        return known[1]

    def tell(self, inventory: Inventory) -> None:
        """Let what ``taken`` has kept be forgotten where it has changed."""
        for driver, pool in self.changed:
            inventory.forget_taken(PoolId(driver, pool))
        self.changed.clear()

    def add(self, allocation: AllocationResult) -> None:
        self._count(allocation, 1)

    def remove(self, allocation: AllocationResult) -> None:
        """Undo an ``add`` of the same allocation."""
        self._count(allocation, -1)

    def is_in_use(self, id: DeviceId) -> bool:
        """Report whether a claim holds the device, alone or shared."""
        return id in self.devices or id in self.shares

    def _count(self, allocation: AllocationResult, step: int) -> None:
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            id = DeviceId(result.driver, result.pool, result.device)
            if result.share_id is None:
                _step(self.devices, id, step)
                self.changed.add((result.driver, result.pool))
                continue
            _step(self.shares, id, step)
            if result.consumed_capacity is None:
                continue
            consumed = self.capacity.setdefault(id, {})
            for name, amount in result.consumed_capacity.items():
                consumed[name] = consumed.get(name, Fraction(0)) + step * parse_quantity(amount)
            if step < 0 and not any(consumed.values()):
                del self.capacity[id]


def _step(counts: dict[DeviceId, int], id: DeviceId, step: int) -> None:
    left = counts.get(id, 0) + step
    if left > 0:
        counts[id] = left
    else:
        counts.pop(id, None)
