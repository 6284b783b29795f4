"""Which devices are taken, as the claims of the cluster say."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from mooring.api.quantity import parse_quantity
from mooring.api.resource import AllocationResult
from mooring.devices.pools import DeviceId, Reach


@dataclass(slots=True)
class AllocatedState:
    """Devices that one claim holds alone, devices that are shared, and how much of a shared one is consumed.

    Admin access does not take a device away from others, so it does not count here.
    """

    devices: dict[DeviceId, int] = field(default_factory=dict)  # change through ``add`` and ``remove``
    shares: dict[DeviceId, int] = field(default_factory=dict)
    capacity: dict[DeviceId, dict[str, Fraction]] = field(default_factory=dict)
    _changes: int = 0
    _held: dict[tuple[str, str], int] = field(default_factory=dict)  # pool -> how many of its devices are held alone
    _changed: dict[tuple[str, str], int] = field(default_factory=dict)  # the same pools -> number of the last change
    _emptied: int = 0  # the last change by which a pool got all of its devices back

    def taken(self, reach: Reach) -> tuple[int, ...]:
        """Positions of the node's devices that a claim holds alone; looked for again when one of its pools changed."""
        changed, emptied = self._changed, self._emptied
        last = [changed.get(pool.id, emptied) for pool in reach.pools]
        known = reach.taken
        if known is None or known[0] is not self or known[1] != last:
            devices = self.devices
            positions = tuple([i for i, id in enumerate(reach.ids) if id in devices])
            known = reach.taken = (self, last, positions)
        return known[2]

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
                before = len(self.devices)
                _step(self.devices, id, step)
                self._note((result.driver, result.pool), len(self.devices) - before)
                continue
            _step(self.shares, id, step)
            if result.consumed_capacity is None:
                continue
            consumed = self.capacity.setdefault(id, {})
            for name, amount in result.consumed_capacity.items():
                consumed[name] = consumed.get(name, Fraction(0)) + step * parse_quantity(amount)
            if step < 0 and not any(consumed.values()):
                del self.capacity[id]

    def _note(self, pool: tuple[str, str], change: int) -> None:
        """So many more of the pool's devices are held; one that holds none is not remembered: pools come and go."""
        if not change:
            return
        self._changes += 1
        held = self._held.get(pool, 0) + change
        if held:
            self._held[pool], self._changed[pool] = held, self._changes
        else:
            del self._held[pool], self._changed[pool]
            self._emptied = self._changes


def _step(counts: dict[DeviceId, int], id: DeviceId, step: int) -> None:
    left = counts.get(id, 0) + step
    if left > 0:
        counts[id] = left
    else:
        counts.pop(id, None)
