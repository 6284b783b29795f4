"""Quantities as the API server stores them: validated and canonical."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

from mooring.api.errors import ParseError
from mooring.api.quantity import parse_quantity
from mooring.controlplane.types.status import bad_request

RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def parse(value: str | int | float) -> Fraction:
    """Return the exact value; a 400 for an invalid quantity, as when upstream decodes it."""
    try:
        return parse_quantity(value)
    except ParseError:
        raise bad_request(f"unable to parse quantity's suffix or number: {_start(value)}: {RULE}") from None


def _start(value: str | int | float) -> str:
    return (
        "a number that is too large" if isinstance(value, int) and value.bit_length() > 1024 else repr(str(value)[:80])
    )


def whole(text: str) -> int | None:
    """Return the number of up to 18 decimal digits, perhaps with a minus; None for any other text."""
    digits = text.removeprefix("-")
    return int(text) if len(digits) <= 18 and digits.isascii() and digits.isdigit() else None


@lru_cache(maxsize=16384)
def canonical(value: str | int | float) -> str:
    """Return the canonical form of a quantity: ``1000m`` is ``1``, ``0.5Gi`` is ``512Mi``, ``1500`` stays."""
    return formatted(parse(value), like=str(value))


def formatted(number: Fraction, *, like: str) -> str:
    """Return a number in the notation (binary, exponent or decimal suffixes) of ``like``."""
    if "i" in like and abs(number) >= 1024:
        return _binary(Fraction(ceil(number)))
    mantissa, exponent = _decimal(number)
    if ("e" in like or "E" in like) and not like.endswith(("E", "Ei")):
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL[exponent]}"


def _binary(number: Fraction) -> str:
    whole, power = int(number), 0
    while whole and whole % 1024 == 0 and power < 6:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY[power]}"


def _decimal(number: Fraction) -> tuple[int, int]:
    """Return an integer mantissa and the largest exponent that is a multiple of three; below nano round up."""
    whole, exponent = ceil(number * 10**9), -9
    if whole == 0:
        return 0, 0
    while whole % 1000 == 0 and exponent < 18:
        whole //= 1000
        exponent += 3
    return whole, exponent


def canonicalize(resources: dict[str, Any] | None) -> None:
    """Bring the quantities of a resource list into canonical form, in place."""
    if resources:
        for name, value in resources.items():
            resources[name] = canonical(value)


def canonicalize_requirements(requirements: dict[str, Any] | None) -> None:
    if requirements:
        canonicalize(requirements.get("limits"))
        canonicalize(requirements.get("requests"))
