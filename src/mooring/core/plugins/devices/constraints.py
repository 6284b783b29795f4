"""Limits on the choice of devices: constraints within one claim, shared counters, consumable capacity."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

from mooring.api.core import Quantity
from mooring.api.errors import MooringError
from mooring.api.quantity import INT64_MAX, parse_quantity
from mooring.api.resource import (
    CapacityRequestPolicyRange,
    CapacityRequirements,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceConstraint,
)
from mooring.core.plugins.devices.claims import RequestedDevices
from mooring.core.plugins.devices.extended import AllocatedState
from mooring.core.plugins.devices.pools import FIRST_RULES, DeviceId, Pool, PoolId, PublishedDevice, Rules

Value = tuple[str, str | int | bool]


class AttributeConstraint(Protocol):
    """A constraint that is asked for each device about to be taken; every successful add is undone by one remove."""

    is_ordered: bool
    """Whether the answers depend on the order in which several devices of one request were added and removed."""

    def applies(self, request: RequestedDevices) -> bool: ...

    def add(self, request: RequestedDevices, candidate: PublishedDevice) -> bool: ...

    def remove(self, request: RequestedDevices) -> None: ...

    def trait(self, candidate: PublishedDevice) -> Hashable:
        """Return all that the constraint reads of a device: devices with equal traits are treated alike."""

    def state(self) -> Hashable:
        """Return all that the constraint remembers: equal states give equal answers."""

    def group(self, candidate: PublishedDevice) -> Hashable | None:
        """Return the device's group: devices of different groups cannot be taken together. None if it cannot be added
        now.
        """


def lookup_attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Find an attribute by its full name, or by its short name if the domain is the driver's own."""
    attribute = device.attributes.get(name)
    if attribute is None:
        domain, slash, id = name.partition("/")
        if slash and domain == driver:
            attribute = device.attributes.get(id)
    return attribute


def _value_of(attribute: DeviceAttribute) -> Value | None:
    """Return type and value; values of different types are never equal."""
    if attribute.string_value is not None:
        return ("string", attribute.string_value)
    if attribute.int_value is not None:
        return ("int", attribute.int_value)
    if attribute.bool_value is not None:
        return ("bool", attribute.bool_value)
    if attribute.version_value is not None:
        return ("version", attribute.version_value)
    return None


class _Scoped:
    """Base of both kinds: the requests and the attribute of a constraint."""

    def __init__(self, requests: list[str], attribute: str) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute

    def applies(self, request: RequestedDevices) -> bool:
        return not self._requests or not self._requests.isdisjoint(request.names)

    def trait(self, candidate: PublishedDevice) -> tuple[Value | None] | None:
        """Return the value, (None,) if its type is unknown, or None if the device lacks the attribute."""
        attribute = lookup_attribute(candidate.device, candidate.id.driver, self._attribute)
        return None if attribute is None else (_value_of(attribute),)


