"""Kubernetes quantities: exact decimal parsing, rounded up to integers as upstream rounds and overflows."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

from mooring.api.errors import ParseError

INT64_MAX = (1 << 63) - 1
NANO = 10**9
WHOLE, MILLI = 9, 6  # a unit, and a thousandth of one, in billionths: the number of digits
SHORT = 10**18  # Go keeps shorter numbers as an int64 and a scale, longer ones as a big number
IN_ONE_STEP = (3, 6, 9)  # decimal places by which Go multiplies in one step
MAX_CHARACTERS = 256
"""Longer texts are rejected: an int64 has 19 digits, and Python limits the conversion of long numbers."""

_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
_PATTERN = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([eE])([+-]?\d{1,9})|([A-Za-z]*))\Z", re.ASCII)


@lru_cache(maxsize=65536)
def parse_quantity(text: str | int | float) -> Fraction:
    """Return the exact value of a quantity such as ``500m``, ``1.5Gi``, ``1e3`` or ``2``."""
    if isinstance(text, int) and text.bit_length() > 4 * MAX_CHARACTERS:
        raise ParseError(f"a number of {text.bit_length()} bits is not a quantity; write 500m, 2 or 1.5Gi")
    text = str(text)
    if len(text) > MAX_CHARACTERS:
        raise ParseError(
            f"{text[:20]!r}… is not a quantity: it has {len(text)} characters; write at most {MAX_CHARACTERS}"
        )
    match = _PATTERN.match(text)
    if match is None:
        raise ParseError(f"{text!r} is not a quantity; write a number with a suffix such as 500m, 2 or 1.5Gi")
    sign, digits, _, exponent, suffix = match.groups()
    if exponent is not None:
        power = int(exponent)
        if abs(power) > 100:  # far beyond what an int64 holds; also keeps 10**power small
            power = 100 if power > 0 else -100
        scale = Fraction(10) ** power
    elif suffix in _SUFFIXES:
        scale = _SUFFIXES[suffix]
    else:
        raise ParseError(f"{text!r} has the unknown suffix {suffix!r}; use n u m k M G T P E or Ki Mi Gi Ti Pi Ei")
    value = Fraction(digits) * scale
    if suffix and suffix[-1] == "i":
        value = min(value, Fraction(INT64_MAX))  # the API caps what has a binary suffix, and nothing else
    if value.denominator > 1 and 10**9 % value.denominator:
        value = Fraction(math.ceil(value * 10**9), 10**9)  # the API rounds up to a nano
    return -value if sign == "-" else value


def as_int64(nanos: int, digits: int) -> int:
    """An amount in billionths as a number of units of ``10**digits`` billionths, rounded away from zero.

    Values beyond int64 become what kube-scheduler makes of them. Go scales a decimal number of up to 18 digits in
    steps: by 3, 6 or 9 places in one step, where overflow is not checked; otherwise place by place, and an overflow
    there gives 0. Longer numbers are truncated to their lowest 64 bits.
    """
    unit: int = 10**digits
    whole = -(-nanos // unit) if nanos >= 0 else nanos // unit
    if -INT64_MAX <= whole <= INT64_MAX:
        return whole
    mantissa, places = nanos, -digits
    while mantissa % 1000 == 0:  # as the API server writes it
        mantissa //= 1000
        places += 3
    if abs(mantissa) < SHORT and places not in IN_ONE_STEP:
        return 0
    return lowest_64_bits(whole)


def lowest_64_bits(number: int) -> int:
    """Return an int64's value after an overflow."""
    return (number + INT64_MAX + 1) % (1 << 64) - INT64_MAX - 1


def _nanos(quantity: Fraction) -> int:
    """Billionths, rounded away from zero."""
    nanos = quantity * NANO
    return math.ceil(nanos) if nanos >= 0 else -math.ceil(-nanos)


def ceil_value(quantity: Fraction) -> int:
    """Whole units, rounded away from zero; see :func:`as_int64` for what is too large."""
    return as_int64(_nanos(quantity), WHOLE)


def ceil_milli(quantity: Fraction) -> int:
    """Thousandths, rounded away from zero; see :func:`as_int64` for what is too large."""
    return as_int64(_nanos(quantity), MILLI)


@lru_cache(maxsize=65536)
def nano_value_of(text: str | int | float) -> int:
    """Parse and round up to billionths, the finest that the API keeps: amounts that can be summed as integers."""
    return _nanos(parse_quantity(text))


@lru_cache(maxsize=65536)
def value_of(text: str | int | float) -> int:
    """Parse and round up to whole units (bytes, devices, pods)."""
    return ceil_value(parse_quantity(text))


@lru_cache(maxsize=65536)
def milli_value_of(text: str | int | float) -> int:
    """Parse and round up to thousandths (CPU)."""
    return ceil_milli(parse_quantity(text))
