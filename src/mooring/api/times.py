"""RFC 3339 timestamps as the API writes them, and ages as kubectl prints them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache

from mooring.api.errors import ParseError


@lru_cache(maxsize=16384)
def parse_time(text: str) -> float:
    """Seconds since the epoch."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise ParseError(f"{text!r} is not a timestamp; write one such as 2026-01-31T12:00:00Z") from None


def format_time(seconds: float) -> str:
    """Whole seconds, UTC: the form of metav1.Time."""
    return _format_second(int(seconds)) + "Z"


def format_micro_time(seconds: float) -> str:
    """Microseconds, UTC: the form of metav1.MicroTime."""
    whole = math.floor(seconds)
    micros = round((seconds - whole) * 1e6)
    if micros == 1_000_000:
        whole, micros = whole + 1, 0
    return f"{_format_second(whole)}.{micros:06d}Z"


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    """Most timestamps are of the second that just passed, and ``strftime`` is slow."""
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