class MatchAttribute(_Scoped):
    """Requires that all devices have the attribute with the same type and value."""

    is_ordered = False

    def __init__(self, requests: list[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._value: Value | None = None
        self._devices = 0

    def add(self, request: RequestedDevices, candidate: PublishedDevice) -> bool:
        if not self.applies(request):
            return True
        found = self.group(candidate)
        if found is None:
            return False
        self._value = found[0]
        self._devices += 1
        return True

    def remove(self, request: RequestedDevices) -> None:
        if self.applies(request):
            self._devices -= 1

    def state(self) -> Hashable:
        return (self._value,) if self._devices else None

    def group(self, candidate: PublishedDevice) -> tuple[Value | None] | None:
        found = self.trait(candidate)
        if self._devices and found is not None and (found[0] is None or found[0] != self._value):
            return None
        return found


class DistinctAttribute(_Scoped):
    """Requires that every device has the attribute with a different value.

    Like upstream until 1.36, one value is remembered per request: of several devices of one request only the last
    counts, and removing one drops them all. Since 1.37 (``every``) each device counts.
    """

    is_ordered = True

    def __init__(self, requests: list[str], attribute: str, *, every: bool = False) -> None:
        super().__init__(requests, attribute)
        self._every = every
        self._values: dict[tuple[str, int], Value | None] = {}  # by request and, if each counts, number of the device
        self._devices = 0

    def add(self, request: RequestedDevices, candidate: PublishedDevice) -> bool:
        if not self.applies(request):
            return True
        found = self.trait(candidate)
        if found is None:
            return False
        value = found[0]
        if self._devices and self._values and (value is None or value in self._values.values()):
            return False
        self._values[self._key(request)] = value
        self._devices += 1
        return True

    def _key(self, request: RequestedDevices) -> tuple[str, int]:
        return ("", self._devices) if self._every else (request.base_name, 0)

    def remove(self, request: RequestedDevices) -> None:
        if self.applies(request):  # devices are removed in reverse order
            self._devices -= 1
            self._values.pop(self._key(request), None)

    def state(self) -> Hashable:
        return frozenset(self._values.values())

    def group(self, candidate: PublishedDevice) -> Hashable | None:
        return () if self.trait(candidate) is not None else None


def build_constraint(constraint: DeviceConstraint, rules: Rules = FIRST_RULES) -> AttributeConstraint | None:
    """Build the checker for a constraint; None for an unknown kind."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        every = rules.distinct_sees_every_device
        return DistinctAttribute(constraint.requests, constraint.distinct_attribute, every=every)
    return None


# ---- shared counters of partitionable devices: what a pool still offers, and what one search consumes
# -----------------

CounterKey = tuple[str, str]  # counter set, counter
Amount = int | Fraction


def _amount(quantity: Quantity) -> Amount:
    """Return an exact number, as an integer if it is one: a search adds and compares many of them."""
    exact = parse_quantity(quantity)
    return exact.numerator if exact.denominator == 1 else exact


def counters_of(candidate: PublishedDevice) -> list[tuple[CounterKey, Amount]]:
    """Return what the device consumes of its pool's counters."""
    return [
        ((consumption.counter_set, name), _amount(counter.value))
        for consumption in candidate.device.consumes_counters
        for name, counter in consumption.counters.items()
    ]


class AvailableCounters:
    """Counters of pools less those of allocated devices, and consumption of devices; computed once per attempt."""

    def __init__(self, allocated: AllocatedState) -> None:
        self._allocated = allocated
        self._known: dict[PoolId, dict[CounterKey, Amount] | None] = {}
        self._draws: dict[DeviceId, list[tuple[CounterKey, Amount]]] = {}

    def of(self, pool: Pool) -> dict[CounterKey, Amount] | None:
        """Return the pool's counters; None if allocated devices exceed them: no other device can be taken then."""
        if pool.id not in self._known:
            available = self.left(pool)
            self._known[pool.id] = None if any(left < 0 for left in available.values()) else available
        return self._known[pool.id]

    def drawn_by(self, candidate: PublishedDevice) -> list[tuple[CounterKey, Amount]]:
        draws = self._draws.get(candidate.id)
        if draws is None:
            draws = self._draws[candidate.id] = counters_of(candidate)
        return draws

    def left(self, pool: Pool) -> dict[CounterKey, Amount]:
        """What devices in use leave of the pool's counters; less than nothing where they draw more than there is."""
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
    """Consumption of the devices chosen so far in one search."""

    def __init__(self, available: AvailableCounters) -> None:
        self._available = available
        self._drawn: dict[PoolId, dict[CounterKey, Amount]] = {}

    def draw(self, pool: Pool, candidate: PublishedDevice) -> bool:
        """Consume what the device needs, unless some counter of the pool would fall short."""
        available = self._available.of(pool)
        drawn = self._drawn.setdefault(pool.id, {})
        draws = self._available.drawn_by(candidate)
        for key, amount in draws:
            drawn[key] = drawn.get(key, 0) + amount
        if available is not None and all(available.get(key, drawn[key]) >= drawn[key] for key, _ in draws):
            return True
        self.give_back(pool, candidate)
        return False

    def room_for(self, devices: Sequence[tuple[Pool, PublishedDevice]]) -> int:
        """Return an upper bound of how many of these devices the counters allow together.

        Each device counts for one of its counters, and of those that share a counter the ones that consume least are
        taken. This is done for the first counter of each device, for the second, and so on; the smallest number is the
        bound.
        """
        draws = [(pool, self._available.drawn_by(candidate)) for pool, candidate in devices]
        most = len(devices)
        for which in range(max((len(each) for _, each in draws), default=0)):
            by_counter: dict[tuple[PoolId, CounterKey], list[Amount]] = {}
            left: dict[tuple[PoolId, CounterKey], Amount] = {}
            free = 0
            for pool, each in draws:
                available = self._available.of(pool)
                if which >= len(each) or available is None or each[which][0] not in available:
                    free += 1
                    continue
                key, amount = each[which]
                by_counter.setdefault((pool.id, key), []).append(amount)
                left[pool.id, key] = available[key] - self._drawn.get(pool.id, {}).get(key, 0)
            room = free
            for place, amounts in by_counter.items():
                for total in accumulate(sorted(amounts)):
                    if total > left[place]:
                        break
                    room += 1
            most = min(most, room)
        return most

    def give_back(self, pool: Pool, candidate: PublishedDevice) -> None:
        drawn = self._drawn[pool.id]
        for key, amount in self._available.drawn_by(candidate):
            drawn[key] -= amount


# ---- consumable capacity: how much of a shared device a request takes, and whether that much is left ----------------

_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")
_EXPONENTS = ("", "e3", "e6", "e9", "e12", "e15", "e18")
_FINER = {_DECIMAL_SUFFIXES: ("m", "u", "n"), _EXPONENTS: ("e-3", "e-6", "e-9")}
_OUT_OF_RANGE = "capacity request cannot be represented in the device's range arithmetic"


class CapacityProblem(MooringError):
    """An invalid amount: no other device would help."""


def format_like(value: Fraction, model: Quantity) -> str:
    """Format an amount in the notation of another, as the API does: the largest suffix without a fraction."""
    text = str(model)
    suffixes = _BINARY_SUFFIXES if text.endswith("i") else _DECIMAL_SUFFIXES
    if "e" in text or ("E" in text and not text.endswith(("E", "Ei"))):
        suffixes = _EXPONENTS
    if suffixes is _BINARY_SUFFIXES and (abs(value) < 1024 or value.denominator > 1):
        suffixes = _DECIMAL_SUFFIXES
    base, power = 1024 if suffixes is _BINARY_SUFFIXES else 1000, 0
    finer = 0
    while value.denominator > 1:
        value, finer = value * 1000, finer + 1
    if finer:
        return f"{value}{_FINER[suffixes][finer - 1]}"
    while value and power < 6 and value % base == 0:
        value /= base
        power += 1
    return f"{value}{suffixes[power]}"


def has_unknown_request(wanted: CapacityRequirements | None, capacity: Mapping[str, DeviceCapacity]) -> bool:
    """Report whether the request names a capacity that the device does not have."""
    return wanted is not None and bool(wanted.requests) and any(name not in capacity for name in wanted.requests or ())


def fits(
    wanted: CapacityRequirements | None,
    capacity: Mapping[str, DeviceCapacity],
    consumed: Mapping[str, Fraction],
    consuming: Mapping[str, Fraction],
    rules: Rules = FIRST_RULES,
) -> bool:
    """Report whether the request obeys every policy and fits beside what others (and this attempt) consume."""
    shares = {name: parse_quantity(share_of(name, wanted, offered, rules)) for name, offered in capacity.items()}
    if rules.refuses_odd_amounts:
        for name, share in shares.items():
            if share < 0:
                raise CapacityProblem(f'capacity "{name}": capacity value is negative')
    for name, offered in capacity.items():
        if _violates_policy(shares[name], offered, rules):
            return False
        total = consumed.get(name, 0) + shares[name] + consuming.get(name, 0)
        if total > parse_quantity(offered.value):
            return False
    return True


def consumed_by(
    wanted: CapacityRequirements | None, capacity: Mapping[str, DeviceCapacity], rules: Rules = FIRST_RULES
) -> dict[str, Quantity]:
    """Return what an allocation takes of each capacity, as it is written into the claim."""
    return {name: share_of(name, wanted, offered, rules) for name, offered in capacity.items()}


def share_of(name: str, wanted: CapacityRequirements | None, offered: DeviceCapacity, rules: Rules) -> Quantity:
    """Return the share of one capacity: the request rounded up by the policy, or its default, or all of it."""
    policy = offered.request_policy
    asked = wanted.requests.get(name) if wanted is not None and wanted.requests else None
    if asked is None:
        return policy.default if policy is not None and policy.default is not None else offered.value
    if policy is None:
        return asked
    if policy.valid_range is not None and policy.valid_range.min is not None:
        try:
            return _round_up_to_range(asked, policy.valid_range.min, policy.valid_range, rules)
        except CapacityProblem as problem:
            raise CapacityProblem(f'capacity "{name}": {problem}') from None
    if policy.valid_values is not None:
        amount = parse_quantity(asked)
        return next((value for value in policy.valid_values if amount <= parse_quantity(value)), asked)
    return asked


def _round_up_to_range(asked: Quantity, least: Quantity, allowed: CapacityRequestPolicyRange, rules: Rules) -> Quantity:
    amount = parse_quantity(asked)
    if amount < parse_quantity(least):
        return least
    if allowed.step is None:
        return asked
    in_milli = rules.counts_milli and _fits_milli(allowed)
    units = _milli if in_milli else _whole
    if rules.refuses_odd_amounts:
        said = f"{_OUT_OF_RANGE}: request {format_like(amount, asked)}"
        if in_milli and not _is_milli(amount):
            raise CapacityProblem(f"{said} is not a representable milli value")
        if amount > INT64_MAX:
            raise CapacityProblem(f"{said} exceeds MaxInt64")
    start, step = units(parse_quantity(least)), units(parse_quantity(allowed.step))
    rounded = start - step * ((start - units(amount)) // step)
    if rules.refuses_odd_amounts and start >= 0 and rounded > INT64_MAX:
        limit = "the milli-value range" if in_milli else "MaxInt64"
        said = f"{_OUT_OF_RANGE}: rounding request {format_like(amount, asked)} up to the next step"
        raise CapacityProblem(f"{said} passes {limit}")
    return format_like(Fraction(rounded, 1000 if in_milli else 1), allowed.step if rules.keeps_notation else "1Ki")


def _violates_policy(share: Fraction, offered: DeviceCapacity, rules: Rules) -> bool:
    policy = offered.request_policy
    if policy is None or (policy.default is not None and share == parse_quantity(policy.default)):
        return False
    if policy.valid_range is not None:
        allowed = policy.valid_range
        if allowed.max is not None and share > parse_quantity(allowed.max):
            return True
        if allowed.step is None:
            return False
        in_milli = rules.counts_milli and _fits_milli(allowed)
        if in_milli and not _is_milli(share):
            return True
        units = _milli if in_milli else _whole
        start = units(parse_quantity(allowed.min if allowed.min is not None else 0))
        return (units(share) - start) % units(parse_quantity(allowed.step)) != 0
    if policy.valid_values:
        return all(share != parse_quantity(value) for value in policy.valid_values)
    return False


def _fits_milli(allowed: CapacityRequestPolicyRange) -> bool:
    """Report whether a range can be counted in thousandths without loss."""
    bounds = [parse_quantity(bound) for bound in (allowed.min, allowed.max, allowed.step) if bound is not None]
    return all(map(_is_milli, bounds)) and (allowed.step is None or parse_quantity(allowed.step) > 0)


def _is_milli(amount: Fraction) -> bool:
    return Fraction(_milli(amount), 1000) == amount


def _whole(amount: Fraction) -> int:
    """Round away from zero within an int64: a step that overflows to 0 could not be divided by."""
    whole = math.ceil(amount) if amount >= 0 else math.floor(amount)
    return max(-INT64_MAX - 1, min(INT64_MAX, whole))


def _milli(amount: Fraction) -> int:
    return _whole(amount * 1000)
