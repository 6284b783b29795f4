"""Shared counters of partitionable devices: what a pool still offers, and what one search draws from it."""

from __future__ import annotations

from fractions import Fraction

from mooring.api.core import Quantity
from mooring.api.quantity import parse_quantity
from mooring.devices.allocated import AllocatedState
from mooring.devices.pools import DeviceId, Pool, PoolId, PublishedDevice

CounterKey = tuple[str, str]  # counter set, counter
Amount = int | Fraction


def _amount(quantity: Quantity) -> Amount:
    """An exact number, as an integer if it is one: a search adds and compares many of them."""
    exact = parse_quantity(quantity)
    return exact.numerator if exact.denominator == 1 else exact


def counters_of(candidate: PublishedDevice) -> list[tuple[CounterKey, Amount]]:
    """What the device draws from its pool's counters."""
    return [
        ((consumption.counter_set, name), _amount(counter.value))
        for consumption in candidate.device.consumes_counters
        for name, counter in consumption.counters.items()
    ]


class AvailableCounters:
    """What pools' counters hold beside devices in use, and what devices draw; computed once per attempt."""

    def __init__(self, allocated: AllocatedState) -> None:
        self._allocated = allocated
        self._known: dict[PoolId, dict[CounterKey, Amount] | None] = {}
        self._draws: dict[DeviceId, list[tuple[CounterKey, Amount]]] = {}

    def of(self, pool: Pool) -> dict[CounterKey, Amount] | None:
        """Counters of the pool; None if devices in use draw more than there is: no other device can be taken then."""
        if pool.id not in self._known:
            available = self._count(pool)
            self._known[pool.id] = None if any(left < 0 for left in available.values()) else available
        return self._known[pool.id]

    def drawn_by(self, candidate: PublishedDevice) -> list[tuple[CounterKey, Amount]]:
        draws = self._draws.get(candidate.id)
        if draws is None:
            draws = self._draws[candidate.id] = counters_of(candidate)
        return draws

    def _count(self, pool: Pool) -> dict[CounterKey, Amount]:
        available = {
            (counter_set.name, name): _amount(counter.value)
            for counter_set in pool.counter_sets.values()
            for name, counter in counter_set.counters.items()
        }
        for candidate in (*pool.candidates, *pool.elsewhere):
            if candidate.device.consumes_counters and self._allocated.is_in_use(candidate.id):
                for key, amount in self.drawn_by(candidate):
                    if key in available:
                        available[key] -= amount
        return available


class DrawnCounters:
    """What the devices chosen so far in one search draw."""

    def __init__(self, available: AvailableCounters) -> None:
        self._available = available
        self._drawn: dict[PoolId, dict[CounterKey, Amount]] = {}

    def draw(self, pool: Pool, candidate: PublishedDevice) -> bool:
        """Draw what the device needs, unless some counter of the pool would fall short."""
        available = self._available.of(pool)
        drawn = self._drawn.setdefault(pool.id, {})
        draws = self._available.drawn_by(candidate)
        for key, amount in draws:
            drawn[key] = drawn.get(key, 0) + amount
        if available is not None and all(available.get(key, drawn[key]) >= drawn[key] for key, _ in draws):
            return True
        self.give_back(pool, candidate)
        return False

    def give_back(self, pool: Pool, candidate: PublishedDevice) -> None:
        drawn = self._drawn[pool.id]
        for key, amount in self._available.drawn_by(candidate):
            drawn[key] -= amount
