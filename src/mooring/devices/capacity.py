"""Consumable capacity: how much of a shared device a request takes, and whether that much is left."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from mooring.api.core import Quantity
from mooring.api.quantity import ceil_value, parse_quantity
from mooring.api.resource import CapacityRequestPolicyRange, CapacityRequirements, DeviceCapacity

_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")


def format_binary(value: int) -> str:
    """Write a whole number as the API does in binary notation: the largest suffix that leaves no fraction."""
    base, suffixes = (1000, _DECIMAL_SUFFIXES) if abs(value) < 1024 else (1024, _BINARY_SUFFIXES)
    power = 0
    while value and power < 6 and value % base == 0:
        value //= base
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
) -> bool:
    """Report whether the request obeys every policy and fits beside what others (and this attempt) consume."""
    for name, offered in capacity.items():
        share = parse_quantity(share_of(name, wanted, offered))
        if _violates_policy(share, offered):
            return False
        total = consumed.get(name, 0) + share + consuming.get(name, 0)
        if total > parse_quantity(offered.value):
            return False
    return True


def consumed_by(wanted: CapacityRequirements | None, capacity: Mapping[str, DeviceCapacity]) -> dict[str, Quantity]:
    """What an allocation takes of each capacity, as it is written into the claim."""
    return {name: share_of(name, wanted, offered) for name, offered in capacity.items()}


def share_of(name: str, wanted: CapacityRequirements | None, offered: DeviceCapacity) -> Quantity:
    """The share of one capacity: as asked and rounded up by the policy, or its default, or all of it."""
    policy = offered.request_policy
    asked = wanted.requests.get(name) if wanted is not None and wanted.requests else None
    if asked is None:
        return policy.default if policy is not None and policy.default is not None else offered.value
    if policy is None:
        return asked
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up_to_range(asked, policy.valid_range.min, policy.valid_range)
    if policy.valid_values is not None:
        amount = parse_quantity(asked)
        return next((value for value in policy.valid_values if amount <= parse_quantity(value)), asked)
    return asked


def _round_up_to_range(asked: Quantity, least: Quantity, allowed: CapacityRequestPolicyRange) -> Quantity:
    amount = parse_quantity(asked)
    if amount < parse_quantity(least):
        return least
    if allowed.step is None:
        return asked
    start, step = ceil_value(parse_quantity(least)), ceil_value(parse_quantity(allowed.step))
    steps = -((start - ceil_value(amount)) // step)
    return format_binary(start + step * steps)


def _violates_policy(share: Fraction, offered: DeviceCapacity) -> bool:
    policy = offered.request_policy
    if policy is None or (policy.default is not None and share == parse_quantity(policy.default)):
        return False
    if policy.valid_range is not None:
        allowed = policy.valid_range
        if allowed.max is not None and share > parse_quantity(allowed.max):
            return True
        if allowed.step is None:
            return False
        start = ceil_value(parse_quantity(allowed.min if allowed.min is not None else 0))
        return (ceil_value(share) - start) % ceil_value(parse_quantity(allowed.step)) != 0
    if policy.valid_values:
        return all(share != parse_quantity(value) for value in policy.valid_values)
    return False
