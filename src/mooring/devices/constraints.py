"""What must hold between the devices of one claim: equal or pairwise different attributes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from mooring.api.resource import Device, DeviceAttribute, DeviceConstraint
from mooring.devices.pools import PublishedDevice
from mooring.devices.requests import Request
from mooring.devices.rules import FIRST_RULES, Rules

Value = tuple[str, str | int | bool]


class AttributeConstraint(Protocol):
    """Asked for each device about to be taken; every successful add is undone by one remove."""

    is_ordered: bool
    """Whether the answers depend on the order in which several devices of one request were added and removed."""

    def applies(self, request: Request) -> bool: ...

    def add(self, request: Request, candidate: PublishedDevice) -> bool: ...

    def remove(self, request: Request) -> None: ...

    def trait(self, candidate: PublishedDevice) -> Hashable:
        """All that the constraint reads of a device: it treats devices with equal traits alike."""

    def state(self) -> Hashable:
        """All that the constraint remembers: with equal states it gives equal answers."""

    def group(self, candidate: PublishedDevice) -> Hashable | None:
        """Devices of different groups cannot be taken together; None if the device cannot be added now."""


def lookup_attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Find an attribute by its full name, or by its short name if the domain is the driver's own."""
    attribute = device.attributes.get(name)
    if attribute is None:
        domain, slash, id = name.partition("/")
        if slash and domain == driver:
            attribute = device.attributes.get(id)
    return attribute


def _value_of(attribute: DeviceAttribute) -> Value | None:
    """Type and value; values of different types never equal each other."""
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
    """The part both kinds share: which requests a constraint is about, and which attribute."""

    def __init__(self, requests: list[str], attribute: str) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute

    def applies(self, request: Request) -> bool:
        return not self._requests or not self._requests.isdisjoint(request.names)

    def trait(self, candidate: PublishedDevice) -> tuple[Value | None] | None:
        """The value, which is None if its type is not known; or None if the device lacks the attribute."""
        attribute = lookup_attribute(candidate.device, candidate.id.driver, self._attribute)
        return None if attribute is None else (_value_of(attribute),)


class MatchAttribute(_Scoped):
    """All devices have the attribute, with the same type and value."""

    is_ordered = False

    def __init__(self, requests: list[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._value: Value | None = None
        self._devices = 0

    def add(self, request: Request, candidate: PublishedDevice) -> bool:
        if not self.applies(request):
            return True
        found = self.group(candidate)
        if found is None:
            return False
        self._value = found[0]
        self._devices += 1
        return True

    def remove(self, request: Request) -> None:
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
    """Every device has the attribute, each with another value.

    Like upstream until 1.36, one value is remembered per request: of several devices of one request only the last
    counts, and removing one forgets them all. Since 1.37 (``every``) each device counts.
    """

    is_ordered = True

    def __init__(self, requests: list[str], attribute: str, *, every: bool = False) -> None:
        super().__init__(requests, attribute)
        self._every = every
        self._values: dict[tuple[str, int], Value | None] = {}  # by request and, if each counts, number of the device
        self._devices = 0

    def add(self, request: Request, candidate: PublishedDevice) -> bool:
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

    def _key(self, request: Request) -> tuple[str, int]:
        return ("", self._devices) if self._every else (request.base_name, 0)

    def remove(self, request: Request) -> None:
        if self.applies(request):  # devices are removed in reverse order
            self._devices -= 1
            self._values.pop(self._key(request), None)

    def state(self) -> Hashable:
        return frozenset(self._values.values())

    def group(self, candidate: PublishedDevice) -> Hashable | None:
        return () if self.trait(candidate) is not None else None


def build_constraint(constraint: DeviceConstraint, rules: Rules = FIRST_RULES) -> AttributeConstraint | None:
    """Make the checker for a constraint; None for a kind that is not known."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        every = rules.distinct_sees_every_device
        return DistinctAttribute(constraint.requests, constraint.distinct_attribute, every=every)
    return None
