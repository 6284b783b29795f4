"""Go's duration text, such as ``1m30s``, to seconds and back."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from mooring.errors import ParseError

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LARGEST = 2**63  # Go counts nanoseconds in an int64
_BARE = re.compile(r"\d+(\.\d*)?", re.ASCII)
_PART = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]*)", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds that a Go duration such as ``5m0s`` or ``1.5h`` stands for."""
    return parse_nanoseconds(text) / 1e9


def parse_seconds(text: str) -> float:
    """Return the seconds of a duration that is not negative; a bare number counts seconds."""
    seconds = parse_duration(f"{text}s" if _BARE.fullmatch(text) else text)
    if seconds < 0:
        raise ParseError(f'time: negative duration "{text}"')
    return seconds


def parse_nanoseconds(text: str) -> int:
    """Return the nanoseconds of a Go duration, with the errors that Go's parser gives."""
    rest = text
    sign = 1
    if rest[:1] in ("+", "-"):
        sign = -1 if rest[0] == "-" else 1
        rest = rest[1:]
    if rest == "0":
        return 0
    if not rest or len(text) > 100:
        raise ParseError(f'time: invalid duration "{text[:100]}"')
    total = 0
    at = 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            raise ParseError(f'time: invalid duration "{text}"')
        number, unit = part.groups()
        if not unit:
            raise ParseError(f'time: missing unit in duration "{text}"')
        if unit not in _NANOSECONDS:
            raise ParseError(f'time: unknown unit "{unit}" in duration "{text}"')
        total += int(Fraction(Decimal(number)) * _NANOSECONDS[unit])
        at = part.end()
    if total > (_LARGEST if sign < 0 else _LARGEST - 1):
        raise ParseError(f'time: invalid duration "{text}"')
    return sign * total


def format_duration(seconds: float) -> str:
    """Return the text Go prints for this many seconds: ``0s``, ``1.5ms``, ``10m0s``."""
    nanoseconds = round(seconds * 1e9)
    sign = "-" if nanoseconds < 0 else ""
    left = abs(nanoseconds)
    if left == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if left < _NANOSECONDS[unit] * 1_000:
            return f"{sign}{_fraction(left, _NANOSECONDS[unit])}{unit}"
    hours, left = divmod(left, _NANOSECONDS["h"])
    minutes, left = divmod(left, _NANOSECONDS["m"])
    text = f"{_fraction(left, _NANOSECONDS['s'])}s"
    if hours:
        text = f"{hours}h{minutes}m{text}"
    elif minutes:
        text = f"{minutes}m{text}"
    return sign + text


def _fraction(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"
