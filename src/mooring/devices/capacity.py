"""Consumable capacity: how much of a shared device a request takes, and whether that much is left."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from mooring.api.core import Quantity
from mooring.api.quantity import INT64_MAX, ceil_milli, ceil_value, parse_quantity
from mooring.api.resource import CapacityRequestPolicyRange, CapacityRequirements, DeviceCapacity
from mooring.devices.rules import FIRST_RULES, Rules
from mooring.errors import MooringError

_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")
_EXPONENTS = ("", "e3", "e6", "e9", "e12", "e15", "e18")
_FINER = {_DECIMAL_SUFFIXES: ("m", "u", "n"), _EXPONENTS: ("e-3", "e-6", "e-9")}
_OUT_OF_RANGE = "capacity request cannot be represented in the device's range arithmetic"


class CapacityProblem(MooringError):
    """An amount with which nothing can be computed: no other device would mend it."""


def format_like(value: Fraction, model: Quantity) -> str:
    """Write an amount as the API does in the notation of another: the largest suffix that leaves no fraction."""
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
    """What an allocation takes of each capacity, as it is written into the claim."""
    return {name: share_of(name, wanted, offered, rules) for name, offered in capacity.items()}


def share_of(name: str, wanted: CapacityRequirements | None, offered: DeviceCapacity, rules: Rules) -> Quantity:
    """The share of one capacity: as asked and rounded up by the policy, or its default, or all of it."""
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
    units = ceil_milli if in_milli else ceil_value
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
        units = ceil_milli if in_milli else ceil_value
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
    return Fraction(ceil_milli(amount), 1000) == amount
