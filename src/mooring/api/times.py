"""Times as text: RFC 3339 timestamps, ages as kubectl prints them, and Go's durations such as ``1m30s``."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from mooring.api.errors import ParseError


@lru_cache(maxsize=16384)
def parse_time(text: str) -> float:
    """Return seconds since the epoch."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise ParseError(f"{text!r} is not a timestamp; write one such as 2026-01-31T12:00:00Z") from None


def format_time(seconds: float) -> str:
    """Format whole seconds, UTC: the form of metav1.Time."""
    return _format_second(int(seconds)) + "Z"


def format_micro_time(seconds: float) -> str:
    """Format microseconds, UTC: the form of metav1.MicroTime."""
    whole = math.floor(seconds)
    micros = round((seconds - whole) * 1e6)
    if micros == 1_000_000:
        whole, micros = whole + 1, 0
    return f"{_format_second(whole)}.{micros:06d}Z"


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    """Format a second; cached, because most timestamps are recent and ``strftime`` is slow."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def human_duration(seconds: float) -> str:
    """``42s``, ``5m3s``, ``17m``, ``3h20m``, ``12h``, ``2d4h``, ``30d``, ``2y45d``: upstream's table of cut-offs."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    whole = int(seconds)
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    if days < 365 * 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


# ---- durations as Go writes them -----------------------------------------------------------------------------------

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
    """Return the seconds of a Go duration such as ``5m0s`` or ``1.5h``."""
    return parse_nanoseconds(text) / 1e9


def parse_seconds(text: str) -> float:
    """Return the seconds of a non-negative duration; a bare number is in seconds."""
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
