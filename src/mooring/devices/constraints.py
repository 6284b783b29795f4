"""What must hold between the devices of one claim: equal or pairwise different attributes."""

from __future__ import annotations

from typing import Protocol

from mooring.api.resource import Device, DeviceAttribute, DeviceConstraint
from mooring.devices.pools import PublishedDevice

Value = tuple[str, str | int | bool]


class AttributeConstraint(Protocol):
    """Asked for each device about to be taken; every successful add is undone by one remove."""

    def add(self, request: str, subrequest: str, candidate: PublishedDevice) -> bool: ...

    def remove(self, request: str, subrequest: str) -> None: ...


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

    def _applies(self, request: str, subrequest: str) -> bool:
        names = self._requests
        return not names or request in names or (bool(subrequest) and f"{request}/{subrequest}" in names)

    def _lookup(self, candidate: PublishedDevice) -> DeviceAttribute | None:
        return lookup_attribute(candidate.device, candidate.id.driver, self._attribute)


class MatchAttribute(_Scoped):
    """All devices have the attribute, with the same type and value."""

    def __init__(self, requests: list[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._value: Value | None = None
        self._devices = 0

    def add(self, request: str, subrequest: str, candidate: PublishedDevice) -> bool:
        if not self._applies(request, subrequest):
            return True
        attribute = self._lookup(candidate)
        if attribute is None:
            return False
        value = _value_of(attribute)
        if self._devices == 0:
            self._value = value
        elif value is None or value != self._value:
            return False
        self._devices += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if self._applies(request, subrequest):
            self._devices -= 1


class DistinctAttribute(_Scoped):
    """Every device has the attribute, each with another value.

    Like upstream, one value is remembered per request: of several devices of one request only the last counts.
    """

    def __init__(self, requests: list[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, Value | None] = {}
        self._devices = 0

    def add(self, request: str, subrequest: str, candidate: PublishedDevice) -> bool:
        if not self._applies(request, subrequest):
            return True
        attribute = self._lookup(candidate)
        if attribute is None:
            return False
        value = _value_of(attribute)
        if self._devices and self._values and (value is None or value in self._values.values()):
            return False
        self._values[request] = value
        self._devices = self._devices + 1 if self._devices else 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if self._applies(request, subrequest):
            self._values.pop(request, None)
            self._devices -= 1


def build_constraint(constraint: DeviceConstraint) -> AttributeConstraint | None:
    """Make the checker for a constraint; None for a kind that is not known."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint.requests, constraint.distinct_attribute)
    return None
